//! Any plugin can be put through these rules: what a description store must do for the daemon to serve what was pushed.
//! Each rule says why it matters.
//!
//! ```
//! use streamside_plugin::{Config, check, resolve};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let factory = resolve("memory")?.expect("a store is named");
//! let report = check::run(|| factory.open(&Config::new()), &check::Options::default()).await;
//! assert!(report.passed(), "{report}");
//! # Ok::<(), streamside_plugin::PluginError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod rules;
mod samples;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::TopologyPlugin;
use crate::error::PluginError;

pub use rules::RULES;

/// How the suite is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store claims that descriptions survive a restart.
    pub durable: bool,
    /// A call that takes longer has failed.
    pub call_timeout: Duration,
    /// Begins every group id, so that the suite can be run on a store in use. ASCII letters, digits, `-`, `_`.
    pub group_prefix: String,
}

impl Default for Options {
    fn default() -> Self {
        Options { durable: false, call_timeout: Duration::from_secs(10), group_prefix: "streamside-check".to_owned() }
    }
}

/// One thing that a store must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What the store must do, and what goes wrong for users when it does not.
    pub why: &'static str,
}

/// What became of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The store does it.
    Passed,
    /// The store does not; what was seen.
    Failed(String),
    /// The rule is about something that the store does not offer.
    Skipped(&'static str),
}

/// What became of all rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In the order of [`RULES`].
    pub verdicts: Vec<(Rule, Verdict)>,
}

impl Report {
    /// Whether no rule failed.
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// Names of the rules that failed.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> + '_ {
        let failed = |v: &Verdict| matches!(v, Verdict::Failed(_));
        self.verdicts.iter().filter(move |(_, v)| failed(v)).map(|(rule, _)| rule.name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rule, verdict) in &self.verdicts {
            match verdict {
                Verdict::Passed => writeln!(f, "passed   {}", rule.name)?,
                Verdict::Skipped(why) => writeln!(f, "skipped  {}: {why}", rule.name)?,
                Verdict::Failed(seen) => {
                    writeln!(f, "FAILED   {}: {seen}", rule.name)?;
                    writeln!(f, "         {}", rule.why)?;
                }
            }
        }
        let failed = self.failed().count();
        writeln!(f, "{} rules, {failed} failed", self.verdicts.len())
    }
}

/// Puts instances that `make` gives, configured, through all rules. An instance is closed before the next is made; a
/// durable store must come back with the same content. Must run in a tokio runtime with time enabled.
pub async fn run(make: impl Fn() -> Result<Arc<dyn TopologyPlugin>, PluginError>, options: &Options) -> Report {
    rules::run(&make, options).await
}
