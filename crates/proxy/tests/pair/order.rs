//! Answers come in request order, none is lost, and nothing is left over.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    Ask, CHANGED, Decider, EXCHANGE, FILTERED, FOLLOWED, LATER, LOCAL, Log, OURS, PRODUCE, QUESTION, SLOW, STREAMED,
    WHOLE, echo, echo_until, options, piped, runtime, soon,
};
use streamside_proxy::limits::SLOTS;
use streamside_proxy::pair::{Ended, Stats};

const KINDS: [i16; 10] = [STREAMED, FILTERED, WHOLE, CHANGED, LOCAL, EXCHANGE, LATER, FOLLOWED, SLOW, PRODUCE];

/// How bytes are cut up on their way.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    client_pipe: usize,
    broker_pipe: usize,
    client_piece: usize,
    broker_piece: usize,
}

const WHOLESALE: Cuts =
    Cuts { client_pipe: 1 << 20, broker_pipe: 1 << 20, client_piece: 1 << 20, broker_piece: 1 << 20 };

/// Sends everything, reads everything, closes, and returns what came with what was left over.
async fn play(asks: &[Ask], cuts: Cuts) -> (Vec<u8>, Log, Stats) {
    let pair = piped(Decider::default(), options(), cuts.client_pipe, cuts.broker_pipe);
    let log = Log::default();
    let broker = tokio::spawn(echo(pair.broker, log.clone(), cuts.broker_piece));
    let (mut from, mut to) = tokio::io::split(pair.client);
    let bytes: Vec<u8> = asks.iter().flat_map(Ask::frame).collect();
    let write = async {
        for part in bytes.chunks(cuts.client_piece) {
            to.write_all(part).await.unwrap();
        }
        to.shutdown().await.unwrap();
    };
    let mut came = Vec::new();
    let (_, read) = soon(async { tokio::join!(write, from.read_to_end(&mut came)) }).await;
    read.unwrap();
    let (ended, stats) = soon(pair.ended).await.unwrap();
    assert_eq!(ended, Ended::Client);
    soon(broker).await.unwrap();
    (came, log, stats)
}

fn wanted(asks: &[Ask]) -> Vec<u8> {
    asks.iter().filter_map(Ask::expected).flatten().collect()
}

/// Requests reach the broker in the client's order, an exchange's questions at its place, those of ours in one piece.
fn assert_broker_saw_order(asks: &[Ask], log: &[Ask]) {
    let mut last = 0;
    let mut questions: Vec<(u64, Vec<i16>, u64)> = Vec::new();
    for ask in log {
        if ask.api_key == QUESTION {
            match questions.last_mut().filter(|(id, _, at)| *id == ask.id && *at == last) {
                Some((_, counts, _)) => counts.push(ask.count),
                None => questions.push((ask.id, vec![ask.count], last)),
            }
            continue;
        }
        assert!(ask.id > last, "{} behind {last}", ask.id);
        last = ask.id;
    }
    for (id, counts, at) in questions {
        let ask = asks.iter().find(|ask| ask.id + OURS == id).unwrap();
        assert_eq!(counts, (0..ask.count).collect::<Vec<_>>(), "questions in one piece: {ask:?}");
        match ask.api_key {
            FOLLOWED => assert!(at >= ask.id),
            _ => {
                let before = |a: &&Ask| a.id < ask.id && ![LOCAL, EXCHANGE, SLOW].contains(&a.api_key);
                assert_eq!(at, asks.iter().filter(before).map(|a| a.id).max().unwrap_or(0), "{ask:?}");
            }
        }
    }
    let forwarded = asks.iter().filter(|ask| ![LOCAL, EXCHANGE, SLOW].contains(&ask.api_key)).count();
    assert_eq!(log.iter().filter(|ask| ask.api_key != QUESTION).count(), forwarded, "none is lost");
}

#[test]
fn one_of_each_kind_at_every_chunk_size() {
    runtime().block_on(async {
        let asks: Vec<Ask> = KINDS
            .iter()
            .chain(&[PRODUCE, LOCAL, STREAMED, FOLLOWED])
            .zip(1..)
            .map(|(kind, id)| Ask { count: ((id + 1) % 3) as i16, filler: 5, answer_bytes: 9, ..Ask::new(*kind, id) })
            .collect();
        assert!(asks.iter().any(|ask| ask.api_key == PRODUCE && ask.count == 0));
        for piece in (1..64).chain([100, 1000]) {
            for pipe in [piece, 1 << 16] {
                let cuts = Cuts { client_pipe: pipe, broker_pipe: pipe, client_piece: piece, broker_piece: piece };
                let (came, log, stats) = play(&asks, cuts).await;
                assert_eq!(came, wanted(&asks));
                assert_broker_saw_order(&asks, &log.asks());
                assert_eq!((stats.slots, stats.unsent_bytes), (0, 0), "{stats:?}");
            }
        }
    });
}

fn asks(most: usize) -> impl Strategy<Value = Vec<Ask>> {
    let correlation_id = prop_oneof![Just(i32::MIN), Just(-1), Just(0), Just(77), Just(i32::MAX), any::<i32>()];
    let ask = (0..KINDS.len(), correlation_id, 0_i16..4, 0_u32..400, prop_oneof![0_usize..40, 0_usize..3000]);
    proptest::collection::vec(ask, 1..most).prop_map(|asks| {
        asks.into_iter()
            .zip(1..)
            .map(|((kind, correlation_id, count, answer_bytes, filler), id)| Ask {
                api_key: KINDS[kind],
                correlation_id,
                id,
                count,
                answer_bytes,
                filler,
            })
            .collect()
    })
}

fn cuts() -> impl Strategy<Value = Cuts> {
    let size = || prop_oneof![1_usize..20, 1_usize..3000, Just(1 << 17)];
    (size(), size(), size(), size()).prop_map(|(client_pipe, broker_pipe, client_piece, broker_piece)| Cuts {
        client_pipe,
        broker_pipe,
        client_piece,
        broker_piece,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// K06, K13, K14.
    #[test]
    fn any_schedule_is_answered_in_order(asks in asks(40), cuts in cuts()) {
        let (came, log, stats) = runtime().block_on(play(&asks, cuts));
        prop_assert_eq!(came, wanted(&asks));
        assert_broker_saw_order(&asks, &log.asks());
        prop_assert_eq!((stats.slots, stats.unsent_bytes), (0, 0));
    }

    /// Whoever closes and when: what came is what was due so far, the pair ends, and no question waits for ever.
    #[test]
    fn any_schedule_may_end_early(
        asks in asks(30),
        cuts in cuts(),
        client_ends in prop_oneof![Just(usize::MAX), 0_usize..3000],
        broker_ends in prop_oneof![Just(usize::MAX), 0_usize..3000],
    ) {
        runtime().block_on(async {
            let decider = Decider::default();
            let pair = piped(decider.clone(), options(), cuts.client_pipe, cuts.broker_pipe);
            let broker = tokio::spawn(echo_until(pair.broker, Log::default(), cuts.broker_piece, broker_ends));
            let (mut from, mut to) = tokio::io::split(pair.client);
            let bytes: Vec<u8> = asks.iter().flat_map(Ask::frame).collect();
            // A client that is to end early ends in the middle of what it says, or of what it hears.
            let write = async {
                let mut written = 0;
                for part in bytes.chunks(cuts.client_piece) {
                    if written >= client_ends {
                        return;
                    }
                    if to.write_all(part).await.is_err() {
                        break;
                    }
                    written += part.len();
                }
                let _ = to.shutdown().await;
                std::future::pending().await
            };
            let mut came = Vec::new();
            let read = async {
                let mut part = [0; 100];
                while came.len() < client_ends
                    && let Ok(n @ 1..) = from.read(&mut part).await
                {
                    came.extend_from_slice(&part[..n]);
                }
            };
            soon(async { tokio::select! { () = write => {}, () = read => {} } }).await;
            drop((from, to));
            let wanted = wanted(&asks);
            assert!(wanted.starts_with(&came), "a prefix of what is due");
            soon(pair.ended).await.unwrap();
            soon(broker).await.unwrap();
        });
    }
}

#[test]
fn a_pipeline_of_ten_thousand() {
    runtime().block_on(async {
        let asks: Vec<Ask> = (1..=10_000_u64)
            .map(|id| Ask {
                api_key: KINDS[(id * 7919 % 10) as usize],
                count: (id % 3) as i16,
                answer_bytes: (id % 100) as u32,
                ..Ask::new(STREAMED, id)
            })
            .collect();
        for cuts in [WHOLESALE, Cuts { client_pipe: 500, broker_pipe: 100, client_piece: 333, broker_piece: 50 }] {
            let (came, log, stats) = play(&asks, cuts).await;
            assert!(came == wanted(&asks), "all answers in order");
            assert_broker_saw_order(&asks, &log.asks());
            assert!(stats.most_slots <= SLOTS + 1, "{stats:?}");
            assert_eq!((stats.slots, stats.unsent_bytes), (0, 0), "{stats:?}");
        }
    });
}

/// K15: the table does not grow with what was answered.
#[test]
fn a_hundred_thousand_heartbeats_leave_the_tables_empty() {
    runtime().block_on(async {
        let pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
        tokio::spawn(echo(pair.broker, Log::default(), 1 << 16));
        let (mut from, mut to) = tokio::io::split(pair.client);
        let mut came = vec![0; 5 * 16];
        for turn in 0..20_000_u64 {
            let asks: Vec<Ask> =
                (1..=5).map(|n| Ask::new(if n == 3 { STREAMED } else { WHOLE }, turn * 5 + n)).collect();
            let bytes: Vec<u8> = asks.iter().flat_map(Ask::frame).collect();
            to.write_all(&bytes).await.unwrap();
            soon(from.read_exact(&mut came)).await.unwrap();
            assert_eq!(came, wanted(&asks));
        }
        pair.draining.send(true).unwrap();
        let (ended, stats) = soon(pair.ended).await.unwrap();
        assert_eq!(ended, Ended::Drained);
        assert_eq!((stats.requests, stats.answers), (100_000, 100_000));
        assert_eq!((stats.slots, stats.owed, stats.unsent_bytes), (0, 0, 0));
        assert!(stats.most_slots <= 5, "{stats:?}");
    });
}
