//! The wire suite: every recorded scenario that a standalone server can play, against the real binary over TCP.
//!
//! In `streamside.compat=kafka` all pass. In the default mode exactly those fail that stand in
//! `expected-differences.txt`, each with the row (H or D) of docs/differences.md that explains it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use streamside_testkit::differences::{self, Difference};
use streamside_testkit::player::{Player, Report};
use streamside_testkit::scenario::{Scenario, Selection, load};
use streamside_testkit::server::{Setup, example};
use streamside_testkit::topologies::tests_folder;

/// What needs a broker's topics, a cluster, classic groups, ACLs or a JVM.
const ELSEWHERE: [&str; 5] = ["topics", "tasks", "classic", "acl", "java"];
/// Scenarios at a time; most of their time they wait.
const JOBS: usize = 8;

/// A way to start the server, and the scenarios that it plays.
struct Profile {
    setup: Setup,
    scenarios: Vec<Scenario>,
}

fn shipped() -> Setup {
    Setup::recorded(env!("CARGO_BIN_EXE_streamside"))
}

/// The server with the store that misbehaves as the group id says.
fn harness() -> Setup {
    let program = example(env!("CARGO_BIN_EXE_streamside"), "harness").unwrap();
    Setup::recorded(program).set("group.streams.topology.description.plugin.class", "misbehaving")
}

fn fast_expiry(setup: Setup) -> Setup {
    setup.set("offsets.retention.check.interval.ms", 1000)
}

fn selected(fits: &Selection, also: impl Fn(&Scenario) -> bool) -> Vec<Scenario> {
    let mut scenarios = load(&tests_folder().join("scenarios")).unwrap();
    scenarios.retain(|s| fits.fits(s) && also(s) && s.tags.iter().all(|t| !ELSEWHERE.contains(&t.as_str())));
    assert!(!scenarios.is_empty());
    scenarios
}

fn needs(scenario: &Scenario, word: &str) -> bool {
    scenario.needs.contains(word)
}

/// The shipped binary with its own store.
fn with_store() -> Profile {
    let fits = Selection::provides(&["plugin"]).without(&["expiry"]);
    Profile { setup: shipped(), scenarios: selected(&fits, |_| true) }
}

/// The shipped binary with the feature off.
fn without_store() -> Profile {
    let fits = Selection::provides(&[]);
    let setup = shipped().set("group.streams.topology.description.plugin.class", "");
    Profile { setup, scenarios: selected(&fits, |s| needs(s, "!plugin")) }
}

/// The shipped binary, cleaning up every second.
fn with_fast_expiry() -> Profile {
    let fits = Selection::provides(&["plugin", "fast-expiry"]).with(&["expiry"]);
    Profile { setup: fast_expiry(shipped()), scenarios: selected(&fits, |_| true) }
}

/// The harness.
fn misbehaving() -> Profile {
    let fits = Selection::provides(&["test-plugin"]).without(&["expiry"]);
    Profile { setup: harness(), scenarios: selected(&fits, |s| needs(s, "test-plugin")) }
}

/// Topics that the scenarios of `scenarios-own` find, where they are tagged `given-topics`.
const GIVEN_TOPICS: &str = "one:1,two:2,three:3,six:6,app-rep:3,app-rep2:3,app-log:3,app-log1:1";

/// What was recorded from a broker for this project: `scenarios-own`.
fn own() -> Profile {
    let scenarios = load(&tests_folder().join("scenarios-own")).unwrap();
    Profile { setup: harness().set("streamside.topics", GIVEN_TOPICS), scenarios }
}

/// The same, cleaning up every second.
fn misbehaving_with_fast_expiry() -> Profile {
    let fits = Selection::provides(&["test-plugin", "fast-expiry"]).with(&["expiry"]);
    Profile { setup: fast_expiry(harness()), scenarios: selected(&fits, |s| needs(s, "test-plugin")) }
}

fn play(profile: Profile, compat: &str) -> Report {
    let server = profile.setup.set("streamside.compat", compat).start().unwrap();
    let player = Player::new(server.port);
    player.warm_up().unwrap();
    let report = player.play_all(&profile.scenarios, JOBS);
    println!("{report}");
    if !report.failed.is_empty() {
        println!("--- server log\n{}", tail(&server.log()));
    }
    report
}

fn tail(log: &str) -> &str {
    let from = log.len().saturating_sub(4000);
    log.get(from..).unwrap_or(log)
}

fn all_pass(profile: Profile) {
    let report = play(profile, "kafka");
    assert!(report.failed.is_empty(), "{report}");
}

#[test]
fn kafka_mode_with_a_store() {
    all_pass(with_store());
}

#[test]
fn kafka_mode_with_given_topics_as_recorded_for_this_project() {
    all_pass(own());
}

#[test]
fn kafka_mode_without_a_store() {
    all_pass(without_store());
}

#[test]
fn kafka_mode_with_fast_expiry() {
    all_pass(with_fast_expiry());
}

#[test]
fn kafka_mode_with_a_misbehaving_store() {
    all_pass(misbehaving());
}

#[test]
fn kafka_mode_with_a_misbehaving_store_and_fast_expiry() {
    all_pass(misbehaving_with_fast_expiry());
}

/// All lines of `expected-differences.txt`.
fn expected_differences() -> Vec<Difference> {
    let expected = differences::read(&tests_folder().join("expected-differences.txt")).unwrap();
    assert!(expected.iter().all(|d| d.row != "broker"), "there is no broker");
    expected
}

fn fails_as_expected(profile: Profile) {
    let scenarios = profile.scenarios.clone();
    let report = play(profile, "streamside");
    differences::check(&report, &expected_differences(), &scenarios).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn default_mode_with_a_store_differs_as_listed() {
    fails_as_expected(with_store());
}

#[test]
fn default_mode_without_a_store_differs_as_listed() {
    fails_as_expected(without_store());
}

#[test]
fn default_mode_with_fast_expiry_differs_as_listed() {
    fails_as_expected(with_fast_expiry());
}

#[test]
fn default_mode_with_a_misbehaving_store_differs_as_listed() {
    fails_as_expected(misbehaving());
}

#[test]
fn default_mode_with_a_misbehaving_store_and_fast_expiry_differs_as_listed() {
    fails_as_expected(misbehaving_with_fast_expiry());
}

#[test]
fn the_profiles_play_every_scenario_that_a_standalone_server_can() {
    let profiles = [with_store(), without_store(), with_fast_expiry(), misbehaving(), misbehaving_with_fast_expiry()];
    let mut played: Vec<String> = profiles.iter().flat_map(|p| p.scenarios.iter().map(|s| s.name.clone())).collect();
    played.sort();
    played.dedup();
    let all = load(&tests_folder().join("scenarios")).unwrap();
    assert_eq!(all.len(), 183);
    let wanted = all.iter().filter(|s| s.tags.iter().all(|t| !ELSEWHERE.contains(&t.as_str())));
    let missing: Vec<&String> = wanted.map(|s| &s.name).filter(|n| !played.contains(n)).collect();
    assert_eq!(missing, Vec::<&String>::new());
    for Difference { scenario, .. } in expected_differences() {
        assert!(played.contains(&scenario), "{scenario} is expected to differ, but is never played");
    }
}
