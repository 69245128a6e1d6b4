//! What a connection does with good answers, bad answers and none, against a scripted broker.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod fake;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fake::{Fake, KAFKA_4_4, Reply, usual, versions};
use streamside_client::{Cluster, Error, Options};
use streamside_wire::messages::api_versions::ApiVersionsResponse;
use streamside_wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse};
use streamside_wire::messages::streams_group_describe::StreamsGroupDescribeRequest;

fn quick() -> Options {
    Options {
        request_timeout: Duration::from_millis(400),
        call_timeout: Duration::from_millis(800),
        ..Options::default()
    }
}

async fn failure(fake: &Fake, options: Options) -> Error {
    Cluster::connect(&fake.address(), options).await.expect_err("no connection")
}

#[tokio::test]
async fn versions_are_asked_for_with_the_newest_form() {
    let fake = Fake::start(|r, port| usual(r, port).unwrap_or(Reply::Silence)).await;
    let cluster = Cluster::connect(&fake.address(), quick()).await.expect("a connection");
    let connection = cluster.any().await.expect("a connection");
    assert_eq!(connection.version::<ListGroupsRequest>(), Ok(5));
    assert_eq!(fake.seen(), [(18, 5)]);
}

#[tokio::test]
async fn error_35_in_the_form_of_version_0_leads_to_the_version_listed() {
    for (listed, expected) in [(Some(3), 3), (None, 0)] {
        let fake = Fake::start(move |r, _| {
            if r.version == 5 {
                let mut refusal = match listed {
                    Some(last) => versions(&[(18, 0, last)]),
                    None => ApiVersionsResponse::default(),
                };
                refusal.error_code = 35;
                return r.answer_as(&refusal, 0, r.correlation_id);
            }
            r.answer(&versions(&[(16, 0, 2), (18, 0, 3), (89, 3, 9)]))
        })
        .await;
        let cluster = Cluster::connect(&fake.address(), quick()).await.expect("a connection");
        let connection = cluster.any().await.expect("a connection");
        assert_eq!(fake.seen(), [(18, 5), (18, expected)]);
        assert_eq!(connection.version::<ListGroupsRequest>(), Ok(2));
        let lacking = connection.version::<StreamsGroupDescribeRequest>().expect_err("no common version");
        assert_eq!(lacking.kind(), "unsupported_version");
        assert_eq!(
            lacking.to_string(),
            format!(
                "{} does not offer StreamsGroupDescribe in a version that is known here (offered: 3-9, known: 0-1)",
                fake.address()
            )
        );
    }
}

#[tokio::test]
async fn a_wrong_correlation_id_ends_the_connection() {
    let fake = Fake::start(|r, _| r.answer_as(&versions(&KAFKA_4_4), r.version, r.correlation_id + 1)).await;
    let error = failure(&fake, quick()).await;
    assert_eq!(error.kind(), "protocol");
    assert!(error.to_string().contains("carries the number 1 where 0 was due"), "{error}");
}

#[tokio::test]
async fn a_half_frame_is_told_with_its_bytes() {
    let fake = Fake::start(|r, _| match r.answer(&versions(&KAFKA_4_4)) {
        Reply::Bytes(mut bytes) => {
            bytes.truncate(30);
            Reply::Last(bytes)
        }
        other => other,
    })
    .await;
    let error = failure(&fake, quick()).await;
    assert_eq!(error.kind(), "closed");
    assert!(error.to_string().contains("in the middle of an answer, after 26 of"), "{error}");
}

#[tokio::test]
async fn lengths_that_cannot_be_are_refused_before_anything_is_reserved() {
    for (length, told) in [(i32::MAX, "over the limit"), (-1, "negative"), (0, "empty"), (3, "shorter than a header")] {
        let fake = Fake::start(move |_, _| Reply::Last(length.to_be_bytes().to_vec())).await;
        let error = failure(&fake, quick()).await;
        assert_eq!(error.kind(), "protocol", "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_refused_at_it_and_taken_below() {
    let answer = ListGroupsResponse {
        groups: vec![streamside_wire::messages::list_groups::ListedGroup {
            group_id: "g".repeat(1000),
            ..Default::default()
        }],
        ..Default::default()
    };
    let fake = Fake::start(move |r, port| usual(r, port).unwrap_or_else(|| r.answer(&answer))).await;
    for (limit, expected) in [(900, Some("protocol")), (1100, None)] {
        let options = Options { max_answer_bytes: limit, ..quick() };
        let cluster = Cluster::connect(&fake.address(), options).await.expect("a connection");
        let outcome = cluster.list_groups(&[]).await;
        assert_eq!(outcome.as_ref().err().map(Error::kind), expected, "{outcome:?}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_answer_are_refused() {
    let fake = Fake::start(|r, port| match usual(r, port) {
        Some(reply) if r.api_key == 18 => reply,
        // A header, then an array that promises two thousand million brokers.
        _ => Reply::Bytes(
            [&14_i32.to_be_bytes()[..], &r.correlation_id.to_be_bytes(), &[0, 0, 0, 0, 0, 255, 255, 255, 255, 7]]
                .concat(),
        ),
    })
    .await;
    let cluster = Cluster::connect(&fake.address(), quick()).await.expect("a connection");
    let error = cluster.brokers().await.expect_err("no brokers");
    assert_eq!(error.kind(), "protocol", "{error}");
    assert!(error.to_string().contains("its answer to Metadata can't be read"), "{error}");
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let fake = Fake::start(|_, _| Reply::Silence).await;
    let before = Instant::now();
    let error = failure(&fake, quick()).await;
    assert_eq!(error.kind(), "timeout");
    assert!(error.to_string().contains("no answer to ApiVersions within 400 ms"), "{error}");
    assert!(before.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn one_failure_reaches_everyone_who_waits() {
    // Answers nothing but ApiVersions, and closes at the third question.
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let fake = Fake::start(move |r, port| match r.api_key {
        18 => usual(r, port).unwrap_or(Reply::Silence),
        _ if asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2 => Reply::Silence,
        _ => Reply::Last(Vec::new()),
    })
    .await;
    let options = Options { request_timeout: Duration::from_secs(20), ..Options::default() };
    let cluster = Cluster::connect(&fake.address(), options).await.expect("a connection");
    let connection = cluster.any().await.expect("a connection");
    let ask = || {
        let connection = Arc::clone(&connection);
        tokio::spawn(async move { connection.ask(&ListGroupsRequest::default(), 5).await.map(|_| ()) })
    };
    let waiting = [ask(), ask(), ask()];
    let mut errors = Vec::new();
    for one in waiting {
        errors.push(one.await.expect("no panic").expect_err("a failure"));
    }
    assert_eq!(errors[0].kind(), "closed");
    assert!(errors.iter().all(|e| e == &errors[0]), "{errors:?}");
    let later = connection.ask(&ListGroupsRequest::default(), 5).await.expect_err("still failed");
    assert_eq!(later, errors[0]);
    assert!(connection.is_failed());
}

#[tokio::test]
async fn answers_go_to_their_questions_in_order() {
    let fake = Fake::start(|r, port| {
        usual(r, port).unwrap_or_else(|| {
            let asked: ListGroupsRequest = r.decode();
            r.answer(&ListGroupsResponse {
                groups: vec![streamside_wire::messages::list_groups::ListedGroup {
                    group_id: asked.types_filter.concat(),
                    ..Default::default()
                }],
                ..Default::default()
            })
        })
    })
    .await;
    let cluster = Cluster::connect(&fake.address(), Options::default()).await.expect("a connection");
    let connection = cluster.any().await.expect("a connection");
    let questions: Vec<_> = (0..200)
        .map(|n| {
            let connection = Arc::clone(&connection);
            tokio::spawn(async move {
                let request = ListGroupsRequest { types_filter: vec![format!("t{n}")], ..Default::default() };
                let answer: ListGroupsResponse = connection.call(&request, 5).await.expect("an answer");
                assert_eq!(answer.groups[0].group_id, format!("t{n}"));
            })
        })
        .collect();
    for question in questions {
        question.await.expect("the right answer");
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address").port()
    };
    let error = Cluster::connect(&format!("127.0.0.1:{port}"), quick()).await.expect_err("nobody there");
    assert_eq!(error.kind(), "unreachable");
    let error =
        Cluster::connect(&format!("127.0.0.1:{port},127.0.0.1:{port}"), quick()).await.expect_err("nobody there");
    assert!(error.to_string().contains("none of 2 addresses answered"), "{error}");
}

#[tokio::test]
async fn the_second_bootstrap_address_serves_when_the_first_is_dead() {
    let dead = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address").port()
    };
    let fake = Fake::start(|r, port| usual(r, port).unwrap_or(Reply::Silence)).await;
    let bootstrap = format!("127.0.0.1:{dead},{}", fake.address());
    let cluster = Cluster::connect(&bootstrap, quick()).await.expect("the second");
    assert_eq!(cluster.brokers().await.expect("brokers").len(), 1);
}

#[tokio::test]
async fn other_protocols_and_missing_logins_are_named() {
    let http = Fake::start(|_, _| Reply::Last(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())).await;
    let error = failure(&http, quick()).await;
    assert!(error.to_string().contains("it speaks HTTP and not the Kafka protocol"), "{error}");

    // A TLS listener answers plain text with an alert, or just closes.
    let alert = Fake::start(|_, _| Reply::Last(vec![0x15, 3, 3, 0, 2, 2, 10])).await;
    let error = failure(&alert, quick()).await;
    assert!(error.to_string().contains("the listener speaks TLS; set security.protocol=SSL"), "{error}");
    let closes = Fake::start(|_, _| Reply::Last(Vec::new())).await;
    let error = failure(&closes, quick()).await;
    assert!(error.to_string().contains("if the listener speaks TLS set security.protocol=SSL"), "{error}");

    // A listener with login lets ApiVersions pass and closes at the next request.
    let login = Fake::start(|r, port| match r.api_key {
        18 => usual(r, port).unwrap_or(Reply::Silence),
        _ => Reply::Last(Vec::new()),
    })
    .await;
    let cluster = Cluster::connect(&login.address(), quick()).await.expect("versions");
    let error = cluster.brokers().await.expect_err("no login");
    assert!(error.to_string().contains("asks for a login set security.protocol=SASL_PLAINTEXT"), "{error}");
}
