//! Which members does a group have, and what should each of them do? Streams groups as KIP-1071 has them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`metadata`] | what is known about a group and a member |
//! | [`tasks`] | tasks in three roles, member states |
//! | [`stored_topology`] | the topology that a group was joined with |
//! | [`change`] | changes that are not journalled |
//! | `state` | a group and its members in memory |
//! | `owners` | who has which task now |
//! | `validate` | checks that need no state |
//! | `heartbeat` | a member joins or stays |
//! | `member` | whose heartbeat it is, static members included |
//! | `leave` | members that go |
//! | [`topics`] | whether the known topics fit a topology |
//! | `target` | when a new assignment is computed |
//! | [`settings`] | settings that a group has of its own |
//! | [`assign`] | what an assignor is asked |
//! | [`sticky`] | the assignor that keeps tasks where they are |
//! | `hash_order`, `java_queue` | the orders of Java's tables and queues, for ties under Kafka's rules |
//! | `reconcile` | one member's next step towards what it should have |
//! | `endpoints` | who answers interactive queries |
//! | [`describe`] | what describe, list and delete say |
//! | `timers` | sessions, rebalance time-outs, initial delays |
//! | [`refusal`] | why a heartbeat is refused |

pub mod assign;
pub mod change;
pub mod describe;
mod endpoints;
mod hash_order;
mod heartbeat;
mod java_queue;
mod leave;
mod member;
pub mod metadata;
mod owners;
mod reconcile;
pub mod refusal;
pub mod settings;
mod state;
pub mod sticky;
pub mod stored_topology;
mod target;
pub mod tasks;
mod timers;
pub mod topics;
mod validate;

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::streams_group_describe::DescribedGroup;
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

pub use change::GroupChange;
pub use metadata::{GroupMetadata, MemberMetadata, TargetMetadata};
pub use settings::{GroupSettings, Setting};
pub use state::GroupState;
pub use stored_topology::StoredTopology;
pub use tasks::{CurrentAssignment, MemberState, Tasks};
pub use validate::is_topic_name;

use crate::config::{Compat, Config};
use crate::decision::{Effect, ListedGroup};
use crate::facts::{GroupFacts, HeartbeatFacts};
use crate::input::{ClientContext, Millis, Now};
use crate::record::{Durable, GroupId, Record};

use assign::Assignor;
use state::Group;
use timers::Timers;

/// Records of one decision.
pub type Records = SmallVec<[Record; 2]>;

/// Volatile changes of one decision; a steady heartbeat makes one and takes no heap.
type Changes = SmallVec<[GroupChange; 1]>;

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

/// A group of one of the protocols. Classic groups will stand beside streams groups here.
#[derive(Debug)]
enum GroupKind {
    Streams(Box<Group>),
}

impl GroupKind {
    fn streams(&self) -> &Group {
        match self {
            Self::Streams(group) => group,
        }
    }

    fn streams_mut(&mut self) -> &mut Group {
        match self {
            Self::Streams(group) => group,
        }
    }
}

/// All streams groups of one shard.
#[derive(Debug)]
pub struct Groups {
    groups: HashMap<GroupId, GroupKind>,
    /// What groups have of their own, those included that are not there.
    settings: HashMap<GroupId, Arc<GroupSettings>>,
    timers: Timers,
    assignor: Arc<dyn Assignor>,
    members: usize,
    /// The latest journal position of a record of a group that is no longer there.
    gone_position: u64,
    /// What [`Self::loaded`] goes by.
    compat: Compat,
    session_timeout_ms: i32,
    session_bounds: (i32, i32),
}

impl Groups {
    /// No groups.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self::with_assignor(config, Arc::new(sticky::Sticky))
    }

    /// No groups, and an assignor of the caller's.
    #[must_use]
    pub fn with_assignor(config: &Config, assignor: Arc<dyn Assignor>) -> Self {
        Self {
            groups: HashMap::new(),
            settings: HashMap::new(),
            timers: Timers::default(),
            assignor,
            members: 0,
            gone_position: 0,
            compat: config.compat,
            session_timeout_ms: config.session_timeout_ms,
            session_bounds: config.setting_bounds.session_timeout_ms,
        }
    }

    /// Takes new timers; those that run keep their deadline.
    pub fn retune(&mut self, config: &Config) {
        self.session_timeout_ms = config.session_timeout_ms;
        self.session_bounds = config.setting_bounds.session_timeout_ms;
    }

    fn streams(&self, group: &str) -> Option<&Group> {
        self.groups.get(group).map(GroupKind::streams)
    }

    /// Applies one journalled change. Any order, and changes of what is not there, are tolerated (spec kip1071 §11.1).
    pub fn apply_durable(&mut self, record: &Durable) {
        let (id, tombstone) = match record {
            Durable::Group { group, value } => (group, value.is_none()),
            Durable::Member { group, value, .. } => (group, value.is_none()),
            Durable::TargetMetadata { group, value } => (group, value.is_none()),
            Durable::TargetMember { group, value, .. } => (group, value.is_none()),
            Durable::CurrentAssignment { group, value, .. } => (group, value.is_none()),
            Durable::Topology { group, value } => (group, value.is_none()),
            Durable::Settings { group, value } => return self.apply_settings(group, value.as_ref()),
            Durable::Mark { .. } | Durable::Watched { .. } => return,
        };
        if tombstone && !self.groups.contains_key(id) {
            return;
        }
        let Self { groups, settings, timers, members, gone_position, .. } = self;
        let new = || GroupKind::Streams(Box::new(Group::new(id.clone(), settings.get(id).cloned())));
        let kind = groups.entry(id.clone()).or_insert_with(new);
        let group = kind.streams_mut();
        match record {
            Durable::Group { value: Some(metadata), .. } => group.metadata = metadata.clone(),
            Durable::Group { value: None, .. } => {
                for member in group.members.values() {
                    if let Some(at) = member.armed_at {
                        timers.remove(at, &group.id, Some(&member.id));
                    }
                }
                if let Some(at) = group.delayed_until {
                    timers.remove(at, &group.id, None);
                }
                *members -= group.members.len();
                *gone_position = (*gone_position).max(group.position);
                groups.remove(id);
            }
            Durable::Member { member, value: Some(metadata), .. } => {
                *members += usize::from(group.set_member(member, metadata));
            }
            Durable::Member { member, value: None, .. } => {
                if let Some(gone) = group.remove_member(member) {
                    *members -= 1;
                    if let Some(at) = gone.armed_at {
                        timers.remove(at, &group.id, Some(&gone.id));
                    }
                }
            }
            Durable::TargetMetadata { value, .. } => group.target_metadata = value.unwrap_or_default(),
            Durable::TargetMember { member, value: Some(tasks), .. } => {
                group.target.insert(member.clone(), Arc::new(tasks.clone()));
            }
            Durable::TargetMember { member, value: None, .. } => {
                group.target.remove(member);
            }
            Durable::CurrentAssignment { member, value: Some(current), .. } => {
                *members += usize::from(group.set_current(member, current));
            }
            Durable::CurrentAssignment { member, value: None, .. } => {
                // What is left is a member without tasks that is at no epoch.
                if group.members.contains_key(member) {
                    let nothing = CurrentAssignment { member_epoch: validate::LEAVE, ..CurrentAssignment::default() };
                    group.set_current(member, &nothing);
                }
            }
            Durable::Topology { value, .. } => {
                group.topology.clone_from(value);
                group.configured = None;
            }
            Durable::Mark { .. } | Durable::Settings { .. } | Durable::Watched { .. } => {}
        }
    }

    /// Applies one change that is not journalled.
    pub fn apply_volatile(&mut self, change: &GroupChange) {
        self.apply_change(change);
    }

    /// Everything has been replayed: sessions and rebalance time-outs begin in full.
    pub fn loaded(&mut self, now: Now) {
        self.arm_all(now.at);
        if self.compat == Compat::Streamside {
            // D10: a member that still holds an epoch of before must not take ours for the same.
            let seconds = now.at.div_euclid(1_000) & 0x3fff_ffff;
            let epoch = i32::try_from(seconds).unwrap_or(1);
            self.groups.values_mut().for_each(|group| group.streams_mut().endpoint_epoch = epoch);
        }
    }

    /// The known topics have changed: every group looks at them again at its next heartbeat.
    pub fn topics_changed(&mut self) {
        self.groups.values_mut().for_each(|group| group.streams_mut().configured = None);
    }

    /// The journal position of the group's latest durable record.
    pub fn journalled(&mut self, group: &str, position: u64) {
        match self.groups.get_mut(group) {
            Some(group) => group.streams_mut().position = position,
            None => self.gone_position = self.gone_position.max(position),
        }
    }

    /// What [`Self::journalled`] was told; for a group that is not there the latest of any such group.
    #[must_use]
    pub fn position(&self, group: &str) -> u64 {
        self.streams(group).map_or(self.gone_position, |g| g.position)
    }

    /// Decides on a heartbeat of any member epoch.
    #[must_use]
    pub fn decide_heartbeat<'a>(
        &self,
        config: &Config,
        now: Now,
        request: &'a StreamsGroupHeartbeatRequest<'_>,
        version: i16,
        client: ClientContext<'_>,
    ) -> HeartbeatDecision<'a> {
        heartbeat::decide(self, config, now, request, version, client).unwrap_or_else(|refusal| HeartbeatDecision {
            records: Records::new(),
            response: refused(&refusal),
            facts: None,
            now: refusal.limit().map(Effect::LimitHit).into_iter().collect(),
        })
    }

    /// What descriptions may know of a group.
    #[must_use]
    pub fn facts(&self, group: &str) -> Option<GroupFacts> {
        self.streams(group).map(Group::facts)
    }

    /// Whether the group has this member.
    #[must_use]
    pub fn is_member(&self, group: &str, member: &str) -> bool {
        self.streams(group).is_some_and(|g| g.members.contains_key(member))
    }

    /// At which epoch a member is; `None`: there is no such member.
    #[must_use]
    pub fn member_epoch(&self, group: &str, member: &str) -> Option<i32> {
        Some(self.streams(group)?.members.get(member)?.current.member_epoch)
    }

    /// The group's id, shared.
    #[must_use]
    pub fn group_id(&self, group: &str) -> Option<GroupId> {
        self.groups.get_key_value(group).map(|(id, _)| id.clone())
    }

    /// The group's state.
    #[must_use]
    pub fn state(&self, group: &str) -> Option<GroupState> {
        self.streams(group).map(Group::state)
    }

    /// The described entry, without authorized operations and description; `None`: there is no such group.
    #[must_use]
    pub fn describe(&self, config: &Config, group: &str) -> Option<DescribedGroup> {
        self.streams(group).map(|g| describe::describe(g, config))
    }

    /// All groups with their states.
    #[must_use]
    pub fn list(&self) -> Vec<ListedGroup> {
        let groups = self.groups.values().map(GroupKind::streams);
        groups.map(|g| ListedGroup { group: g.id.clone(), state: g.state().name() }).collect()
    }

    /// All groups with their numbers of members.
    pub fn sizes(&self) -> impl Iterator<Item = (&GroupId, usize)> {
        self.groups.values().map(GroupKind::streams).map(|g| (&g.id, g.members.len()))
    }

    /// The tombstones that remove an empty group.
    ///
    /// # Errors
    /// 69 when there is no such group, 68 when it has members.
    pub fn decide_delete(&self, group: &str) -> Result<Records, ErrorCode> {
        describe::tombstones(self.streams(group).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?)
    }

    /// Decides on timers that are due. Bounded: call it again while [`Self::next_deadline`] has passed.
    #[must_use]
    pub fn decide_tick(&self, config: &Config, now: Now) -> Vec<Record> {
        self.due(config, now)
    }

    /// When [`Self::decide_tick`] should be called next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        self.timers.first()
    }

    /// Groups without members.
    pub fn empty_groups(&self) -> impl Iterator<Item = &GroupId> {
        self.groups.values().map(GroupKind::streams).filter(|g| g.members.is_empty()).map(|g| &g.id)
    }

    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// No group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Groups with settings of their own, those included that are not there.
    pub fn with_settings(&self) -> impl Iterator<Item = &GroupId> {
        self.settings.keys()
    }

    /// How many groups have settings of their own.
    #[must_use]
    pub fn settings_len(&self) -> usize {
        self.settings.len()
    }

    /// How many members all groups have together.
    #[must_use]
    pub fn member_count(&self) -> usize {
        self.members
    }
}

/// The answer to a heartbeat that is refused.
fn refused(refusal: &refusal::Refusal) -> StreamsGroupHeartbeatResponse<'static> {
    StreamsGroupHeartbeatResponse {
        error_code: refusal.code().0,
        error_message: refusal.client_message(),
        ..StreamsGroupHeartbeatResponse::default()
    }
}
