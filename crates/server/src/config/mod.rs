//! Which settings hold, and where did each come from?
//!
//! | module | what it holds |
//! |---|---|
//! | [`keys`] | the table of known keys |
//! | [`source`] | files, environment, overrides, `${file:…}` and `${env:…}` |
//! | [`properties`] | Java's `.properties` format |
//! | [`address`] | listeners and `HOST:PORT` |
//! | `check` | values against the table and against each other |
//! | [`secured`] | TLS and logins, of the listener and towards the cluster |
//! | [`settings`] | the typed result |
//! | [`upstream`] | the cluster behind us |
//! | [`near`] | which known key an unknown one is near to |
//! | [`show`] | `streamside config` and `docs/configuration.md` |
//!
//! ```
//! use streamside::config::{Sources, load};
//!
//! let sources = Sources { overrides: vec!["group.streams.max.size=7".to_owned()], ..Sources::default() };
//! assert_eq!(load(&sources)?.settings.groups.max_size, 7);
//! # Ok::<(), streamside::config::ConfigError>(())
//! ```

pub mod address;
mod check;
pub mod keys;
pub mod near;
pub mod properties;
pub mod secured;
pub mod settings;
pub mod show;
pub mod source;
pub mod upstream;

use std::fmt;

pub use address::{HostPort, Protocol};
pub use secured::{ClientAuth, TlsSettings, UpstreamSecurity};
pub use settings::{GroupSettings, HttpSettings, LogFormat, LogSettings, PluginSettings, Settings};
pub use source::{Effective, Mistake, Origin, Sources};
pub use upstream::UpstreamSettings;

/// Settings with what should be told about them.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Things that are no mistake, but probably not meant.
    pub warnings: Vec<String>,
}

/// Everything that is wrong, told together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub mistakes: Vec<Mistake>,
}

impl ConfigError {
    /// For metrics and policy.
    pub fn kind(&self) -> &'static str {
        "configuration"
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mistakes.len() {
            1 => f.write_str("the configuration has a mistake:")?,
            n => write!(f, "the configuration has {n} mistakes:")?,
        }
        self.mistakes.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
    }
}

impl std::error::Error for ConfigError {}

/// Reads all sources and checks everything; the error tells all mistakes at once.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let mut mistakes = Vec::new();
    let mut warnings = Vec::new();
    let layers = source::gather(sources, &mut mistakes, &mut warnings);
    let settings = check::check(&layers, &sources.environment, mistakes, &mut warnings)?;
    Ok(Loaded { settings, warnings })
}

/// What a re-read changes.
#[derive(Clone, Debug)]
pub struct Change {
    /// The settings that hold from now on: the old ones with what may change taken from the new ones.
    pub settings: Settings,
    /// Keys that changed, each with its new value as it may be shown.
    pub changed: Vec<(String, String)>,
    /// Keys whose new value waits for a restart.
    pub refused: Vec<(String, String)>,
}

/// Reads all sources again, keeping what may not change while running.
pub fn reload(current: &Settings, sources: &Sources) -> Result<(Change, Vec<String>), ConfigError> {
    let mut mistakes = Vec::new();
    let mut warnings = Vec::new();
    let mut layers = source::gather(sources, &mut mistakes, &mut warnings);
    // The new configuration as a whole must be good before any of it counts.
    let fresh = check::check(&layers, &sources.environment, mistakes, &mut warnings)?;
    let mut change = Change { settings: current.clone(), changed: Vec::new(), refused: Vec::new() };
    let differences = differences(&current.effective, &fresh.effective);
    if differences.is_empty() {
        return Ok((change, warnings));
    }
    for (name, shown) in differences {
        let live = keys::find(&name).is_some_and(|key| key.reload == keys::Reload::Live);
        if live {
            change.changed.push((name, shown));
            continue;
        }
        // Laid back to what holds now.
        match current.effective.iter().find(|e| e.key == name) {
            Some(old) if old.origin != Origin::Default => {
                let raw = source::Raw { text: source::quote(&old.value), origin: old.origin.clone() };
                layers.insert(name.clone(), raw);
            }
            _ => {
                layers.remove(&name);
            }
        }
        change.refused.push((name, shown));
    }
    change.settings = check::check(&layers, &sources.environment, Vec::new(), &mut Vec::new())?;
    Ok((change, warnings))
}

/// Keys whose effective values differ, with the new value as it may be shown.
fn differences(old: &[Effective], new: &[Effective]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for entry in new {
        if old.iter().find(|e| e.key == entry.key).is_none_or(|e| e.value != entry.value) {
            out.push((entry.key.clone(), entry.shown.clone()));
        }
    }
    for entry in old {
        if !new.iter().any(|e| e.key == entry.key) {
            out.push((entry.key.clone(), String::new()));
        }
    }
    out
}

#[cfg(test)]
mod tests;
