//! What passes as it came, and what is learnt from it.

use std::sync::Arc;

use streamside_proxy::gateway::Mode;
use streamside_proxy::intercept::{Addresses, Reach};
use streamside_proxy::pair::Ended;
use streamside_wire::messages::api_versions::ApiVersionsRequest;
use streamside_wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use streamside_wire::messages::metadata::MetadataRequest;

use crate::captures::{first, read};
use crate::stage::{NEW, Stage, Watcher, answer, broker, hex, peek, read_answer, request};

/// Keys that nobody knows, and vendors' own.
#[tokio::test]
async fn k05_k06_unknown_keys_pass_both_ways() {
    let mut stage = Stage::new(|request| Some([&request[4..8], b"opaque", &request[8..]].concat()));
    for key in [150_i16, 10_007, -2, i16::MAX] {
        let sent = [&key.to_be_bytes()[..], &[0, 0, 0x80, 0, 0, 1], b"anything at all"].concat();
        assert_eq!(stage.ask(&sent).await, [&sent[4..8], b"opaqueanything at all"].concat());
        assert_eq!(stage.seen().last(), Some(&sent));
    }
}

/// Heartbeats of the classic, consumer and share protocols, with answers of each form.
#[tokio::test]
async fn members_of_other_kinds_are_heard_by_a_good_answer() {
    let cases: &[(&str, &str, bool)] = &[
        // Key 12 v0: group g, generation 4, member m.
        ("000c000000000009000361707000016700000004 00016d", "00000009 0000", true),
        ("000c000000000009000361707000016700000004 00016d", "00000009 0019", false),
        // Key 12 v4, flexible, with an instance id.
        ("000c00040000000900036170700002670000000402 6d0000", "00000009 00 00000000 0000 00", true),
        ("000c00040000000900036170700002670000000402 6d0000", "00000009 00 00000000 001b 00", false),
        // Key 68 v1: epoch 3, then a leave.
        ("004400010000000900036170700002670 26d 00000003 0000000000", "00000009 00 00000064 0000 00026d", true),
        ("004400010000000900036170700002670 26d ffffffff 0000000000", "00000009 00 00000064 0000 00026d", false),
        // Key 76 v1, in an answer with a tag that we do not know.
        ("004c00010000000900036170700002670 26d 00000003 00", "00000009 00 00000000 0000 00", true),
        ("004c00010000000900036170700002670 26d 00000003 00", "00000009 01 05 01 aa 00000000 0000 00", false),
        // A first heartbeat of version 0 without an id.
        ("004400000000000900036170700002670 1 00000000 0000000000", "00000009 00 00000064 0000 00026d", false),
    ];
    for (sent, answered, heard) in cases {
        let (sent, answered) = (hex(&sent.replace(' ', "")), hex(&answered.replace(' ', "")));
        let own = answered.clone();
        let mut stage = Stage::new(move |_| Some(own.clone()));
        assert_eq!(stage.ask(&sent).await, answered);
        assert_eq!(stage.seen(), std::slice::from_ref(&sent));
        let expected: &[&str] = if *heard { &["opened 7", "heard g m"] } else { &["opened 7"] };
        assert_eq!(stage.watcher.notes(), expected, "{sent:?}");
    }
}

#[tokio::test]
async fn real_heartbeats_of_classic_and_consumer_groups_are_heard() {
    for (name, key) in [("app-classic", 12), ("console-consumer-kip848", 68)] {
        let exchanges: Vec<_> = read(name)
            .into_iter()
            .flat_map(|conversation| conversation.exchanges)
            .filter(|exchange| exchange.api_key() == key && exchange.answer.is_some())
            .collect();
        let answers: Vec<_> = exchanges.iter().filter_map(|exchange| exchange.answer.clone()).collect();
        let mut next = answers.clone().into_iter();
        let mut stage = Stage::new(move |_| next.next());
        for (exchange, answered) in exchanges.iter().zip(&answers) {
            assert_eq!(stage.ask(&exchange.request).await, *answered);
        }
        let notes = stage.watcher.notes();
        assert!(notes.iter().any(|note| note.starts_with("heard ")), "{name}: {notes:?}");
    }
}

#[tokio::test]
async fn a_long_heartbeat_of_another_kind_passes_unread() {
    let mut sent = hex("004400010000000900036170700002670 26d".replace(' ', "").as_str());
    sent.resize(200_000, 0);
    let mut stage = Stage::new(|request| Some([&request[4..8], &[0; 7][..]].concat()));
    stage.ask(&sent).await;
    assert_eq!(stage.seen(), [sent]);
    assert_eq!(stage.watcher.notes(), ["opened 7"]);
}

/// Recorded: all that is seen of an application whose broker names another address than ours.
#[tokio::test]
async fn a_client_that_came_for_metadata_alone_is_told_apart() {
    let mut answered = 0;
    for conversation in read("bypassed-proxy") {
        let mut answers: Vec<_> = conversation.exchanges.iter().filter_map(|e| e.answer.clone()).collect();
        answers.reverse();
        let mut stage = Stage::new(move |_| answers.pop());
        for exchange in &conversation.exchanges {
            stage.ask(&exchange.request).await;
            answered += 1;
        }
        let (ended, watcher) = stage.end().await;
        assert_eq!(ended, Ended::Client);
        assert_eq!(watcher.notes().last().unwrap(), "closed 7 true");
    }
    assert!(answered > 8, "{answered} requests are recorded");

    let mut stage = Stage::new(broker(NEW, |_| None));
    stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
    assert_eq!(stage.end().await.1.notes().last().unwrap(), "closed 7 false", "it did not even come for metadata");

    let heartbeat = first("app-streams", 88, 1);
    let mut stage = Stage::new(broker(NEW, move |_| heartbeat.answer.clone()));
    stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
    stage.ask(&first("app-streams", 88, 1).request).await;
    assert_eq!(stage.end().await.1.notes().last().unwrap(), "closed 7 false");
}

/// Every node is at 192.0.2.77, on a port of its own.
struct Moved;

impl Addresses for Moved {
    fn reach(&self, _: Option<&str>, node_id: i32, _: &str, _: i32) -> Option<Reach> {
        Some(Reach { host: "192.0.2.77".into(), port: 20_000 + u16::try_from(node_id).ok()? })
    }
}

fn coordinators(request: &[u8]) -> Option<Vec<u8>> {
    let row = Coordinator { key: "g".into(), node_id: 3, host: "b3".into(), port: 9092, ..Default::default() };
    let own = FindCoordinatorResponse { coordinators: vec![row], ..Default::default() };
    Some(answer(peek(request).1, peek(request).2, &own))
}

#[tokio::test]
async fn addresses_are_rewritten_with_and_without_the_bridge_and_never_where_the_broker_names_us() {
    let asked = FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..Default::default() };
    let asked = request(6, 4, &asked);
    let moved = || -> Option<Arc<dyn Addresses>> { Some(Arc::new(Moved)) };
    let cases = [
        (Mode::Full, moved(), ("192.0.2.77", 20_003)),
        (Mode::Relay, moved(), ("192.0.2.77", 20_003)),
        (Mode::Full, None, ("b3", 9092)),
    ];
    for (mode, addresses, expected) in cases {
        let mut stage = Stage::with(mode, addresses, Watcher::default().into(), coordinators);
        let answered = stage.ask(&asked).await;
        let (_, told) = read_answer::<FindCoordinatorResponse>(&answered, 6);
        assert_eq!((&*told.coordinators[0].host, told.coordinators[0].port), expected);
    }
}

#[tokio::test]
async fn a_version_that_was_not_offered_of_what_is_rewritten_is_closed() {
    let mut sent = request(13, 4, &MetadataRequest::default());
    sent[3] = 14;
    let mut stage = Stage::new(|_| Some(Vec::new()));
    stage.send(&sent).await;
    assert_eq!(stage.answer().await, None);
    assert!(matches!(stage.end().await.0, Ended::Refused(_)));
}
