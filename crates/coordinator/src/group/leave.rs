//! Members that go: by leaving, by being silent too long, by not giving up tasks in time (spec kip1071 §2.7).

use std::borrow::Cow;

use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

use super::change::GroupChange;
use super::metadata::{GroupMetadata, TargetMetadata};
use super::refusal::Refusal;
use super::state::{Group, Member};
use super::tasks::{AssignedTasks, CurrentAssignment};
use super::validate::LEAVE;
use super::{HeartbeatDecision, Records};
use crate::facts::HeartbeatFacts;
use crate::record::{Durable, Record, Volatile};

/// Fences of one group within one decision: each bumps the epoch that the one before left.
#[derive(Debug)]
pub(super) struct Fences<'g> {
    group: &'g Group,
    epoch: i32,
    gone: usize,
}

impl<'g> Fences<'g> {
    pub(super) fn of(group: &'g Group) -> Self {
        Self { group, epoch: group.metadata.epoch, gone: 0 }
    }

    /// Removes a member and advances the group epoch; with the last one the assignment epoch advances as well.
    pub(super) fn fence(&mut self, member: &Member, records: &mut impl Extend<Record>) {
        let group = self.group;
        self.epoch = self.epoch.saturating_add(1);
        self.gone += 1;
        let (id, member) = (&group.id, &member.id);
        records.extend(member_tombstones(group, member).map(Record::Durable));
        let metadata = GroupMetadata { epoch: self.epoch, ..group.metadata.clone() };
        records.extend([Record::Durable(Durable::Group { group: id.clone(), value: Some(metadata) })]);
        if self.gone == group.members.len() {
            let value = Some(TargetMetadata { assignment_epoch: self.epoch, timestamp: 0 });
            records.extend([Record::Durable(Durable::TargetMetadata { group: id.clone(), value })]);
        }
    }
}

/// What removes a member.
pub(super) fn member_tombstones(group: &Group, member: &crate::record::MemberId) -> [Durable; 3] {
    let (group, member) = (group.id.clone(), member.clone());
    [
        Durable::CurrentAssignment { group: group.clone(), member: member.clone(), value: None },
        Durable::TargetMember { group: group.clone(), member: member.clone(), value: None },
        Durable::Member { group, member, value: None },
    ]
}

/// Decides on a leave, for good (-1) or for a while (-2).
pub(super) fn decide<'a>(
    group: Option<&Group>,
    request: &'a StreamsGroupHeartbeatRequest<'_>,
    version: i16,
) -> Result<HeartbeatDecision<'a>, Refusal> {
    // G5
    let group = group.ok_or_else(|| Refusal::GroupNotFound(request.group_id.as_ref().to_owned()))?;
    let member = match request.instance_id.as_deref() {
        Some(instance) => owner(group, instance, &request.member_id)?,
        None => known(group, &request.member_id)?,
    };
    let mut records = Records::new();
    if request.shutdown_application && group.shutdown_by.is_none() {
        let change = GroupChange::ShutdownRequested { group: group.id.clone(), member: member.id.clone() };
        records.push(Record::Volatile(Volatile::Group(change)));
    }
    let mut facts = group.facts();
    if request.member_epoch == LEAVE {
        Fences::of(group).fence(member, &mut records);
        facts.empty = group.members.len() <= 1;
    } else {
        // Spec kip1071 §2.6: the tasks stay with it, the session keeps running.
        let value = CurrentAssignment {
            member_epoch: request.member_epoch,
            assigned: member.current.assigned.with_epoch(0),
            pending: AssignedTasks::default(),
            ..member.current
        };
        let (group, member) = (group.id.clone(), member.id.clone());
        records.push(Record::Durable(Durable::CurrentAssignment { group, member, value: Some(value) }));
    }
    let response = StreamsGroupHeartbeatResponse {
        member_id: Cow::Borrowed(request.member_id.as_ref()),
        member_epoch: request.member_epoch,
        status: Some(Vec::new()),
        ..StreamsGroupHeartbeatResponse::default()
    };
    let facts = HeartbeatFacts { group: facts, leaving: true, stale: false, error_code: 0, version, begun: false };
    Ok(HeartbeatDecision { records, response, facts: Some(facts), now: Vec::new() })
}

/// Spec kip1071 §1.5 M1.
pub(super) fn known<'g>(group: &'g Group, member: &str) -> Result<&'g Member, Refusal> {
    group
        .members
        .get(member)
        .ok_or_else(|| Refusal::UnknownMember { group: group.id.as_ref().to_owned(), member: member.to_owned() })
}

/// The static member `member` itself (spec kip1071 §1.5 S1, S2).
pub(super) fn owner<'g>(group: &'g Group, instance: &str, member: &str) -> Result<&'g Member, Refusal> {
    let owner = group.statics.get(instance).ok_or_else(|| Refusal::UnknownInstance(instance.to_owned()))?;
    if owner.as_ref() != member {
        return Err(Refusal::FencedInstance {
            member: member.to_owned(),
            instance: instance.to_owned(),
            owner: owner.as_ref().to_owned(),
        });
    }
    known(group, member)
}
