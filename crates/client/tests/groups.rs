//! Questions about groups, and a member's life, against a scripted broker.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod fake;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake::{Fake, Reply, Request, usual, versions};
use streamside_client::{Cluster, Error, Member, MemberOptions, Options};
use streamside_wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use streamside_wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use streamside_wire::messages::streams_group_describe::{
    DescribedGroup, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
};
use streamside_wire::messages::streams_group_heartbeat::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, TaskIds,
};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};
use streamside_wire::messages::topology_description::TopologyDescription;

fn quick() -> Options {
    Options {
        request_timeout: Duration::from_secs(1),
        call_timeout: Duration::from_secs(2),
        retry_backoff: Duration::from_millis(10),
        retry_backoff_max: Duration::from_millis(40),
        ..Options::default()
    }
}

async fn cluster(fake: &Fake) -> Cluster {
    Cluster::connect(&fake.address(), quick()).await.expect("a connection")
}

/// A describe answer in which each group has the code that `code` gives it.
fn described(r: &Request, code: impl Fn(&str, usize) -> i16) -> Reply {
    let asked: StreamsGroupDescribeRequest = r.decode();
    let all = asked.group_ids.len();
    // Kafka's answers are not in the order of the question.
    let groups = asked.group_ids.iter().rev().map(|id| DescribedGroup {
        error_code: code(id, all),
        group_id: id.clone(),
        group_epoch: i32::from(asked.include_topology_description),
        ..Default::default()
    });
    r.answer(&StreamsGroupDescribeResponse { groups: groups.collect(), ..Default::default() })
}

#[tokio::test]
async fn lists_ask_for_types_and_are_in_order() {
    let fake = Fake::start(|r, port| {
        usual(r, port).unwrap_or_else(|| {
            let asked: ListGroupsRequest = r.decode();
            assert_eq!(asked.types_filter, ["streams"]);
            let groups = ["b", "a", "b"].map(|id| ListedGroup {
                group_id: id.to_owned(),
                group_type: "streams".to_owned(),
                ..Default::default()
            });
            r.answer(&ListGroupsResponse { groups: groups.to_vec(), ..Default::default() })
        })
    })
    .await;
    let groups = cluster(&fake).await.list_groups(&["streams"]).await.expect("a list");
    let ids: Vec<(&str, i32)> = groups.iter().map(|g| (g.group_id.as_str(), g.broker_id)).collect();
    assert_eq!(ids, [("a", 1), ("b", 1)]);
}

#[tokio::test]
async fn a_broker_that_cannot_choose_by_type_has_no_streams_groups() {
    let fake = Fake::start(|r, port| match r.api_key {
        18 => r.answer(&versions(&[(3, 0, 9), (16, 0, 4), (18, 0, 5)])),
        _ => usual(r, port).unwrap_or(Reply::Silence),
    })
    .await;
    assert_eq!(cluster(&fake).await.list_groups(&["streams"]).await, Ok(Vec::new()));
    assert_eq!(fake.seen(), [(18, 5), (3, 9)]);
}

#[tokio::test]
async fn descriptions_stand_at_the_place_of_their_group() {
    let fake =
        Fake::start(|r, port| usual(r, port).unwrap_or_else(|| described(r, |id, _| if id == "b" { 69 } else { 0 })))
            .await;
    let answers = cluster(&fake).await.describe_streams_groups(&["a", "b", "c"], true).await.expect("answers");
    let seen: Vec<Result<(&str, i32, i16), i16>> = answers
        .iter()
        .map(|answer| match answer {
            Ok(d) => Ok((d.group.group_id.as_str(), d.group.group_epoch, d.version)),
            Err(e) => Err(e.code().map_or(0, |code| code.0)),
        })
        .collect();
    assert_eq!(seen, [Ok(("a", 1, 1)), Err(69), Ok(("c", 1, 1))]);
    assert_eq!(fake.seen(), [(18, 5), (10, 6), (89, 1)]);
}

#[tokio::test]
async fn an_older_broker_describes_without_descriptions() {
    let fake = Fake::start(|r, port| match r.api_key {
        18 => r.answer(&versions(&[(3, 0, 13), (10, 0, 6), (18, 0, 4), (89, 0, 0)])),
        _ => usual(r, port).unwrap_or_else(|| described(r, |_, _| 0)),
    })
    .await;
    let answers = cluster(&fake).await.describe_streams_groups(&["a"], true).await.expect("answers");
    assert_eq!(answers[0].as_ref().map(|d| (d.version, d.group.group_epoch)), Ok((0, 0)));
}

#[tokio::test]
async fn a_group_that_spoils_its_batch_is_asked_about_alone() {
    let spoil = |id: &str, all: usize| if all > 1 || id == "bad" { -1 } else { 0 };
    let fake = Fake::start(move |r, port| usual(r, port).unwrap_or_else(|| described(r, spoil))).await;
    let answers = cluster(&fake).await.describe_streams_groups(&["a", "bad", "c"], true).await.expect("answers");
    let codes: Vec<i16> = answers.iter().map(|a| a.as_ref().err().and_then(Error::code).map_or(0, |c| c.0)).collect();
    assert_eq!(codes, [0, -1, 0]);
}

#[tokio::test]
async fn kip1331_11_1_codes_14_15_16_are_asked_again() {
    let round = AtomicUsize::new(0);
    let fake = Fake::start(move |r, port| {
        usual(r, port).unwrap_or_else(|| {
            let code = [14, 15, 16, 0].get(round.fetch_add(1, Ordering::Relaxed)).copied();
            described(r, |_, _| code.unwrap_or(0))
        })
    })
    .await;
    let answers = cluster(&fake).await.describe_streams_groups(&["a"], false).await.expect("answers");
    assert!(answers[0].is_ok());
    let described: Vec<(i16, i16)> = fake.seen().into_iter().filter(|(key, _)| [10, 89].contains(key)).collect();
    assert_eq!(described, [(10, 6), (89, 1)].repeat(4));
}

#[tokio::test]
async fn retries_end_with_the_time_of_the_call() {
    let fake = Fake::start(|r, port| usual(r, port).unwrap_or_else(|| described(r, |_, _| 14))).await;
    let options = Options { call_timeout: Duration::from_millis(200), ..quick() };
    let cluster = Cluster::connect(&fake.address(), options).await.expect("a connection");
    let answers = cluster.describe_streams_groups(&["a"], false).await.expect("answers");
    assert_eq!(answers[0].as_ref().err().and_then(Error::code).map(|c| c.0), Some(14));
    let asked = fake.seen().iter().filter(|(key, _)| *key == 89).count();
    assert!((3..=20).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_lost_connection_is_made_anew() {
    let fake = Fake::start(|r, port| match r.api_key {
        89 if r.connection == 0 => Reply::Last(Vec::new()),
        _ => usual(r, port).unwrap_or_else(|| described(r, |_, _| 0)),
    })
    .await;
    let answers = cluster(&fake).await.describe_streams_groups(&["a"], false).await.expect("answers");
    assert!(answers[0].is_ok(), "{answers:?}");
}

#[tokio::test]
async fn a_coordinator_before_version_4_is_found_group_by_group() {
    let fake = Fake::start(|r, port| match r.api_key {
        18 => r.answer(&versions(&[(3, 0, 13), (10, 0, 3), (18, 0, 4), (42, 0, 1)])),
        10 => {
            let asked: FindCoordinatorRequest = r.decode();
            r.answer(&FindCoordinatorResponse {
                error_code: if asked.key == "gone" { 30 } else { 0 },
                error_message: None,
                node_id: 1,
                host: "127.0.0.1".to_owned(),
                port: port.into(),
                ..Default::default()
            })
        }
        42 => {
            let asked: DeleteGroupsRequest = r.decode();
            let results = asked.groups_names.into_iter().map(|group_id| DeletableGroupResult {
                error_code: if group_id == "busy" { 68 } else { 0 },
                group_id,
                ..Default::default()
            });
            r.answer(&DeleteGroupsResponse { results: results.collect(), ..Default::default() })
        }
        _ => usual(r, port).unwrap_or(Reply::Silence),
    })
    .await;
    let answers = cluster(&fake).await.delete_groups(&["a", "busy", "gone"]).await.expect("answers");
    let codes: Vec<i16> = answers.iter().map(|a| a.as_ref().err().and_then(Error::code).map_or(0, |c| c.0)).collect();
    assert_eq!(codes, [0, 68, 30]);
}

#[tokio::test]
async fn a_broker_without_the_streams_protocol_says_so() {
    let fake = Fake::start(|r, port| match r.api_key {
        18 => r.answer(&versions(&[(3, 0, 12), (10, 0, 4), (16, 0, 5), (18, 0, 3)])),
        _ => usual(r, port).unwrap_or(Reply::Silence),
    })
    .await;
    let answers = cluster(&fake).await.describe_streams_groups(&["a"], false).await.expect("answers");
    assert_eq!(answers[0].as_ref().map_err(Error::kind), Err("unsupported_version"));
}

/// What the scripted coordinator noted of a heartbeat: epoch, topology, tasks owned, endpoint epoch.
type Beat = (i32, bool, Option<usize>, i32);

#[tokio::test]
async fn kip1071_1_3_a_member_joins_beats_pushes_and_leaves() {
    let beats: &'static Mutex<Vec<Beat>> = Box::leak(Box::default());
    let pushes: &'static Mutex<Vec<(i32, String)>> = Box::leak(Box::default());
    let fake = Fake::start(move |r, port| match r.api_key {
        88 => {
            let beat: StreamsGroupHeartbeatRequest<'_> = r.decode();
            let joins = beat.member_epoch == 0;
            assert_eq!(beat.process_id.is_some(), joins);
            assert_eq!(beat.client_tags.is_some(), joins);
            assert_eq!(beat.rebalance_timeout_ms, if joins { 300_000 } else { -1 });
            assert!(beat.task_offsets.is_none() && beat.task_end_offsets.is_none());
            let owned = beat.active_tasks.as_ref().map(Vec::len);
            let mut beats = beats.lock().expect("lock");
            beats.push((beat.member_epoch, beat.topology.is_some(), owned, beat.endpoint_information_epoch));
            let fenced = beats.len() == 4;
            r.answer(&StreamsGroupHeartbeatResponse {
                error_code: if fenced { 110 } else { 0 },
                member_id: beat.member_id.clone(),
                member_epoch: if beat.member_epoch < 0 { beat.member_epoch } else { 7 },
                heartbeat_interval_ms: 1234,
                active_tasks: joins.then(|| vec![TaskIds::default()]),
                standby_tasks: joins.then(Vec::new),
                warmup_tasks: joins.then(Vec::new),
                topology_description_required: joins,
                endpoint_information_epoch: 3,
                ..Default::default()
            })
        }
        93 => {
            let push: StreamsGroupTopologyDescriptionUpdateRequest = r.decode();
            let mut pushes = pushes.lock().expect("lock");
            pushes.push((push.topology_epoch, push.member_id));
            r.answer(&StreamsGroupTopologyDescriptionUpdateResponse {
                error_code: if pushes.len() == 1 { 15 } else { 0 },
                ..Default::default()
            })
        }
        _ => usual(r, port).unwrap_or(Reply::Silence),
    })
    .await;
    let options = MemberOptions { group_id: "g".to_owned(), ..MemberOptions::default() };
    let mut member = Member::new(cluster(&fake).await, options);
    member.beat().await.expect("joined");
    assert_eq!((member.epoch(), member.interval(), member.is_asked()), (7, Duration::from_millis(1234), true));
    member.push(TopologyDescription::default()).await.expect("pushed at the second try");
    assert!(!member.is_asked());
    member.beat().await.expect("confirms its tasks");
    member.beat().await.expect("nothing new");
    let fenced = member.beat().await.expect_err("fenced");
    assert_eq!(fenced.code().map(|c| c.0), Some(110));
    member.beat().await.expect("joined anew");
    let id = member.member_id().to_owned();
    member.leave().await.expect("left");
    let beats = beats.lock().expect("lock").clone();
    assert_eq!(
        beats,
        [
            (0, true, Some(0), -1),
            (7, false, Some(1), 3),
            (7, false, None, 3),
            (7, false, None, 3),
            (0, true, Some(0), -1),
            (-1, false, None, 3)
        ]
    );
    assert_eq!(*pushes.lock().expect("lock"), [(0, id.clone()), (0, id)]);
}
