//! Whether a described entry needs a read, and what became of it (spec kip1331 §5.2).

use std::sync::Arc;

use bytes::Bytes;
use streamside_topology::{Description, hash_of_encoded};

use super::push::{failure_line, reason_of};
use super::{Descriptions, ReadToken, Window, log, window_record};
use crate::config::{Compat, Config};
use crate::decision::{Decision, Effect, LogLine, Read, Reply, Sensor};
use crate::facts::GroupFacts;
use crate::input::{Now, PluginFailure};
use crate::record::GroupId;

/// `TopologyDescriptionStatus` when the flag was not set.
pub const NOT_REQUESTED: i8 = 0;
/// Nothing is stored at the group's epoch.
pub const NOT_STORED: i8 = 1;
/// The plugin failed.
pub const ERROR: i8 = 2;
/// The description is attached.
pub const AVAILABLE: i8 = 3;

/// A read's outcome as it comes back.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct GetOutcome<'a> {
    pub group: &'a str,
    pub epoch: i32,
    pub token: ReadToken,
    pub result: Result<Option<Bytes>, PluginFailure>,
}

/// What a read's bytes are worth.
enum Judged {
    /// Whole, and the copy that may be shown.
    Good(Bytes),
    /// Nothing, or not what a certain mark promises.
    Lost { null: bool },
    /// Whole, but not a copy that an uncertain mark vouches for.
    Hidden,
}

impl Descriptions {
    /// The read that an error-free entry with a topology needs; `None`: its status is NOT_STORED.
    #[must_use]
    pub fn read_for(&self, config: &Config, group: &GroupId, facts: &GroupFacts) -> Option<Read> {
        config.plugin.as_ref()?;
        let token = self.marks.get(group)?.readable(config.compat, facts)?;
        Some(Read { group: Arc::clone(group), epoch: facts.topology_epoch, token })
    }

    /// Attaches what was read. Under our rules a copy that is not there unmarks the group (H1).
    #[must_use]
    pub fn decide_get_outcome<'a>(&self, config: &Config, now: Now, outcome: GetOutcome<'_>) -> Decision<'a> {
        let GetOutcome { group, epoch, token, result } = outcome;
        let mut decision = Decision::default();
        let read = match result {
            Ok(read) => read,
            Err(failure) => return failed(config, group, token, &failure),
        };
        let group: GroupId = Arc::from(group);
        let (status, description) = match self.judge(config, &group, token, read) {
            Judged::Good(bytes) => {
                decision.now.push(Effect::Record(Sensor::GetSuccess, 1));
                // A good read ends a repair chain.
                if !token.uncertain && self.windows.get(&group).is_some_and(|window| window.repair) {
                    decision.records.push(window_record(&group, None));
                }
                (AVAILABLE, Some(bytes))
            }
            Judged::Hidden => {
                decision.now.push(Effect::Record(Sensor::GetSuccess, 1));
                (NOT_STORED, None)
            }
            Judged::Lost { null } => {
                let sensor = if null { Sensor::GetSuccess } else { Sensor::GetError };
                decision.now.push(Effect::Record(sensor, 1));
                if config.compat == Compat::Streamside {
                    self.unmark(&mut decision, now, &group, epoch, token, null);
                    (NOT_STORED, None)
                } else {
                    (if null { NOT_STORED } else { ERROR }, None)
                }
            }
        };
        decision.reply = Some(Reply::Attached { status, description, fatal: false });
        decision
    }

    fn judge(&self, config: &Config, group: &str, token: ReadToken, read: Option<Bytes>) -> Judged {
        let Some(bytes) = read else {
            return Judged::Lost { null: true };
        };
        let hash = hash_of_encoded(&bytes);
        // Bytes with a known hash are known to decode.
        let expected = token.served == Some(hash) || token.pending == Some(hash);
        if !expected && Description::decode(&bytes).is_err() {
            return Judged::Lost { null: false };
        }
        // While certain, what the plugin returns is served whatever its hash: it may normalise.
        if expected || config.compat == Compat::Kafka || !token.uncertain {
            return Judged::Good(bytes);
        }
        // A push may have settled since the read began.
        let settled = self.marks.get(group).and_then(|mark| mark.served).is_some_and(|served| served.hash == hash);
        if settled { Judged::Good(bytes) } else { Judged::Hidden }
    }

    /// H1, unless the mark is no longer the one that was read.
    fn unmark(&self, decision: &mut Decision<'_>, now: Now, group: &GroupId, epoch: i32, token: ReadToken, null: bool) {
        let Some(mark) = self.marks.get(group) else {
            return;
        };
        if token.uncertain || mark.uncertain || mark.sequence != token.sequence {
            return;
        }
        let hash = mark.served.map(|served| served.hash);
        let line = log::lost(group, if null { "null" } else { "corrupt" }, hash);
        decision.now.push(Effect::Log(LogLine::Warn(line)));
        decision.records.extend(self.mark_record(group, mark.lost()));
        decision.records.extend(self.repair_begun(group, epoch, now));
    }

    /// The first re-ask is at once; a chain that is under way goes on.
    pub(super) fn repair_begun(&self, group: &GroupId, epoch: i32, now: Now) -> Option<crate::record::Record> {
        let going_on = self.windows.get(group).is_some_and(|window| window.repair && window.epoch == epoch);
        (!going_on).then(|| window_record(group, Some(Window::repair(epoch, now.at))))
    }
}

/// Read failures other than a missing copy change nothing (H1).
fn failed<'a>(config: &Config, group: &str, token: ReadToken, failure: &PluginFailure) -> Decision<'a> {
    let mut decision = Decision::default();
    let fatal = *failure == PluginFailure::Fatal;
    if !(fatal && config.compat == Compat::Kafka) {
        decision.now.push(Effect::Record(Sensor::GetError, 1));
    }
    match (config.compat, failure) {
        // Kafka logs failed futures alone, and a synchronous `Error` on its own.
        (Compat::Kafka, PluginFailure::Fatal) => {
            decision.now.extend(failure_line(config, group, "get", token.served, failure));
        }
        (Compat::Kafka, PluginFailure::Contract) => {}
        (Compat::Kafka, _) => decision.now.push(Effect::Log(LogLine::Warn(log::get_failed(group)))),
        (Compat::Streamside, _) => {
            let detail = log::plugin_failed(group, "get", reason_of(failure), token.served, None);
            decision.now.push(Effect::Log(LogLine::Warn(format!("{} {detail}", log::get_failed(group)))));
        }
    }
    decision.reply = Some(Reply::Attached { status: ERROR, description: None, fatal });
    decision
}
