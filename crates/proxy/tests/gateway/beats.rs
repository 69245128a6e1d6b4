//! API 88 through the gateway.

use proptest::prelude::*;
use streamside_proxy::bridge::heartbeat::{answer_from_v1, answer_to_v1, request_to_v0};
use streamside_proxy::intercept::Observed;
use streamside_wire::Tags;
use streamside_wire::header::{RequestHeader, ResponseHeader};
use streamside_wire::messages::api_versions::ApiVersionsRequest;
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::{
    Status, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, TaskIds, TaskOffset,
};
use streamside_wire::{Message, Reader, Writer, bytes::BytesMut};
use tokio::io::AsyncWriteExt;

use crate::captures::first;
use crate::stage::{NEW, OLD, OLDEST, Stage, answer, broker, framed, peek, read_answer, read_request, request};

type Beat<'a> = StreamsGroupHeartbeatRequest<'a>;
type Reply<'a> = StreamsGroupHeartbeatResponse<'a>;

fn beat(member_epoch: i32) -> Beat<'static> {
    Beat { group_id: "g".into(), member_id: "m".into(), member_epoch, ..Default::default() }
}

/// A good answer in the request's version.
fn good(request: &[u8]) -> Option<Vec<u8>> {
    let (_, version, correlation_id) = peek(request);
    let own = Reply {
        member_id: "m".into(),
        member_epoch: 3,
        heartbeat_interval_ms: 5000,
        acceptable_recovery_lag_legacy: if version == 0 { 7 } else { 0 },
        acceptable_recovery_lag: if version == 0 { -1 } else { 7 },
        ..Default::default()
    };
    Some(answer(version, correlation_id, &own))
}

async fn known(rows: &'static [(i16, i16, i16)]) -> Stage {
    let mut stage = Stage::new(broker(rows, good));
    stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
    stage
}

#[tokio::test]
async fn k07_a_real_4_4_join_reaches_an_old_broker_as_version_0_without_task_offsets() {
    // Recorded: passed on with its empty lists, this join is refused with 42 and the application dies.
    let join = first("upgrade-naive-4.3.0", 88, 1).request;
    let mut stage = known(OLD).await;
    let answered = stage.ask(&join).await;

    let went_up = stage.seen()[1].clone();
    let (header, sent) = read_request::<Beat<'_>>(&went_up);
    let (own_header, own) = read_request::<Beat<'_>>(&join);
    assert_eq!((own.task_offsets.as_deref(), own.task_end_offsets.as_deref()), (Some(&[][..]), Some(&[][..])));
    assert_eq!(header, RequestHeader { api_version: 0, ..own_header });
    assert_eq!(sent, Beat { task_offsets: None, task_end_offsets: None, ..own });

    let (correlation_id, told) = read_answer::<Reply<'_>>(&answered, 1);
    assert_eq!(correlation_id, peek(&join).2);
    assert_eq!((told.member_epoch, told.acceptable_recovery_lag, told.topology_description_required), (3, 7, false));
}

#[tokio::test]
async fn k07_what_the_intercept_fills_in_reaches_the_client_alone() {
    let mut stage = known(OLD).await;
    stage.watcher.on_beat(|beat, answer| {
        assert_eq!(beat.client_id, "app");
        assert_eq!(beat.request.task_offsets.as_ref().unwrap()[0].offset, 41, "what the broker must not see");
        answer.task_offset_interval_ms = 60_000;
        answer.acceptable_recovery_lag = 10_000;
        answer.topology_description_required = true;
        Observed { changed: true, question: None }
    });
    let offset = TaskOffset { subtopology_id: "0".into(), partition: 1, offset: 41, ..Default::default() };
    let sent = Beat { task_offsets: Some(vec![offset]), ..beat(3) };
    let answered = stage.ask(&request(1, 2, &sent)).await;
    let (_, told) = read_answer::<Reply<'_>>(&answered, 1);
    assert_eq!(
        (told.task_offset_interval_ms, told.acceptable_recovery_lag, told.topology_description_required),
        (60_000, 10_000, true)
    );
    assert_eq!(stage.watcher.notes()[2..], ["heard g m", "beat m v1 of v0"]);
}

#[tokio::test]
async fn k07_a_version_0_client_goes_up_as_version_0_and_its_answer_is_never_cut_down() {
    for rows in [OLD, NEW] {
        let mut stage = known(rows).await;
        let sent = request(0, 2, &beat(3));
        assert_eq!(stage.ask(&sent).await, good(&sent).unwrap());
        assert_eq!(stage.seen()[1], sent);
        // Whatever the intercept says, a client of version 0 is not asked.
        stage.watcher.on_beat(|_, answer| {
            assert_eq!(answer.acceptable_recovery_lag, 7);
            answer.topology_description_required = true;
            answer.task_offset_interval_ms = 9;
            Observed { changed: true, question: None }
        });
        let answered = stage.ask(&sent).await;
        let (_, told) = read_answer::<Reply<'_>>(&answered, 0);
        assert_eq!((told.task_offset_interval_ms, told.acceptable_recovery_lag_legacy), (9, 7));
    }
}

#[tokio::test]
async fn between_equals_the_bytes_stay_unless_the_answer_was_changed() {
    let mut stage = known(NEW).await;
    let sent = request(1, i32::MIN, &Beat { task_offsets: Some(Vec::new()), ..beat(0) });
    assert_eq!(stage.ask(&sent).await, good(&sent).unwrap());
    assert_eq!(stage.seen()[1], sent);
    stage.watcher.on_beat(|_, answer| {
        answer.topology_description_required = true;
        Observed { changed: true, question: None }
    });
    let answered = stage.ask(&sent).await;
    let (correlation_id, told) = read_answer::<Reply<'_>>(&answered, 1);
    assert_eq!((correlation_id, told.topology_description_required, told.acceptable_recovery_lag), (i32::MIN, true, 7));
}

#[tokio::test]
async fn an_error_of_an_old_broker_looks_as_one_of_a_new_one() {
    let refusal = Reply { error_code: 16, ..Default::default() };
    let own = refusal.clone();
    let mut stage = Stage::new(broker(OLD, move |request| Some(answer(0, peek(request).2, &own))));
    stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
    assert_eq!(stage.ask(&request(1, 2, &beat(0))).await, answer(1, 2, &refusal));
    assert_eq!(stage.watcher.notes()[2..], ["beat m v1 of v0"], "nobody is heard by an error");
}

#[tokio::test]
async fn a_client_that_never_asked_for_versions_has_them_asked_for() {
    let mut stage = Stage::new(broker(OLD, good));
    stage.watcher.on_beat(|_, _| Observed { changed: false, question: Some(Box::new(describes)) });
    let sent = request(1, -5, &Beat { task_offsets: Some(Vec::new()), ..beat(0) });
    let answered = stage.ask(&sent).await;
    assert_eq!(read_answer::<Reply<'_>>(&answered, 1).0, -5);
    let seen: Vec<_> = stage.seen().iter().map(|body| (peek(body).0, peek(body).1)).collect();
    assert_eq!(seen, [(18, 0), (88, 0), (89, 0)]);
    stage.ask(&sent).await;
    assert_eq!(stage.seen().len(), 5, "once a connection");
}

fn describes(mut questions: streamside_proxy::gateway::Questions) -> streamside_proxy::handler::BoxFuture<()> {
    Box::pin(async move {
        let asked = StreamsGroupDescribeRequest { group_ids: vec!["g".into()], ..Default::default() };
        let _ = questions.describe(&asked).await;
    })
}

#[tokio::test]
async fn a_question_follows_its_heartbeat_and_the_answer_does_not_wait() {
    let mut stage = Stage::new(broker(NEW, |request| match peek(request) {
        (89, version, correlation_id) => {
            Some(answer(version, correlation_id, &StreamsGroupDescribeResponse::default()))
        }
        _ => good(request),
    }));
    stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
    stage.watcher.on_beat(|_, _| Observed { changed: false, question: Some(Box::new(describes)) });
    let sent = request(1, 2, &beat(3));
    for _ in 0..3 {
        assert_eq!(stage.ask(&sent).await, good(&sent).unwrap());
    }
    let keys: Vec<_> = stage.seen().iter().map(|body| peek(body).0).collect();
    assert!(keys.starts_with(&[18, 88, 89, 88, 89, 88]), "{keys:?}");
    assert_eq!(stage.end().await.1.notes().last().unwrap(), "closed 7 false");
}

#[tokio::test]
async fn versions_that_nobody_offered_and_brokers_without_the_api_get_the_bytes_as_they_came() {
    let echo = |request: &[u8]| Some(request[4..].to_vec());
    for (rows, version) in [(OLD, 2), (NEW, 2), (OLDEST, 0), (OLDEST, 1)] {
        let mut stage = Stage::new(broker(rows, echo));
        stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
        let mut sent = request(1, 2, &beat(3));
        sent[3] = version;
        assert_eq!(stage.ask(&sent).await, sent[4..]);
        assert_eq!(stage.seen()[1], sent);
    }
}

#[tokio::test]
async fn a_join_that_cannot_be_read_closes_the_connection_as_kafka_does() {
    let mut stage = known(OLD).await;
    let mut sent = request(1, 2, &beat(3));
    sent.truncate(sent.len() - 9);
    stage.send(&sent).await;
    assert_eq!(stage.answer().await, None);
    assert_eq!(stage.seen().len(), 1);
}

#[tokio::test]
async fn a_heartbeat_longer_than_any_topology_passes_unread_where_the_broker_reads_its_version() {
    let mut sent = request(1, 2, &beat(0));
    sent.resize((4 << 20) + 1, 0);
    let mut stage = known(NEW).await;
    assert_eq!(stage.ask(&sent).await, good(&sent).unwrap());
    assert_eq!(stage.seen()[1], sent);
    assert_eq!(stage.watcher.notes().len(), 2, "nobody saw it");
    let mut stage = known(OLD).await;
    stage.client.write_all(&framed(&sent)[..100]).await.unwrap();
    assert_eq!(stage.answer().await, None, "nothing that this broker could read");
    assert_eq!(stage.seen().len(), 1);
}

fn tags() -> impl Strategy<Value = Tags> {
    proptest::collection::btree_map(0_u32..5000, proptest::collection::vec(any::<u8>(), 0..6), 0..4).prop_map(
        |fields| {
            let mut tags = Tags::default();
            for (tag, bytes) in fields {
                tags.push(tag, &bytes);
            }
            tags
        },
    )
}

fn tasks() -> impl Strategy<Value = Option<Vec<TaskIds>>> {
    let one = ("[0-9]{1,3}", proptest::collection::vec(any::<i32>(), 0..4), tags())
        .prop_map(|(subtopology_id, partitions, tags)| TaskIds { subtopology_id, partitions, tags });
    proptest::option::of(proptest::collection::vec(one, 0..3))
}

prop_compose! {
    fn replies()(
        (throttle_time_ms, error_code, member_epoch, heartbeat_interval_ms) in any::<(i32, i16, i32, i32)>(),
        (lag, task_offset_interval_ms, endpoint_information_epoch) in any::<(i32, i32, i32)>(),
        member_id in "[a-zA-Z0-9_é-]{0,24}",
        (active_tasks, standby_tasks, warmup_tasks) in (tasks(), tasks(), tasks()),
        status in proptest::collection::vec((any::<i8>(), ".{0,9}", tags()), 0..3),
        tags in tags(),
    ) -> Reply<'static> {
        Reply {
            throttle_time_ms, error_code, member_epoch, heartbeat_interval_ms, task_offset_interval_ms,
            member_id: member_id.into(),
            acceptable_recovery_lag_legacy: lag,
            status: Some(status.into_iter().map(|(status_code, status_detail, tags)| {
                Status { status_code, status_detail, tags }
            }).collect()),
            active_tasks, standby_tasks, warmup_tasks, endpoint_information_epoch, tags,
            ..Default::default()
        }
    }
}

fn encoded<'a>(header: &ResponseHeader, reply: &Reply<'a>, version: i16) -> BytesMut {
    let mut body = BytesMut::new();
    let mut w = Writer::new(&mut body);
    header.encode(&mut w, 88, version).unwrap();
    reply.encode(&mut w, version).unwrap();
    body
}

proptest! {
    #[test]
    fn kip1331_1_4_an_old_answer_survives_the_way_to_version_1_and_back(reply in replies(), header_tags in tags()) {
        let header = ResponseHeader { correlation_id: -3, tags: header_tags };
        let old = encoded(&header, &reply, 0);
        let mut new = reply.clone();
        answer_to_v1(&mut new, 0);
        let sent = encoded(&header, &new, 1);
        // An int32 less, an int64 and a bool more.
        prop_assert_eq!(sent.len(), old.len() + 5);
        let mut r = Reader::new(&sent);
        let read_header = ResponseHeader::decode(&mut r, 88, 1).unwrap();
        let mut back = Reply::decode(&mut r, 1).unwrap();
        prop_assert_eq!(&back, &new);
        if reply.acceptable_recovery_lag_legacy >= 0 {
            answer_from_v1(&mut back, 0);
            prop_assert_eq!(encoded(&read_header, &back, 0), old);
        }
    }

    #[test]
    fn kip1331_1_3_a_join_loses_both_lists_and_nothing_else(
        member_epoch in any::<i32>(),
        (active, warmup) in (tasks(), tasks()),
        (body_tags, header_tags) in (tags(), tags()),
    ) {
        let full = Beat {
            active_tasks: active,
            warmup_tasks: warmup,
            task_offsets: Some(vec![TaskOffset::default()]),
            task_end_offsets: Some(Vec::new()),
            tags: body_tags,
            ..beat(member_epoch)
        };
        let header = RequestHeader { api_key: 88, api_version: 0, tags: header_tags, ..Default::default() };
        let mut sent = full.clone();
        request_to_v0(&mut sent);
        let mut body = BytesMut::new();
        let mut w = Writer::new(&mut body);
        header.encode(&mut w).unwrap();
        sent.encode(&mut w, 0).unwrap();
        let (read_header, read) = read_request::<Beat<'_>>(&body);
        prop_assert_eq!(read_header, header);
        prop_assert_eq!(read, Beat { task_offsets: None, task_end_offsets: None, ..full });
    }
}
