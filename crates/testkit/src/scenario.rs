//! Recorded scenarios: files, and the choice of those that fit a server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

/// One recorded scenario.
#[derive(Debug, Clone, Deserialize)]
pub struct Scenario {
    /// Unique among all.
    pub name: String,
    /// What it shows.
    #[serde(default)]
    pub why: String,
    /// What it touches.
    #[serde(default)]
    pub tags: BTreeSet<String>,
    /// What the server must have; `!x`: must not have.
    #[serde(default)]
    pub needs: BTreeSet<String>,
    /// Variables set before the first step.
    #[serde(default)]
    pub vars: Map<String, Value>,
    /// Steps in order.
    pub steps: Vec<Value>,
}

/// A scenario file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub struct LoadError {
    file: PathBuf,
    why: String,
}

impl LoadError {
    /// Word for reports.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        "scenario_file"
    }
}

/// Every `*.json` of a folder, sorted by name.
///
/// # Errors
/// The first file that is no scenario, or whose name is used twice.
pub fn load(folder: &Path) -> Result<Vec<Scenario>, LoadError> {
    let fault = |file: &Path, why: &dyn std::fmt::Display| LoadError { file: file.to_owned(), why: why.to_string() };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|e| fault(folder, &e))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();
    let mut names = BTreeSet::new();
    let mut out = Vec::with_capacity(files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|e| fault(&file, &e))?;
        let scenario: Scenario = serde_json::from_str(&text).map_err(|e| fault(&file, &e))?;
        if !names.insert(scenario.name.clone()) {
            return Err(fault(&file, &"the name is used twice"));
        }
        out.push(scenario);
    }
    Ok(out)
}

/// Which scenarios fit a server.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    provides: BTreeSet<String>,
    with: BTreeSet<String>,
    without: BTreeSet<String>,
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

impl Selection {
    /// What the server was started with; `test-plugin` implies `plugin`.
    #[must_use]
    pub fn provides(words: &[&str]) -> Self {
        let mut provides = set(words);
        if provides.contains("test-plugin") {
            provides.insert("plugin".to_owned());
        }
        Self { provides, ..Self::default() }
    }

    /// Only scenarios with one of these tags.
    #[must_use]
    pub fn with(mut self, tags: &[&str]) -> Self {
        self.with = set(tags);
        self
    }

    /// No scenario with one of these tags.
    #[must_use]
    pub fn without(mut self, tags: &[&str]) -> Self {
        self.without = set(tags);
        self
    }

    /// Whether tags and needs of a scenario fit.
    #[must_use]
    pub fn fits(&self, scenario: &Scenario) -> bool {
        let met = |need: &String| match need.strip_prefix('!') {
            Some(unwanted) => !self.provides.contains(unwanted),
            None => self.provides.contains(need),
        };
        (self.with.is_empty() || !self.with.is_disjoint(&scenario.tags))
            && self.without.is_disjoint(&scenario.tags)
            && scenario.needs.iter().all(met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_needs_select() {
        let scenario = |tags: &[&str], needs: &[&str]| Scenario {
            name: "s".to_owned(),
            why: String::new(),
            tags: set(tags),
            needs: set(needs),
            vars: Map::new(),
            steps: Vec::new(),
        };
        let plain = Selection::provides(&["plugin"]).without(&["slow"]);
        assert!(plain.fits(&scenario(&["push"], &["plugin"])));
        assert!(!plain.fits(&scenario(&["push", "slow"], &["plugin"])));
        assert!(!plain.fits(&scenario(&["push"], &["test-plugin"])));
        assert!(!plain.fits(&scenario(&[], &["!plugin"])));
        assert!(Selection::provides(&["test-plugin"]).fits(&scenario(&[], &["plugin"])));
        assert!(Selection::provides(&[]).fits(&scenario(&[], &["!plugin"])));
        assert!(!Selection::provides(&[]).with(&["list"]).fits(&scenario(&["push"], &[])));
    }
}
