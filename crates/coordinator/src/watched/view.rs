//! What is known of one watched group and of its members.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use streamside_topology::Fingerprint;
use streamside_wire::messages::streams_group_heartbeat::{TaskOffset, Topology};

use crate::description::Mark;
use crate::facts::GroupFacts;
use crate::input::{Millis, Now};
use crate::record::MemberId;

/// What outlives a restart, of groups that we hold something for. Journalled as kind 1026.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFacts {
    /// Which making of the group id this is, as far as we can tell.
    pub incarnation: u64,
    /// The highest group epoch of this making that was seen; -1: none.
    pub group_epoch: i32,
    /// E.
    pub topology_epoch: Option<i32>,
    /// Of the assignment topology.
    pub fingerprint: Option<Fingerprint>,
    /// When the group was last seen, to the hour.
    pub seen_at: Millis,
    /// The plugin was not told of a deletion and has still to be.
    pub owed: bool,
    /// Some of the members of this making.
    pub kin: Kin,
}

/// Digests of members of one making: who of them is still there proves that it is the same making, since member ids are
/// made anew with each process of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kin(Arc<[u64]>);

impl Kin {
    /// So many members are enough to know a group again after a restart.
    const KEPT: usize = 8;

    pub(super) fn of<'m>(members: impl Iterator<Item = &'m str>) -> Self {
        Self::sorted(members.map(digest).collect())
    }

    fn sorted(mut kin: Vec<u64>) -> Self {
        kin.sort_unstable();
        kin.dedup();
        Self(kin.into())
    }

    pub(super) fn and(&self, others: &Self) -> Self {
        Self::sorted(self.0.iter().chain(&*others.0).copied().collect())
    }

    /// Few of them, filled up with `others`.
    pub(super) fn to_keep(&self, others: &Self) -> Self {
        let more = others.0.iter().filter(|other| self.0.binary_search(other).is_err());
        Self::sorted(self.0.iter().chain(more).copied().take(Self::KEPT).collect())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the member is one of them.
    #[must_use]
    pub fn has(&self, member: &str) -> bool {
        self.0.binary_search(&digest(member)).is_ok()
    }
}

/// FNV-1a: the same in every process, and nothing hangs on collisions.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// When the broker may be asked about a group again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Not before.
    pub until: Millis,
    /// How often it was asked since it last told.
    pub asked: u32,
}

/// What is known of a group. Volatile; replaced as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// E; `None`: unknown.
    pub topology_epoch: Option<i32>,
    /// Of the assignment topology; `None`: unknown.
    pub fingerprint: Option<Fingerprint>,
    /// Which making of the group id this is.
    pub incarnation: u64,
    /// The highest group epoch of this making that was seen; -1: none.
    pub group_epoch: i32,
    /// When any of the above was learnt. What was asked before is older.
    pub learnt_at: Millis,
    /// A join or a describe told the above since the group was last lost from sight.
    pub verified: bool,
    /// Members of this making besides those that are heard.
    pub kin: Kin,
    /// The group was lost from sight, and no describe has yet shown one of its kin: it may be another.
    pub lost: bool,
    /// The broker said that there is no such streams group.
    pub gone: bool,
    /// The plugin was not told of a deletion and has still to be.
    pub owed: bool,
    /// A question to the broker that has not been answered.
    pub question: Option<Question>,
    /// How often the members send heartbeats, in ms.
    pub interval_ms: i32,
    /// When the broker last described the group.
    pub described_at: Option<Millis>,
    /// The assignment topology: all there is to show while no description is stored.
    pub coarse: Option<Arc<Topology>>,
}

impl View {
    pub(super) fn new(incarnation: u64, at: Millis) -> Self {
        Self {
            topology_epoch: None,
            fingerprint: None,
            incarnation,
            group_epoch: -1,
            learnt_at: at,
            verified: false,
            kin: Kin::default(),
            lost: false,
            gone: false,
            owed: false,
            question: None,
            interval_ms: 0,
            described_at: None,
            coarse: None,
        }
    }

    /// Of a group of which nothing but the mark is known.
    pub(crate) fn of_mark(mark: &Mark) -> Self {
        Self { lost: true, ..Self::new(mark.incarnation().unwrap_or_default(), mark.last_seen) }
    }

    pub(super) fn kept(kept: &KeptFacts) -> Self {
        Self {
            topology_epoch: kept.topology_epoch,
            fingerprint: kept.fingerprint,
            group_epoch: kept.group_epoch,
            owed: kept.owed,
            kin: kept.kin.clone(),
            lost: true,
            ..Self::new(kept.incarnation, kept.seen_at)
        }
    }

    /// Another making of the group begins, of which nothing is known.
    pub(super) fn begin(&mut self, now: Now) {
        self.incarnation = incarnation(now).max(self.incarnation.saturating_add(1));
        self.group_epoch = -1;
        self.learnt_at = now.at;
        self.topology_epoch = None;
        self.fingerprint = None;
        (self.kin, self.lost) = (Kin::default(), false);
        self.gone = false;
    }

    pub(crate) fn facts(&self, empty: bool) -> GroupFacts {
        GroupFacts {
            topology_epoch: self.topology_epoch.unwrap_or(-1),
            fingerprint: self.fingerprint,
            incarnation: self.incarnation,
            guessed: true,
            empty,
        }
    }
}

/// The time of a making and chance, so that no two are alike.
pub(super) fn incarnation(now: Now) -> u64 {
    (now.at.cast_unsigned() << 22) | u64::from(now.jitter & 0x3f_ffff)
}

/// Offsets that a member reported, of tasks that it need not own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reported {
    /// Sums of next offsets.
    pub offsets: Vec<TaskOffset>,
    /// Sums of last offsets.
    pub ends: Vec<TaskOffset>,
    /// When.
    pub at: Millis,
}

/// A member whose heartbeats the broker answered.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenMember {
    /// When it was last answered without error.
    pub seen_at: Millis,
    /// The member epoch that it was given.
    pub epoch: i32,
    /// The version of its heartbeats.
    pub version: i16,
    /// Where its latest heartbeat was answered without error; `None` once one failed, or it left for a while.
    pub connection: Option<u64>,
    /// Of its latest join; `None`: it has not joined before our eyes.
    pub process: Option<Arc<str>>,
    /// What it reported, if anything.
    pub reported: Option<Arc<Reported>>,
}

/// A watched group.
#[derive(Debug)]
pub(super) struct WatchedGroup {
    pub(super) view: View,
    pub(super) members: HashMap<MemberId, SeenMember>,
    /// What the journal holds.
    pub(super) kept: Option<KeptFacts>,
    /// When there was last a sign of it.
    pub(super) seen_at: Millis,
    /// Journal position of the latest durable record.
    pub(super) position: u64,
}

impl WatchedGroup {
    pub(super) fn new(view: View) -> Self {
        Self { seen_at: view.learnt_at, view, members: HashMap::new(), kept: None, position: 0 }
    }

    /// The group was out of sight: whoever of its members a describe still shows proves that it is the same.
    pub(super) fn lose(&self, view: &mut View) {
        if !view.lost {
            view.kin = Kin::of(self.members.keys().map(|member| &**member)).and(&view.kin);
            view.lost = true;
        }
        view.verified = false;
    }

    /// Whether some member was heard within `horizon` ms.
    pub(super) fn is_live(&self, at: Millis, horizon: Millis) -> bool {
        self.members.values().any(|member| at.saturating_sub(member.seen_at) < horizon)
    }
}
