//! What goes out: spec kip1071 §1.6, §8, §9, §10.5.

use bytes::BytesMut;
use streamside_coordinator::Compat;
use streamside_coordinator::group::describe::passes_filters;
use streamside_wire::Message;
use streamside_wire::messages::streams_group_heartbeat::{
    Endpoint, EndpointToPartitions, KeyValue, StreamsGroupHeartbeatResponse, TopicInfo, TopicPartition,
};
use streamside_wire::reader::Reader;
use streamside_wire::writer::Writer;

use crate::lab::*;

fn at(host: &str, port: u16) -> Option<Endpoint> {
    Some(Endpoint { host: host.into(), port, ..Endpoint::default() })
}

fn entry(host: &str, port: u16, active: &[(&str, &[i32])]) -> EndpointToPartitions {
    EndpointToPartitions {
        user_endpoint: at(host, port).unwrap(),
        active_partitions: active
            .iter()
            .map(|(topic, partitions)| TopicPartition {
                topic: (*topic).into(),
                partitions: partitions.to_vec(),
                ..TopicPartition::default()
            })
            .collect(),
        ..EndpointToPartitions::default()
    }
}

#[test]
fn t61_endpoints_are_listed_for_those_who_do_not_know_the_epoch() {
    let mut lab = Lab::new();
    let answer = lab.beat(&Request { user_endpoint: at("h1", 65_535), ..join("m1") });
    assert_eq!(answer.endpoint_information_epoch, 0);
    assert_eq!(answer.partitions_by_user_endpoint, Some(vec![entry("h1", 65_535, &[])]));
    assert_eq!(lab.beat(&steady("m1", 2)).partitions_by_user_endpoint, None);
    let stale = Request { endpoint_information_epoch: -1, ..steady("m1", 2) };
    assert_eq!(lab.beat(&stale).partitions_by_user_endpoint, Some(vec![entry("h1", 65_535, &[])]));
}

#[test]
fn s8_without_any_endpoint_the_list_is_empty_for_java_and_absent_for_whoever_knows_the_epoch() {
    let mut lab = Lab::new();
    let java = Request { endpoint_information_epoch: -1, ..join("m1") };
    assert_eq!(lab.beat(&java).partitions_by_user_endpoint, Some(vec![]));
    assert_eq!(lab.beat(&join("m2")).partitions_by_user_endpoint, None);
}

#[test]
fn t62_a_newcomer_and_every_move_of_tasks_advance_the_epoch() {
    let mut lab = two_subtopologies();
    lab.place("m1", stable(10, &[("a", &[0, 1])]));
    lab.retarget(10, &[("m1", active(&[("a", &[0, 1])]))]);
    let answer = lab.beat(&Request { user_endpoint: at("h1", 1), ..steady("m1", 10) });
    assert_eq!(answer.endpoint_information_epoch, 1);
    let answer = lab.beat(&Request { user_endpoint: at("h2", 2), ..join_two("m2") });
    assert_eq!(answer.endpoint_information_epoch, 2);
    let hosts: Vec<_> = answer.partitions_by_user_endpoint.unwrap().into_iter().map(|e| e.user_endpoint.host).collect();
    assert_eq!(hosts, ["h1", "h2"]);
    // The target gives m1 other tasks: what it still has is listed.
    let epoch = lab.metadata().epoch;
    lab.retarget(epoch + 1, &[("m1", active(&[("a", &[0])])), ("m2", active(&[("a", &[1])]))]);
    let m1 = lab.current("m1").member_epoch;
    let answer = lab.beat(&Request { endpoint_information_epoch: 2, ..steady("m1", m1) });
    assert_eq!(answer.endpoint_information_epoch, 3);
    let listed = answer.partitions_by_user_endpoint.unwrap();
    assert_eq!(listed[0], entry("h1", 1, &[("foo", &[0])]));
}

#[test]
fn t41_partitions_that_a_topic_does_not_have_are_left_out() {
    let mut lab = Lab::with(&[("many", 4), ("few", 2)]);
    let mut request = join("m");
    request.topology = Some(topology(&[("0", &["many", "few"])]));
    lab.beat(&request);
    lab.retarget(3, &[("m", active(&[("0", &[1, 3])]))]);
    let answer = lab.beat(&Request { user_endpoint: at("h", 1), ..owning("m", 2, &[]) });
    let listed = answer.partitions_by_user_endpoint.unwrap();
    let shown: Vec<_> = listed[0].active_partitions.iter().map(|t| (t.topic.as_str(), t.partitions.clone())).collect();
    let has = lab.groups.describe(&lab.config, "g").unwrap().members.remove(0).assignment.active_tasks;
    let partitions = has.first().map(|t| t.partitions.clone()).unwrap_or_default();
    let few: Vec<i32> = partitions.iter().copied().filter(|p| *p < 2).collect();
    let expected: Vec<_> =
        [("few", few), ("many", partitions)].into_iter().filter(|(_, partitions)| !partitions.is_empty()).collect();
    assert_eq!(shown, expected);
}

#[test]
fn d10_after_a_start_the_endpoint_epoch_is_one_that_nobody_holds() {
    let mut lab = Lab::new();
    lab.beat(&Request { user_endpoint: at("h", 1), ..join("m") });
    lab.restart();
    let answer = lab.beat(&steady("m", 2));
    assert_eq!(i64::from(answer.endpoint_information_epoch), lab.now / 1_000 % (1 << 30));
    assert_eq!(answer.partitions_by_user_endpoint, Some(vec![entry("h", 1, &[])]));
    let mut lab = Lab::new().kafka();
    lab.beat(&join("m"));
    lab.restart();
    assert_eq!(lab.beat(&steady("m", 2)).endpoint_information_epoch, 0);
}

#[test]
fn t59_describe_shows_what_members_said_and_have() {
    let mut lab = two_subtopologies();
    let epoch = lab.metadata().epoch;
    let mut request = with_instance(join_two("m"), "i");
    request.rack_id = Some("r".into());
    request.user_endpoint = at("h", 9);
    request.client_tags = Some(vec![KeyValue { key: "k".into(), value: "v".into(), ..KeyValue::default() }]);
    lab.beat(&request);
    lab.retarget(epoch + 2, &[("m", active(&[("a", &[3, 1])]))]);
    let group = lab.groups.describe(&lab.config, "g").unwrap();
    assert_eq!((group.error_code, group.error_message, group.group_id.as_str()), (0, None, "g"));
    assert_eq!((group.group_state.as_str(), group.group_epoch, group.assignment_epoch), ("Reconciling", 12, 12));
    assert_eq!((group.authorized_operations, group.assignor_name.as_deref()), (i32::MIN, Some("sticky")));
    let member = &group.members[0];
    assert_eq!((member.member_id.as_str(), member.member_epoch, member.topology_epoch), ("m", 11, 0));
    assert_eq!((member.instance_id.as_deref(), member.rack_id.as_deref()), (Some("i"), Some("r")));
    assert_eq!((member.client_id.as_str(), member.client_host.as_str()), ("c", "/127.0.0.1"));
    assert_eq!((member.process_id.as_str(), member.user_endpoint.clone()), ("p-m", at("h", 9)));
    assert_eq!(member.client_tags, request.client_tags.unwrap());
    assert_eq!(member.target_assignment.active_tasks, ids(&[("a", &[1, 3])]));
    assert!(!member.is_classic);
    assert!(lab.groups.describe(&lab.config, "x").is_none());
}

#[test]
fn t60_a_ready_group_shows_decided_counts_and_another_the_topology_as_it_came() {
    let changelog = |partitions| TopicInfo { name: "c".into(), partitions, ..TopicInfo::default() };
    let mut request = join("m");
    let mut t = topology(&[("1", &["z", "a"]), ("0", &["a"])]);
    t.subtopologies[0].state_changelog_topics = vec![changelog(0)];
    request.topology = Some(t);
    for (topics, partitions, state) in [
        (vec![("a", 3), ("z", 5), ("c", 5)], 5, "Stable"),
        (vec![("a", 3), ("z", 5)], 0, "NotReady"),
        (vec![], 0, "NotReady"),
    ] {
        let mut lab = Lab::with(&topics);
        lab.beat(&request);
        let group = lab.groups.describe(&lab.config, "g").unwrap();
        assert_eq!(group.group_state, state);
        let subtopologies = group.topology.unwrap().subtopologies.unwrap();
        assert_eq!(subtopologies.iter().map(|s| s.subtopology_id.as_str()).collect::<Vec<_>>(), ["0", "1"]);
        assert_eq!(subtopologies[1].source_topics, ["a", "z"]);
        assert_eq!(subtopologies[1].state_changelog_topics, [changelog(partitions)]);
    }
}

#[test]
fn t67_only_an_empty_group_can_be_deleted() {
    let mut lab = Lab::new();
    assert_eq!(lab.delete("g"), Err(69));
    lab.beat(&join("m"));
    let first = lab.groups.facts("g").unwrap().incarnation;
    assert_eq!(lab.delete("g"), Err(68));
    lab.beat(&steady("m", -1));
    lab.delete("g").unwrap();
    assert_eq!(kinds(&lab.records), ["20-", "17-", "23-"]);
    assert_eq!((lab.groups.len(), lab.groups.describe(&lab.config, "g")), (0, None));
    // Made again it is another one, and may have another topology.
    lab.now += 1;
    let answer = lab.beat(&Request { topology: Some(topology(&[("0", &["in"])])), ..join("m") });
    assert_eq!((answer.error_code, answer.member_epoch), (0, 2));
    assert_ne!(lab.groups.facts("g").unwrap().incarnation, first);
}

#[test]
fn t71_versions_differ_in_the_place_of_the_lag() {
    let mut lab = Lab::new();
    let answers = [lab.beat_at(&join("m"), 0), lab.beat_at(&join("m"), 1)];
    let sizes: Vec<usize> = (0..=1)
        .map(|version| {
            let mut bytes = BytesMut::new();
            let answer = &answers[usize::try_from(version).unwrap()];
            answer.encode(&mut Writer::new(&mut bytes), version).unwrap();
            let again = StreamsGroupHeartbeatResponse::decode(&mut Reader::new(&bytes), version).unwrap();
            assert_eq!(
                (again.member_epoch, again.heartbeat_interval_ms, again.task_offset_interval_ms),
                (2, 5_000, 60_000)
            );
            assert_eq!(again.acceptable_recovery_lag_legacy, 0);
            assert_eq!(again.acceptable_recovery_lag, if version == 0 { -1 } else { 10_000 });
            bytes.len()
        })
        .collect();
    assert_eq!(sizes[1], sizes[0] + 5);
}

#[test]
fn s10_5_list_filters_by_type_and_state() {
    let list = |s: &[&str]| s.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let ours =
        |state, states: &[&str], types: &[&str]| passes_filters(state, &list(states), &list(types), Compat::Streamside);
    assert!(ours("Stable", &[], &[]) && ours("Stable", &["stAble"], &["Streams"]));
    assert!(!ours("Stable", &["Empty"], &[]) && !ours("Stable", &[], &["classic"]));
    assert!(ours("NotReady", &["NotReady"], &[]) && ours("NotReady", &["not_ready"], &[]));
    let kafka = |states: &[&str]| passes_filters("NotReady", &list(states), &[], Compat::Kafka);
    assert!(kafka(&["not_ready"]) && !kafka(&["NotReady"]));
}

#[test]
fn s10_5_all_groups_are_listed_with_their_states() {
    let mut lab = Lab::new();
    lab.beat(&join("m"));
    lab.beat(&Request { group_id: "h".into(), topology: Some(topology(&[("0", &["in"])])), ..join("m") });
    lab.beat(&Request { group_id: "e".into(), ..join("m") });
    lab.beat(&Request { group_id: "e".into(), ..steady("m", -1) });
    let mut listed: Vec<_> = lab.groups.list().into_iter().map(|g| (g.group.to_string(), g.state)).collect();
    listed.sort();
    let expected = [("e".into(), "Empty"), ("g".into(), "Stable"), ("h".into(), "NotReady")];
    assert_eq!(listed, expected);
    assert_eq!((lab.groups.len(), lab.groups.member_count()), (3, 2));
}
