//! Who should have which task: when that is computed, and from what (spec kip1071 §5.1–§5.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::assign::{Assignor, Input, InputMember};
use super::metadata::{MemberMetadata, TargetMetadata};
use super::refusal::Refusal;
use super::state::{Group, Member};
use super::tasks::{CurrentAssignment, Tasks};
use super::topics::Configured;
use crate::config::{Compat, Config};
use crate::input::Now;
use crate::record::{Durable, MemberId, Record};

/// The assignment setting that a change of bumps the group epoch for.
pub(super) const STANDBYS: &str = "num.standby.replicas";
/// Another one: client tags, as a comma list; left out when there is none.
pub(super) const TAGS: &str = "rack.aware.assignment.tags";

/// A member as it is after the heartbeat that is being decided.
#[derive(Debug)]
pub(super) struct Updated<'a> {
    pub(super) id: &'a MemberId,
    pub(super) metadata: &'a MemberMetadata,
    pub(super) current: &'a CurrentAssignment,
    /// The id that it takes over from, which counts no more.
    pub(super) replaces: Option<&'a MemberId>,
    pub(super) offsets: Option<&'a super::change::TaskOffsets>,
}

/// What an assignment is computed for.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) assignor: &'a dyn Assignor,
    pub(super) group: &'a Group,
    pub(super) updated: Option<Updated<'a>>,
    pub(super) configured: &'a Configured,
    pub(super) standbys: i32,
    /// Whose order decides between equals.
    pub(super) ties: Compat,
    pub(super) epoch: i32,
}

/// Computes a target for everybody and records what changed. Returns the updated member's part.
///
/// # Errors
/// The assignor failed.
pub(super) fn compute(plan: &Plan<'_>, now: Now, records: &mut impl Extend<Record>) -> Result<Arc<Tasks>, Refusal> {
    let mut targets = assign(plan)?;
    let group = plan.group;
    let mut own = Arc::new(Tasks::default());
    let replaced = plan.updated.as_ref().and_then(|u| u.replaces);
    let mut ids: Vec<&MemberId> = group.members.keys().filter(|id| Some(*id) != replaced).collect();
    if let Some(updated) = &plan.updated
        && (!group.members.contains_key(updated.id) || replaced == Some(updated.id))
    {
        ids.push(updated.id);
    }
    ids.sort_unstable();
    for id in ids {
        let tasks = targets.remove(id).unwrap_or_default();
        let updated = plan.updated.as_ref().filter(|u| u.id == id);
        // A replacement was given the old one's entry just before.
        let stored = group.target.get(updated.and_then(|u| u.replaces).unwrap_or(id));
        if stored.is_none_or(|stored| **stored != tasks) {
            let (group, member) = (group.id.clone(), id.clone());
            records.extend([Record::Durable(Durable::TargetMember { group, member, value: Some(tasks.clone()) })]);
        }
        if updated.is_some() {
            own = Arc::new(tasks);
        }
    }
    let value = Some(TargetMetadata { assignment_epoch: plan.epoch, timestamp: now.at });
    records.extend([Record::Durable(Durable::TargetMetadata { group: group.id.clone(), value })]);
    Ok(own)
}

fn assign(plan: &Plan<'_>) -> Result<BTreeMap<MemberId, Tasks>, Refusal> {
    // While topics are missing everybody gets nothing (spec kip1071 §5.2).
    let (None, Some(subtopologies)) = (&plan.configured.trouble, &plan.configured.subtopologies) else {
        return Ok(BTreeMap::new());
    };
    let replaced = plan.updated.as_ref().and_then(|u| u.replaces);
    let updated = plan.updated.as_ref().map(|u| InputMember {
        id: u.id,
        process: &u.metadata.process_id,
        assigned: &u.current.assigned,
        offsets: u.offsets,
    });
    let mut members: Vec<_> = plan
        .group
        .members_in_order(plan.ties)
        .into_iter()
        .filter(|m| Some(&m.id) != replaced)
        .map(|m| updated.filter(|u| *u.id == m.id).unwrap_or_else(|| input_of(m)))
        .collect();
    members.extend(updated.filter(|u| members.iter().all(|m| m.id != u.id)));
    if plan.ties == Compat::Streamside {
        members.sort_unstable_by_key(|m| m.id);
    }
    let input = Input { members, subtopologies, standbys: plan.standbys, ties: plan.ties };
    plan.assignor.assign(&input).map_err(|_| Refusal::Assignor)
}

fn input_of(member: &Member) -> InputMember<'_> {
    InputMember {
        id: &member.id,
        process: &member.metadata.process_id,
        assigned: &member.current.assigned,
        offsets: member.offsets.as_deref(),
    }
}

/// The initial delay is over: compute with the settings of the last bump (spec kip1071 §5.3).
pub(super) fn after_delay(
    assignor: &dyn Assignor,
    group: &Group,
    config: &Config,
    now: Now,
    records: &mut Vec<Record>,
) {
    let Some(configured) = &group.configured else { return };
    if group.members.is_empty() || group.metadata.epoch <= group.target_metadata.assignment_epoch {
        return;
    }
    let standbys = group
        .metadata
        .last_assignment_configs
        .get(STANDBYS)
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| group.effective(config).num_standby_replicas());
    let plan =
        Plan { assignor, group, updated: None, configured, standbys, ties: config.compat, epoch: group.metadata.epoch };
    let mut computed = Vec::new();
    // If the assignor fails, the next heartbeat tries again.
    if compute(&plan, now, &mut computed).is_ok() {
        records.append(&mut computed);
    }
}
