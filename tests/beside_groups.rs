//! Streams groups through us in front of a broker: the recorded scenarios, with the broker played by a standalone server
//! of our own that has no plugin and follows Kafka's rules.
//!
//! In `streamside.compat=kafka` all pass. In the default mode exactly those fail that stand in
//! `expected-differences-beside.txt`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use std::time::Duration;

use serde_json::{Value, json};
use streamside_testkit::client::Client;
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

fn description(sink: &str) -> Value {
    let node = json!({"Name": "k", "NodeType": 3, "SinkTopic": sink});
    json!({"Subtopologies": [{"SubtopologyId": "0", "Nodes": [node]}], "GlobalStores": []})
}

/// The status of a group's description and the topic of its sink, as seen there.
fn seen(client: &mut Client, group: &str) -> (i64, Option<String>) {
    let entry = client.describe(&[group]).unwrap().remove(0);
    let sink = &entry["TopologyDescription"]["Subtopologies"][0]["Nodes"][0]["SinkTopic"];
    (entry["TopologyDescriptionStatus"].as_i64().unwrap(), sink.as_str().map(str::to_owned))
}

fn stored(sink: &str) -> (i64, Option<String>) {
    (3, Some(sink.to_owned()))
}

/// How often a member is asked in a few heartbeats.
fn asked(client: &mut Client, group: &str, member: &str, epoch: i64) -> usize {
    let answers = (0..4).map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let answer = client.beat(group, member, epoch).unwrap();
        assert_eq!(answer["ErrorCode"], 0);
        answer["TopologyDescriptionRequired"] == true
    });
    answers.filter(|asked| *asked).count()
}

fn joined(client: &mut Client, group: &str, member: &str) -> (bool, i64) {
    let answer = client.join(group, member).unwrap();
    assert_eq!(answer["ErrorCode"], 0);
    (answer["TopologyDescriptionRequired"] == true, answer["MemberEpoch"].as_i64().unwrap())
}

fn pushes(client: &mut Client, group: &str, member: &str, sink: &str) {
    assert_eq!(client.push(group, member, &description(sink)).unwrap()["ErrorCode"], 0);
}

#[test]
fn a_broker_with_a_plugin_of_its_own_is_not_starved_unless_told_so() {
    for (mode, theirs) in [("auto", stored("out")), ("tee", stored("out")), ("own", (1, None))] {
        let broker = shipped().set("streamside.compat", "kafka").start().unwrap();
        let server = before(shipped(), broker.port).set("streamside.upstream.push", mode).start().unwrap();
        let mut client = Client::open(server.port, "c").unwrap();
        assert!(joined(&mut client, "g", "m").0, "{mode}");
        pushes(&mut client, "g", "m", "out");
        assert_eq!(seen(&mut client, "g"), stored("out"), "{mode}");
        assert_eq!(seen(&mut Client::open(broker.port, "c").unwrap(), "g"), theirs, "{mode}");
    }
}

#[test]
fn a_group_that_is_made_again_behind_our_back_is_asked_once_and_its_new_description_served() {
    let broker = broker();
    let server = before(shipped(), broker.port).start().unwrap();
    let (mut client, mut direct) = (Client::open(server.port, "c").unwrap(), Client::open(broker.port, "c").unwrap());
    assert!(joined(&mut client, "g", "m").0);
    pushes(&mut client, "g", "m", "before");
    client.leave("g", "m").unwrap();
    assert_eq!(direct.delete(&["g"]).unwrap()[0]["ErrorCode"], 0);
    let (ask, epoch) = joined(&mut client, "g", "m");
    assert_eq!(usize::from(ask) + asked(&mut client, "g", "m", epoch), 1);
    pushes(&mut client, "g", "m", "after");
    assert_eq!(seen(&mut client, "g"), stored("after"));
    assert_eq!(asked(&mut client, "g", "m", epoch), 0);
}

#[test]
fn a_group_that_was_left_and_is_joined_again_keeps_its_description_and_the_same_bytes_cost_nothing() {
    let broker = broker();
    let server = before(shipped(), broker.port).start().unwrap();
    let mut client = Client::open(server.port, "c").unwrap();
    joined(&mut client, "g", "m");
    pushes(&mut client, "g", "m", "out");
    client.leave("g", "m").unwrap();
    // It may be another group of this name: it is asked once, and served meanwhile (H12).
    let (ask, epoch) = joined(&mut client, "g", "m");
    assert!(ask);
    assert_eq!(seen(&mut client, "g"), stored("out"));
    pushes(&mut client, "g", "m", "out");
    assert_eq!(asked(&mut client, "g", "m", epoch), 0);
    let (_, metrics) = server.get("/metrics").unwrap();
    assert!(metrics.contains("streamside_pushes_total{result=\"unchanged\"} 1"), "{metrics}");
}

#[test]
fn a_restart_asks_nobody_with_its_folder_and_everybody_once_without() {
    let broker = broker();
    let mut server = before(shipped(), broker.port).start().unwrap();
    let mut client = Client::open(server.port, "c").unwrap();
    let (_, epoch) = joined(&mut client, "g", "m");
    pushes(&mut client, "g", "m", "out");

    server.kill().unwrap();
    server.restart().unwrap();
    let mut client = Client::open(server.port, "c").unwrap();
    assert_eq!(seen(&mut client, "g"), stored("out"));
    assert_eq!(asked(&mut client, "g", "m", epoch), 0);
    // On a connection without a heartbeat the broker says who may push.
    pushes(&mut Client::open(server.port, "c").unwrap(), "g", "m", "other");
    let stranger = Client::open(server.port, "c").unwrap().push("g", "stranger", &description("x")).unwrap();
    assert_eq!(stranger["ErrorCode"], 25);
    assert_eq!(seen(&mut client, "g"), stored("other"));

    server.kill().unwrap();
    std::fs::remove_dir_all(server.folder().join("data")).unwrap();
    server.restart().unwrap();
    let mut client = Client::open(server.port, "c").unwrap();
    assert_eq!(seen(&mut client, "g"), (1, None));
    assert_eq!(asked(&mut client, "g", "m", epoch), 1);
    pushes(&mut client, "g", "m", "again");
    assert_eq!(seen(&mut client, "g"), stored("again"));
}

#[test]
fn a_delete_takes_the_description_with_the_group_and_a_refused_one_leaves_both() {
    let broker = broker();
    let server = before(shipped(), broker.port).start().unwrap();
    let mut client = Client::open(server.port, "c").unwrap();
    joined(&mut client, "g", "m");
    pushes(&mut client, "g", "m", "out");
    assert_eq!(client.delete(&["g"]).unwrap()[0]["ErrorCode"], 68);
    assert_eq!(seen(&mut client, "g"), stored("out"));
    client.leave("g", "m").unwrap();
    assert_eq!(client.delete(&["g", "nobody"]).unwrap().iter().map(|r| &r["ErrorCode"]).collect::<Vec<_>>(), [0, 69]);
    let entry = client.describe(&["g"]).unwrap().remove(0);
    assert_eq!((&entry["ErrorCode"], &entry["TopologyDescriptionStatus"]), (&json!(69), &json!(0)));
    // The next group of that name begins with nothing.
    assert!(joined(&mut client, "g", "m").0);
    assert_eq!(seen(&mut client, "g"), (1, None));
}

#[test]
fn requests_are_timed_on_both_sides() {
    let broker = broker();
    let server = before(shipped(), broker.port).start().unwrap();
    let mut client = Client::open(server.port, "c").unwrap();
    joined(&mut client, "g", "m");
    pushes(&mut client, "g", "m", "out");
    seen(&mut client, "g");
    let (_, metrics) = server.get("/metrics").unwrap();
    for line in [
        "streamside_request_seconds_count{api=\"StreamsGroupHeartbeat\",side=\"own\"} 1",
        "streamside_request_seconds_count{api=\"StreamsGroupTopologyDescriptionUpdate\",side=\"own\"} 1",
        "streamside_request_seconds_count{api=\"StreamsGroupHeartbeat\",side=\"upstream\"} 1",
        "streamside_request_seconds_count{api=\"StreamsGroupDescribe\",side=\"own\"} 1",
        "streamside_request_seconds_count{api=\"StreamsGroupDescribe\",side=\"upstream\"} 1",
        "streamside_pushes_total{result=\"stored\"} 1",
        "streamside_groups{description=\"full\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[test]
fn trouble_of_our_own_reaches_neither_heartbeats_nor_what_the_broker_says() {
    let broker = broker();
    let server = before(shipped(), broker.port).start().unwrap();
    let mut client = Client::open(server.port, "c").unwrap();
    let (_, epoch) = joined(&mut client, "g", "m");
    pushes(&mut client, "g", "m", "out");
    std::fs::remove_dir_all(server.folder().join("data")).unwrap();

    let push = client.push("g", "m", &description("other")).unwrap();
    assert_eq!(push["ErrorCode"], 135);
    assert!(push["ErrorMessage"].as_str().unwrap().starts_with("store_failed: "), "{push}");
    for _ in 0..3 {
        assert_eq!(client.beat("g", "m", epoch).unwrap()["ErrorCode"], 0);
    }
    let entry = client.describe(&["g"]).unwrap().remove(0);
    assert_eq!((&entry["ErrorCode"], &entry["GroupState"]), (&json!(0), &json!("Stable")));
    assert_eq!(client.leave("g", "m").unwrap()["ErrorCode"], 0);
    // What cannot be recorded is not deleted; the client tries again.
    assert_eq!(client.delete(&["g"]).unwrap()[0]["ErrorCode"], 14);
    assert_eq!(client.describe(&["g"]).unwrap()[0]["ErrorCode"], 0);
}
