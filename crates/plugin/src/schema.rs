//! A store's configuration keys as data: what `streamside plugin schema NAME` prints and what `configure` checks by.

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::api::Config;
use crate::error::PluginError;

/// All keys of one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// Name of the store.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Whether descriptions survive the process.
    pub durable: bool,
    /// Its keys, in the order in which they are explained.
    pub keys: &'static [Key],
}

/// One configuration key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// As the plugin reads it. Keys that do not begin with `streamside.` are written in the configuration with
    /// `streamside.plugin.config.` before them.
    pub name: &'static str,
    /// What values look like.
    pub kind: Kind,
    /// Used when the key is absent.
    pub default: &'static str,
    /// One sentence, unit included.
    pub about: &'static str,
}

/// The form of a key's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A whole number within bounds.
    Int {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A path.
    Path,
}

impl Schema {
    /// The whole schema as indented JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Key {
    /// The whole number configured under this key, its default when absent.
    pub fn int(&self, config: &Config) -> Result<u64, PluginError> {
        let written = config.get(self.name).map_or(self.default, |v| v.trim());
        let bounds = match self.kind {
            Kind::Int { min, max } => min..=max,
            Kind::Path => 0..=u64::MAX,
        };
        self.within(written, &bounds)
    }

    fn within(&self, written: &str, bounds: &RangeInclusive<u64>) -> Result<u64, PluginError> {
        match written.parse::<u64>() {
            Ok(n) if bounds.contains(&n) => Ok(n),
            _ => Err(PluginError::BadConfig {
                key: self.name.to_owned(),
                value: written.to_owned(),
                allowed: format!("a whole number from {} to {}", bounds.start(), bounds.end()),
            }),
        }
    }

    /// The text configured under this key, its default when absent or blank.
    pub fn text<'a>(&'a self, config: &'a Config) -> &'a str {
        config.get(self.name).map(|v| v.trim()).filter(|v| !v.is_empty()).unwrap_or(self.default)
    }
}
