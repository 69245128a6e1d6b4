//! A push: order of checks, plugin call, outcome (spec kip1331 §4).

use std::sync::Arc;

use streamside_wire::error_code::ErrorCode;

use super::log;
use super::mark::{Handed, Mark, Refusal};
use super::operation::{Kind, Operation};
use super::prepare::{PayloadRefusal, PreparedPush};
use super::reason::Reason;
use super::{DescriptionChange, Descriptions, bounds_of, plugin_of, volatile};
use crate::config::{Compat, Config};
use crate::decision::{Decision, Effect, LogLine, Reply, Sensor};
use crate::facts::{GroupFacts, Standing};
use crate::input::{Now, OpId, PluginFailure};
use crate::record::GroupId;

/// What a client hears when the plugin broke the contract (spec kip1331 §4.3).
pub(super) const PLUGIN_FAILED: &str = "Topology description plugin failed.";
/// What a client hears when no plugin is configured (spec kip1331 §4.1 step 4).
pub const NO_PLUGIN: &str = "The broker has no streams group topology description plugin configured.";

/// A push as it arrives.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Push<'a> {
    pub op: OpId,
    pub group: &'a str,
    pub member: &'a str,
    pub topology_epoch: i32,
    pub payload: PreparedPush,
}

/// The answer to a push in the making.
#[derive(Debug)]
struct Answer {
    op: OpId,
    code: ErrorCode,
    message: Option<String>,
    reason: Option<Reason>,
    /// Label of `streamside_pushes_total`.
    result: &'static str,
}

impl Answer {
    fn good(op: OpId, result: &'static str) -> Self {
        Self { op, code: ErrorCode::NONE, message: None, reason: None, result }
    }

    fn rejected(op: OpId, code: ErrorCode, message: String, result: &'static str) -> Self {
        Self { op, code, message: Some(message), reason: None, result }
    }

    fn failed(op: OpId, reason: Reason, message: Option<String>) -> Self {
        let code = ErrorCode::STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED;
        Self { op, code, message, reason: Some(reason), result: reason.word() }
    }

    fn give(self, decision: &mut Decision<'_>) {
        decision.now.push(Effect::PushSettled(self.result));
        decision.reply = Some(Reply::Push {
            op: self.op,
            error_code: self.code.0,
            error_message: self.message,
            reason: self.reason.map(Reason::word),
        });
    }
}

fn settled<'a>(answer: Answer) -> Decision<'a> {
    let mut decision = Decision::default();
    answer.give(&mut decision);
    decision
}

fn not_found(op: OpId, group: &str) -> Answer {
    Answer::rejected(op, ErrorCode::GROUP_ID_NOT_FOUND, format!("Group {group} not found."), "group_not_found")
}

/// Java's `trim().isEmpty()`: nothing but code points up to U+0020.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c <= ' ')
}

impl Descriptions {
    /// Steps 2 and 4 to 13 of spec kip1331 §4.1. `facts`: absent when there is no such group.
    #[must_use]
    pub fn decide_push<'a>(
        &self,
        config: &Config,
        now: Now,
        push: Push<'_>,
        facts: Option<&GroupFacts>,
        standing: Standing,
    ) -> Decision<'a> {
        let Push { op, group, member, topology_epoch, payload } = push;
        let invalid = |message: String| settled(Answer::rejected(op, ErrorCode::INVALID_REQUEST, message, "invalid"));
        // Step 2.
        let forbidden = ErrorCode::GROUP_AUTHORIZATION_FAILED;
        if matches!(standing, Standing::Refused { error_code, .. } if error_code == forbidden.0) {
            return settled(Answer { op, code: forbidden, message: None, reason: None, result: "refused" });
        }
        // Step 4.
        let Some(plugin) = config.plugin.as_deref() else {
            return settled(Answer::rejected(op, ErrorCode::UNSUPPORTED_VERSION, NO_PLUGIN.to_owned(), "no_plugin"));
        };
        // Steps 5 and 6. Step 7 cannot come from the wire.
        if is_blank(member) {
            return invalid("MemberId can't be empty.".to_owned());
        }
        if is_blank(group) {
            return invalid("GroupId can't be empty.".to_owned());
        }
        // Steps 8 to 10.
        match standing {
            Standing::Member => {}
            Standing::NotMember => {
                let message = format!("Member {member} is not a member of group {group}.");
                return settled(Answer::rejected(op, ErrorCode::UNKNOWN_MEMBER_ID, message, "unknown_member"));
            }
            Standing::NoGroup { message } => {
                let answer = not_found(op, group);
                return settled(Answer { message: message.or(answer.message), ..answer });
            }
            Standing::Refused { error_code, message } => {
                let code = ErrorCode(error_code);
                return settled(Answer { op, code, message, reason: None, result: "refused" });
            }
            Standing::Unknown => {
                let word = Reason::NotVerified.word();
                let message = format!("{word}: The broker did not say whether this member may push.");
                return settled(Answer::failed(op, Reason::NotVerified, Some(message)));
            }
        }
        let Some(facts) = facts else {
            return settled(not_found(op, group));
        };
        // Step 11.
        let epoch = facts.topology_epoch;
        if topology_epoch != epoch {
            return invalid(format!(
                "Topology epoch {topology_epoch} does not match the group's current topology epoch {epoch}."
            ));
        }
        // Step 12.
        let id: GroupId = Arc::from(group);
        let (encoded, hash) = match (payload.refusal, payload.hash) {
            (Some(PayloadRefusal::Malformed(message)), _) => return invalid(message),
            (None, None) => return invalid(PLUGIN_FAILED.to_owned()),
            (Some(PayloadRefusal::OverLimit { reason, message }), hash) => {
                let refusal = hash.map(|hash| refusal_of(config, facts, hash, reason, Some(message.clone())));
                return self.over_limit(op, &id, refusal, Answer::failed(op, reason, Some(message)));
            }
            (None, Some(hash)) => (payload.encoded, hash),
        };
        let blank = Mark::default();
        let mark = self.marks.get(group).unwrap_or(&blank);
        if config.compat == Compat::Streamside {
            // H2: the same bytes are refused again at once.
            let held = mark.refusal_for(config.compat, facts, plugin, bounds_of(config));
            if let Some(refusal) = held.filter(|refusal| refusal.hash == hash) {
                let mut decision = settled(Answer::failed(op, refusal.reason, refusal.message.clone()));
                decision.records.extend(self.window_cleared(&id, epoch));
                return decision;
            }
            // H4: bytes that this instance confirmed cost no call.
            let confirmed = mark.served.filter(|served| {
                !mark.uncertain
                    && served.epoch == epoch
                    && served.hash == hash
                    && &*mark.plugin == plugin
                    && self.confirmed.get(group) == Some(&served.sequence)
            });
            if confirmed.is_some() {
                let mut decision = settled(Answer::good(op, "unchanged"));
                decision.records.extend(self.mark_record(&id, mark.confirmed_for(facts)));
                decision.records.extend(self.window_cleared(&id, epoch));
                return decision;
            }
            // H3: a call that timed out keeps the lane.
            if self.lane_is_hung(group) {
                let mut decision = settled(Answer::failed(op, Reason::PluginBusy, Some(busy_message())));
                decision.records.extend(self.window_extended(&id, epoch, now, None));
                return decision;
            }
        }
        // Step 13.
        let sequence = self.next_sequence(now);
        let handed = Handed { epoch, hash, fingerprint: facts.fingerprint, incarnation: facts.incarnation, sequence };
        let mut decision = Decision::default();
        decision
            .records
            .extend(self.mark_record(&id, mark.set_begun(config.compat, handed, &Arc::from(plugin), now.at)));
        let operation = Operation {
            group: Arc::clone(&id),
            kind: Kind::Set { handed, before: Box::new(mark.clone()) },
            sequence,
            incarnation: facts.incarnation,
            begun: now.at,
            replied: false,
        };
        decision.records.push(volatile(DescriptionChange::Started { op, operation: Box::new(operation) }));
        // Step 14.
        decision.after_durable.push(Effect::PluginSet { op, group: id, epoch, description: encoded, sequence });
        decision
    }

    /// H8: the verdict is kept by hash, as a refusal for good; the copy that is stored stays.
    fn over_limit<'a>(&self, op: OpId, group: &GroupId, refusal: Option<Refusal>, answer: Answer) -> Decision<'a> {
        debug_assert_eq!(op, answer.op);
        let mut decision = Decision::default();
        if let Some(reason) = answer.reason {
            decision.now.push(Effect::LimitHit(reason.word()));
        }
        if let Some(refusal) = refusal {
            let line = log::plugin_failed(group, "push", refusal.reason, Some(refusal.hash), None);
            decision.now.push(Effect::Log(LogLine::Warn(line)));
            let epoch = refusal.epoch;
            let mark = self.marks.get(group).cloned().unwrap_or_default();
            decision.records.extend(self.mark_record(group, mark.refused(refusal)));
            decision.records.extend(self.window_cleared(group, epoch));
        }
        answer.give(&mut decision);
        decision
    }

    /// Step 15 (spec kip1331 §4.3). `facts`: of the group as it is now.
    #[must_use]
    pub fn decide_set_outcome<'a>(
        &self,
        config: &Config,
        now: Now,
        op: OpId,
        result: Result<(), PluginFailure>,
        late: bool,
        facts: Option<&GroupFacts>,
    ) -> Decision<'a> {
        let Some(operation) = self.operations.get(&op) else {
            return unknown_operation(op, late);
        };
        let Kind::Set { handed, before } = &operation.kind else {
            return unknown_operation(op, late);
        };
        let group = &operation.group;
        let late = late || operation.replied;
        let mut decision = Decision::default();
        outcome_effects(config, &mut decision, group, Some(*handed), &result);
        // H3: an outcome for another making of the group came too late to change anything.
        let counts = config.compat == Compat::Kafka || facts.is_some_and(|f| f.incarnation == handed.incarnation);
        let timed_out = matches!(result, Err(PluginFailure::TimedOut)) && !late;
        let mark = self.marks.get(group).cloned().unwrap_or_default();
        let records = &mut decision.records;
        let answer = match (facts, result) {
            // The group is gone: Kafka's failed outcome write.
            (None, _) => {
                records.extend(self.window_ended(group));
                not_found(op, group)
            }
            (Some(_), Ok(())) => {
                if counts {
                    let next = mark.set_succeeded(config.compat, *handed);
                    self.record_success(&mut decision, group, *handed, &mark, next);
                }
                Answer::good(op, "stored")
            }
            (Some(facts), Err(failure)) => {
                let (reason, message) = failure_answer(&failure);
                match failure {
                    // A synchronous `Error` leaves everything as it is.
                    PluginFailure::Fatal => {}
                    _ if !counts => {}
                    PluginFailure::Permanent { .. } | PluginFailure::Contract => {
                        let refusal = Refusal {
                            epoch: handed.epoch,
                            fingerprint: handed.fingerprint,
                            ..refusal_of(config, facts, handed.hash, reason, message.clone())
                        };
                        records.extend(self.mark_record(group, mark.refused(refusal)));
                        records.extend(self.window_cleared(group, handed.epoch));
                    }
                    PluginFailure::Busy => {
                        let next = mark.withdrawn(operation.sequence, before);
                        records.extend(self.mark_record(group, next));
                        records.extend(self.window_extended(group, handed.epoch, now, None));
                    }
                    // The answer to a late failure is out, and the window was extended with it.
                    _ if late => {}
                    PluginFailure::Transient { retry_after_ms, .. } => {
                        let wish = retry_after_ms.filter(|_| config.compat == Compat::Streamside);
                        records.extend(self.window_extended(group, handed.epoch, now, wish));
                    }
                    PluginFailure::Store { .. } | PluginFailure::Crashed | PluginFailure::TimedOut => {
                        records.extend(self.window_extended(group, handed.epoch, now, None));
                    }
                }
                if reason == Reason::PluginFatal { fatal_answer(op) } else { Answer::failed(op, reason, message) }
            }
        };
        let end = if timed_out { DescriptionChange::Replied { op } } else { DescriptionChange::Settled { op } };
        decision.records.push(volatile(end));
        if late {
            decision.reply = Some(Reply::Done);
        } else {
            answer.give(&mut decision);
        }
        decision
    }

    fn record_success(&self, decision: &mut Decision<'_>, group: &GroupId, handed: Handed, before: &Mark, next: Mark) {
        let served_now = next.served.is_some_and(|served| served.sequence == handed.sequence);
        if served_now && before.served.is_none_or(|served| served.hash != handed.hash) {
            decision.after_durable.push(Effect::TopologyChanged(Arc::clone(group)));
        }
        let certain = !next.uncertain;
        decision.records.extend(self.mark_record(group, next));
        if served_now && certain {
            let group = Arc::clone(group);
            decision.records.push(volatile(DescriptionChange::Confirmed { group, sequence: handed.sequence }));
        }
        decision.records.extend(self.window_cleared(group, handed.epoch));
    }
}

/// After a reload from the journal nobody knows the call any more. What it left behind is uncertain, as journalled.
fn unknown_operation<'a>(op: OpId, late: bool) -> Decision<'a> {
    if late {
        return Decision { reply: Some(Reply::Done), ..Decision::default() };
    }
    let message = format!("{}: The coordinator was reloaded from its journal.", Reason::StoreFailed.word());
    settled(Answer::failed(op, Reason::StoreFailed, Some(message)))
}

fn refusal_of(
    config: &Config,
    facts: &GroupFacts,
    hash: streamside_topology::DescriptionHash,
    reason: Reason,
    message: Option<String>,
) -> Refusal {
    Refusal {
        epoch: facts.topology_epoch,
        hash,
        fingerprint: facts.fingerprint,
        incarnation: facts.incarnation,
        plugin: Arc::from(plugin_of(config)),
        bounds: bounds_of(config),
        reason,
        message,
    }
}

/// Spec kip1331 §4.3: a synchronous `Error` answers -1 without a text.
fn fatal_answer(op: OpId) -> Answer {
    let code = ErrorCode::UNKNOWN_SERVER_ERROR;
    Answer { op, code, message: None, reason: Some(Reason::PluginFatal), result: Reason::PluginFatal.word() }
}

fn busy_message() -> String {
    format!("{}: The plugin has not finished earlier work for this group.", Reason::PluginBusy.word())
}

pub(super) fn reason_of(failure: &PluginFailure) -> Reason {
    match failure {
        PluginFailure::Permanent { .. } => Reason::PluginPermanent,
        PluginFailure::Transient { .. } => Reason::PluginTransient,
        PluginFailure::Store { full: true, .. } => Reason::StoreFull,
        PluginFailure::Store { full: false, .. } => Reason::StoreFailed,
        PluginFailure::Contract => Reason::PluginContract,
        PluginFailure::Fatal => Reason::PluginFatal,
        PluginFailure::TimedOut => Reason::PluginTimeout,
        PluginFailure::Busy => Reason::PluginBusy,
        PluginFailure::Crashed => Reason::PluginCrashed,
    }
}

/// Reason and text. A plugin's text goes out as it is; Kafka's own is used where Kafka has one; ours begin with the word.
fn failure_answer(failure: &PluginFailure) -> (Reason, Option<String>) {
    let reason = reason_of(failure);
    let message = match failure {
        PluginFailure::Permanent { message } | PluginFailure::Transient { message, .. } => message.clone(),
        PluginFailure::Store { message, .. } => Some(message.clone()),
        PluginFailure::Contract => Some(PLUGIN_FAILED.to_owned()),
        PluginFailure::Fatal => None,
        PluginFailure::TimedOut => Some(format!("{}: The plugin did not answer in time.", reason.word())),
        PluginFailure::Busy => Some(busy_message()),
        PluginFailure::Crashed => Some(format!("{}: The plugin ended during the call.", reason.word())),
    };
    (reason, message)
}

/// Sensors (spec kip1331 §10.1) and log lines (H5) of a set's outcome.
fn outcome_effects(
    config: &Config,
    decision: &mut Decision<'_>,
    group: &GroupId,
    handed: Option<Handed>,
    result: &Result<(), PluginFailure>,
) {
    let failure = match result {
        Ok(()) => return decision.now.push(Effect::Record(Sensor::SetSuccess, 1)),
        Err(failure) => failure,
    };
    // A synchronous `Error` and a call that was not made count nowhere.
    if !matches!(failure, PluginFailure::Fatal | PluginFailure::Busy) {
        decision.now.push(Effect::Record(Sensor::SetError, 1));
    }
    decision.now.extend(failure_line(config, group, "set", handed.map(|h| h.hash), failure));
}

pub(super) fn failure_line(
    config: &Config,
    group: &str,
    operation: &str,
    hash: Option<streamside_topology::DescriptionHash>,
    failure: &PluginFailure,
) -> Option<Effect> {
    let fatal = *failure == PluginFailure::Fatal;
    if config.compat == Compat::Kafka && !fatal {
        return None;
    }
    let message = match failure {
        PluginFailure::Permanent { message } | PluginFailure::Transient { message, .. } => message.as_deref(),
        PluginFailure::Store { message, .. } => Some(message.as_str()),
        _ => None,
    };
    let line = log::plugin_failed(group, operation, reason_of(failure), hash, message);
    Some(Effect::Log(if fatal { LogLine::Error(line) } else { LogLine::Warn(line) }))
}
