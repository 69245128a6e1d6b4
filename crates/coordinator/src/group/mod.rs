//! Which members does a group have, and what should each of them do? Streams groups as KIP-1071 has them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`metadata`] | what is known about a group and a member |
//! | [`tasks`] | tasks in three roles, member states |
//! | [`stored_topology`] | the topology that a group was joined with |
//! | [`topics`] | whether the known topics fit a topology |
//! | [`change`] | changes that are not journalled |

pub mod change;
pub mod metadata;
pub mod stored_topology;
pub mod tasks;
pub mod topics;

use smallvec::SmallVec;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::streams_group_describe::DescribedGroup;
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

pub use change::GroupChange;
pub use metadata::{GroupMetadata, MemberMetadata, TargetMetadata};
pub use stored_topology::StoredTopology;
pub use tasks::{CurrentAssignment, MemberState, Tasks};

use crate::config::Config;
use crate::decision::{Effect, ListedGroup};
use crate::facts::{GroupFacts, HeartbeatFacts};
use crate::input::{ClientContext, Millis, Now};
use crate::record::{Durable, GroupId, Record};

/// Records of one decision.
pub type Records = SmallVec<[Record; 2]>;

/// What a heartbeat leads to. One that fails decides on no record.
#[derive(Debug)]
pub struct HeartbeatDecision<'a> {
    /// State changes, in order.
    pub records: Records,
    /// The answer.
    pub response: StreamsGroupHeartbeatResponse<'a>,
    /// The group after this heartbeat; absent on an error.
    pub facts: Option<HeartbeatFacts>,
    /// Carried out at once.
    pub now: Vec<Effect>,
}

/// All streams groups of one shard.
#[derive(Debug)]
pub struct Groups {}

impl Groups {
    /// No groups.
    #[must_use]
    pub fn new(_config: &Config) -> Self {
        Self {}
    }

    /// Applies one journalled change. Any order, and changes of what is not there, are tolerated (spec kip1071 §11.1).
    pub fn apply_durable(&mut self, _record: &Durable) {}

    /// Applies one change that is not journalled.
    pub fn apply_volatile(&mut self, _change: &GroupChange) {}

    /// Everything has been replayed: sessions and rebalance time-outs begin in full.
    pub fn loaded(&mut self, _now: Now) {}

    /// The journal position of the group's latest durable record.
    pub fn journalled(&mut self, _group: &str, _position: u64) {}

    /// What [`Self::journalled`] was told; for a group that is not there the latest of any such group.
    #[must_use]
    pub fn position(&self, _group: &str) -> u64 {
        0
    }

    /// Decides on a heartbeat of any member epoch.
    #[must_use]
    pub fn decide_heartbeat<'a>(
        &self,
        _config: &Config,
        _now: Now,
        _request: &'a StreamsGroupHeartbeatRequest<'_>,
        _version: i16,
        _client: ClientContext<'_>,
    ) -> HeartbeatDecision<'a> {
        HeartbeatDecision {
            records: Records::new(),
            response: StreamsGroupHeartbeatResponse::default(),
            facts: None,
            now: Vec::new(),
        }
    }

    /// What descriptions may know of a group.
    #[must_use]
    pub fn facts(&self, _group: &str) -> Option<GroupFacts> {
        None
    }

    /// Whether the group has this member.
    #[must_use]
    pub fn is_member(&self, _group: &str, _member: &str) -> bool {
        false
    }

    /// The group's id, shared.
    #[must_use]
    pub fn group_id(&self, _group: &str) -> Option<GroupId> {
        None
    }

    /// The described entry, without authorized operations and description; `None`: there is no such group.
    #[must_use]
    pub fn describe(&self, _config: &Config, _group: &str) -> Option<DescribedGroup> {
        None
    }

    /// All groups with their states.
    #[must_use]
    pub fn list(&self) -> Vec<ListedGroup> {
        Vec::new()
    }

    /// The tombstones that remove an empty group.
    ///
    /// # Errors
    /// 69 when there is no such group, 68 when it has members.
    pub fn decide_delete(&self, _group: &str) -> Result<Records, ErrorCode> {
        Err(ErrorCode::GROUP_ID_NOT_FOUND)
    }

    /// Decides on timers that are due. Bounded: call it again while [`Self::next_deadline`] has passed.
    #[must_use]
    pub fn decide_tick(&self, _config: &Config, _now: Now) -> Vec<Record> {
        Vec::new()
    }

    /// When [`Self::decide_tick`] should be called next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        None
    }

    /// Groups without members.
    pub fn empty_groups(&self) -> impl Iterator<Item = &GroupId> {
        std::iter::empty()
    }

    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }

    /// No group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many members all groups have together.
    #[must_use]
    pub fn member_count(&self) -> usize {
        0
    }
}
