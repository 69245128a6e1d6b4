//! The fingerprint of an assignment topology: the same from a join and from a describe, different when a name differs.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of the test functions

use serde::Deserialize;
use streamside_topology::Fingerprint;
use streamside_wire::messages::streams_group_describe::{self as describe, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::{self as heartbeat, StreamsGroupHeartbeatRequest};
use streamside_wire::{Message, Reader};

/// Bodies recorded between real applications and real brokers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    broker: String,
    join_version: i16,
    join: String,
    describe_version: i16,
    describe: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn a_join_and_its_describe_agree_on_every_kafka() {
    let mut seen = Vec::new();
    for line in include_str!("joins_and_describes.jsonl").lines() {
        let recorded: Recorded = serde_json::from_str(line).unwrap();
        let (join, answer) = (bytes(&recorded.join), bytes(&recorded.describe));
        let join = StreamsGroupHeartbeatRequest::decode(&mut Reader::new(&join), recorded.join_version).unwrap();
        let answer =
            StreamsGroupDescribeResponse::decode(&mut Reader::new(&answer), recorded.describe_version).unwrap();
        let joined = Fingerprint::of_heartbeat(join.topology.as_ref().unwrap());
        let described = Fingerprint::of_described(answer.groups[0].topology.as_ref().unwrap());
        assert_eq!(Some(joined), described, "{}", recorded.broker);
        seen.push(joined);
    }
    // five applications, no two alike
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|s| (*s).to_owned()).collect()
}

fn topic(name: &str, partitions: i32) -> heartbeat::TopicInfo {
    heartbeat::TopicInfo { name: name.into(), partitions, ..Default::default() }
}

/// Id, sources, repartition sinks, repartition sources, changelogs.
fn part(id: &str, lists: [&[&str]; 4]) -> heartbeat::Subtopology {
    let [sources, sinks, repartition_sources, changelogs] = lists;
    heartbeat::Subtopology {
        subtopology_id: id.into(),
        source_topics: list(sources),
        repartition_sink_topics: list(sinks),
        repartition_source_topics: repartition_sources.iter().map(|t| topic(t, 0)).collect(),
        state_changelog_topics: changelogs.iter().map(|t| topic(t, 0)).collect(),
        ..Default::default()
    }
}

fn of(subtopologies: Vec<heartbeat::Subtopology>) -> Fingerprint {
    Fingerprint::of_heartbeat(&heartbeat::Topology { subtopologies, ..Default::default() })
}

#[test]
fn order_counts_and_repetition_do_not_matter() {
    let one = part("0", [&["b", "a"], &["s2", "s1"], &["r2", "r1"], &["c2", "c1"]]);
    let base = of(vec![part("1", [&[], &[], &[], &[]]), one.clone()]);
    let mut other = part("0", [&["a", "b", "a"], &["s1", "s2"], &["r1", "r2", "r2"], &["c1", "c2"]]);
    other.repartition_source_topics[0].partitions = 7;
    other.state_changelog_topics[1].topic_configs =
        vec![heartbeat::KeyValue { key: "cleanup.policy".into(), value: "compact".into(), ..Default::default() }];
    other.copartition_groups = vec![heartbeat::CopartitionGroup { source_topics: vec![0, 1], ..Default::default() }];
    let epoch = heartbeat::Topology {
        epoch: 9,
        subtopologies: vec![other, part("1", [&[], &[], &[], &[]])],
        ..Default::default()
    };
    assert_eq!(Fingerprint::of_heartbeat(&epoch), base);
}

#[test]
fn every_name_and_its_place_matter() {
    let all = [
        of(vec![]),
        of(vec![part("0", [&[], &[], &[], &[]])]),
        of(vec![part("1", [&[], &[], &[], &[]])]),
        of(vec![part("0", [&[], &[], &[], &[]]), part("1", [&[], &[], &[], &[]])]),
        of(vec![part("0", [&["a"], &[], &[], &[]])]),
        of(vec![part("0", [&[], &["a"], &[], &[]])]),
        of(vec![part("0", [&[], &[], &["a"], &[]])]),
        of(vec![part("0", [&[], &[], &[], &["a"]])]),
        of(vec![part("0", [&["a", "b"], &[], &[], &[]])]),
        of(vec![part("0", [&["ab"], &[], &[], &[]])]),
        of(vec![part("0", [&["a"], &["b"], &[], &[]])]),
        of(vec![part("0", [&["a", ""], &[], &[], &[]])]),
        of(vec![part("0", [&["a\0b"], &[], &[], &[]])]),
        of(vec![part("0a", [&[], &[], &[], &[]])]),
        of(vec![part("0", [&["a"], &[], &[], &[]]), part("1", [&["b"], &[], &[], &[]])]),
        of(vec![part("0", [&["b"], &[], &[], &[]]), part("1", [&["a"], &[], &[], &[]])]),
    ];
    for (i, a) in all.iter().enumerate() {
        for (j, b) in all.iter().enumerate() {
            assert_eq!(a == b, i == j, "{i} and {j}");
        }
    }
}

#[test]
fn a_describe_without_subtopologies_tells_nothing() {
    assert_eq!(Fingerprint::of_described(&describe::Topology::default()), None);
    let empty = describe::Topology { subtopologies: Some(Vec::new()), ..Default::default() };
    assert_eq!(Fingerprint::of_described(&empty), Some(of(Vec::new())));
}
