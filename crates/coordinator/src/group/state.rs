//! A group and its members in memory, and how records change them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::change::{GroupChange, TaskOffsets};
use super::hash_order;
use super::metadata::{GroupMetadata, MemberMetadata, TargetMetadata};
use super::owners::Owners;
use super::settings::{Effective, GroupSettings};
use super::stored_topology::StoredTopology;
use super::tasks::{CurrentAssignment, MemberState, Tasks};
use super::topics::Configured;
use crate::config::{Compat, Config};
use crate::facts::GroupFacts;
use crate::input::Millis;
use crate::record::{GroupId, MemberId};

/// The state of a group (spec kip1071 §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// No members.
    Empty,
    /// Topics are missing or do not fit, or there is no topology.
    NotReady,
    /// A newer target assignment is to be computed.
    Assigning,
    /// Some member does not have what it should have.
    Reconciling,
    /// Everybody has what it should have.
    Stable,
}

impl GroupState {
    /// As describe and list show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::NotReady => "NotReady",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

/// A member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) metadata: MemberMetadata,
    pub(super) current: CurrentAssignment,
    /// When the session ends; `None` until it has begun.
    pub(super) session_until: Option<Millis>,
    /// By when tasks must have been given up, and the member epoch that this holds for.
    pub(super) revoking: Option<(Millis, i32)>,
    /// Where the member stands in the timer queue.
    pub(super) armed_at: Option<Millis>,
    /// Offsets that it reported.
    pub(super) offsets: Option<Arc<TaskOffsets>>,
    pub(super) end_offsets: Option<Arc<TaskOffsets>>,
    /// How many members had come before it.
    pub(super) arrival: u64,
}

impl Member {
    fn new(id: MemberId, arrival: u64) -> Self {
        Self {
            id,
            arrival,
            metadata: MemberMetadata::default(),
            current: CurrentAssignment::default(),
            session_until: None,
            revoking: None,
            armed_at: None,
            offsets: None,
            end_offsets: None,
        }
    }

    /// The earliest of its deadlines.
    pub(super) fn deadline(&self) -> Option<Millis> {
        match (self.session_until, self.revoking) {
            (Some(session), Some((revoking, _))) => Some(session.min(revoking)),
            (session, revoking) => session.or(revoking.map(|r| r.0)),
        }
    }
}

/// A streams group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: GroupId,
    pub(super) metadata: GroupMetadata,
    /// Settings of its own.
    pub(super) settings: Option<Arc<GroupSettings>>,
    pub(super) topology: Option<Arc<StoredTopology>>,
    pub(super) target_metadata: TargetMetadata,
    pub(super) target: HashMap<MemberId, Arc<Tasks>>,
    pub(super) members: HashMap<MemberId, Member>,
    /// How many members have come, and how many there were at most at one time.
    arrivals: u64,
    most_members: usize,
    /// Static members by instance id.
    pub(super) statics: HashMap<Arc<str>, MemberId>,
    pub(super) owners: Owners,
    pub(super) configured: Option<Arc<Configured>>,
    pub(super) delayed_until: Option<Millis>,
    pub(super) shutdown_by: Option<MemberId>,
    pub(super) endpoint_epoch: i32,
    /// Journal position of the latest durable record.
    pub(super) position: u64,
    /// How many STABLE members there are at each member epoch: the group's state without looking at its members.
    stable_at: BTreeMap<i32, usize>,
}

impl Group {
    pub(super) fn new(id: GroupId, settings: Option<Arc<GroupSettings>>) -> Self {
        Self {
            id,
            metadata: GroupMetadata::default(),
            settings,
            topology: None,
            target_metadata: TargetMetadata::default(),
            target: HashMap::new(),
            members: HashMap::new(),
            arrivals: 0,
            most_members: 0,
            statics: HashMap::new(),
            owners: Owners::default(),
            configured: None,
            delayed_until: None,
            shutdown_by: None,
            endpoint_epoch: 0,
            position: 0,
            stable_at: BTreeMap::new(),
        }
    }

    /// The settings that hold for it.
    pub(super) fn effective<'a>(&'a self, config: &'a Config) -> Effective<'a> {
        Effective::new(config, self.settings.as_deref())
    }

    /// Spec kip1071 §2.3: first match wins.
    pub(super) fn state(&self) -> GroupState {
        let assignment_epoch = self.target_metadata.assignment_epoch;
        if self.members.is_empty() {
            GroupState::Empty
        } else if self.topology.as_ref().is_none_or(|t| t.epoch != self.metadata.validated_topology_epoch) {
            GroupState::NotReady
        } else if self.metadata.epoch > assignment_epoch {
            GroupState::Assigning
        } else if self.stable_at.get(&assignment_epoch).copied().unwrap_or(0) < self.members.len() {
            GroupState::Reconciling
        } else {
            GroupState::Stable
        }
    }

    pub(super) fn topology_epoch(&self) -> i32 {
        self.topology.as_ref().map_or(-1, |t| t.epoch)
    }

    pub(super) fn facts(&self) -> GroupFacts {
        GroupFacts {
            topology_epoch: self.topology_epoch(),
            fingerprint: self.topology.as_ref().map(|t| t.fingerprint),
            incarnation: self.metadata.incarnation,
            guessed: false,
            empty: self.members.is_empty(),
        }
    }

    /// Takes over what a member said about itself. Returns whether it is new.
    pub(super) fn set_member(&mut self, id: &MemberId, metadata: &MemberMetadata) -> bool {
        let new = self.create_member(id);
        let Some(member) = self.members.get_mut(id) else { return new };
        if member.metadata.instance_id != metadata.instance_id
            && let Some(old) = &member.metadata.instance_id
            && self.statics.get(old) == Some(id)
        {
            self.statics.remove(old);
        }
        if let Some(instance) = &metadata.instance_id {
            self.statics.insert(instance.clone(), id.clone());
        }
        if member.metadata.process_id != metadata.process_id {
            self.owners.remove(id, &member.current);
            self.owners.add(id, &metadata.process_id, &member.current);
        }
        member.metadata = metadata.clone();
        new
    }

    /// Takes over what a member has. Returns whether the member is new.
    pub(super) fn set_current(&mut self, id: &MemberId, current: &CurrentAssignment) -> bool {
        let new = self.create_member(id);
        let Some(member) = self.members.get_mut(id) else { return new };
        self.owners.remove(id, &member.current);
        self.owners.add(id, &member.metadata.process_id, current);
        uncount(&mut self.stable_at, &member.current);
        count(&mut self.stable_at, current);
        member.current = current.clone();
        new
    }

    fn create_member(&mut self, id: &MemberId) -> bool {
        if self.members.contains_key(id) {
            return false;
        }
        let member = Member::new(id.clone(), self.arrivals);
        self.arrivals += 1;
        count(&mut self.stable_at, &member.current);
        self.members.insert(id.clone(), member);
        self.most_members = self.most_members.max(self.members.len());
        true
    }

    /// All members in the order in which they are shown: of ids, or of Kafka's table (D8).
    pub(super) fn members_in_order(&self, compat: Compat) -> Vec<&Member> {
        let mut members: Vec<&Member> = self.members.values().collect();
        match compat {
            Compat::Streamside => members.sort_unstable_by_key(|m| &m.id),
            Compat::Kafka => {
                let places = hash_order::member_places(self.most_members);
                members.sort_unstable_by_key(|m| (hash_order::member_place(&m.id, places), Reverse(m.arrival)));
            }
        }
        members
    }

    /// Removes a member. The target keeps what it has for it until its own tombstone.
    pub(super) fn remove_member(&mut self, id: &str) -> Option<Member> {
        let member = self.members.remove(id)?;
        self.owners.remove(id, &member.current);
        uncount(&mut self.stable_at, &member.current);
        if let Some(instance) = &member.metadata.instance_id
            && self.statics.get(instance).is_some_and(|owner| owner.as_ref() == id)
        {
            self.statics.remove(instance);
        }
        if self.members.is_empty() {
            self.shutdown_by = None;
        }
        Some(member)
    }

    /// Applies a volatile change that moves no timer.
    pub(super) fn apply_untimed(&mut self, change: &GroupChange) {
        match change {
            GroupChange::ShutdownRequested { member, .. } => {
                if self.shutdown_by.is_none() {
                    self.shutdown_by = Some(member.clone());
                }
            }
            GroupChange::EndpointEpoch { epoch, .. } => self.endpoint_epoch = *epoch,
            GroupChange::Offsets { member, offsets, end_offsets, .. } => {
                if let Some(member) = self.members.get_mut(member) {
                    if let Some(offsets) = offsets {
                        member.offsets = Some(offsets.clone());
                    }
                    if let Some(end_offsets) = end_offsets {
                        member.end_offsets = Some(end_offsets.clone());
                    }
                }
            }
            GroupChange::Configured { configured, .. } => self.configured = Some(configured.clone()),
            GroupChange::Seen { .. }
            | GroupChange::Revoking { .. }
            | GroupChange::Rearmed { .. }
            | GroupChange::Delayed { .. } => {}
        }
    }
}

fn count(stable_at: &mut BTreeMap<i32, usize>, current: &CurrentAssignment) {
    if current.state == MemberState::Stable {
        *stable_at.entry(current.member_epoch).or_default() += 1;
    }
}

fn uncount(stable_at: &mut BTreeMap<i32, usize>, current: &CurrentAssignment) {
    if current.state == MemberState::Stable
        && let Some(members) = stable_at.get_mut(&current.member_epoch)
    {
        *members -= 1;
        if *members == 0 {
            stable_at.remove(&current.member_epoch);
        }
    }
}
