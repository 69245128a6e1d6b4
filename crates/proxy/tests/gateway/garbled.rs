//! Real requests and answers with bytes changed or cut off: answered, passed on or closed, and never more.

use proptest::prelude::*;
use proptest::sample::Index;
use streamside_wire::messages::api_versions::ApiVersionsRequest;

use crate::captures::{Exchange, names, read};
use crate::stage::{NEW, OLD, Stage, peek, request, versions_answer};

/// Every kind of request that the gateway looks at, once.
fn kinds() -> Vec<Exchange> {
    let mut kinds: Vec<Exchange> = Vec::new();
    for exchange in names().iter().flat_map(|name| read(name)).flat_map(|conversation| conversation.exchanges) {
        let key = (exchange.api_key(), exchange.version());
        let looked_at = matches!(key.0, 3 | 10 | 12 | 15 | 18 | 42 | 60 | 68 | 69 | 88 | 89 | 93);
        if looked_at && exchange.answer.is_some() && !kinds.iter().any(|k| (k.api_key(), k.version()) == key) {
            kinds.push(exchange);
        }
    }
    kinds
}

/// Changes bytes behind the first `safe` ones, and cuts off the end.
fn garble(body: &[u8], safe: usize, changes: &[(Index, u8)], cut: Option<Index>) -> Vec<u8> {
    let mut body = body.to_vec();
    if body.len() > safe {
        for (at, byte) in changes {
            let at = safe + at.index(body.len() - safe);
            body[at] = *byte;
        }
        if let Some(cut) = cut {
            body.truncate(safe + cut.index(body.len() - safe));
        }
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn garbled_frames_of_either_side_never_break_the_process(
        kind in any::<Index>(),
        of_request in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..3),
        of_answer in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        cut_request in proptest::option::weighted(0.2, any::<Index>()),
        cut_answer in proptest::option::weighted(0.3, any::<Index>()),
        (is_new, asks_first) in any::<(bool, bool)>(),
    ) {
        let kinds = kinds();
        let exchange = kind.get(&kinds).clone();
        let rows = if is_new { NEW } else { OLD };
        let sent = garble(&exchange.request, 8, &of_request, cut_request);
        let answered = garble(&exchange.answer.unwrap_or_default(), 4, &of_answer, cut_answer);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let own = peek(&sent);
            let mut stage = Stage::new(move |request| {
                if peek(request).0 == 18 && peek(request) != own {
                    return Some(versions_answer(request, rows));
                }
                let mut answered = answered.clone();
                answered[..4].copy_from_slice(&request[4..8]);
                Some(answered)
            });
            stage.watcher.hosts.lock().unwrap().insert(("g".into(), "m".into()), "/192.0.2.1".into());
            if asks_first {
                stage.ask(&request(3, -77, &ApiVersionsRequest::default())).await;
            }
            stage.send(&sent).await;
            // An answer, or a closed connection.
            if let Some(body) = stage.answer().await {
                assert_eq!(body[..4], sent[4..8], "the client's own number");
            }
            // A panic would be the pair's end.
            stage.end().await;
        });
    }
}
