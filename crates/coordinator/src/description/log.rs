//! Log lines. Those of Kafka are Kafka's word for word, since operators search for them (spec kip1331 §10.2).

use std::borrow::Cow;

use streamside_topology::DescriptionHash;

use super::reason::Reason;
use crate::decision::{Effect, LogLine};

/// A client's text, safe within one line: control characters are escaped.
#[must_use]
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(
            text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect(),
        )
    } else {
        Cow::Borrowed(text)
    }
}

/// The line of a solicitation (spec kip1331 §3.2).
pub(super) fn solicited(group: &str, epoch: i32) -> Effect {
    let group = printable(group);
    Effect::Log(LogLine::Info(format!(
        "[GroupId {group}] Requested topology description push at topology epoch {epoch}."
    )))
}

/// One plugin failure (H5).
pub(super) fn plugin_failed(
    group: &str,
    operation: &str,
    reason: Reason,
    hash: Option<DescriptionHash>,
    message: Option<&str>,
) -> String {
    let mut line = format!(
        "Topology description plugin failed: group={} operation={operation} reason={} hash={}",
        printable(group),
        reason.word(),
        hash.map_or_else(|| "-".to_owned(), hex)
    );
    if let Some(message) = message {
        line.push_str(" message=");
        line.push_str(&printable(message));
    }
    line
}

/// A stored copy turned out not to be there (H1).
pub(super) fn lost(group: &str, found: &str, hash: Option<DescriptionHash>) -> String {
    format!(
        "Topology description of a group is lost and will be asked for again: group={} found={found} hash={}",
        printable(group),
        hash.map_or_else(|| "-".to_owned(), hex)
    )
}

/// The line of a failed read (spec kip1331 §5.2).
pub(super) fn get_failed(group: &str) -> String {
    format!("Topology description plugin getTopology failed for group {}.", printable(group))
}

fn hex(hash: DescriptionHash) -> String {
    hash.0.iter().map(|byte| format!("{byte:02x}")).collect()
}
