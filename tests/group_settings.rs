//! Settings of single groups over the wire: what `kafka-configs --entity-type groups` says and hears.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use serde_json::{Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::server::{Server, Setup};

const STANDBYS: &str = "streams.num.standby.replicas";
const GROUP: i8 = 32;

fn start() -> Server {
    Setup::recorded(env!("CARGO_BIN_EXE_streamside")).set("streamside.topics", "in:2").start().unwrap()
}

fn set(kind: i8, name: &str, key: &str, value: &str) -> Value {
    json!({"ResourceType": kind, "ResourceName": name,
        "Configs": [{"Name": key, "ConfigOperation": 0, "Value": value}]})
}

/// Error codes, in the order of the request.
fn alter(client: &mut Client, resources: &[Value], validate_only: bool) -> Vec<i64> {
    let body = json!({"Resources": resources, "ValidateOnly": validate_only});
    let answer = client.call("IncrementalAlterConfigs", 1, &body).unwrap();
    answer["Responses"].as_array().unwrap().iter().map(|r| r["ErrorCode"].as_i64().unwrap()).collect()
}

fn describe(client: &mut Client, kind: i8, name: &str, keys: &[&str]) -> Value {
    let body = json!({"Resources": [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}],
        "IncludeSynonyms": true});
    client.call("DescribeConfigs", 4, &body).unwrap()["Results"][0].clone()
}

/// Value, source, and the sources of the synonyms.
fn standbys(client: &mut Client, group: &str) -> (String, i64, Vec<i64>) {
    let config = describe(client, GROUP, group, &[STANDBYS])["Configs"][0].clone();
    let sources = config["Synonyms"].as_array().unwrap().iter().map(|s| s["Source"].as_i64().unwrap()).collect();
    (config["Value"].as_str().unwrap().to_owned(), config["ConfigSource"].as_i64().unwrap(), sources)
}

#[test]
fn resources_of_one_request_stand_for_themselves() {
    let server = start();
    let mut client = Client::open(server.port, "t").unwrap();
    let resources = [
        set(GROUP, "g1", STANDBYS, "7"),
        set(GROUP, "g2", STANDBYS, "1"),
        set(2, "nowhere", "retention.ms", "1"),
        set(2, "in", "retention.ms", "1"),
        set(4, "1", "log.retention.ms", "1"),
        set(GROUP, "", STANDBYS, "1"),
        set(77, "x", "y", "z"),
        set(GROUP, "twice", STANDBYS, "1"),
        set(GROUP, "twice", STANDBYS, "2"),
    ];
    assert_eq!(alter(&mut client, &resources, true), [40, 0, 3, 42, 42, 42, 42, 42, 42]);
    assert_eq!(standbys(&mut client, "g2"), ("0".to_owned(), 5, vec![5]), "validate-only changed something");
    assert_eq!(alter(&mut client, &resources, false), [40, 0, 3, 42, 42, 42, 42, 42, 42]);
    assert_eq!(standbys(&mut client, "g2"), ("1".to_owned(), 8, vec![8, 5]));
    assert_eq!(standbys(&mut client, "g1").1, 5);
}

#[test]
fn settings_are_described_listed_and_survive_a_kill() {
    let mut server = start();
    let mut client = Client::open(server.port, "t").unwrap();
    assert_eq!(alter(&mut client, &[set(GROUP, "g", "streams.heartbeat.interval.ms", "700")], false), [0]);
    assert_eq!(client.join("g", "m").unwrap()["HeartbeatIntervalMs"], 700);
    server.kill().unwrap();
    server.restart().unwrap();
    let mut client = Client::open(server.port, "t").unwrap();
    assert_eq!(client.beat("g", "m", 2).unwrap()["HeartbeatIntervalMs"], 700);
    let listed = client.call("ListConfigResources", 1, &json!({"ResourceTypes": [GROUP]})).unwrap();
    assert_eq!(listed["ConfigResources"], json!([{"ResourceName": "g", "ResourceType": GROUP}]));
    // What Kafka shows of a group, its internal settings only once they are set.
    let configs = describe(&mut client, GROUP, "g", &[])["Configs"].as_array().unwrap().len();
    assert_eq!(configs, 7);
    // The group goes, its settings stay until they are taken away.
    assert_eq!(client.leave("g", "m").unwrap()["ErrorCode"], 0);
    assert_eq!(client.delete(&["g"]).unwrap()[0]["ErrorCode"], 0);
    assert_eq!(client.join("g", "m").unwrap()["HeartbeatIntervalMs"], 700);
    let delete = json!({"ResourceType": GROUP, "ResourceName": "g",
        "Configs": [{"Name": "streams.heartbeat.interval.ms", "ConfigOperation": 1, "Value": null}]});
    assert_eq!(alter(&mut client, &[delete], false), [0]);
    assert_eq!(client.beat("g", "m", 2).unwrap()["HeartbeatIntervalMs"], 1000);
    let listed = client.call("ListConfigResources", 1, &json!({"ResourceTypes": [GROUP]})).unwrap();
    assert_eq!(listed["ConfigResources"], json!([]));
}

#[test]
fn brokers_and_topics_are_described_as_far_as_there_is_something() {
    let server = start();
    let mut client = Client::open(server.port, "t").unwrap();
    let key = "group.streams.session.timeout.ms";
    let config = describe(&mut client, 4, "1", &[key])["Configs"][0].clone();
    assert_eq!((config["Value"].as_str(), config["ReadOnly"].as_bool()), (Some("8000"), Some(true)));
    assert_eq!((config["ConfigSource"].as_i64(), config["ConfigType"].as_i64()), (Some(4), Some(3)));
    let all = describe(&mut client, 4, "1", &[]);
    assert!(all["Configs"].as_array().unwrap().iter().all(|c| !c["Name"].as_str().unwrap().starts_with("streamside.")));
    for (kind, name, code) in [(4, "7", 42), (4, "x", 42), (4, "", 0), (2, "in", 0), (2, "nowhere", 3), (2, "a b", 17)]
    {
        let result = describe(&mut client, kind, name, &[]);
        assert_eq!(
            (result["ErrorCode"].as_i64(), result["Configs"].as_array().unwrap().len()),
            (Some(code), 0),
            "{name}"
        );
    }
    assert_eq!(describe(&mut client, GROUP, "", &[])["ErrorCode"], 42);
}
