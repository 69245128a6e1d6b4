//! State changes. Durable ones go to the journal, keyed by kind, group and member; volatile ones live as long as the
//! process. Both go through `Coordinator::apply`; replaying the journal is applying its durable records.

use std::sync::Arc;

use crate::description::{DescriptionChange, Mark};
use crate::group::{CurrentAssignment, GroupChange, GroupMetadata, MemberMetadata, StoredTopology, TargetMetadata, Tasks};

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
    Mark { group: GroupId, value: Option<Mark> },
}

/// A change that is not journalled.
#[derive(Clone, Debug, PartialEq)]
pub enum Volatile {
    /// Of a group: last-seen stamps, task offsets, endpoint epochs, delays, shutdown requests.
    Group(GroupChange),
    /// Of what is known about descriptions: back-off, who was asked, operations in flight.
    Description(DescriptionChange),
    /// The journal position that the group's latest durable record was given.
    Journalled { group: GroupId, position: u64 },
}
