//! DeleteGroups, the cleanup cycle and the sweep (spec kip1331 §§6, 7).

use std::sync::Arc;

use smallvec::SmallVec;
use streamside_wire::error_code::ErrorCode;

use super::operation::{Kind, Operation, Purpose};
use super::push::failure_line;
use super::{DescriptionChange, Descriptions, Mark, volatile};
use crate::config::{Compat, Config};
use crate::decision::{Decision, Effect, Reply, Sensor};
use crate::facts::GroupFacts;
use crate::input::{Now, OpId, PluginFailure};
use crate::record::{Durable, GroupId, Record};

/// What the caller of DeleteGroups v3 reads (spec kip1331 §6.1 step 8).
pub const DELETE_FAILED: &str = "Topology description plugin failed to delete the topology.";

/// The tombstones of a group, or why it stays (69, 68).
pub type Tombstones = Result<SmallVec<[Record; 2]>, ErrorCode>;

/// A group by the time that a delete call's outcome is known.
#[derive(Debug)]
pub struct GroupNow {
    /// Absent when it is gone.
    pub facts: Option<GroupFacts>,
    /// How to remove it, or why it stays.
    pub tombstones: Tombstones,
}

pub(crate) fn deleted<'a>(op: OpId, code: ErrorCode, message: Option<&str>) -> Reply<'a> {
    Reply::Deleted { op, error_code: code.0, error_message: message.map(str::to_owned) }
}

impl Descriptions {
    /// Whether a group has to wait for the plugin before it may go (spec kip1331 §7.2 step 3).
    #[must_use]
    pub fn defers_expiry(&self, config: &Config, group: &str) -> bool {
        config.plugin.is_some() && self.marks.get(group).is_some_and(Mark::may_hold)
    }

    /// One id of DeleteGroups (spec kip1331 §6.1 steps 6 to 8). `tombstones`: the group's, as of now.
    #[must_use]
    pub fn decide_delete<'a>(
        &self,
        config: &Config,
        now: Now,
        op: OpId,
        group: &str,
        facts: Option<&GroupFacts>,
        tombstones: Tombstones,
    ) -> Decision<'a> {
        let mut decision = Decision::default();
        match (tombstones, facts) {
            (Ok(_), Some(facts)) if self.defers_expiry(config, group) => {
                self.begin_delete(&mut decision, now, op, &Arc::from(group), facts.incarnation, Purpose::Request);
            }
            (Ok(tombstones), _) => {
                let group: GroupId = Arc::from(group);
                decision.records.extend(tombstones);
                decision.records.extend(self.forgotten(config, &group));
                decision.reply = Some(deleted(op, ErrorCode::NONE, None));
            }
            (Err(code), _) => decision.reply = Some(deleted(op, code, None)),
        }
        decision
    }

    /// What goes with a group that goes (spec kip1331 §6.3, H11).
    pub(crate) fn forgotten(&self, config: &Config, group: &GroupId) -> SmallVec<[Record; 2]> {
        let mut records = SmallVec::new();
        if self.marks.contains_key(group) {
            records.push(Record::Durable(Durable::Mark { group: Arc::clone(group), value: None }));
        }
        // Kafka keeps the window of a group whose deletion called no plugin.
        if config.compat == Compat::Streamside {
            records.extend(self.window_ended(group));
        }
        records
    }

    fn begin_delete(
        &self,
        decision: &mut Decision<'_>,
        now: Now,
        op: OpId,
        group: &GroupId,
        incarnation: u64,
        purpose: Purpose,
    ) {
        // Several deletes of one decision need sequences of their own.
        let sequence = self.next_sequence(now).saturating_add(decision.after_durable.len() as u64);
        let mark = self.marks.get(group).cloned().unwrap_or_default();
        decision.records.extend(self.mark_record(group, mark.delete_begun(sequence, now.at)));
        let operation = Operation {
            group: Arc::clone(group),
            kind: Kind::Delete { purpose, before: Box::new(mark) },
            sequence,
            incarnation,
            begun: now.at,
            replied: false,
        };
        decision.records.push(volatile(DescriptionChange::Started { op, operation: Box::new(operation) }));
        decision.after_durable.push(Effect::PluginDelete { op, group: Arc::clone(group), sequence });
    }

    /// What became of a delete call (spec kip1331 §6.1 steps 9 to 11, §7.3 steps 7 to 9). `group_now`: the
    /// group by the time of the outcome.
    #[must_use]
    pub fn decide_delete_outcome<'a>(
        &self,
        config: &Config,
        op: OpId,
        result: Result<(), PluginFailure>,
        late: bool,
        group_now: GroupNow,
    ) -> Decision<'a> {
        let GroupNow { facts, tombstones } = group_now;
        let facts = facts.as_ref();
        let mut decision = Decision::default();
        let Some(operation) = self.operations.get(&op) else {
            // After a reload nobody knows the call; what it left behind is uncertain, as journalled.
            let failed = deleted(op, ErrorCode::GROUP_DELETION_FAILED, Some(DELETE_FAILED));
            decision.reply = Some(if late { Reply::Done } else { failed });
            return decision;
        };
        let Kind::Delete { purpose, before } = &operation.kind else {
            return decision;
        };
        let group = &operation.group;
        let late = late || operation.replied;
        let answers = !late && *purpose == Purpose::Request;
        let mut end = DescriptionChange::Settled { op };
        let mut reply = Reply::Done;
        match result {
            Ok(()) => {
                decision.now.push(Effect::Record(Sensor::DeleteSuccess, 1));
                decision.records.extend(self.window_ended(group));
                let mark = self.marks.get(group).cloned().unwrap_or_default();
                // Ours: after a newer push the plugin holds a copy again, and another making is not ours to touch.
                let pushed_since = self.pushed_since(group, operation.sequence);
                let current = config.compat == Compat::Kafka
                    || (!pushed_since && facts.is_none_or(|facts| facts.incarnation == operation.incarnation));
                match tombstones {
                    // The group had members meanwhile, so it is not the empty one that was to be deleted.
                    Ok(_) if answers && !current => reply = deleted(op, ErrorCode::NON_EMPTY_GROUP, None),
                    Ok(tombstones) if answers => {
                        decision.records.extend(tombstones);
                        if self.marks.contains_key(group) {
                            let group = Arc::clone(group);
                            decision.records.push(Record::Durable(Durable::Mark { group, value: None }));
                        }
                        reply = deleted(op, ErrorCode::NONE, None);
                    }
                    other => {
                        if facts.is_some() {
                            let next = mark.delete_succeeded(config.compat, operation.sequence);
                            decision.records.extend(self.mark_record(group, next));
                        }
                        if let (Err(code), true) = (other, answers) {
                            reply = deleted(op, code, None);
                        }
                    }
                }
            }
            Err(failure) => {
                let fatal = failure == PluginFailure::Fatal;
                if !fatal {
                    decision.now.push(Effect::Record(Sensor::DeleteError, 1));
                }
                decision.now.extend(failure_line(config, group, "delete", None, &failure));
                if failure == PluginFailure::Busy && facts.is_some() {
                    let mark = self.marks.get(group).cloned().unwrap_or_default();
                    decision.records.extend(self.mark_record(group, mark.withdrawn(operation.sequence, before)));
                }
                if failure == PluginFailure::TimedOut && !late {
                    end = DescriptionChange::Replied { op };
                }
                if answers {
                    reply = match fatal {
                        true => deleted(op, ErrorCode::UNKNOWN_SERVER_ERROR, None),
                        false => deleted(op, ErrorCode::GROUP_DELETION_FAILED, Some(DELETE_FAILED)),
                    };
                }
            }
        }
        decision.records.push(volatile(end));
        decision.reply = Some(reply);
        decision
    }

    /// Whether a set was begun after that call, be it that a newer delete has cleared it from the mark meanwhile.
    fn pushed_since(&self, group: &GroupId, sequence: u64) -> bool {
        let newer = |mark: &Mark| [mark.served, mark.pending].iter().flatten().any(|copy| copy.sequence > sequence);
        self.marks.get(group).is_some_and(newer)
            || self.operations_of(group).any(|operation| match &operation.kind {
                Kind::Set { handed, .. } => handed.sequence > sequence,
                Kind::Delete { before, .. } => newer(before),
            })
    }

    /// One cleanup cycle of this shard (spec kip1331 §7.3 steps 3 to 7). Standalone keeps no committed offsets, so every
    /// empty group is free of them.
    #[must_use]
    pub fn decide_cleanup<'a>(
        &self,
        config: &Config,
        now: Now,
        first_op: OpId,
        empty: impl Iterator<Item = (GroupId, u64)>,
    ) -> Decision<'a> {
        let mut decision = Decision { reply: Some(Reply::Done), ..Decision::default() };
        if config.plugin.is_none() {
            return decision;
        }
        let mut op = first_op;
        let mut eligible = 0;
        for (group, incarnation) in empty.filter(|(group, _)| self.defers_expiry(config, group)) {
            // Ours: a group whose lane is taken waits for the next cycle (H3).
            if config.compat == Compat::Streamside && self.lanes.contains_key(&group) {
                continue;
            }
            self.begin_delete(&mut decision, now, op, &group, incarnation, Purpose::Cleanup);
            op = OpId(op.0.wrapping_add(1));
            eligible += 1;
        }
        if eligible > 0 {
            decision.now.push(Effect::Record(Sensor::CleanupEligible, eligible));
        }
        decision
    }
}
