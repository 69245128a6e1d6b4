//! The recorded scenarios through us in front of brokers that keep no descriptions: 4.4 without a plugin, and 4.3 as far as
//! a broker of version 0 can play them.

use serde_json::{Value, json};
use streamside_testkit::differences::{self, Difference};
use streamside_testkit::player::{Player, Report};
use streamside_testkit::scenario::{Scenario, Selection, load};
use streamside_testkit::server::{RECORDED, Server, Setup, example, free_port};
use streamside_testkit::topologies::tests_folder;

use crate::broker::{self, Broker};
use crate::java::KAFKA;
use crate::rights::{port_with_neighbour, without_rights};

/// A broker before KIP-1331.
const BEFORE: &str = "4.3.0";
/// Scenarios at a time; most of their time they wait.
const JOBS: usize = 8;

fn broker() -> broker::Setup {
    let settings = RECORDED.iter().fold(broker::Setup::default(), |setup, (key, value)| setup.set(key, value));
    settings.without_plugin()
}

/// The server with the store that misbehaves as the group id says, in front of a broker.
fn sidecar(upstream: u16, node: &str, compat: &str) -> Setup {
    let program = example(env!("CARGO_BIN_EXE_streamside"), "harness").unwrap();
    Setup::recorded(program)
        .set("group.streams.topology.description.plugin.class", "misbehaving")
        .set("streamside.upstream", format!("127.0.0.1:{upstream}"))
        .set("streamside.node.ports", node)
        .set("streamside.compat", compat)
}

fn before(broker: &Broker, compat: &str) -> Server {
    sidecar(broker.port, &format!("1:{}", free_port().unwrap()), compat).start().unwrap()
}

fn selected(fits: &Selection) -> Vec<Scenario> {
    let mut scenarios = load(&tests_folder().join("scenarios")).unwrap();
    scenarios.retain(|scenario| fits.fits(scenario));
    scenarios
}

fn play(server: &Server, scenarios: &[Scenario]) -> Report {
    let player = Player::new(server.port);
    player.warm_up().unwrap();
    let report = player.play_all(scenarios, JOBS);
    println!("{report}");
    report
}

/// All of a list, or those rows that hold in both modes.
fn expected(list: &str, compat: &str) -> Vec<Difference> {
    let mut all = differences::read(&tests_folder().join(list)).unwrap();
    all.retain(|difference| compat == "streamside" || difference.row == "broker");
    all
}

fn differs_as_listed(report: &Report, list: &str, compat: &str, scenarios: &[Scenario]) {
    differences::check(report, &expected(list, compat), scenarios).unwrap_or_else(|e| panic!("{compat}: {e}"));
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn recorded_scenarios_before_a_broker_of_4_4_without_a_plugin() {
    let broker = broker().start(KAFKA);
    let scenarios = selected(&Selection::provides(&["test-plugin"]).without(&["expiry", "acl", "java"]));
    assert!(scenarios.len() > 150);
    for compat in ["kafka", "streamside"] {
        let report = play(&before(&broker, compat), &scenarios);
        differs_as_listed(&report, "expected-differences-beside.txt", compat, &scenarios);
    }
}

/// Nobody has rights in the clear; the super user logs in two ports further on, which is the node's port here.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn recorded_scenarios_with_an_authorizer() {
    let (login, bootstrap) = (free_port().unwrap(), port_with_neighbour());
    let broker = without_rights(broker::Setup::default().without_plugin(), login);
    let scenarios = selected(&Selection::provides(&["test-plugin", "acl"]).with(&["acl"]));
    assert_eq!(scenarios.len(), 10);
    for compat in ["kafka", "streamside"] {
        let node = format!("1:{}=127.0.0.1:{login}", bootstrap + 2);
        let server = sidecar(broker.port, &node, compat).start_at(bootstrap).unwrap();
        let report = play(&server, &scenarios);
        differs_as_listed(&report, "expected-differences-beside.txt", compat, &scenarios);
    }
}

/// What a broker of 4.3 answers otherwise than one of 4.4, whoever is before it: no assignor's name, the assignment
/// epoch of a group that lost its last member, no interval for task offsets at version 0.
fn as_4_3_says_it(mut scenario: Scenario) -> Scenario {
    for step in &mut scenario.steps {
        let version_0 = step["version"] == 0;
        if let Some(expect) = step.get_mut("expect") {
            let heartbeat_0 = version_0 && expect.get("HeartbeatIntervalMs").is_some();
            if heartbeat_0 && expect.get("TaskOffsetIntervalMs").is_some() {
                expect["TaskOffsetIntervalMs"] = json!("<any>");
            }
            loosened(expect);
        }
    }
    scenario
}

fn loosened(expected: &mut Value) {
    match expected {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "AssignorName" || name == "AssignmentEpoch" {
                    *value = json!("<any>");
                } else {
                    loosened(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(loosened),
        _ => {}
    }
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn recorded_scenarios_before_a_broker_of_4_3() {
    let broker = broker().start(BEFORE);
    let scenarios = selected(&Selection::provides(&["test-plugin"]).without(&["expiry", "acl", "java"]));
    let scenarios: Vec<Scenario> = scenarios.into_iter().map(as_4_3_says_it).collect();
    for compat in ["kafka", "streamside"] {
        let report = play(&before(&broker, compat), &scenarios);
        differs_as_listed(&report, "expected-differences-before-4.3.txt", compat, &scenarios);
    }
}
