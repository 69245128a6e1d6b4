//! Frames between real 4.4 applications, tools and real brokers, told as they came.

use std::collections::HashMap;

use serde::Deserialize;
use streamside_coordinator::{Compat::Streamside, Input, Reply};
use streamside_wire::header::{RequestHeader, ResponseHeader};
use streamside_wire::messages::streams_group_describe::{DescribedGroup, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use streamside_wire::{Message, Reader};

use crate::world::World;

#[derive(Deserialize)]
struct Frame {
    ms: i64,
    conn: u64,
    dir: String,
    api: i16,
    ver: i16,
    corr: i32,
    hex: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn answer_body<'a>(frame: &Frame, whole: &'a [u8]) -> Reader<'a> {
    let mut reader = Reader::new(&whole[4..]);
    ResponseHeader::decode(&mut reader, frame.api, frame.ver).unwrap();
    reader
}

/// Tells all of it. Returns the described entries.
fn replay(world: &mut World, text: &str) -> Vec<DescribedGroup> {
    let start = world.now;
    let mut open: HashMap<(u64, i32), (Vec<u8>, i64)> = HashMap::new();
    let mut entries = Vec::new();
    for line in text.lines() {
        let frame: Frame = serde_json::from_str(line).unwrap();
        let whole = bytes(&frame.hex);
        world.now = start + frame.ms;
        if frame.dir == "req" {
            open.insert((frame.conn, frame.corr), (whole, world.now));
            continue;
        }
        let (asked, asked_at) = open.remove(&(frame.conn, frame.corr)).expect("a request");
        let mut reader = answer_body(&frame, &whole);
        if frame.api == 89 {
            let answer = StreamsGroupDescribeResponse::decode(&mut reader, frame.ver).unwrap();
            for entry in answer.groups {
                world.tell(&entry, asked_at, true);
                entries.push(entry);
            }
            continue;
        }
        let answer = StreamsGroupHeartbeatResponse::decode(&mut reader, frame.ver).unwrap();
        let mut reader = Reader::new(&asked[4..]);
        RequestHeader::decode(&mut reader).unwrap();
        let request = StreamsGroupHeartbeatRequest::decode(&mut reader, frame.ver).unwrap();
        let input = Input::Beat { request: &request, version: frame.ver, answer: &answer, connection: frame.conn };
        let (reply, _) = world.play(input);
        let Some(Reply::Beat { ask, describe }) = reply else { panic!("{reply:?}") };
        assert!(!describe, "all of it was seen from its beginning");
        if ask {
            world.asks += 1;
            let (group, member) = (request.group_id.to_string(), request.member_id.to_string());
            assert_eq!(world.push_as(&member, &group, frame.conn, 0, "a").0, 0);
        }
    }
    entries
}

#[test]
fn b_captured_two_instances_that_move_tasks() {
    let mut world = World::new(Streamside);
    let entries = replay(&mut world, include_str!("captures/routing-streams-2x2-moving.jsonl"));
    assert_eq!(world.asks, 1);
    let entry = entries.iter().find(|entry| !entry.members.is_empty()).expect("a described group");
    let group = &entry.group_id;
    // What members reported is what the broker shows of them.
    let mut told: Vec<_> = entry
        .members
        .iter()
        .flat_map(|member| member.task_offsets.iter().map(|task| (&*member.process_id, task.partition, task.offset)))
        .collect();
    told.sort_unstable();
    assert!(!told.is_empty());
    let world_before = {
        let mut world = World::new(Streamside);
        let frames = include_str!("captures/routing-streams-2x2-moving.jsonl");
        let described = frames.lines().position(|line| line.contains("\"api\":89")).unwrap();
        let until: Vec<&str> = frames.lines().take(described).collect();
        replay(&mut world, &until.join("\n"));
        world
    };
    let reports = world_before.coordinator().watched().task_reports(group);
    for (process, partition, offset) in told {
        let ours = reports
            .iter()
            .filter(|report| &*report.process == process && report.partition == partition)
            .filter_map(|report| report.offset)
            .max();
        assert!(ours.is_some_and(|ours| ours >= offset), "{process} {partition}: {ours:?} of {offset}");
    }
}

#[test]
fn b_captured_application_before_4_3() {
    let mut world = World::new(Streamside);
    replay(&mut world, include_str!("captures/upgrade-nulled-4.3.0.jsonl"));
    assert_eq!(world.asks, 1);
    let stats = world.coordinator().stats();
    assert_eq!((stats.full, stats.members), (1, 0), "all left");
}

#[test]
fn b_captured_application_at_version_0() {
    let mut world = World::new(Streamside);
    let entries = replay(&mut world, include_str!("captures/old-broker-4.3.0.jsonl"));
    assert_eq!((world.asks, world.calls().len()), (0, 0));
    let group = &entries[0].group_id;
    assert_eq!(world.coordinator().word(group), "coarse");
    // The describe and the join tell one and the same topology.
    let view = world.coordinator().watched().view(group).unwrap();
    assert!(view.fingerprint.is_some() && view.verified);
}
