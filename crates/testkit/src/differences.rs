//! Lists of scenarios that a server is expected to fail, each with the reason. A line: scenario — row — why, with a
//! question mark before the scenario when it may pass as well; `#` begins a comment.

use std::path::Path;

use crate::player::Report;
use crate::scenario::Scenario;

/// A line of such a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which scenario.
    pub scenario: String,
    /// Row of docs/differences.md (`H4`, `D11`), or `broker` for what the broker behind us lacks.
    pub row: String,
    /// It depends on which of two requests comes first.
    pub may_pass: bool,
}

/// A list that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The file.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// A line.
    #[error("not a scenario, a row and a reason: {0}")]
    Line(String),
}

impl ListError {
    /// Word for reports.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Line(_) => "line",
        }
    }
}

/// Reads a list.
///
/// # Errors
/// The file, or its first line that is none.
pub fn read(file: &Path) -> Result<Vec<Difference>, ListError> {
    let text = std::fs::read_to_string(file)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| parse(line).ok_or_else(|| ListError::Line(line.to_owned()))).collect()
}

fn parse(line: &str) -> Option<Difference> {
    let mut parts = line.split(" — ");
    let (name, row, why) = (parts.next()?, parts.next()?, parts.next()?);
    let numbered = row.strip_prefix(['H', 'D']).is_some_and(|number| number.parse::<u8>().is_ok());
    if parts.next().is_some() || why.is_empty() || !(numbered || row == "broker") {
        return None;
    }
    let (scenario, may_pass) = name.strip_prefix("? ").map_or((name, false), |name| (name, true));
    Some(Difference { scenario: scenario.to_owned(), row: row.to_owned(), may_pass })
}

/// Whether exactly those of `scenarios` failed that `expected` names.
///
/// # Errors
/// Which failed and are not named, which are named and passed, and the report.
pub fn check(report: &Report, expected: &[Difference], scenarios: &[Scenario]) -> Result<(), String> {
    let played = |d: &&Difference| scenarios.iter().any(|s| s.name == d.scenario);
    let unlisted: Vec<&String> =
        report.failed.keys().filter(|name| !expected.iter().any(|d| d.scenario == **name)).collect();
    let passed: Vec<&String> = expected
        .iter()
        .filter(played)
        .filter(|d| !d.may_pass && !report.failed.contains_key(&d.scenario))
        .map(|d| &d.scenario)
        .collect();
    if unlisted.is_empty() && passed.is_empty() {
        return Ok(());
    }
    Err(format!("not among the expected differences: {unlisted:?}; there, but passed: {passed:?}\n{report}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_scenario_a_row_and_a_reason() {
        let parsed = parse("? push-two-at-once — H4 — one call").unwrap();
        assert_eq!((&*parsed.scenario, &*parsed.row, parsed.may_pass), ("push-two-at-once", "H4", true));
        assert_eq!(parse("a — broker — no such feature").unwrap().row, "broker");
        for line in ["a — H4", "a — H — why", "a — X1 — why", "a — H4 — why — more"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
