//! What is configured, for people: `streamside config`, and the documentation made from the table.

use std::fmt::Write as _;

use super::keys::{Built, KEYS, Kind, Reload, Section};
use super::settings::Settings;
use super::source::Origin;

/// Effective values with their origins, secrets hidden. `changed`: only those that are not defaults.
pub fn effective(settings: &Settings, changed: bool) -> String {
    let shown: Vec<_> = settings.effective.iter().filter(|e| !changed || e.origin != Origin::Default).collect();
    let lines: Vec<String> = shown.iter().map(|e| format!("{}={}", e.key, one_line(&e.shown))).collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0).min(72);
    let mut out = String::new();
    for (line, entry) in lines.iter().zip(&shown) {
        let _ = writeln!(out, "{line:<width$}  # {}", one_line(&entry.origin.to_string()));
    }
    out
}

/// The same as JSON: a list of key, value, origin.
pub fn effective_json(settings: &Settings, changed: bool) -> serde_json::Value {
    let entry = |e: &super::source::Effective| serde_json::json!({"key": e.key, "value": e.shown, "origin": e.origin.to_string()});
    settings.effective.iter().filter(|e| !changed || e.origin != Origin::Default).map(entry).collect()
}

fn one_line(text: &str) -> String {
    crate::logging::escaped(text)
}

/// `docs/configuration.md`.
pub fn documentation() -> String {
    let mut out = String::from(
        "# Configuration

Made from the table in `crates/server/src/config/keys.rs`; a test compares them.

One flat space of keys. Sources, each weighing more than the one before:

1. a file, `--config FILE`: TOML when its name ends in `.toml` (tables flatten to dotted keys, lists to comma lists), else Java's `.properties`;
2. the environment: `STREAMSIDE_` and the key in capitals without a leading `streamside.`; `_` is a dot, `__` an underscore, `___` a dash (`STREAMSIDE_DATA_DIR` is `streamside.data.dir`). Variables in the shape of Kubernetes service links are ignored;
3. `--override key=value`.

In TOML a key can't be a value and a table at once: quote it as `\"streamside.upstream\"` where that matters. Any value may hold `${file:PATH}` (the file's text without its last line end) and `${env:NAME}`; `$${` stands for a plain `${`.
`streamside config` shows what holds and where it came from. All mistakes are told together and stop the start; an unknown key is ignored, with a warning when it is near a known one.
*Live* keys are taken anew at SIGHUP; a change of any other is named in the log and waits for a restart.
",
    );
    for section in Section::ALL {
        let _ = writeln!(
            out,
            "\n## {}\n\n| key | default | allowed | when | meaning |\n|---|---|---|---|---|",
            section.title()
        );
        for key in KEYS.iter().filter(|key| key.section == section) {
            let default = if key.default.is_empty() { "empty".to_owned() } else { format!("`{}`", key.default) };
            let allowed = match key.kind {
                Kind::OneOf(words) => words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", "),
                other => other.allowed(),
            };
            let when = match (key.built, key.reload) {
                (Built::Later, _) => "not in this build",
                (Built::Here, Reload::Live) => "live",
                (Built::Here, Reload::Restart) => "restart",
            };
            let _ = writeln!(out, "| `{}` | {default} | {allowed} | {when} | {} |", key.name, key.doc);
        }
    }
    out
}
