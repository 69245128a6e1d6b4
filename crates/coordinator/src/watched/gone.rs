//! Groups that went: deleted, described as missing, out of sight.

use std::sync::Arc;

use super::view::View;
use super::{Watched, WatchedChange, change, horizon};
use crate::config::Config;
use crate::input::{Millis, Now};
use crate::record::{GroupId, Record};

/// A group of which nothing is stored is forgotten after so long without a sign of it.
const FORGOTTEN_AFTER_MS: Millis = 24 * 3_600_000;
/// After a start members get so long to be heard before a group counts as gone.
const START_GRACE_MS: Millis = 3_600_000;

impl Watched {
    /// The view of a group that is gone, its plugin to be told (`owed`) or not.
    #[must_use]
    pub fn view_when_gone(&self, now: Now, group: &str, owed: bool) -> View {
        let mut view = self.view(group).cloned().unwrap_or_else(|| View::new(0, now.at));
        view.begin(now);
        view.verified = false;
        view.gone = true;
        view.owed = owed;
        view.question = None;
        view.coarse = None;
        view
    }

    /// Whether a member of the group was heard after `at`.
    #[must_use]
    pub fn heard_after(&self, group: &str, at: Millis) -> bool {
        self.members(group).any(|(_, member)| member.seen_at > at)
    }

    /// Whether the group counts as gone: the broker said so, or there was no sign of it for too long.
    #[must_use]
    pub fn is_gone(&self, config: &Config, at: Millis, group: &str) -> bool {
        self.groups.get(group).is_none_or(|known| {
            known.view.gone
                || (at.saturating_sub(known.seen_at) >= config.gone_after_ms
                    && at.saturating_sub(self.since) >= config.gone_after_ms.min(START_GRACE_MS)
                    && !known.is_live(at, horizon(config, known.view.interval_ms)))
        })
    }

    /// Groups whose plugin has to be told that they are gone, each with its making.
    pub fn departed<'w>(&'w self, config: &'w Config, at: Millis) -> impl Iterator<Item = (GroupId, u64)> + 'w {
        self.groups
            .iter()
            .filter(move |(group, known)| known.view.owed || self.is_gone(config, at, group))
            .map(|(group, known)| (Arc::clone(group), known.view.incarnation))
    }

    /// Members that are heard no more, and groups of which nothing is left. `held`: something is known of what is
    /// stored.
    pub(crate) fn decide_sweep(&self, config: &Config, at: Millis, held: impl Fn(&str) -> bool) -> Vec<Record> {
        let mut records = Vec::new();
        for (group, known) in &self.groups {
            let since = at.saturating_sub(horizon(config, known.view.interval_ms));
            let live = known.members.values().any(|member| member.seen_at >= since);
            let idle = at.saturating_sub(known.seen_at) >= FORGOTTEN_AFTER_MS.min(config.gone_after_ms);
            if !live && !held(group) && !known.view.owed && (known.view.gone || idle) {
                records.push(change(WatchedChange::Forgotten { group: Arc::clone(group) }));
            } else if known.members.values().any(|member| member.seen_at < since) {
                if !live && !known.view.lost {
                    let mut view = Box::new(known.view.clone());
                    known.lose(&mut view);
                    records.push(change(WatchedChange::View { group: Arc::clone(group), view }));
                }
                records.push(change(WatchedChange::Silent { group: Arc::clone(group), since }));
            }
        }
        records
    }
}
