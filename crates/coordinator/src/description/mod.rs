//! What is known about stored descriptions, and what follows from it (KIP-1331).
//!
//! Depends on [`crate::facts::GroupFacts`] by value and on nothing else of a group, so that it serves beside a broker
//! as well.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mark`] | the durable mark of a group and its transitions |
//! | [`backoff`] | solicitation windows |
//! | [`solicit`] | whether a heartbeat's answer asks for a description |
//! | [`prepare`] | the payload of a push: conversion, encoding, hash, first refusal |
//! | [`push`] | a push: order of checks, plugin call, outcome |
//! | [`describe`] | whether a described entry needs a read, and what became of it |
//! | [`delete`] | DeleteGroups, the cleanup cycle and the sweep |
//! | [`repair`] | what the plugin lists, and an operator's retry |
//! | [`operation`] | plugin calls under way |
//! | [`reason`] | reason words |

pub mod backoff;
pub mod delete;
pub mod describe;
mod log;
pub mod mark;
pub mod operation;
pub mod prepare;
pub mod push;
pub mod reason;
pub mod repair;
pub mod solicit;

use std::collections::HashMap;
use std::sync::Arc;

pub use backoff::Window;
pub use mark::{Mark, ReadToken};
pub use operation::Operation;
pub use prepare::PreparedPush;
pub use reason::Reason;

use crate::config::{Compat, Config};
use crate::input::{Millis, Now, OpId};
use crate::record::{Durable, GroupId, Record, Volatile};
use mark::Bounds;
use operation::Lane;

/// For how long Kafka's rules keep the window of a group that is gone, counted from its end. Kafka itself never lets
/// go of it (spec kip1331 §3.3, known leak); memory must stay bounded.
const KAFKA_GONE_WINDOW_MS: Millis = 24 * 3_600_000;

/// More plugin calls than one shard can begin within a millisecond.
const CALLS_PER_MS: u64 = 1 << 16;

/// A volatile change of what is known about descriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DescriptionChange {
    /// A group's window; `None` ends it.
    Window { group: GroupId, window: Option<Box<Window>> },
    /// A plugin call is begun.
    Started { op: OpId, operation: Box<Operation> },
    /// Its answer is out, its outcome is awaited.
    Replied { op: OpId },
    /// It is over.
    Settled { op: OpId },
    /// This plugin instance confirmed the copy of that call (H4).
    Confirmed { group: GroupId, sequence: u64 },
}

/// What is known about the descriptions of one shard's groups.
#[derive(Debug, Default)]
pub struct Descriptions {
    marks: HashMap<GroupId, Mark>,
    windows: HashMap<GroupId, Window>,
    operations: HashMap<OpId, Operation>,
    lanes: HashMap<GroupId, Lane>,
    confirmed: HashMap<GroupId, u64>,
    sequence: u64,
}

/// Groups by what is known of their description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCounts {
    /// Certain that a copy is stored.
    pub full: usize,
    /// Refused, and no certain copy.
    pub refused: usize,
    /// The plugin may or may not hold a copy.
    pub uncertain: usize,
}

impl Descriptions {
    /// Applies a mark; `None` removes it.
    pub fn apply_mark(&mut self, group: &GroupId, mark: Option<Mark>) {
        match mark {
            Some(mark) => {
                self.sequence = self.sequence.max(mark.sequence);
                if self.confirmed.get(group).is_some_and(|c| mark.served.is_none_or(|s| s.sequence != *c)) {
                    self.confirmed.remove(group);
                }
                self.marks.insert(Arc::clone(group), mark);
            }
            None => {
                self.marks.remove(group);
                self.confirmed.remove(group);
            }
        }
    }

    /// Applies a volatile change.
    pub fn apply(&mut self, change: DescriptionChange) {
        match change {
            DescriptionChange::Window { group, window: Some(window) } => {
                self.windows.insert(group, *window);
            }
            DescriptionChange::Window { group, window: None } => {
                self.windows.remove(&group);
            }
            DescriptionChange::Started { op, operation } => {
                self.sequence = self.sequence.max(operation.sequence);
                let lane = self.lanes.entry(Arc::clone(&operation.group)).or_default();
                if !lane.contains(&op) {
                    lane.push(op);
                }
                self.operations.insert(op, *operation);
            }
            DescriptionChange::Replied { op } => {
                if let Some(operation) = self.operations.get_mut(&op) {
                    operation.replied = true;
                }
            }
            DescriptionChange::Settled { op } => self.settle(op),
            DescriptionChange::Confirmed { group, sequence } => {
                self.confirmed.insert(group, sequence);
            }
        }
    }

    fn settle(&mut self, op: OpId) {
        let Some(operation) = self.operations.remove(&op) else {
            return;
        };
        if let Some(lane) = self.lanes.get_mut(&operation.group) {
            lane.retain(|other| *other != op);
            if lane.is_empty() {
                self.lanes.remove(&operation.group);
            }
        }
    }

    /// Keeps what a reload from the journal must not forget: windows and the order of calls.
    pub fn carry_over(&mut self, old: Self) {
        self.windows = old.windows;
        self.sequence = self.sequence.max(old.sequence);
    }

    /// The mark of a group.
    #[must_use]
    pub fn mark(&self, group: &str) -> Option<&Mark> {
        self.marks.get(group)
    }

    /// The window of a group.
    #[must_use]
    pub fn window(&self, group: &str) -> Option<&Window> {
        self.windows.get(group)
    }

    /// A call that has not settled.
    #[must_use]
    pub fn operation(&self, op: OpId) -> Option<&Operation> {
        self.operations.get(&op)
    }

    /// Counts over all marks.
    #[must_use]
    pub fn counts(&self) -> MarkCounts {
        let mut counts = MarkCounts::default();
        for mark in self.marks.values() {
            match mark.word() {
                "full" => counts.full += 1,
                "refused" => counts.refused += 1,
                "uncertain" => counts.uncertain += 1,
                _ => {}
            }
        }
        counts
    }

    /// Name and size of every table.
    #[must_use]
    pub fn maps_len(&self) -> [(&'static str, usize); 5] {
        [
            ("marks", self.marks.len()),
            ("windows", self.windows.len()),
            ("operations", self.operations.len()),
            ("lanes", self.lanes.len()),
            ("confirmed", self.confirmed.len()),
        ]
    }

    /// Windows whose group is gone end by themselves where no delete of ours ended them (H11).
    pub(crate) fn stale_windows(&self, compat: Compat, now: Now, exists: impl Fn(&str) -> bool) -> Vec<Record> {
        let grace = if compat == Compat::Kafka { KAFKA_GONE_WINDOW_MS } else { 0 };
        let ended = |window: &Window| window.until.saturating_add(grace) <= now.at;
        self.windows
            .iter()
            .filter(|(group, window)| ended(window) && !exists(group))
            .map(|(group, _)| window_record(group, None))
            .collect()
    }

    fn operations_of(&self, group: &str) -> impl Iterator<Item = &Operation> {
        self.lanes.get(group).into_iter().flatten().filter_map(|op| self.operations.get(op))
    }

    fn push_under_way(&self, group: &str, at: Millis) -> bool {
        self.operations_of(group).any(|operation| operation.is_push_under_way(at))
    }

    /// A call that timed out keeps its group's lane until it settles (H3).
    fn lane_is_hung(&self, group: &str) -> bool {
        self.operations_of(group).any(|operation| operation.replied)
    }

    /// Grows over all calls of the shard. The clock in its upper part keeps it growing when a reload from the journal
    /// forgets the group that the latest numbers were given to.
    fn next_sequence(&self, now: Now) -> u64 {
        let of_clock = u64::try_from(now.at).unwrap_or(0).saturating_mul(CALLS_PER_MS);
        self.sequence.saturating_add(1).max(of_clock)
    }

    /// The record that turns the group's mark into `next`, if it differs.
    fn mark_record(&self, group: &GroupId, next: Mark) -> Option<Record> {
        let next = (!next.is_blank()).then_some(next);
        (self.marks.get(group) != next.as_ref())
            .then(|| Record::Durable(Durable::Mark { group: Arc::clone(group), value: next.map(Box::new) }))
    }

    /// `clear(g, e)` of spec kip1331 §3.3; a repair chain outlives a push (H1).
    fn window_cleared(&self, group: &GroupId, epoch: i32) -> Option<Record> {
        let window = self.windows.get(group)?;
        (window.epoch == epoch && !window.repair).then(|| window_record(group, None))
    }

    /// All marks.
    pub fn marks(&self) -> impl Iterator<Item = (&GroupId, &Mark)> {
        self.marks.iter()
    }

    /// `clear_group(g)` for a group by its name.
    pub(crate) fn window_ended_of(&self, group: &str) -> Option<Record> {
        self.windows.get_key_value(group).map(|(group, _)| window_record(group, None))
    }

    /// `clear_group(g)`.
    fn window_ended(&self, group: &GroupId) -> Option<Record> {
        self.windows.contains_key(group).then(|| window_record(group, None))
    }

    /// `arm_or_extend(g, e)`.
    fn window_extended(&self, group: &GroupId, epoch: i32, now: Now, retry_after: Option<u64>) -> Option<Record> {
        Window::extended(self.windows.get(group), epoch, now, retry_after)
            .map(|window| window_record(group, Some(window)))
    }
}

fn window_record(group: &GroupId, window: Option<Window>) -> Record {
    Record::Volatile(Volatile::Description(DescriptionChange::Window {
        group: Arc::clone(group),
        window: window.map(Box::new),
    }))
}

fn volatile(change: DescriptionChange) -> Record {
    Record::Volatile(Volatile::Description(change))
}

/// Identity of the configured plugin.
fn plugin_of(config: &Config) -> &str {
    config.plugin.as_deref().unwrap_or_default()
}

fn bounds_of(config: &Config) -> Bounds {
    Bounds::from(&config.limits)
}
