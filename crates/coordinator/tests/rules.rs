//! docs/rules.md is whole: every rule has a test that there is, and no rule is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rules that must be listed: a paragraph and what is told apart in it.
const EXPECTED: &[(&str, &str)] = &[
    ("1.2", "raised uncut without newer connection"),
    ("1.3", "lists"),
    ("1.4", "lag old"),
    ("1.5", "both"),
    ("1.6", "never"),
    ("1.7", "both"),
    ("3.1", "first off"),
    ("3.2", "1 2 3 4 5 6 6u 7 8 8o 9 10 any"),
    ("3.3", "delay active arm extend clear clear_group s1 s2 s3 s4 s5 s6 s7 s8 s9 s10"),
    (
        "3.4",
        "topics regex blank timeout tasks topology changelog static epoch lists later create missing full member instance fenced init stale update same owned empty",
    ),
    ("4.1", "4 5 6 8 10 11 12 13 13g 14 15 any counted"),
    ("4.2", "source processor sink type global duplicates order odd dynamic first"),
    ("4.3", "1 2 2n 3 4 5 6 7 8 S gone unwritten reload"),
    ("4.4", "push delete again batch final-none final-uncertain final-stored reads table"),
    ("4.5", "1 2 3 4 5 6 7 8 9"),
    ("5.1", "4 5 5c 6 7"),
    ("5.2", "1 2 3 4 5 6 7 8 9 10 11 11n 12 one"),
    ("5.4", "0 1"),
    ("6.1", "1 3 4 6 7 8 8e 9 10 11 11g one"),
    ("6.2", "134 other"),
    ("6.3", "nothing"),
    ("6.4", "off half refused unpushed hang join unknown"),
    ("7.1", "jobs off"),
    ("7.2", "1 2 3 4 5"),
    ("7.3", "1 2 3 4 5 6 7 8 9 10"),
    ("7.4", "1 2 3 4 5 6"),
    ("7.5", "cut"),
    ("H1", "lost chain good other old again list"),
    ("H2", "again ends retry"),
    (
        "H3",
        "timeout busy late late-refusal late-ignored order not-made not-made-older delete delete-push two-deletes sequence crash wish",
    ),
    ("H4", "confirmed instance old delete read"),
    ("H5", "line hostile"),
    ("H6", "another push lost kafka"),
    ("H7", "one"),
    ("H8", "limits verdict stored kafka"),
    ("H9", "asked 29 redact kafka"),
    (
        "gateway",
        "flag filled modes recent verified order tee auto off attach theirs members delete delete-failed delete-refused delete-unsaid delete-other",
    ),
    ("H11", "window"),
    ("H12", "once"),
    ("bounds", "tables kafka"),
    (
        "beside",
        "epoch-join epoch-stale epoch-unknown epoch-kept silence-error silence-older question-backoff quiet-leave quiet-off quiet-coarse member-fenced member-offsets member-session member-69 push-recent push-texts push-again push-any push-refused push-gone describe-fits delete-first delete-failed delete-refused delete-owed delete-void delete-live delete-late delete-alive expiry-unseen expiry-sign expiry-start expiry-69 expiry-again healing-deleted healing-behind healing-looked healing-lower healing-topology healing-moved healing-process healing-restart healing-strangers healing-changed healing-nothing healing-classic healing-asks healing-bytes healing-kafka healing-sight healing-random healing-table captured-moving captured-4.3 captured-v0 tables-v0 tables-empty tables-kafka tables-bounds tables-any tables-silent tables-reload tables-folder",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rule and test of each line.
fn listed() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("docs/rules.md")).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule "));
    lines
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [rule, says, source, test] = cells[..] else { panic!("four cells: {line}") };
            assert!(!says.is_empty() && !source.is_empty(), "{line}");
            (rule.to_owned(), test.trim_matches('`').to_owned())
        })
        .collect()
}

/// Names of all functions that follow a `#[test]`, in sources and tests of the workspace.
fn tests_in(folder: &Path, found: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                tests_in(&path, found);
            }
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut armed = false;
            for line in text.lines().map(str::trim_start) {
                armed |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                let function = line.trim_start_matches("pub ").trim_start_matches("async ").strip_prefix("fn ");
                if let (true, Some(rest)) = (armed, function) {
                    found.insert(rest.split(['(', '<']).next().unwrap().to_owned());
                    armed = false;
                }
            }
        }
    }
}

fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    tests_in(&root().join("crates"), &mut found);
    tests_in(&root().join("tests"), &mut found);
    found
}

#[test]
fn every_listed_rule_has_its_test() {
    let tests = tests();
    let missing: Vec<_> = listed().into_iter().filter(|(_, test)| !tests.contains(test)).collect();
    assert!(missing.is_empty(), "rules without their test: {missing:#?}");
}

#[test]
fn every_expected_rule_is_listed_once() {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for (rule, _) in listed() {
        *counted.entry(rule).or_default() += 1;
    }
    let expected =
        EXPECTED.iter().flat_map(|(paragraph, rules)| rules.split(' ').map(move |rule| format!("{paragraph}/{rule}")));
    let missing: Vec<_> = expected.filter(|rule| counted.get(rule) != Some(&1)).collect();
    assert!(missing.is_empty(), "rules that are not listed, or more than once: {missing:?}");
}

#[test]
fn every_test_named_after_a_rule_is_listed() {
    let named = |test: &String| {
        let mut parts = test.strip_prefix('k').unwrap_or_default().split('_');
        let paragraph = parts.next().and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| (3..=7).contains(&n));
        paragraph && parts.next().is_some_and(|n| n.parse::<u32>().is_ok())
    };
    let listed: BTreeSet<_> = listed().into_iter().map(|(_, test)| test).collect();
    let mut ours = BTreeSet::new();
    tests_in(&root().join("crates/coordinator"), &mut ours);
    let unlisted: Vec<_> = ours.into_iter().filter(named).filter(|test| !listed.contains(test)).collect();
    assert!(unlisted.is_empty(), "tests of rules that are not listed: {unlisted:#?}");
}

#[test]
fn every_test_of_the_group_and_beside_a_broker_is_listed() {
    let mut ours = BTreeSet::new();
    tests_in(&root().join("crates/coordinator/tests/group"), &mut ours);
    tests_in(&root().join("crates/coordinator/tests/watched"), &mut ours);
    let listed: BTreeSet<_> = listed().into_iter().map(|(_, test)| test).collect();
    let unlisted: Vec<_> = ours.into_iter().filter(|test| !listed.contains(test)).collect();
    assert!(unlisted.is_empty(), "tests of the group that are not listed: {unlisted:#?}");
}
