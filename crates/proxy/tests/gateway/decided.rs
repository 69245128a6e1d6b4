//! APIs 89, 42 and 93 through the gateway.

use streamside_proxy::gateway::Mode;
use streamside_wire::messages::api_versions::ApiVersionsRequest;
use streamside_wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::streams_group_describe::{
    DescribedGroup, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use crate::captures::first;
use crate::stage::{
    NEW, OLD, OLDEST, Stage, Unmoved, Watcher, answer, broker, peek, read_answer, read_request, request,
};

fn upstream(request: &[u8]) -> Option<Vec<u8>> {
    let (api_key, version, correlation_id) = peek(request);
    Some(match api_key {
        89 => {
            let group = DescribedGroup {
                group_id: "g".into(),
                topology_description_status: if version == 0 { 0 } else { 1 },
                assignor_name: (version > 0).then(|| "sticky".into()),
                ..Default::default()
            };
            let own = StreamsGroupDescribeResponse { groups: vec![group], ..Default::default() };
            answer(version, correlation_id, &own)
        }
        42 => {
            let result = DeletableGroupResult {
                group_id: "g".into(),
                error_code: 68,
                error_message: (version > 2).then(|| "not empty".into()),
                ..Default::default()
            };
            answer(version, correlation_id, &DeleteGroupsResponse { results: vec![result], ..Default::default() })
        }
        93 => answer(version, correlation_id, &StreamsGroupTopologyDescriptionUpdateResponse::default()),
        // As a broker does with what it does not know.
        _ => return None,
    })
}

async fn known(rows: &'static [(i16, i16, i16)]) -> Stage {
    let mut stage = Stage::new(broker(rows, upstream));
    stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
    stage
}

fn describe(include_topology_description: bool) -> StreamsGroupDescribeRequest {
    StreamsGroupDescribeRequest {
        group_ids: vec!["g".into()],
        include_authorized_operations: true,
        include_topology_description,
        ..Default::default()
    }
}

#[tokio::test]
async fn kip1331_1_5_a_describe_goes_up_and_comes_back_in_each_sides_version() {
    for (rows, up) in [(OLD, 0), (NEW, 1)] {
        for version in [0, 1] {
            let mut stage = known(rows).await;
            let answered = stage.ask(&request(version, i32::MAX, &describe(version == 1))).await;
            let (correlation_id, told) = read_answer::<StreamsGroupDescribeResponse>(&answered, version);
            let group = &told.groups[0];
            assert_eq!((correlation_id, &*group.group_id), (i32::MAX, "g"));
            let both_new = version == 1 && up == 1;
            assert_eq!(group.topology_description_status, i8::from(both_new));
            assert_eq!(group.assignor_name.as_deref(), both_new.then_some("sticky"));

            let went_up = stage.seen()[1].clone();
            let (header, asked) = read_request::<StreamsGroupDescribeRequest>(&went_up);
            assert_eq!((header.api_version, header.client_id.as_deref()), (up, Some("app")));
            assert_eq!(asked, describe(both_new));
            assert_eq!(stage.watcher.notes()[2], format!("describe app [\"g\"] v{version}"));
        }
    }
}

#[tokio::test]
async fn kip1331_1_7_a_delete_goes_up_and_comes_back_in_each_sides_version() {
    for (rows, up) in [(OLD, 2), (NEW, 3)] {
        for version in 0..=3 {
            let mut stage = known(rows).await;
            let asked = DeleteGroupsRequest { groups_names: vec!["g".into()], ..Default::default() };
            let answered = stage.ask(&request(version, -1, &asked)).await;
            let (correlation_id, told) = read_answer::<DeleteGroupsResponse>(&answered, version);
            assert_eq!((correlation_id, told.results[0].error_code), (-1, 68));
            let message = (version == 3 && up == 3).then_some("not empty");
            assert_eq!(told.results[0].error_message.as_deref(), message);
            assert_eq!(peek(&stage.seen()[1]).1, up);
        }
    }
}

#[tokio::test]
async fn k07_a_push_never_reaches_a_broker_that_does_not_know_it() {
    let push = first("upgrade-nulled-4.3.0", 93, 0).request;
    let mut stage = known(OLD).await;
    stage.send(&push).await;
    // The watcher passes it on, and learns that this is not possible.
    assert_eq!(stage.answer().await, None);
    assert_eq!(stage.seen().len(), 1);
    let notes = stage.watcher.notes();
    assert!(notes[2].starts_with("push v1-") && notes[2].ends_with(&format!("v1 {}", push.len())), "{notes:?}");

    let mut stage = known(NEW).await;
    let answered = stage.ask(&push).await;
    assert_eq!(read_answer::<StreamsGroupTopologyDescriptionUpdateResponse>(&answered, 0).1.error_code, 0);
    let went_up = stage.seen()[1].clone();
    let (_, own) = read_request::<StreamsGroupTopologyDescriptionUpdateRequest>(&push);
    assert_eq!(read_request::<StreamsGroupTopologyDescriptionUpdateRequest>(&went_up).1, own);
}

#[tokio::test]
async fn a_push_that_cannot_be_read_closes_the_connection_as_kafka_does() {
    let mut push = first("app-streams", 93, 0).request;
    push.truncate(push.len() - 1);
    let mut stage = known(NEW).await;
    stage.send(&push).await;
    assert_eq!(stage.answer().await, None);
    assert_eq!(stage.seen().len(), 1);
}

#[tokio::test]
async fn without_streams_groups_upstream_everything_goes_up_as_it_came() {
    let push = first("app-streams", 93, 0).request;
    let asked = DeleteGroupsRequest { groups_names: vec!["g".into()], ..Default::default() };
    for (sent, answered) in [(push, false), (request(1, 5, &describe(true)), false), (request(2, 6, &asked), true)] {
        let mut stage = Stage::new(broker(OLDEST, |r| if peek(r).0 == 42 { upstream(r) } else { None }));
        stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
        stage.send(&sent).await;
        assert_eq!(stage.answer().await.is_some(), answered);
        assert_eq!(stage.seen()[1], sent);
        let decided = |note: &String| ["push", "describe", "delete"].iter().any(|word| note.starts_with(word));
        assert!(!stage.watcher.notes().iter().any(decided));
        // The same where the client never asked.
        let mut stage = Stage::new(broker(OLDEST, |r| if peek(r).0 == 42 { upstream(r) } else { None }));
        stage.send(&sent).await;
        assert_eq!(stage.answer().await.is_some(), answered);
        assert_eq!(stage.seen()[1], sent);
    }
}

#[tokio::test]
async fn in_relay_mode_nobody_is_asked() {
    let push = first("app-streams", 93, 0).request;
    let mut stage =
        Stage::with(Mode::Relay, Some(std::sync::Arc::new(Unmoved)), Watcher::default().into(), broker(NEW, upstream));
    assert_eq!(stage.ask(&push).await, upstream(&push).unwrap());
    assert_eq!(stage.seen(), [push]);
    assert_eq!(stage.watcher.notes(), ["opened 7"]);
}

#[tokio::test]
async fn requests_behind_an_exchange_come_behind_its_questions() {
    let mut stage = Stage::new(broker(OLD, upstream));
    let versions = ApiVersionsRequest::default();
    stage.send(&request(1, 1, &describe(true))).await;
    stage.send(&request(3, 2, &versions)).await;
    stage.send(&request(0, 3, &describe(false))).await;
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let body = stage.answer().await.unwrap();
        numbers.push(i32::from_be_bytes(body[..4].try_into().unwrap()));
    }
    assert_eq!(numbers, [1, 2, 3]);
    let keys: Vec<_> = stage.seen().iter().map(|body| (peek(body).0, peek(body).1)).collect();
    assert_eq!(keys, [(18, 0), (89, 0), (18, 3), (89, 0)]);
}

#[tokio::test]
async fn large_requests_and_answers_go_the_same_way() {
    let names: Vec<String> = (0..20_000).map(|n| format!("group-{n}")).collect();
    let own = names.clone();
    let mut stage = Stage::new(broker(NEW, move |request| {
        let (_, version, correlation_id) = peek(request);
        let group = |name: &String| DescribedGroup { group_id: name.clone(), ..Default::default() };
        let answered = StreamsGroupDescribeResponse { groups: own.iter().map(group).collect(), ..Default::default() };
        Some(answer(version, correlation_id, &answered))
    }));
    stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
    let asked = StreamsGroupDescribeRequest { group_ids: names.clone(), ..Default::default() };
    let sent = request(1, 2, &asked);
    assert!(sent.len() > 200_000);
    let answered = stage.ask(&sent).await;
    let (correlation_id, told) = read_answer::<StreamsGroupDescribeResponse>(&answered, 1);
    assert_eq!(correlation_id, 2);
    assert!(told.groups.iter().map(|group| &group.group_id).eq(&names));
    let went_up = stage.seen()[1].clone();
    assert_eq!(read_request::<StreamsGroupDescribeRequest>(&went_up).1, asked);

    stage.send(&sent[..sent.len() - 2]).await;
    assert_eq!(stage.answer().await, None, "cut off, it closes the connection");
}
