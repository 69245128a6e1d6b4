//! Streams groups through us in front of a broker: the recorded scenarios, with the broker played by a standalone server
//! of our own that has no plugin and follows Kafka's rules.
//!
//! In `streamside.compat=kafka` all pass. In the default mode exactly those fail that stand in
//! `expected-differences-beside.txt`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use streamside_testkit::differences;
use streamside_testkit::player::{Player, Report};
use streamside_testkit::scenario::{Scenario, Selection, load};
use streamside_testkit::server::{Server, Setup, example, free_port};
use streamside_testkit::topologies::tests_folder;

/// What needs a broker's topics, a cluster, classic groups, ACLs, a JVM, or a plugin in the broker.
const ELSEWHERE: [&str; 6] = ["topics", "tasks", "classic", "acl", "java", "expiry"];
/// Scenarios at a time; most of their time they wait.
const JOBS: usize = 8;

/// A broker without a plugin.
fn broker() -> Server {
    let setup = Setup::recorded(env!("CARGO_BIN_EXE_streamside"))
        .set("streamside.compat", "kafka")
        .set("group.streams.topology.description.plugin.class", "");
    setup.start().unwrap()
}

/// Before a broker on that port.
fn before(setup: Setup, port: u16) -> Setup {
    setup
        .set("streamside.upstream", format!("127.0.0.1:{port}"))
        .set("streamside.node.ports", format!("1:{}", free_port().unwrap()))
}

fn shipped() -> Setup {
    Setup::recorded(env!("CARGO_BIN_EXE_streamside"))
}

/// The server with the store that misbehaves as the group id says.
fn harness() -> Setup {
    let program = example(env!("CARGO_BIN_EXE_streamside"), "harness").unwrap();
    Setup::recorded(program).set("group.streams.topology.description.plugin.class", "misbehaving")
}

fn selected(fits: &Selection, also: impl Fn(&Scenario) -> bool) -> Vec<Scenario> {
    let mut scenarios = load(&tests_folder().join("scenarios")).unwrap();
    scenarios.retain(|s| fits.fits(s) && also(s) && s.tags.iter().all(|t| !ELSEWHERE.contains(&t.as_str())));
    assert!(!scenarios.is_empty());
    scenarios
}

fn with_store() -> (Setup, Vec<Scenario>) {
    (shipped(), selected(&Selection::provides(&["plugin"]), |_| true))
}

fn without_store() -> (Setup, Vec<Scenario>) {
    let setup = shipped().set("group.streams.topology.description.plugin.class", "");
    (setup, selected(&Selection::provides(&[]), |s| s.needs.contains("!plugin")))
}

fn misbehaving() -> (Setup, Vec<Scenario>) {
    (harness(), selected(&Selection::provides(&["test-plugin"]), |s| s.needs.contains("test-plugin")))
}

fn play((setup, scenarios): &(Setup, Vec<Scenario>), compat: &str) -> Report {
    let broker = broker();
    let server = before(setup.clone(), broker.port).set("streamside.compat", compat).start().unwrap();
    let player = Player::new(server.port);
    player.warm_up().unwrap();
    let report = player.play_all(scenarios, JOBS);
    println!("{report}");
    if !report.failed.is_empty() {
        let log = server.log();
        println!("--- server log\n{}", &log[log.floor_char_boundary(log.len().saturating_sub(4000))..]);
    }
    report
}

fn all_pass(profile: &(Setup, Vec<Scenario>)) {
    let report = play(profile, "kafka");
    assert!(report.failed.is_empty(), "{report}");
}

#[test]
fn kafka_mode_with_a_store() {
    all_pass(&with_store());
}

#[test]
fn kafka_mode_without_a_store() {
    all_pass(&without_store());
}

#[test]
fn kafka_mode_with_a_misbehaving_store() {
    all_pass(&misbehaving());
}

fn fails_as_expected(profile: &(Setup, Vec<Scenario>)) {
    let report = play(profile, "streamside");
    let expected = differences::read(&tests_folder().join("expected-differences-beside.txt")).unwrap();
    differences::check(&report, &expected, &profile.1).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn default_mode_with_a_store_differs_as_listed() {
    fails_as_expected(&with_store());
}

#[test]
fn default_mode_without_a_store_differs_as_listed() {
    fails_as_expected(&without_store());
}

#[test]
fn default_mode_with_a_misbehaving_store_differs_as_listed() {
    fails_as_expected(&misbehaving());
}
