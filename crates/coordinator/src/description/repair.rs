//! What the plugin lists, and an operator's retry (H1, H2).

use std::collections::HashSet;
use std::sync::Arc;

use super::{Descriptions, log};
use crate::config::{Compat, Config};
use crate::decision::{Decision, Effect, LogLine, Reply};
use crate::input::Now;
use crate::record::GroupId;

impl Descriptions {
    /// Unmarks the copies that the plugin does not list. One that this instance confirmed itself is newer than the list
    /// and is left alone.
    #[must_use]
    pub fn decide_listed<'a>(&self, config: &Config, now: Now, entries: &[(GroupId, i32)]) -> Decision<'a> {
        let mut decision = Decision { reply: Some(Reply::Done), ..Decision::default() };
        if config.compat == Compat::Kafka {
            return decision;
        }
        let listed: HashSet<(&str, i32)> = entries.iter().map(|(group, epoch)| (&**group, *epoch)).collect();
        for (group, mark) in &self.marks {
            let Some(served) = mark.served.filter(|_| !mark.uncertain) else {
                continue;
            };
            let confirmed = self.confirmed.get(group) == Some(&served.sequence);
            if confirmed || listed.contains(&(&**group, served.epoch)) {
                continue;
            }
            let line = log::lost(group, "not listed", Some(served.hash));
            decision.now.push(Effect::Log(LogLine::Warn(line)));
            decision.records.extend(self.mark_record(group, mark.lost()));
            decision.records.extend(self.repair_begun(group, served.epoch, now));
        }
        decision
    }

    /// Forgets a refusal and the window of a group.
    #[must_use]
    pub fn decide_retry<'a>(&self, group: &str) -> Decision<'a> {
        let group: GroupId = Arc::from(group);
        let mut decision = Decision { reply: Some(Reply::Done), ..Decision::default() };
        if let Some(mark) = self.marks.get(&group) {
            decision.records.extend(self.mark_record(&group, mark.retried()));
        }
        decision.records.extend(self.window_ended(&group));
        decision
    }
}
