//! What the stock tool prints of topology descriptions, byte for byte as for Kafka 4.4.0.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use streamside_testkit::topologies::tests_folder;

use crate::java::streams_groups;
use crate::stage::Stage;

fn golden(file: &str) -> String {
    fs::read_to_string(tests_folder().join("golden").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The tool prints one block after another, in the order in which it was asked.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn every_topology_prints_as_kafka_prints_it() {
    let mut stage = Stage::new();
    let names = stage.push_samples();
    let mut args = vec!["--describe", "--topology"];
    for name in &names {
        args.extend(["--group", name]);
    }
    let ran = stage.tool(&args);
    let wanted: String = names.iter().map(|name| golden(&format!("{name}.txt"))).collect();
    assert_eq!((ran.out.as_str(), ran.err.as_str(), ran.code), (wanted.as_str(), "", 0));

    for name in ["18-two-global-stores", "36-retail-item-identifiers-large", "41-constructed-odd-names"] {
        let ran = stage.tool(&["--describe", "--group", name, "--topology"]);
        assert_eq!((ran.out, ran.code), (golden(&format!("{name}.txt")), 0), "{name}");
    }
}

/// One line of `tests/golden/INDEX.json`.
struct Call {
    file: String,
    args: Vec<String>,
    exit: i64,
    complaint: Option<String>,
}

fn calls() -> Vec<Call> {
    let index: Vec<Value> = serde_json::from_str(&golden("INDEX.json")).unwrap();
    index
        .into_iter()
        .map(|line| Call {
            file: line["file"].as_str().unwrap().to_owned(),
            args: line["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap().to_owned()).collect(),
            exit: line["exit"].as_i64().unwrap(),
            complaint: line["stderr_first_line"].as_str().map(str::to_owned),
        })
        .collect()
}

fn odd_descriptions() -> [(&'static str, Value); 5] {
    let real_app = serde_json::from_str(&golden("real-app.json")).unwrap();
    [
        ("empty-description", json!({})),
        (
            "empty-subtopology",
            json!({"Subtopologies": [{"SubtopologyId": "0", "Nodes": []}, {"SubtopologyId": "", "Nodes": []}]}),
        ),
        (
            "sorting",
            json!({"Subtopologies": [{"SubtopologyId": "0", "Nodes": [
                {"Name": "z", "NodeType": 1, "SourceTopics": ["\u{1f980}", "\u{ff5e}", "b", "B", "a", ""],
                    "Successors": ["\u{1f980}", "\u{ff5e}", "b", "B", "ä", "z"]},
                {"Name": "b", "NodeType": 2, "Stores": ["s10", "s2", "S1"], "Successors": ["z", "ghost"]},
                {"Name": "ä", "NodeType": 3, "SinkTopic": "", "Successors": ["b"]},
                {"Name": "B", "NodeType": 3, "SinkTopic": "null"}]}]}),
        ),
        (
            "twice",
            json!({"Subtopologies": [
                {"SubtopologyId": "0", "Nodes": [
                    {"Name": "a", "NodeType": 1, "Successors": ["b", "a"]},
                    {"Name": "a", "NodeType": 2, "Successors": ["b"]},
                    {"Name": "b", "NodeType": 3, "SinkTopic": "o"},
                    {"Name": "b", "NodeType": 2}]},
                {"SubtopologyId": "0", "Nodes": [{"Name": "b", "NodeType": 2}]}]}),
        ),
        ("u11-app", real_app),
    ]
}

/// Options, errors, several groups, odd graphs, what a real application pushed: each line of the index in its order,
/// but for what only older brokers answer.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn every_call_of_the_index_answers_as_kafka_answers_it() {
    let mut stage = Stage::new();
    let mut names: BTreeSet<String> = stage.push_samples().into_iter().collect();
    for (group, description) in odd_descriptions() {
        stage.push(group, &description);
        names.insert(group.to_owned());
    }
    stage.join("not-stored");
    names.insert("not-stored".to_owned());
    let mut played = 0;
    for call in calls() {
        let file = call.file.as_str();
        let args: Vec<&str> = call.args.iter().map(String::as_str).collect();
        match file {
            "x-old-broker.txt" => continue,
            "x-delete.txt" => stage.leave("not-stored"),
            _ => {}
        }
        let ran = match file {
            "x-unreachable.txt" => streams_groups("127.0.0.1:1", &args),
            _ => stage.tool(&args),
        };
        if file == "x-list.txt" {
            // Recorded before the real application was there, in the order of a hash table.
            let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
            let mut listed = sorted(&ran.out);
            assert!(listed.remove("u11-app"), "{}", ran.out);
            assert_eq!(listed, sorted(&golden(file)));
        } else {
            assert_eq!(ran.out, golden(file), "{file}: {}", ran.err);
        }
        assert_eq!(i64::from(ran.code), call.exit, "{file}");
        if let Some(complaint) = call.complaint {
            assert_eq!(ran.complaint(), complaint, "{file}");
        }
        played += 1;
    }
    assert_eq!(played, 19);
}
