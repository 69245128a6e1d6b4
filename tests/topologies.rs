//! The 41 topologies of the collection: pushed over the wire, described back equal, printed as the stock 4.4 tool does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use serde_json::Value;
use streamside_testkit::client::Client;
use streamside_testkit::server::Setup;
use streamside_testkit::topologies::{Sample, normal, samples, tests_folder};
use streamside_topology::{Description, write};
use streamside_wire::messages::topology_description as wire;

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(text).collect()
}

fn node(n: &Value) -> wire::Node {
    wire::Node {
        name: text(&n["Name"]),
        node_type: i8::try_from(n["NodeType"].as_i64().unwrap()).unwrap(),
        source_topics: texts(&n["SourceTopics"]),
        sink_topic: n["SinkTopic"].as_str().map(str::to_owned),
        stores: texts(&n["Stores"]),
        successors: texts(&n["Successors"]),
        ..wire::Node::default()
    }
}

fn description(d: &Value) -> Description {
    let subtopologies = d["Subtopologies"].as_array().unwrap().iter().map(|s| wire::Subtopology {
        subtopology_id: text(&s["SubtopologyId"]),
        nodes: s["Nodes"].as_array().unwrap().iter().map(node).collect(),
        ..wire::Subtopology::default()
    });
    let global_stores = d["GlobalStores"].as_array().unwrap().iter().map(|g| wire::GlobalStore {
        source: node(&g["Source"]),
        processor: node(&g["Processor"]),
        ..wire::GlobalStore::default()
    });
    Description::from_wire(&wire::TopologyDescription {
        subtopologies: subtopologies.collect(),
        global_stores: global_stores.collect(),
        ..wire::TopologyDescription::default()
    })
    .unwrap()
}

fn push_all(client: &mut Client, all: &[Sample]) {
    for sample in all {
        let joined = client.join(&sample.name, "m").unwrap();
        assert_eq!(joined["ErrorCode"], 0, "{}: {joined}", sample.name);
        assert_eq!(joined["TopologyDescriptionRequired"], true, "{}", sample.name);
        let pushed = client.push(&sample.name, "m", &sample.description).unwrap();
        assert_eq!(pushed["ErrorCode"], 0, "{}: {pushed}", sample.name);
    }
}

fn check_all(client: &mut Client, all: &[Sample]) {
    let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
    let described = client.describe(&names).unwrap();
    assert_eq!(described.len(), all.len());
    for (entry, sample) in described.iter().zip(all) {
        let name = &sample.name;
        assert_eq!(entry["GroupId"], name.as_str());
        assert_eq!(entry["TopologyDescriptionStatus"], 3, "{name}: {entry}");
        assert_eq!(normal(&entry["TopologyDescription"]), normal(&sample.description), "{name}");
        let golden = tests_folder().join("golden").join(format!("{name}.txt"));
        let printed = write::kafka::text(&description(&entry["TopologyDescription"]));
        assert_eq!(printed, std::fs::read_to_string(golden).unwrap(), "{name}");
    }
}

#[test]
fn forty_one_topologies_come_back_equal_also_after_kill_9() {
    let all = samples().unwrap();
    assert_eq!(all.len(), 41);
    let mut server = Setup::new(env!("CARGO_BIN_EXE_streamside")).start().unwrap();
    let mut client = Client::open(server.port, "collection").unwrap();
    push_all(&mut client, &all);
    check_all(&mut client, &all);
    server.kill().unwrap();
    server.restart().unwrap();
    check_all(&mut Client::open(server.port, "collection").unwrap(), &all);
}
