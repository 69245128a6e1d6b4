//! Whether a heartbeat's answer asks for a description (spec kip1331 §3).

use std::sync::Arc;

use super::{Descriptions, bounds_of, log, plugin_of, window_record};
use crate::config::{Compat, Config};
use crate::decision::Effect;
use crate::description::backoff::Window;
use crate::facts::HeartbeatFacts;
use crate::input::{Millis, Now};
use crate::record::{GroupId, Record};

/// A member is asked: `TopologyDescriptionRequired` is set.
#[derive(Debug)]
pub struct Ask {
    /// The window, armed with the decision.
    pub record: Record,
    /// Kafka's log line.
    pub log: Effect,
}

impl Descriptions {
    /// The truth table of spec kip1331 §3.2, top-down. `None`: the flag stays false and nothing is touched.
    /// `interval_ms` is how often the group's members send heartbeats.
    #[must_use]
    pub fn solicit(
        &self,
        config: &Config,
        now: Now,
        group: &str,
        member: &str,
        interval_ms: i32,
        facts: &HeartbeatFacts,
    ) -> Option<Ask> {
        let epoch = facts.group.topology_epoch;
        // Rows 1 to 5.
        if config.plugin.is_none() || facts.version == 0 || facts.leaving || facts.error_code != 0 || epoch < 0 {
            return None;
        }
        if let Some(mark) = self.marks.get(group) {
            // Row 6.
            if mark.stored_for(config.compat, &facts.group) {
                return None;
            }
            // Row 7.
            if mark.refusal_for(config.compat, &facts.group, plugin_of(config), bounds_of(config)).is_some() {
                return None;
            }
        }
        // Row 8.
        if facts.stale {
            return None;
        }
        // H6: nobody while a push is under way.
        if config.compat == Compat::Streamside && self.push_under_way(group, now.at) {
            return None;
        }
        let old = self.windows.get(group).filter(|_| !facts.begun);
        let window = match old.filter(|window| window.is_active(epoch, now.at)) {
            // Row 9, or H6.
            Some(active) => {
                let patience = Millis::from(interval_ms).saturating_mul(2);
                if config.compat == Compat::Kafka || !active.may_ask_another(member, now.at, patience) {
                    return None;
                }
                active.asked_another(Arc::from(member), now.at)
            }
            // Row 10.
            None => Window::armed(old, epoch, Arc::from(member), now),
        };
        let group: GroupId = Arc::from(group);
        Some(Ask { log: log::solicited(&group, epoch), record: window_record(&group, Some(window)) })
    }
}
