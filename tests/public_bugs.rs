//! Bugs that others in this field reported in public, each reduced to a small input against the real binary. The number
//! is the case's; cases that need a broker behind us wait for the proxy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use serde_json::{Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::codec;
use streamside_testkit::connection::{ConnectionError, Shape, api};
use streamside_testkit::server::{Server, Setup, example};
use streamside_testkit::topologies::{chain, normal};

const MIB: u64 = 1 << 20;

fn server() -> Server {
    patient(Setup::recorded(env!("CARGO_BIN_EXE_streamside"))).start().unwrap()
}

/// Sessions that outlive a busy machine.
fn patient(setup: Setup) -> Setup {
    setup.set("group.streams.session.timeout.ms", 60_000)
}

/// The program whose store does what a group's id says, in the default mode.
fn harness() -> Server {
    let program = example(env!("CARGO_BIN_EXE_streamside"), "harness").unwrap();
    let setup = Setup::recorded(program).set("group.streams.topology.description.plugin.class", "misbehaving");
    patient(setup).start().unwrap()
}

fn client(server: &Server) -> Client {
    Client::open(server.port, "case").unwrap()
}

fn code(answer: &Value) -> i64 {
    answer["ErrorCode"].as_i64().unwrap()
}

fn asked(answer: &Value) -> bool {
    assert_eq!(code(answer), 0, "{answer}");
    answer["TopologyDescriptionRequired"].as_bool().unwrap()
}

fn topology(epoch: i32, source: Option<&str>) -> Value {
    let subtopologies =
        source.map(|s| json!([{"SubtopologyId": "0", "SourceTopics": [s]}])).unwrap_or_else(|| json!([]));
    json!({"Epoch": epoch, "Subtopologies": subtopologies})
}

fn status(client: &mut Client, group: &str) -> i64 {
    client.describe(&[group]).unwrap()[0]["TopologyDescriptionStatus"].as_i64().unwrap()
}

fn one_node(name: &str, node_type: i8) -> Value {
    json!({"Name": name, "NodeType": node_type})
}

fn one_subtopology(nodes: &[Value]) -> Value {
    json!({"Subtopologies": [{"SubtopologyId": "0", "Nodes": nodes}], "GlobalStores": []})
}

#[test]
fn k01_a_tls_hello_is_not_read_as_a_frame() {
    let server = server();
    let mut peer = client(&server);
    peer.connection.send_raw(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]).unwrap();
    let answer = peer.connection.read_frame(std::time::Duration::from_secs(5));
    assert!(matches!(answer, Err(ConnectionError::Closed(_))), "{answer:?}");
    let log = server.log();
    assert!(log.contains("TLS") && !log.contains("5635"), "{log}");
}

#[test]
fn k08_api_versions_of_an_unknown_version_is_answered_in_v0_form_and_may_be_retried() {
    let server = server();
    let mut peer = client(&server);
    let versions = api(&json!("ApiVersions")).unwrap();
    for unknown in [6, 9, 99, i16::MAX] {
        let shape = Shape { response_version: Some(0), ..Shape::default() };
        let body = json!({"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"});
        let id = peer.connection.send(versions, unknown, &body, &shape).unwrap();
        let answer = peer.connection.receive(id, std::time::Duration::from_secs(5)).unwrap().body().unwrap();
        assert_eq!(answer, json!({"ErrorCode": 35, "ApiKeys": [{"ApiKey": 18, "MinVersion": 0, "MaxVersion": 5}]}));
        let again = peer.call("ApiVersions", 4, &body).unwrap();
        assert_eq!(code(&again), 0);
    }
}

#[test]
fn k09_the_one_special_response_header_stands_beside_an_ordinary_one() {
    let server = server();
    let mut peer = client(&server);
    let (versions, metadata) = (api(&json!("ApiVersions")).unwrap(), api(&json!("Metadata")).unwrap());
    let software = json!({"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"});
    let first = peer.connection.send(versions, 3, &software, &Shape::default()).unwrap();
    let second = peer.connection.send(metadata, 12, &json!({"Topics": null}), &Shape::default()).unwrap();
    let third = peer.connection.send(versions, 3, &software, &Shape::default()).unwrap();
    for id in [first, second, third] {
        // Decoding refuses bytes left over, so a header of the wrong kind cannot pass.
        peer.connection.receive(id, std::time::Duration::from_secs(5)).unwrap().body().unwrap();
    }
}

#[test]
fn k10_metadata_with_the_longest_topic_name_ends_where_it_ends() {
    let known = "k".repeat(249);
    let server = Setup::recorded(env!("CARGO_BIN_EXE_streamside"))
        .set("streamside.topics", format!("{known}:3"))
        .start()
        .unwrap();
    let mut peer = client(&server);
    let unknown = "u".repeat(249);
    for version in [4, 9, 12] {
        let body = json!({"Topics": [{"Name": known}, {"Name": unknown}], "AllowAutoTopicCreation": false});
        let answer = peer.call("Metadata", version, &body).unwrap();
        let topics = answer["Topics"].as_array().unwrap();
        let of = |name: &str| topics.iter().find(|t| t["Name"] == name).unwrap();
        assert_eq!(of(&known)["ErrorCode"], 0);
        assert_eq!(of(&known)["Partitions"].as_array().unwrap().len(), 3);
        assert_eq!(of(&unknown)["ErrorCode"], 3);
    }
}

#[test]
fn k12_structs_of_one_name_in_two_messages_stay_apart() {
    let server = server();
    let mut peer = client(&server);
    // Topology and Subtopology of the heartbeat have patterns and co-partition groups, those of describe have not.
    let topology = json!({"Epoch": 0, "Subtopologies": [{"SubtopologyId": "0", "SourceTopics": ["a", "b"],
        "StateChangelogTopics": [{"Name": "c", "TopicConfigs": [{"Key": "cleanup.policy", "Value": "compact"}]}],
        "CopartitionGroups": [{"SourceTopics": [0, 1]}]}]});
    assert_eq!(code(&peer.join_with(1, "k12", "m", &topology).unwrap()), 0);
    let described = peer.describe(&["k12"]).unwrap();
    let subtopology = &described[0]["Topology"]["Subtopologies"][0];
    assert_eq!(subtopology["SourceTopics"], json!(["a", "b"]));
    assert_eq!(subtopology["StateChangelogTopics"][0]["TopicConfigs"][0]["Value"], "compact");
    assert!(subtopology.get("CopartitionGroups").is_none());
    assert_eq!(described[0]["Members"][0]["TargetAssignment"]["ActiveTasks"], json!([]));
}

/// On one node: every key gets a row, none an error.
#[test]
fn k17_repeated_coordinator_keys_do_not_upset() {
    let server = server();
    let answer = client(&server)
        .call("FindCoordinator", 4, &json!({"KeyType": 0, "CoordinatorKeys": ["g1", "g2", "g1"]}))
        .unwrap();
    let rows = answer["Coordinators"].as_array().unwrap();
    for key in ["g1", "g2"] {
        assert!(rows.iter().any(|r| r["Key"] == key));
    }
    for row in rows {
        assert_eq!((&row["ErrorCode"], &row["Port"]), (&json!(0), &json!(server.port)), "{row}");
    }
}

#[test]
fn k15_a_hundred_thousand_heartbeats_on_one_connection_leave_memory_flat() {
    let server = server();
    let mut peer = client(&server);
    assert_eq!(code(&peer.join("k15", "m").unwrap()), 0);
    let heartbeat = api(&json!("StreamsGroupHeartbeat")).unwrap();
    let body = json!({"GroupId": "k15", "MemberId": "m", "MemberEpoch": 2});
    let mut run = |count: usize| {
        for _ in 0..count / 500 {
            let ids: Vec<i32> =
                (0..500).map(|_| peer.connection.send(heartbeat, 1, &body, &Shape::default()).unwrap()).collect();
            for id in ids {
                let answer = peer.connection.receive(id, std::time::Duration::from_secs(20)).unwrap();
                assert_eq!(answer.bytes.get(5..7), Some(&[0, 0][..]), "{}", codec::hex(&answer.bytes));
            }
        }
    };
    run(10_000);
    let before = server.resident_bytes();
    run(90_000);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 2 * MIB, "{grown} bytes");
}

#[test]
fn k22_the_ask_in_the_heartbeat_that_brings_an_epoch_is_for_that_epoch() {
    let server = server();
    let mut peer = client(&server);
    let joined = peer.join_with(1, "k22", "m", &topology(1, None)).unwrap();
    assert!(asked(&joined));
    let stale = peer.push_at("k22", "m", 0, &chain(3)).unwrap();
    assert_eq!(code(&stale), 42, "{stale}");
    assert_eq!(code(&peer.push_at("k22", "m", 1, &chain(3)).unwrap()), 0);
    assert_eq!(status(&mut peer, "k22"), 3);
}

#[test]
fn k23_one_ask_for_three_joins_none_after_a_restart_one_after_delete_and_remake() {
    let server = server();
    let three_join = |round: &str| -> Vec<bool> {
        std::thread::scope(|scope| {
            let joins: Vec<_> = (0..3)
                .map(|i| {
                    let (server, member) = (&server, format!("{round}-{i}"));
                    scope.spawn(move || asked(&client(server).join("k23", &member).unwrap()))
                })
                .collect();
            joins.into_iter().map(|j| j.join().unwrap()).collect()
        })
    };
    let first = three_join("a");
    assert_eq!(first.iter().filter(|a| **a).count(), 1, "{first:?}");
    let mut peer = client(&server);
    let asked_one = format!("a-{}", first.iter().position(|a| *a).unwrap());
    assert_eq!(code(&peer.push("k23", &asked_one, &chain(3)).unwrap()), 0);
    // One process restarts: it leaves and comes back under a new member id.
    assert_eq!(code(&peer.leave("k23", "a-0").unwrap()), 0);
    assert!(!asked(&peer.join("k23", "a-0-again").unwrap()));
    for member in ["a-1", "a-2", "a-0-again"] {
        assert_eq!(code(&peer.leave("k23", member).unwrap()), 0);
    }
    assert_eq!(peer.delete(&["k23"]).unwrap()[0]["ErrorCode"], 0);
    let remade = three_join("b");
    assert_eq!(remade.iter().filter(|a| **a).count(), 1, "{remade:?}");
}

#[test]
fn k24_members_that_cannot_push_arm_nothing() {
    let server = server();
    let mut peer = client(&server);
    let empty = topology(0, None);
    let heartbeats = |peer: &mut Client| {
        for i in 0..1000 {
            let body = json!({"GroupId": format!("k24-{i}"), "MemberId": "m", "MemberEpoch": 2});
            assert_eq!(code(&peer.call("StreamsGroupHeartbeat", 0, &body).unwrap()), 0);
        }
    };
    for i in 0..1000 {
        assert_eq!(code(&peer.join_with(0, &format!("k24-{i}"), "m", &empty).unwrap()), 0);
    }
    heartbeats(&mut peer);
    let before = server.resident_bytes();
    for _ in 0..5 {
        heartbeats(&mut peer);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < MIB, "{grown} bytes");
    // No window was armed: the first member that can push is asked at once.
    for i in [0, 499, 999] {
        assert!(asked(&peer.join(&format!("k24-{i}"), "can-push").unwrap()));
    }
}

#[test]
fn k25_who_leaves_is_not_asked() {
    let server = server();
    let mut peer = client(&server);
    // At version 0 first, so that the window is free and only the leave stands between member and ask.
    assert_eq!(code(&peer.join_with(0, "k25", "m", &topology(0, None)).unwrap()), 0);
    assert!(!asked(&peer.leave("k25", "m").unwrap()));
    let body = json!({"GroupId": "k25-static", "MemberId": "m", "MemberEpoch": 0, "RebalanceTimeoutMs": 60_000,
        "Topology": topology(0, None), "ActiveTasks": [], "StandbyTasks": [], "WarmupTasks": [], "ProcessId": "p",
        "InstanceId": "i"});
    assert_eq!(code(&peer.call("StreamsGroupHeartbeat", 0, &body).unwrap()), 0);
    let away = json!({"GroupId": "k25-static", "MemberId": "m", "MemberEpoch": -2, "InstanceId": "i"});
    assert!(!asked(&peer.call("StreamsGroupHeartbeat", 1, &away).unwrap()));
}

/// H4: bytes that this store has confirmed cost no second call.
#[test]
fn k26_a_push_whose_answer_was_lost_is_stored_once() {
    let server = harness();
    let group = "k26.get-calls.g";
    let mut peer = client(&server);
    assert!(asked(&peer.join(group, "m").unwrap()));
    let push = api(&json!("StreamsGroupTopologyDescriptionUpdate")).unwrap();
    let body = json!({"GroupId": group, "MemberId": "m", "TopologyEpoch": 0, "TopologyDescription": chain(9)});
    peer.connection.send(push, 0, &body, &Shape::default()).unwrap();
    drop(peer);
    let mut peer = client(&server);
    for _ in 0..100 {
        if status(&mut peer, group) == 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(code(&peer.push(group, "m", &chain(9)).unwrap()), 0);
    let described = peer.describe(&[group]).unwrap();
    let report = &described[0]["TopologyDescription"]["Subtopologies"][0]["Nodes"];
    assert!(report.as_array().unwrap().iter().any(|n| n["Name"] == "set=1"), "{report}");
}

#[test]
fn k27_a_b_a_node_type_that_is_none_and_a_global_store_fed_by_a_sink_are_refused() {
    let server = server();
    let mut peer = client(&server);
    assert!(asked(&peer.join("k27", "m").unwrap()));
    for node_type in [0, 4, -1, 127] {
        let answer = peer.push("k27", "m", &one_subtopology(&[one_node("n", node_type)])).unwrap();
        assert_eq!(code(&answer), 42, "{answer}");
    }
    let sink_fed = json!({"Subtopologies": [],
        "GlobalStores": [{"Source": one_node("s", 3), "Processor": one_node("p", 2)}]});
    assert_eq!(code(&peer.push("k27", "m", &sink_fed).unwrap()), 42);
    assert_eq!(status(&mut peer, "k27"), 1);
}

#[test]
fn k27_c_d_e_f_odd_graphs_are_kept_as_they_are() {
    let server = server();
    let mut peer = client(&server);
    let linked = |name: &str, to: &str| json!({"Name": name, "NodeType": 2, "Successors": [to]});
    let odd = [
        ("successor-that-is-not-there", one_subtopology(&[linked("a", "nobody")])),
        ("cycle", one_subtopology(&[linked("a", "b"), linked("b", "a")])),
        ("itself", one_subtopology(&[linked("a", "a")])),
        ("two-of-one-name", one_subtopology(&[one_node("a", 2), one_node("a", 2)])),
        ("empty-names", one_subtopology(&[one_node("", 2), json!({"Name": "s", "NodeType": 3, "SinkTopic": ""})])),
    ];
    for (group, description) in &odd {
        assert!(asked(&peer.join(group, "m").unwrap()));
        assert_eq!(code(&peer.push(group, "m", description).unwrap()), 0, "{group}");
        let described = peer.describe(&[group]).unwrap();
        assert_eq!(described[0]["TopologyDescriptionStatus"], 3, "{group}");
        assert_eq!(normal(&described[0]["TopologyDescription"]), normal(description), "{group}");
    }
}

#[test]
fn k27_g_too_many_nodes_are_refused_with_a_reason_word_and_not_asked_for_again() {
    let server = server();
    let mut peer = client(&server);
    let nodes = |count: usize| one_subtopology(&(0..count).map(|i| one_node(&format!("n{i}"), 2)).collect::<Vec<_>>());
    let sizes = [(5001, "too_many_nodes"), (200_000, "too_")];
    for (count, word) in sizes {
        let group = format!("k27-{count}");
        assert!(asked(&peer.join(&group, "m").unwrap()));
        for _ in 0..2 {
            let answer = peer.push(&group, "m", &nodes(count)).unwrap();
            assert_eq!(code(&answer), 135, "{answer}");
            assert!(answer["ErrorMessage"].as_str().unwrap().starts_with(word), "{answer}");
        }
        assert!(!asked(&peer.beat(&group, "m", 2).unwrap()));
        assert!(!asked(&peer.join(&group, "another").unwrap()));
    }
    assert!(asked(&peer.join("k27-5000", "m").unwrap()));
    assert_eq!(code(&peer.push("k27-5000", "m", &nodes(5000)).unwrap()), 0);
}

#[test]
fn k27_h_a_name_above_32767_bytes_closes_the_connection() {
    let server = server();
    let mut peer = client(&server);
    assert!(asked(&peer.join("k27-h", "m").unwrap()));
    let longest = one_subtopology(&[one_node(&"n".repeat(32_767), 2)]);
    assert_eq!(code(&peer.push("k27-h", "m", &longest).unwrap()), 0);
    let longer = one_subtopology(&[one_node(&"n".repeat(32_768), 2)]);
    let answer = peer.push("k27-h", "m", &longer);
    assert!(matches!(answer, Err(ConnectionError::Closed(_))), "{answer:?}");
}

#[test]
fn k28_a_store_that_cannot_delete_keeps_the_group() {
    let server = harness();
    let mut peer = client(&server);
    let group = "k28.delete-throw-once.g";
    assert!(asked(&peer.join(group, "m").unwrap()));
    assert_eq!(code(&peer.push(group, "m", &chain(3)).unwrap()), 0);
    assert_eq!(peer.delete(&[group]).unwrap()[0]["ErrorCode"], 68);
    assert_eq!(status(&mut peer, group), 3);
    assert_eq!(code(&peer.leave(group, "m").unwrap()), 0);
    let refused = peer.delete(&[group]).unwrap();
    assert_eq!(refused[0]["ErrorCode"], 134);
    assert_eq!(refused[0]["ErrorMessage"], "Topology description plugin failed to delete the topology.");
    assert_eq!(peer.describe(&[group]).unwrap()[0]["GroupState"], "Empty");
    assert_eq!(peer.delete(&[group]).unwrap()[0]["ErrorCode"], 0, "a retry is safe");

    let group = "k28-v2.delete-throw.g";
    assert!(asked(&peer.join(group, "m").unwrap()));
    assert_eq!(code(&peer.push(group, "m", &chain(3)).unwrap()), 0);
    assert_eq!(code(&peer.leave(group, "m").unwrap()), 0);
    let older = peer.call("DeleteGroups", 2, &json!({"GroupsNames": [group]})).unwrap();
    assert_eq!(older["Results"][0]["ErrorCode"], -1);
}

/// K29 on a server of its own: what expires takes its copy along.
#[test]
fn k29_an_expired_group_is_gone_with_its_copy() {
    let server = Setup::recorded(env!("CARGO_BIN_EXE_streamside"))
        .set("offsets.retention.check.interval.ms", 300)
        .start()
        .unwrap();
    let mut peer = client(&server);
    assert!(asked(&peer.join("k29", "m").unwrap()));
    assert_eq!(code(&peer.push("k29", "m", &chain(3)).unwrap()), 0);
    assert_eq!(code(&peer.leave("k29", "m").unwrap()), 0);
    let gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        peer.describe(&["k29"]).unwrap()[0]["ErrorCode"] == 69
    });
    assert!(gone, "the group must expire");
    assert!(asked(&peer.join("k29", "m").unwrap()), "another group of that name starts afresh");
    assert_eq!(status(&mut peer, "k29"), 1);
}

#[test]
fn k30_ten_thousand_groups_made_and_deleted_leave_nothing() {
    let server = server();
    let make_and_delete = |round: usize| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let server = &server;
                scope.spawn(move || {
                    let mut peer = client(server);
                    let groups: Vec<String> = (0..625).map(|i| format!("k30-{round}-{thread}-{i}")).collect();
                    for (i, group) in groups.iter().enumerate() {
                        assert!(asked(&peer.join(group, "m").unwrap()));
                        if i % 5 == 0 {
                            assert_eq!(code(&peer.push(group, "m", &chain(3)).unwrap()), 0);
                        }
                        assert_eq!(code(&peer.leave(group, "m").unwrap()), 0);
                    }
                    let names: Vec<&str> = groups.iter().map(String::as_str).collect();
                    for part in names.chunks(100) {
                        let results = peer.delete(part).unwrap();
                        assert!(results.len() == part.len() && results.iter().all(|r| r["ErrorCode"] == 0));
                    }
                });
            }
        });
    };
    make_and_delete(0);
    let before = server.resident_bytes();
    make_and_delete(1);
    let grown = server.resident_bytes().saturating_sub(before);
    let listed = client(&server).call("ListGroups", 5, &json!({})).unwrap();
    assert_eq!(listed["Groups"], json!([]));
    assert!(grown < 6 * MIB, "{grown} bytes for 5,000 groups that are gone");
}

#[test]
fn k31_a_group_that_is_not_ready_is_described_without_harm() {
    let server = server();
    let mut peer = client(&server);
    assert!(asked(&peer.join_with(1, "k31", "m", &topology(0, Some("not-there"))).unwrap()));
    let described = peer.describe(&["k31"]).unwrap();
    assert_eq!((code(&described[0]), &described[0]["GroupState"]), (0, &json!("NotReady")));
    assert_eq!(described[0]["Topology"]["Subtopologies"][0]["SourceTopics"], json!(["not-there"]));
    assert_eq!(described[0]["TopologyDescriptionStatus"], 1);
}

#[test]
fn k32_list_and_describe_agree_on_the_state() {
    let server = server();
    let mut peer = client(&server);
    assert!(asked(&peer.join_with(1, "k32-not-ready", "m", &topology(0, Some("not-there"))).unwrap()));
    assert!(asked(&peer.join("k32-stable", "m").unwrap()));
    assert!(asked(&peer.join("k32-empty", "m").unwrap()));
    assert_eq!(code(&peer.leave("k32-empty", "m").unwrap()), 0);
    let listed = peer.call("ListGroups", 5, &json!({"TypesFilter": ["streams"]})).unwrap();
    let listed = listed["Groups"].as_array().unwrap();
    for (group, state) in [("k32-not-ready", "NotReady"), ("k32-stable", "Stable"), ("k32-empty", "Empty")] {
        let row = listed.iter().find(|g| g["GroupId"] == group).unwrap();
        assert_eq!((row["GroupState"].as_str(), row["GroupType"].as_str()), (Some(state), Some("streams")));
        assert_eq!(peer.describe(&[group]).unwrap()[0]["GroupState"], state);
    }
}

#[test]
fn k34_a_fenced_member_that_rejoins_is_the_same_member() {
    let server = server();
    let mut peer = client(&server);
    assert!(asked(&peer.join("k34", "m").unwrap()));
    assert_eq!(code(&peer.beat("k34", "m", 7).unwrap()), 110);
    let again = peer.join("k34", "m").unwrap();
    assert_eq!((code(&again), again["ActiveTasks"].as_array().map(Vec::len)), (0, Some(0)), "{again}");
    let described = peer.describe(&["k34"]).unwrap();
    let members = described[0]["Members"].as_array().unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!(members[0]["MemberEpoch"], again["MemberEpoch"]);
}

#[test]
fn k35_an_empty_group_is_empty_and_not_rebalancing_for_ever() {
    let server = server();
    let mut peer = client(&server);
    assert!(asked(&peer.join("k35", "m").unwrap()));
    assert_eq!(code(&peer.leave("k35", "m").unwrap()), 0);
    let first = peer.describe(&["k35"]).unwrap();
    assert_eq!(first[0]["GroupState"], "Empty");
    assert_eq!(first[0]["GroupEpoch"], first[0]["AssignmentEpoch"]);
    assert_eq!(peer.describe(&["k35"]).unwrap(), first);
}

#[test]
fn k36_describe_groups_says_that_a_streams_group_is_not_its_own() {
    let server = server();
    let mut peer = client(&server);
    assert!(asked(&peer.join("k36", "m").unwrap()));
    let newer = peer.call("DescribeGroups", 6, &json!({"Groups": ["k36"]})).unwrap();
    assert_eq!((code(&newer["Groups"][0]), &newer["Groups"][0]["GroupState"]), (69, &json!("Dead")));
    assert_eq!(newer["Groups"][0]["ErrorMessage"], "Group k36 is not a classic group.");
    let older = peer.call("DescribeGroups", 5, &json!({"Groups": ["k36"]})).unwrap();
    assert_eq!((code(&older["Groups"][0]), &older["Groups"][0]["GroupState"]), (0, &json!("Dead")));
    let listed = peer.call("ListGroups", 5, &json!({})).unwrap();
    assert_eq!(listed["Groups"][0]["GroupType"], "streams");
}

#[test]
fn k37_members_without_an_endpoint_change_no_endpoint_map() {
    let server = server();
    let mut peer = client(&server);
    let first = peer.join("k37", "a").unwrap();
    assert_eq!((&first["EndpointInformationEpoch"], &first["PartitionsByUserEndpoint"]), (&json!(0), &Value::Null));
    assert_eq!(code(&peer.join("k37", "b").unwrap()), 0);
    let body =
        json!({"GroupId": "k37", "MemberId": "a", "MemberEpoch": first["MemberEpoch"], "EndpointInformationEpoch": 0});
    let beat = peer.call("StreamsGroupHeartbeat", 1, &body).unwrap();
    assert_eq!(
        (&beat["EndpointInformationEpoch"], &beat["PartitionsByUserEndpoint"]),
        (&json!(0), &Value::Null),
        "{beat}"
    );
}
