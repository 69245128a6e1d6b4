//! `group` and `description` composed: one shard's coordinator.

use crate::config::Config;
use crate::decision::{Decision, Reply};
use crate::input::{Input, Millis, Now};
use crate::record::{Durable, Record};

/// Counts for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Groups whose description is stored at their topology epoch.
    pub full: usize,
    /// Groups of which nothing is stored.
    pub none: usize,
    /// Groups whose description the plugin, or a limit, refused for good.
    pub refused: usize,
    /// Groups of which the plugin may or may not hold something.
    pub uncertain: usize,
    /// Members in all groups.
    pub members: usize,
}

/// All groups of one shard.
#[derive(Debug)]
pub struct Coordinator {
    config: Config,
}

impl Coordinator {
    /// A coordinator without groups.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// A coordinator with what the journal holds. Members' sessions start anew at `now`.
    #[must_use]
    pub fn restore(config: Config, _now: Now, _durables: impl IntoIterator<Item = Durable>) -> Self {
        Self { config }
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What should happen on `input`; changes nothing.
    #[must_use]
    pub fn decide<'a>(&self, _now: Now, _input: Input<'a>) -> Decision<'a> {
        Decision { reply: Some(Reply::Done), ..Decision::default() }
    }

    /// Applies one record of a decision.
    pub fn apply(&mut self, _record: Record) {}

    /// When [`Input::Tick`] is due; `None`: never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        None
    }

    /// The journal position up to which a reply about this group must wait; 0: none.
    #[must_use]
    pub fn position(&self, _group: &str) -> u64 {
        0
    }

    /// Counts for metrics; walks over all groups.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Name and size of every table, for tests against leaks.
    #[must_use]
    pub fn maps_len(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }
}
