//! State changes. Durable ones go to the journal, keyed by kind, group and member; volatile ones live as long as the
//! process. Both go through `Coordinator::apply`; replaying the journal is applying its durable records.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::description::{DescriptionChange, Mark};
use crate::group::{
    CurrentAssignment, GroupChange, GroupMetadata, GroupSettings, MemberMetadata, StoredTopology, TargetMetadata, Tasks,
};
use crate::watched::{KeptFacts, WatchedChange};

/// A group id, shared.
pub type GroupId = Arc<str>;
/// A member id, shared.
pub type MemberId = Arc<str>;

/// One state change.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Journalled before anything that depends on it leaves.
    Durable(Durable),
    /// Lost at a restart, by design.
    Volatile(Volatile),
}

/// A journalled change. `None` as value is a tombstone. The numbers of the kinds are Kafka's (spec kip1071 §11.1).
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Durable {
    /// Kind 17.
    Group { group: GroupId, value: Option<GroupMetadata> },
    /// Kind 19.
    Member { group: GroupId, member: MemberId, value: Option<MemberMetadata> },
    /// Kind 20.
    TargetMetadata { group: GroupId, value: Option<TargetMetadata> },
    /// Kind 21.
    TargetMember { group: GroupId, member: MemberId, value: Option<Tasks> },
    /// Kind 22.
    CurrentAssignment { group: GroupId, member: MemberId, value: Option<CurrentAssignment> },
    /// Kind 23.
    Topology { group: GroupId, value: Option<Arc<StoredTopology>> },
    /// Ours, kind 1024: what we know about the stored description.
    Mark { group: GroupId, value: Option<Box<Mark>> },
    /// Ours, kind 1025: settings of the group's own. The group need not be there.
    Settings { group: GroupId, value: Option<Arc<GroupSettings>> },
    /// Ours, kind 1026: what a broker's answers told about a group that we hold something for.
    Watched { group: GroupId, value: Option<KeptFacts> },
}

/// A change that is not journalled.
#[derive(Clone, Debug, PartialEq)]
pub enum Volatile {
    /// Of a group: last-seen stamps, task offsets, endpoint epochs, delays, shutdown requests.
    Group(GroupChange),
    /// Of what is known about descriptions: back-off, who was asked, operations in flight.
    Description(DescriptionChange),
    /// Of what a broker's answers tell about groups.
    Watched(WatchedChange),
    /// The journal position that the group's latest durable record was given.
    #[allow(missing_docs)]
    Journalled { group: GroupId, position: u64 },
}

/// Kind 17 of Kafka's record kinds, and so on (spec kip1071 §11.1); ours begin at 1024.
mod kind {
    pub(super) const GROUP: u16 = 17;
    pub(super) const MEMBER: u16 = 19;
    pub(super) const TARGET_METADATA: u16 = 20;
    pub(super) const TARGET_MEMBER: u16 = 21;
    pub(super) const CURRENT_ASSIGNMENT: u16 = 22;
    pub(super) const TOPOLOGY: u16 = 23;
    pub(super) const MARK: u16 = 1024;
    pub(super) const SETTINGS: u16 = 1025;
    pub(super) const WATCHED: u16 = 1026;
}

/// The only version of journalled values so far.
const VALUE_VERSION: u8 = 0;

/// Why a journal entry cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The key is not one of ours.
    #[error("journal key of {0} bytes is cut off or too long")]
    Key(usize),
    /// An id in a key is not text.
    #[error("journal key with an id that is not UTF-8")]
    KeyText(#[source] std::str::Utf8Error),
    /// A kind that a newer release may know.
    #[error("journal entry of unknown kind {0}")]
    Kind(u16),
    /// A value of a newer release.
    #[error("journal value of kind {kind} has version {version}, this release reads up to {VALUE_VERSION}")]
    Version {
        /// Of the entry.
        kind: u16,
        /// Of the value.
        version: u8,
    },
    /// The value is torn.
    #[error("journal value of kind {kind} cannot be read")]
    Value {
        /// Of the entry.
        kind: u16,
        /// What the decoder met.
        #[source]
        source: postcard::Error,
    },
    /// There is no value; a tombstone removes its key and is never stored.
    #[error("journal value of kind {0} is empty")]
    Empty(u16),
}

impl RecordError {
    /// A word for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Key(_) | Self::KeyText(_) => "key",
            Self::Kind(_) => "kind",
            Self::Version { .. } => "version",
            Self::Value { .. } => "value",
            Self::Empty(_) => "empty",
        }
    }
}

impl Durable {
    fn parts(&self) -> (u16, &GroupId, Option<&MemberId>) {
        match self {
            Self::Group { group, .. } => (kind::GROUP, group, None),
            Self::Member { group, member, .. } => (kind::MEMBER, group, Some(member)),
            Self::TargetMetadata { group, .. } => (kind::TARGET_METADATA, group, None),
            Self::TargetMember { group, member, .. } => (kind::TARGET_MEMBER, group, Some(member)),
            Self::CurrentAssignment { group, member, .. } => (kind::CURRENT_ASSIGNMENT, group, Some(member)),
            Self::Topology { group, .. } => (kind::TOPOLOGY, group, None),
            Self::Mark { group, .. } => (kind::MARK, group, None),
            Self::Settings { group, .. } => (kind::SETTINGS, group, None),
            Self::Watched { group, .. } => (kind::WATCHED, group, None),
        }
    }

    /// The group that it is about.
    #[must_use]
    pub fn group(&self) -> &GroupId {
        self.parts().1
    }

    /// The journal's key: kind (u16, big endian), length of the group id (u32, big endian), group id, member id.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let (kind, group, member) = self.parts();
        let member = member.map_or("", |member| member);
        let mut key = Vec::with_capacity(6 + group.len() + member.len());
        key.extend_from_slice(&kind.to_be_bytes());
        key.extend_from_slice(&u32::try_from(group.len()).unwrap_or(u32::MAX).to_be_bytes());
        key.extend_from_slice(group.as_bytes());
        key.extend_from_slice(member.as_bytes());
        key
    }

    /// The journal's value: a version byte and the postcard form; `None` is a tombstone. No value of ours fails to
    /// encode; one that did would be empty, which [`Self::decode`] refuses.
    #[must_use]
    pub fn value(&self) -> Option<Vec<u8>> {
        match self {
            Self::Group { value, .. } => value.as_ref().map(encode),
            Self::Member { value, .. } => value.as_ref().map(encode),
            Self::TargetMetadata { value, .. } => value.as_ref().map(encode),
            Self::TargetMember { value, .. } => value.as_ref().map(encode),
            Self::CurrentAssignment { value, .. } => value.as_ref().map(encode),
            Self::Topology { value, .. } => value.as_ref().map(encode),
            Self::Mark { value, .. } => value.as_ref().map(encode),
            Self::Settings { value, .. } => value.as_ref().map(encode),
            Self::Watched { value, .. } => value.as_ref().map(encode),
        }
    }

    /// Reads an entry of the journal.
    ///
    /// # Errors
    /// When key or value are torn or of a newer release.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, RecordError> {
        let cut = || RecordError::Key(key.len());
        let (head, ids) = key.split_at_checked(6).ok_or_else(cut)?;
        let &[k0, k1, l0, l1, l2, l3] = head else {
            return Err(cut());
        };
        let kind = u16::from_be_bytes([k0, k1]);
        let length = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).map_err(|_| cut())?;
        let (group, member) = ids.split_at_checked(length).ok_or_else(cut)?;
        let text = |bytes| std::str::from_utf8(bytes).map_err(RecordError::KeyText);
        let group: GroupId = Arc::from(text(group)?);
        let member: MemberId = Arc::from(text(member)?);
        let of_member = matches!(kind, kind::MEMBER | kind::TARGET_MEMBER | kind::CURRENT_ASSIGNMENT);
        if !of_member && !member.is_empty() {
            return Err(cut());
        }
        Ok(match kind {
            kind::GROUP => Self::Group { group, value: decode(kind, value)? },
            kind::MEMBER => Self::Member { group, member, value: decode(kind, value)? },
            kind::TARGET_METADATA => Self::TargetMetadata { group, value: decode(kind, value)? },
            kind::TARGET_MEMBER => Self::TargetMember { group, member, value: decode(kind, value)? },
            kind::CURRENT_ASSIGNMENT => Self::CurrentAssignment { group, member, value: decode(kind, value)? },
            kind::TOPOLOGY => Self::Topology { group, value: decode(kind, value)? },
            kind::MARK => Self::Mark { group, value: decode(kind, value)? },
            kind::SETTINGS => Self::Settings { group, value: decode(kind, value)? },
            kind::WATCHED => Self::Watched { group, value: decode(kind, value)? },
            unknown => return Err(RecordError::Kind(unknown)),
        })
    }
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let bytes = postcard::to_extend(value, vec![VALUE_VERSION]);
    debug_assert!(bytes.is_ok(), "a value of unknown length");
    bytes.unwrap_or_default()
}

fn decode<T: DeserializeOwned>(kind: u16, value: &[u8]) -> Result<Option<T>, RecordError> {
    let (&version, body) = value.split_first().ok_or(RecordError::Empty(kind))?;
    if version > VALUE_VERSION {
        return Err(RecordError::Version { kind, version });
    }
    postcard::from_bytes(body).map(Some).map_err(|source| RecordError::Value { kind, source })
}
