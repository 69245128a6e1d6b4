//! What breaks while clients work: they recover as they do without us.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use streamside_testkit::client::Client;

use crate::beside::{Sidecar, direct, eventually};
use crate::broker::{Broker, Setup};
use crate::driver::Driver;

const PATIENCE: Duration = Duration::from_secs(60);

/// A load that goes on must move so many records forward.
fn goes_on(driver: &mut Driver, load: &str) {
    let mut received = || driver.ask(json!({"do": "load", "load": load}))["received"].as_u64().unwrap();
    let before = received();
    let after = eventually(PATIENCE, received, |now| *now > before + 300);
    assert!(after > before + 300, "stuck at {after}: {}", driver.log());
}

fn start_load(driver: &mut Driver, partitions: u16) {
    driver.topics(&json!({"load": partitions}));
    for protocol in ["classic", "consumer"] {
        driver.ask(json!({"do": "load-start", "load": protocol, "topic": "load", "protocol": protocol}));
    }
}

/// What was acknowledged was read back, by both groups.
fn end_load(driver: &mut Driver) {
    for protocol in ["classic", "consumer"] {
        let said = driver.ask(json!({"do": "load-end", "load": protocol, "millis": 60_000}));
        assert_eq!((&said["lost"], &said["failures"]), (&json!(0), &json!([])), "{said}: {}", driver.log());
    }
}

/// An application runs and its description is served, unless clients go to the broker.
fn served(driver: &mut Driver, instance: &str, group: &str) {
    driver.running(instance, PATIENCE);
    if direct() {
        return;
    }
    let status = |said: &Result<Value, String>| {
        said.as_ref().is_ok_and(|s| s["status"] == "AVAILABLE" && s["state"] == "Stable")
    };
    let said = eventually(PATIENCE, || driver.describe(group), status);
    assert!(status(&said), "{said:?}");
}

/// How many members were asked for a description so far.
fn asked(sidecar: &mut Sidecar) -> String {
    let Some(server) = sidecar.server() else { return String::new() };
    let text = server.get("/metrics").unwrap().1;
    let line = text.lines().find(|line| line.starts_with("streamside_solicitations_total "));
    line.unwrap_or_default().to_owned()
}

/// The broker killed and started again; the broker silent for a while; the sidecar killed and started again.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn clients_survive_the_loss_of_broker_and_sidecar() {
    let mut broker = Setup::default().start("4.3.0");
    let mut sidecar = Sidecar::new(&[&broker]);
    let mut driver = Driver::new(sidecar.bootstrap());
    driver.start("one", "survivor", "wordcount", &json!({}));
    served(&mut driver, "one", "survivor");
    let before = asked(&mut sidecar);
    start_load(&mut driver, 3);
    goes_on(&mut driver, "consumer");

    broker.kill();
    sleep(Duration::from_secs(2));
    if let Some(server) = sidecar.server() {
        let degraded = |answer: &(u16, String)| answer.0 == 200 && answer.1.contains("degraded");
        let ready = eventually(PATIENCE, || server.get("/readyz").unwrap(), degraded);
        assert!(degraded(&ready), "{ready:?}");
    }
    broker.restart();
    goes_on(&mut driver, "consumer");
    goes_on(&mut driver, "classic");
    served(&mut driver, "one", "survivor");

    broker.freeze();
    sleep(Duration::from_secs(7));
    broker.thaw();
    goes_on(&mut driver, "consumer");
    goes_on(&mut driver, "classic");

    if let Some(server) = sidecar.server() {
        server.kill().unwrap();
        sleep(Duration::from_secs(2));
        server.restart().unwrap();
    }
    goes_on(&mut driver, "consumer");
    goes_on(&mut driver, "classic");
    served(&mut driver, "one", "survivor");
    if let Some(server) = sidecar.server() {
        let ready = eventually(PATIENCE, || server.get("/readyz").unwrap(), |ready| !ready.1.contains("degraded"));
        assert!(!ready.1.contains("degraded"), "{ready:?}");
        assert!(server.resident_bytes() < 200 << 20, "{} bytes", server.resident_bytes());
    }
    end_load(&mut driver);
    driver.close("one");
    // Nobody had a reason to ask again after the broker came back with what it knew.
    assert!(!before.is_empty() || direct());
}

/// Three brokers behind one sidecar: each has an address of ours; coordinators and leaders move when one dies.
fn cluster(version: &str) {
    let mut brokers = Setup::default().cluster(version);
    let mut sidecar = Sidecar::new(&brokers.iter().collect::<Vec<_>>());
    let mut driver = Driver::new(sidecar.bootstrap());
    for instance in ["one", "two"] {
        driver.start(instance, "mover", "wordcount", &json!({"application.server": format!("{instance}:1")}));
    }
    start_load(&mut driver, 6);
    served(&mut driver, "one", "mover");
    served(&mut driver, "two", "mover");
    goes_on(&mut driver, "consumer");
    let before = asked(&mut sidecar);

    let coordinator = driver.describe("mover").map(|said| said["coordinator"].as_i64().unwrap());
    let coordinator = coordinator.unwrap_or(1);
    let lost = brokers.iter().position(|broker| i64::from(broker.id) == coordinator).unwrap();
    brokers[lost].kill();
    let moved = |said: &Result<Value, String>| said.as_ref().is_ok_and(|s| s["coordinator"] != coordinator);
    if version.starts_with("4.1.") {
        let others = || brokers.iter().enumerate().filter(|(place, _)| *place != lost).map(|(_, broker)| broker.port);
        let told = eventually(PATIENCE, || others().find_map(without_topology), Option::is_some);
        assert!(told.is_some(), "this broker does not lose the topology: its answers can be judged as those of others");
        driver.running("one", PATIENCE);
        driver.running("two", PATIENCE);
    } else {
        if !direct() {
            let said = eventually(PATIENCE, || driver.describe("mover"), moved);
            assert!(moved(&said), "{said:?}");
        }
        served(&mut driver, "one", "mover");
        served(&mut driver, "two", "mover");
    }
    goes_on(&mut driver, "consumer");
    goes_on(&mut driver, "classic");
    assert_eq!(asked(&mut sidecar), before, "a coordinator that moves is no reason to ask");

    brokers[lost].restart();
    goes_on(&mut driver, "consumer");
    end_load(&mut driver);
    driver.ask(json!({"do": "feed", "topics": ["words"], "count": 6}));
    assert!(!driver.read("wordcounts", 10).is_empty());
    if !version.starts_with("4.1.") {
        served(&mut driver, "one", "mover");
    }
    for instance in ["one", "two"] {
        driver.close(instance);
    }
    names_only_us(&mut driver, &sidecar, &brokers);
}

/// A broker of 4.1 describes a group that it took over without a topology, which the 4.4 client refuses to read.
fn without_topology(port: u16) -> Option<()> {
    let mut client = Client::open(port, "real").ok()?;
    let answer = client.call("StreamsGroupDescribe", 0, &json!({"GroupIds": ["mover"]})).ok()?;
    let group = &answer["Groups"][0];
    (group["ErrorCode"] == 0 && group["Topology"].is_null()).then_some(())
}

/// No address of a broker reaches a client.
fn names_only_us(driver: &mut Driver, sidecar: &Sidecar, brokers: &[Broker]) {
    let nodes = driver.ask(json!({"do": "nodes"}));
    let nodes: Vec<String> = serde_json::from_value(nodes).unwrap();
    assert_eq!(nodes.len(), brokers.len(), "{nodes:?}");
    if direct() {
        return;
    }
    for (node, broker) in nodes.iter().zip(brokers) {
        // The listener's port, one more, and the node's id.
        let port = sidecar.port() + 1 + u16::try_from(broker.id).unwrap();
        assert_eq!(*node, format!("{} 127.0.0.1:{port}", broker.id));
    }
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn coordinators_move_in_a_cluster_of_4_3() {
    cluster("4.3.0");
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn coordinators_move_in_a_cluster_of_4_4() {
    cluster("4.4.0");
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn coordinators_move_in_a_cluster_of_4_2() {
    cluster("4.2.0");
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn coordinators_move_in_a_cluster_of_4_1() {
    cluster("4.1.1");
}
