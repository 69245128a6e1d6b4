//! From the configured class to a store. Names known at compile time only: what may be loaded comes from
//! configuration and this table, never from a request.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::api::{Config, TopologyPlugin};
use crate::error::PluginError;
use crate::panic_text::panic_text;
use crate::schema::Schema;
use crate::{disk, memory};

/// The configuration key that names the class (kip1331 §9.1).
pub const CLASS_KEY: &str = "group.streams.topology.description.plugin.class";
/// What stands before a plugin's own keys.
pub const CONFIG_PREFIX: &str = "streamside.plugin.config.";
/// Kafka's own reference store (kip1331 §8.4); here it means `memory`.
pub const KAFKA_IN_MEMORY: &str = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin";

type Make = Arc<dyn Fn() -> Arc<dyn TopologyPlugin> + Send + Sync>;

/// Makes instances of one store.
#[derive(Clone)]
pub struct Factory {
    /// The name in the configuration, and the identity that marks carry.
    pub name: &'static str,
    /// Its configuration keys.
    pub schema: Schema,
    make: Make,
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Factory {
    /// A store called `schema.name`.
    pub fn new<P: TopologyPlugin>(schema: Schema, make: impl Fn() -> P + Send + Sync + 'static) -> Factory {
        Factory { name: schema.name, schema, make: Arc::new(move || Arc::new(make())) }
    }

    /// Makes an instance and configures it. Closes it again when it refuses (kip1331 §8.3), also by a panic.
    pub fn open(&self, config: &Config) -> Result<Arc<dyn TopologyPlugin>, PluginError> {
        let broke = |p| PluginError::Broken(panic_text(p));
        let plugin = catch_unwind(AssertUnwindSafe(|| (self.make)())).map_err(broke)?;
        match catch_unwind(AssertUnwindSafe(|| plugin.configure(config))).map_err(broke) {
            Ok(Ok(())) => Ok(plugin),
            Ok(Err(e)) | Err(e) => {
                let _ = catch_unwind(AssertUnwindSafe(|| plugin.close()));
                Err(e)
            }
        }
    }
}

/// The stores that this program knows by name.
#[derive(Clone, Debug)]
pub struct Registry {
    factories: BTreeMap<&'static str, Factory>,
}

impl Registry {
    /// `memory` and `disk`.
    pub fn builtin() -> Registry {
        Registry { factories: BTreeMap::new() }.with(memory::factory()).with(disk::factory())
    }

    /// One more name; replaces a store of the same name.
    pub fn with(mut self, factory: Factory) -> Registry {
        self.factories.insert(factory.name, factory);
        self
    }

    /// All stores, by name.
    pub fn factories(&self) -> impl Iterator<Item = &Factory> {
        self.factories.values()
    }

    /// The store that `class` means; `None` when it means that the feature is off (H10: an absent key means `disk`,
    /// which is the caller's default, not ours).
    pub fn resolve(&self, class: &str) -> Result<Option<Factory>, PluginError> {
        let class = class.trim();
        if class.is_empty() || class == "none" {
            return Ok(None);
        }
        let name = if class == KAFKA_IN_MEMORY { memory::NAME } else { class };
        if let Some(factory) = self.factories.get(name) {
            return Ok(Some(factory.clone()));
        }
        let what = if class.starts_with("file:") {
            "a shared library"
        } else if class.starts_with("exec:") {
            "a child process"
        } else if class.starts_with("java:") || looks_like_java(class) {
            "a Java class"
        } else {
            return Err(PluginError::Unknown { class: class.to_owned(), known: self.known() });
        };
        Err(PluginError::NotInThisBuild { class: class.to_owned(), what, known: self.known() })
    }

    fn known(&self) -> String {
        self.factories.keys().copied().collect::<Vec<_>>().join(", ")
    }
}

impl Default for Registry {
    fn default() -> Self {
        Registry::builtin()
    }
}

/// The built-in store that `class` means; see [`Registry::resolve`].
pub fn resolve(class: &str) -> Result<Option<Factory>, PluginError> {
    Registry::builtin().resolve(class)
}

/// What a plugin is configured with, from the effective configuration of the process: everything as it is, and each
/// `streamside.plugin.config.X` once more as `X`.
pub fn plugin_config(effective: &Config) -> Config {
    let mut out = effective.clone();
    for (key, value) in effective {
        if let Some(own) = key.strip_prefix(CONFIG_PREFIX).filter(|own| !own.is_empty()) {
            out.insert(own.to_owned(), value.clone());
        }
    }
    out
}

// A bare Java class is told from a misspelt store name by its dots.
fn looks_like_java(class: &str) -> bool {
    class.contains('.')
        && class.split('.').all(|part| {
            let mut chars = part.chars();
            chars.next().is_some_and(|c| c.is_alphabetic() || c == '_' || c == '$')
                && chars.all(|c| c.is_alphanumeric() || c == '_' || c == '$')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn design_6_class_resolves_to_a_built_in() {
        assert_eq!(resolve("memory").unwrap().unwrap().name, "memory");
        assert_eq!(resolve(" disk ").unwrap().unwrap().name, "disk");
        assert_eq!(resolve(KAFKA_IN_MEMORY).unwrap().unwrap().name, "memory");
        assert!(resolve("").unwrap().is_none());
        assert!(resolve("none").unwrap().is_none());
    }

    #[test]
    fn design_6_hosts_of_later_builds_are_refused_in_words() {
        for (class, what) in [
            ("file:/opt/store.so", "a shared library"),
            ("exec:/opt/store --fast", "a child process"),
            ("java:com.acme.X", "a Java class"),
            ("com.acme.X", "a Java class"),
        ] {
            let e = resolve(class).unwrap_err();
            assert_eq!(e.kind(), "not_in_this_build");
            assert_eq!(e.to_string(), format!("{what} ('{class}') is not in this build; use one of disk, memory"));
        }
        let e = resolve("dsk").unwrap_err();
        assert_eq!(e.kind(), "unknown_class");
        assert_eq!(
            e.to_string(),
            "no description store is called 'dsk'; known here: disk, memory; empty or 'none' switches the feature off"
        );
    }

    #[test]
    fn kip1331_8_3_own_keys_come_with_and_without_their_prefix() {
        let effective = Config::from([
            ("streamside.plugin.config.memory.max.bytes".to_owned(), "7".to_owned()),
            ("acme.url".to_owned(), "x".to_owned()),
        ]);
        let seen = plugin_config(&effective);
        assert_eq!(seen.get("memory.max.bytes").map(String::as_str), Some("7"));
        assert_eq!(seen.get("acme.url").map(String::as_str), Some("x"));
        assert_eq!(seen.len(), 3);
    }
}
