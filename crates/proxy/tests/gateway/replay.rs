//! Recorded traffic, played again through the gateway: the same bytes come out on both sides.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use streamside_proxy::gateway::Mode;
use streamside_proxy::intercept::Observed;
use streamside_wire::messages::api_versions::ApiVersionsResponse;
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

use crate::captures::{Conversation, Exchange, names, read};
use crate::stage::{
    NEW, OLD, OLDEST, Stage, Unmoved, Watcher, answer, peek, read_answer, read_request, versions_answer,
};

type Rows = &'static [(i16, i16, i16)];

/// How a recording stands to what passes now.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A broker and its client, with nothing between.
    Straight,
    /// The client's side of a relay: the broker behind it knew only version 0.
    Raised,
}

/// What the broker does with one recorded exchange: checks the request, makes the answer.
fn play(kind: Kind, recorded: &Exchange, request: &[u8]) -> Vec<u8> {
    let mut answered = recorded.answer.clone().unwrap_or_default();
    match (kind, recorded.api_key()) {
        // Asked anew by us in the client's name: all but the number is as the client had it.
        (_, 89 | 42 | 93) => {
            assert_eq!(request[..4], recorded.request[..4]);
            assert_eq!(request[8..], recorded.request[8..]);
            answered[..4].copy_from_slice(&request[4..8]);
        }
        (Kind::Raised, 88) => {
            let (header, sent) = read_request::<StreamsGroupHeartbeatRequest<'_>>(request);
            let (own_header, own) = read_request::<StreamsGroupHeartbeatRequest<'_>>(&recorded.request);
            assert_eq!((header.api_version, own_header.api_version), (0, 1));
            assert_eq!((header.correlation_id, header.client_id), (own_header.correlation_id, own_header.client_id));
            assert_eq!((&sent.task_offsets, &sent.task_end_offsets), (&None, &None));
            let (task_offsets, task_end_offsets) = (own.task_offsets.clone(), own.task_end_offsets.clone());
            assert_eq!(StreamsGroupHeartbeatRequest { task_offsets, task_end_offsets, ..sent }, own);
            let (correlation_id, mut told) = read_answer::<StreamsGroupHeartbeatResponse<'_>>(&answered, 1);
            told.acceptable_recovery_lag = -1;
            told.topology_description_required = false;
            return answer(0, correlation_id, &told);
        }
        _ => assert_eq!(request, recorded.request),
    }
    answered
}

/// Plays one conversation; gives what the client got beside what was recorded.
async fn played(kind: Kind, rows: Rows, conversation: &Conversation) -> Vec<(Exchange, Vec<u8>)> {
    // A recording may end before an answer came, and requests of ours may stand before a recorded one.
    let exchanges: Vec<Exchange> = conversation.exchanges.iter().filter(|e| e.answer.is_some()).cloned().collect();
    let local = |exchange: &Exchange| kind == Kind::Raised && exchange.api_key() == 93;
    let mut due: VecDeque<Exchange> = exchanges.iter().filter(|e| !local(e)).cloned().collect();
    let watcher = Arc::new(Watcher::default());
    if kind == Kind::Raised {
        // What the recorded relay put into its answers.
        let flags: Vec<bool> = exchanges
            .iter()
            .filter(|exchange| exchange.api_key() == 88)
            .map(|exchange| {
                let answered = exchange.answer.as_deref().unwrap_or_default();
                read_answer::<StreamsGroupHeartbeatResponse<'_>>(answered, 1).1.topology_description_required
            })
            .collect();
        let flags = Mutex::new(VecDeque::from(flags));
        watcher.on_beat(move |beat, answer| {
            assert_eq!((beat.version, beat.upstream_version), (1, 0));
            answer.topology_description_required = flags.lock().unwrap().pop_front().unwrap();
            answer.acceptable_recovery_lag = 10_000;
            Observed { changed: true, question: None }
        });
    }
    let mut stage = Stage::with(Mode::Full, Some(Arc::new(Unmoved)), watcher, move |request| {
        if peek(request).0 == 18 && due.front().is_none_or(|next| next.api_key() != 18) {
            return Some(versions_answer(request, rows));
        }
        let recorded = due.pop_front()?;
        Some(play(kind, &recorded, request))
    });
    let mut got = Vec::new();
    // As many requests in flight as there were.
    let mut asked = exchanges.iter().filter(|exchange| !local(exchange));
    let mut waiting: VecDeque<&Exchange> = VecDeque::new();
    for is_request in &conversation.order {
        if *is_request {
            if let Some(exchange) = asked.next() {
                stage.send(&exchange.request).await;
                waiting.push_back(exchange);
            }
        } else if let Some(exchange) = waiting.pop_front() {
            got.push((exchange.clone(), stage.answer().await.expect("an answer")));
        }
    }
    for exchange in waiting {
        got.push((exchange.clone(), stage.answer().await.expect("an answer")));
    }
    got
}

#[tokio::test]
async fn traffic_with_a_native_broker_keeps_every_byte() {
    let mut frames = 0;
    for name in names() {
        if name.starts_with("old-broker") || name.starts_with("upgrade") {
            continue;
        }
        for conversation in read(&name) {
            for (recorded, got) in played(Kind::Straight, NEW, &conversation).await {
                assert_eq!(Some(got), recorded.answer, "{name}: api {}", recorded.api_key());
                frames += 2;
            }
        }
    }
    assert!(frames > 500, "{frames} frames");
}

#[tokio::test]
async fn traffic_with_an_older_broker_keeps_every_byte_but_the_rows_that_are_raised() {
    let mut frames = 0;
    for name in names().iter().filter(|name| name.starts_with("old-broker")) {
        let streams = !name.ends_with("4.0.0") && !name.ends_with("3.9.1");
        for conversation in read(name) {
            for (recorded, got) in played(Kind::Straight, if streams { OLD } else { OLDEST }, &conversation).await {
                frames += 2;
                let own = recorded.answer.clone().unwrap_or_default();
                if recorded.api_key() != 18 || own == got {
                    assert_eq!(got, own, "{name}: api {}", recorded.api_key());
                    continue;
                }
                assert!(streams, "{name}: nothing is raised without streams groups");
                let (_, mut told) = read_answer::<ApiVersionsResponse>(&got, recorded.version());
                let (_, own) = read_answer::<ApiVersionsResponse>(&own, recorded.version());
                told.api_keys.retain(|row| row.api_key != 93);
                for (row, own) in told.api_keys.iter_mut().zip(&own.api_keys) {
                    if matches!(row.api_key, 42 | 88 | 89) {
                        row.max_version = own.max_version;
                    }
                }
                assert_eq!(told, own, "{name}");
            }
        }
    }
    assert!(frames > 200, "{frames} frames");
}

/// The recorded relay was a few lines that did just this; what its client got, ours gets too.
#[tokio::test]
async fn k07_a_real_application_in_front_of_an_old_broker_gets_what_it_got_when_it_worked() {
    let mut frames = 0;
    for name in ["upgrade-nulled-4.1.1", "upgrade-nulled-4.3.0"] {
        for conversation in read(name) {
            for (recorded, got) in played(Kind::Raised, OLD, &conversation).await {
                assert_eq!(Some(got), recorded.answer, "{name}: api {}", recorded.api_key());
                frames += 2;
            }
        }
    }
    assert!(frames > 70, "{frames} frames");
}
