//! Applications that process records: both group protocols, exactly-once, threads, standby tasks, endpoints.

use std::time::Duration;

use serde_json::{Value, json};

use crate::beside::{direct, eventually};
use crate::driver::Driver;

const START: Duration = Duration::from_secs(90);

/// What word counts of six lines write, each line as often as there are applications.
fn counted(applications: usize) -> Vec<String> {
    let words = ["value", "of", "many", "words"].iter().flat_map(|word| (1..=6).map(move |n| format!("{word}={n}")));
    let lines = words.chain((0..6).map(|n| format!("{n}=1")));
    let mut all: Vec<String> = lines.flat_map(|line| vec![line; applications]).collect();
    all.sort();
    all
}

fn strings(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Word counts as a group of two processes with two threads, standby tasks and endpoints; in the classic protocol; and
/// both once more exactly once. Their output is what it has to be, whatever stands between them and the broker.
pub fn play(driver: &mut Driver, upstream: u16) {
    let group = "shop";
    driver.ask(json!({"do": "group-config", "group": group, "key": "streams.num.standby.replicas", "value": "1"}));
    let config = |more: &Value| {
        let mut all = json!({"statestore.cache.max.bytes": 0, "num.standby.replicas": 0});
        for (key, value) in more.as_object().unwrap() {
            all[key] = value.clone();
        }
        all
    };
    let exactly_once = "exactly_once_v2";
    for (instance, application, more) in [
        ("one", group, json!({"num.stream.threads": 2, "application.server": "h1:8081"})),
        ("two", group, json!({"num.stream.threads": 2, "application.server": "h2:8082"})),
        ("once", "shop-once", json!({"processing.guarantee": exactly_once})),
        ("classic", "shop-classic", json!({"group.protocol": "classic", "application.server": "h1:8081"})),
        (
            "classic-once",
            "shop-classic-once",
            json!({"group.protocol": "classic", "processing.guarantee": exactly_once}),
        ),
    ] {
        driver.start(instance, application, "wordcount", &config(&more));
    }
    for instance in ["one", "two", "once", "classic", "classic-once"] {
        driver.running(instance, START);
    }
    // Each process works for two of the four tasks, stands by for the two stateful ones among the other's.
    let shared = |driver: &mut Driver| {
        let both = ["one", "two"].map(|instance| driver.ask(json!({"do": "tasks", "instance": instance})));
        let active: Vec<Vec<String>> = both.iter().map(|facts| strings(&facts["active"])).collect();
        let standby: usize = both.iter().map(|facts| strings(&facts["standby"]).len()).sum();
        let hosts: Vec<usize> = both.iter().map(|facts| facts["hosts"].as_object().unwrap().len()).collect();
        (active.iter().map(Vec::len).collect::<Vec<_>>(), standby, hosts, both)
    };
    let good = |(active, standby, hosts, _): &(Vec<usize>, usize, Vec<usize>, [Value; 2])| {
        *active == [2, 2] && *standby == 2 && *hosts == [2, 2]
    };
    let tasks = eventually(START, || shared(driver), good);
    assert!(good(&tasks), "{:?}", tasks.3);

    driver.ask(json!({"do": "feed", "topics": ["words"], "count": 6}));
    let wanted = counted(4);
    assert_eq!(driver.read("wordcounts", wanted.len()), wanted);

    if !direct() {
        for name in [group, "shop-once"] {
            let said = driver.describe(name).unwrap();
            assert_eq!((&said["state"], &said["status"]), (&json!("Stable"), &json!("AVAILABLE")), "{said}");
            assert_eq!(said["subtopologies"], json!(["0:5", "1:5"]), "{said}");
            assert_eq!(said["hosts"], json!(["/127.0.0.1"]), "{said}");
            assert!(!said["address"].as_str().unwrap().ends_with(&format!(":{upstream}")), "{said}");
        }
    }
    for instance in ["two", "one", "once", "classic", "classic-once"] {
        driver.close(instance);
    }
    let log = driver.log();
    // A consumer that is closed while it takes partitions says so, whoever stands before the broker.
    let mut errors = log.lines().filter(|line| line.contains(" ERROR ") && !line.contains("Reconciliation failed"));
    assert_eq!(errors.next(), None, "{log}");
}
