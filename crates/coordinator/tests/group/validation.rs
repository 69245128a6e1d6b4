//! Spec kip1071 §1.1, §1.2.

use std::borrow::Cow;

use streamside_wire::messages::streams_group_heartbeat::{
    CopartitionGroup, Endpoint, KeyValue, Subtopology, TaskOffset, TopicInfo,
};

use crate::lab::*;

fn subtopology() -> Subtopology {
    Subtopology { subtopology_id: "0".into(), source_topics: vec!["in".into()], ..Subtopology::default() }
}

fn joining_with(change: impl FnOnce(&mut Subtopology)) -> Request {
    let mut request = join("m");
    let mut s = subtopology();
    change(&mut s);
    request.topology.as_mut().unwrap().subtopologies.push(s);
    request
}

fn joining(change: impl FnOnce(&mut Request)) -> Request {
    let mut request = join("m");
    change(&mut request);
    request
}

#[test]
fn t1_each_static_check_has_its_code_and_text() {
    let blank = || Cow::Borrowed(" \t");
    let later = |change: fn(&mut Request)| {
        let mut request = steady("m", 1);
        change(&mut request);
        request
    };
    let changelog = TopicInfo { name: "c".into(), partitions: 2, ..TopicInfo::default() };
    let rows = [
        ("V1", joining(|r| r.member_id = blank()), 42, "MemberId can't be empty."),
        ("V2", joining(|r| r.group_id = blank()), 42, "GroupId can't be empty."),
        ("V3", joining(|r| r.instance_id = Some(blank())), 42, "InstanceId can't be empty."),
        ("V4", joining(|r| r.rack_id = Some(blank())), 42, "RackId can't be empty."),
        ("V5", joining(|r| r.rebalance_timeout_ms = -1), 42, "RebalanceTimeoutMs must be provided in first request."),
        ("V6", joining(|r| r.active_tasks = None), 42, "ActiveTasks must be empty when (re-)joining."),
        (
            "V6",
            joining(|r| r.active_tasks = Some(ids(&[("0", &[0])]))),
            42,
            "ActiveTasks must be empty when (re-)joining.",
        ),
        ("V7", joining(|r| r.standby_tasks = None), 42, "StandbyTasks must be empty when (re-)joining."),
        ("V8", joining(|r| r.warmup_tasks = None), 42, "WarmupTasks must be empty when (re-)joining."),
        ("V9", joining(|r| r.topology = None), 42, "Topology must be non-null when (re-)joining."),
        (
            "V10",
            joining_with(|s| s.state_changelog_topics.push(changelog)),
            130,
            "Changelog topic c must have an undefined partition count, but it is set to 2.",
        ),
        ("V11", later(|r| r.member_epoch = -2), 42, "InstanceId can't be null."),
        ("V12", later(|r| r.member_epoch = -3), 42, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ("V13", later(|r| r.active_tasks = Some(vec![])), 42, "If one task-type is non-null, all must be non-null."),
        ("V14", later(|r| r.topology = Some(topology(&[]))), 42, "Topology can only be provided when (re-)joining."),
    ];
    for (row, request, code, text) in rows {
        let mut lab = Lab::new();
        assert_eq!(refusal(&lab.beat(&request)), (code, text), "{row}");
        assert!(lab.groups.is_empty(), "{row} made a group");
        assert_eq!(refusal(&Lab::new().kafka().beat(&request)), (code, text), "{row} in Kafka's rules");
    }
}

#[test]
fn t1_the_first_failing_check_wins() {
    let request = joining(|r| {
        r.member_id = Cow::Borrowed("");
        r.group_id = Cow::Borrowed("");
        r.topology = None;
    });
    assert_eq!(refusal(&Lab::new().beat(&request)), (42, "MemberId can't be empty."));
}

#[test]
fn t2_source_patterns_are_refused_before_anything_else_is_looked_at() {
    let mut request = joining_with(|s| s.source_topic_regex.push("in-.*".into()));
    request.member_id = Cow::Borrowed("");
    let text = "Regular expressions for source topics are not supported yet.";
    assert_eq!(refusal(&Lab::new().beat(&request)), (42, text));
}

#[test]
fn s1_1_3a_internal_topics_are_prohibited_in_the_order_of_their_appearance() {
    let mut request = joining_with(|s| {
        s.source_topics = vec!["__transaction_state".into(), "a b".into()];
        s.source_topic_regex = vec!["x".into()];
    });
    request.topology.as_mut().unwrap().subtopologies.push(Subtopology {
        subtopology_id: "1".into(),
        repartition_sink_topics: vec!["__consumer_offsets".into(), "__transaction_state".into()],
        ..Subtopology::default()
    });
    let text = "Use of Kafka internal topics __transaction_state,__consumer_offsets in a Kafka Streams topology is \
                prohibited.";
    assert_eq!(refusal(&Lab::new().beat(&request)), (130, text));
}

#[test]
fn s1_1_3b_illegal_topic_names_are_refused() {
    let long = "x".repeat(250);
    let names = ["a b", ".", "..", "", &long, "ä"];
    let request = joining_with(|s| s.source_topics = names.iter().map(|n| (*n).to_owned()).collect());
    let text = format!("Topic names {} are not valid topic names.", names.join(","));
    assert_eq!(refusal(&Lab::new().beat(&request)), (130, text.as_str()));
    let longest = "x".repeat(249);
    let request = joining_with(|s| s.source_topics = vec!["A-z_0.9".into(), longest]);
    assert_eq!(Lab::new().beat(&request).error_code, 0);
}

#[test]
fn d1_what_kafka_cannot_explain_is_refused_in_words() {
    let indexes = CopartitionGroup { source_topics: vec![0, 7], ..CopartitionGroup::default() };
    let named = |name: &str| TopicInfo { name: name.into(), ..TopicInfo::default() };
    let key = || KeyValue { key: "k".into(), ..KeyValue::default() };
    let rows = [
        (joining(|r| r.topology.as_mut().unwrap().epoch = -1), 42, "Topology epoch must be non-negative."),
        (
            joining(|r| r.topology = Some(topology(&[("0", &["in"]), ("0", &["in"])]))),
            130,
            "Subtopology 0 appears more than once in the topology.",
        ),
        (
            joining_with(|s| s.copartition_groups.push(indexes)),
            130,
            "A co-partition group of subtopology 0 refers to a topic that does not exist.",
        ),
        (
            joining_with(|s| s.state_changelog_topics = vec![named("c"), named("c")]),
            130,
            "Internal topic c appears more than once in a subtopology.",
        ),
        (
            joining_with(|s| {
                s.state_changelog_topics = vec![TopicInfo { topic_configs: vec![key(), key()], ..named("c") }]
            }),
            130,
            "Config k of internal topic c appears more than once.",
        ),
        (
            joining_with(|s| s.repartition_source_topics = vec![TopicInfo { partitions: -3, ..named("r") }]),
            130,
            "Repartition topic r cannot have -3 partitions.",
        ),
        (joining(|r| r.client_tags = Some(vec![key(), key()])), 42, "Client tag k appears more than once."),
    ];
    for (request, code, text) in rows {
        assert_eq!(refusal(&Lab::with(&[("in", 1)]).beat(&request)), (code, text));
        let kafka = &mut Lab::with(&[("in", 1)]).kafka();
        assert_eq!(refusal(&kafka.beat(&request)), (-1, "(null)"), "{text}");
        assert!(kafka.groups.is_empty());
    }
}

#[test]
fn d1_a_task_list_names_a_subtopology_once() {
    let double = owning("m", 10, &[("a", &[0]), ("a", &[1])]);
    let mut lab = two_subtopologies();
    lab.place("m", stable(10, &[("a", &[0, 1])]));
    assert_eq!(refusal(&lab.beat(&double)), (42, "Subtopology a appears more than once in a task list."));
    let mut kafka = Lab { groups: lab.groups, journal: lab.journal, ..Lab::with(&[("foo", 6), ("bar", 6)]).kafka() };
    kafka.restart();
    // Kafka reads the list only when there is something to decide about it.
    assert_eq!(refusal(&kafka.beat(&double)), (0, "(null)"));
    let fenced = "The streams group member has a greater member epoch (11) than the one known by the group coordinator \
                  (10). The member must abandon all its partitions and rejoin.";
    assert_eq!(refusal(&kafka.beat(&Request { member_epoch: 11, ..double.clone() })), (110, fenced));
    kafka.beat(&join_two("m2"));
    assert_eq!(refusal(&kafka.beat(&double)), (-1, "(null)"));
}

#[test]
fn d1_an_endpoint_while_source_topics_are_missing() {
    let endpoint =
        |r: &mut Request| r.user_endpoint = Some(Endpoint { host: "h".into(), port: 1, ..Endpoint::default() });
    let request = || {
        let mut request = joining_with(|_| ());
        endpoint(&mut request);
        request
    };
    assert_eq!(Lab::new().beat(&request()).partitions_by_user_endpoint.unwrap().len(), 1);
    let kafka = &mut Lab::new().kafka();
    assert_eq!(refusal(&kafka.beat(&request())), (-1, "(null)"));
    assert!(kafka.groups.is_empty());
    // What it only remembers of a failed heartbeat stays.
    kafka.beat(&joining_with(|_| ()));
    let mut later = steady("m", 2);
    endpoint(&mut later);
    assert_eq!(refusal(&kafka.beat(&later)), (-1, "(null)"));
    assert_eq!(kafka.beat(&steady("m", 2)).endpoint_information_epoch, 1);
}

#[test]
fn d14_the_heartbeat_that_makes_a_group_leaves_nothing_but_records_in_kafka() {
    let mut request =
        joining_with(|s| s.state_changelog_topics = vec![TopicInfo { name: "c".into(), ..TopicInfo::default() }]);
    request.task_offsets = Some(vec![TaskOffset { subtopology_id: "0".into(), offset: 5, ..TaskOffset::default() }]);
    request.shutdown_application = true;
    let after = |mut lab: Lab| {
        assert_eq!(statuses(&lab.beat(&request)), [4]);
        let described = lab.groups.describe(&lab.config, "g").unwrap();
        let subtopologies = described.topology.unwrap().subtopologies.unwrap();
        let partitions = subtopologies[0].state_changelog_topics[0].partitions;
        (partitions, described.members[0].task_offsets.len(), statuses(&lab.beat(&steady("m", 2))))
    };
    let topics = [("in", 3), ("c", 3)];
    assert_eq!(after(Lab::with(&topics)), (3, 1, vec![4]));
    assert_eq!(after(Lab::with(&topics).kafka()), (0, 0, vec![]));
}
