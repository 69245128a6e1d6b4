//! Slow peers and slow plugins hold back whom they concern, and grow nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use streamside_proxy::handler::{Answer, Handler, Head, Plan, Treat};
use streamside_proxy::limits::{CHUNK_BYTES, PRODUCE_HEADER_BYTES, SLOTS, UNSENT_ALWAYS_BYTES, WAITING_ANSWERS_BYTES};
use streamside_proxy::pair::{Budget, Ended, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::support::{
    Ask, Decider, LOCAL, Log, STREAMED, WHOLE, answer, echo, frame, options, piped, read_frame, soon,
};

/// How much a peer takes before it makes us wait.
async fn fill(to: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) -> usize {
    let mut taken = 0;
    while let Ok(Ok(n @ 1..)) =
        tokio::time::timeout(Duration::from_millis(100), to.write(bytes.get(taken..).unwrap_or_default())).await
    {
        taken += n;
    }
    taken
}

/// Waits until it holds.
async fn until(holds: impl Fn() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_slow_upstream_holds_its_client_back() {
    let mut pair = piped(Decider::default(), options(), 1000, 1000);
    let ask = Ask { filler: 4 << 20, ..Ask::new(STREAMED, 1) };
    let bytes = ask.frame();
    let taken = fill(&mut pair.client, &bytes).await;
    assert!(taken <= CHUNK_BYTES + 2000, "{taken}");
    let (write, body) =
        soon(async { tokio::join!(pair.client.write_all(&bytes[taken..]), read_frame(&mut pair.broker)) }).await;
    write.unwrap();
    assert!(body.unwrap() == ask.body());
}

#[tokio::test]
async fn a_slow_reader_holds_its_upstream_back() {
    let mut pair = piped(Decider::default(), options(), 1000, 1000);
    let ask = Ask { answer_bytes: 4 << 20, ..Ask::new(STREAMED, 1) };
    pair.client.write_all(&ask.frame()).await.unwrap();
    soon(read_frame(&mut pair.broker)).await.unwrap();
    let bytes = frame(&ask.answer());
    let taken = fill(&mut pair.broker, &bytes).await;
    assert!(taken <= CHUNK_BYTES + 2000, "{taken}");
    let (write, body) =
        soon(async { tokio::join!(pair.broker.write_all(&bytes[taken..]), read_frame(&mut pair.client)) }).await;
    write.unwrap();
    assert!(body.unwrap() == ask.answer());
}

/// A client that pipelines without reading is stopped by the number of slots, or by the bytes that we answered.
#[tokio::test]
async fn a_client_that_does_not_read_is_not_read() {
    for (api_key, answer_bytes) in [(LOCAL, 0), (LOCAL, 100_000), (STREAMED, 0), (STREAMED, 100_000)] {
        let mut pair = piped(Decider::default(), options(), 1000, 1 << 16);
        let log = Log::default();
        let _broker = tokio::spawn(echo(pair.broker, log.clone(), 1 << 16));
        let bytes: Vec<u8> =
            (0..100_000).flat_map(|id| Ask { answer_bytes, ..Ask::new(api_key, id) }.frame()).collect();
        let taken = fill(&mut pair.client, &bytes).await;
        assert!(taken < 3 << 19, "{api_key} {answer_bytes}: {taken} of {}", bytes.len());
        drop(pair.client);
        let (_, stats) = soon(pair.ended).await.unwrap();
        assert!(stats.most_slots <= SLOTS + 1, "{stats:?}");
        assert!(stats.most_waiting_bytes <= WAITING_ANSWERS_BYTES + 200_000, "{stats:?}");
    }
}

/// Takes its time with the first request, until told.
struct Plugin(Arc<Notify>);

impl Handler for Plugin {
    fn head(&mut self, head: Head) -> Treat {
        if head.api_key == STREAMED { Treat::Stream(Answer::Stream) } else { Treat::Whole(1000) }
    }

    fn request(&mut self, head: Head, body: &BytesMut) -> Plan {
        let ask = Ask::read(body);
        if head.api_key == LOCAL {
            return Plan::Local(ask.expected().unwrap());
        }
        let told = self.0.clone();
        Plan::Exchange(Box::new(move |upstream| {
            drop(upstream);
            Box::pin(async move {
                told.notified().await;
                Ok(Some(frame(&answer(ask.correlation_id, ask.id, 0))))
            })
        }))
    }
}

/// What is behind a slow plugin is forwarded and its answers wait here, up to the bound.
#[tokio::test]
async fn a_slow_plugin_holds_back_answers_and_no_requests() {
    let told = Arc::new(Notify::new());
    let mut pair = piped(Plugin(told.clone()), options(), 1 << 20, 1000);
    let log = Log::default();
    let broker = tokio::spawn(echo(pair.broker, log.clone(), 1 << 16));
    let mut asks = vec![Ask::new(209, 0)];
    asks.extend((1..=200).map(|id| Ask { answer_bytes: 20_000, ..Ask::new(STREAMED, id) }));
    for ask in &asks {
        pair.client.write_all(&ask.frame()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(log.asks().len() > WAITING_ANSWERS_BYTES / 20_000, "{}", log.asks().len());
    told.notify_one();
    assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), answer(0, 0, 0));
    for ask in &asks[1..] {
        assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), ask.answer());
    }
    drop(pair.client);
    let (ended, stats) = soon(pair.ended).await.unwrap();
    assert_eq!((ended, stats.slots, stats.owed, stats.exchanges), (Ended::Client, 0, 0, 0));
    assert!(stats.most_waiting_bytes >= WAITING_ANSWERS_BYTES, "the bound was reached");
    assert!(stats.most_waiting_bytes <= WAITING_ANSWERS_BYTES + CHUNK_BYTES, "{stats:?}");
    soon(broker).await.unwrap();
}

/// Answers of ours above the bound wait behind one of the upstream's: it must still be let in.
#[tokio::test]
async fn answers_of_ours_do_not_lock_out_the_upstream() {
    let mut pair = piped(Decider::default(), options(), 1 << 20, 1 << 16);
    let mut asks = vec![Ask { answer_bytes: 500_000, ..Ask::new(STREAMED, 1) }];
    asks.extend((2..40).map(|id| Ask { answer_bytes: 100_000, ..Ask::new(LOCAL, id) }));
    asks.push(Ask::new(STREAMED, 40));
    for ask in &asks {
        pair.client.write_all(&ask.frame()).await.unwrap();
    }
    let mut heard = Vec::new();
    let broker = async {
        for ask in [&asks[0], &asks[39]] {
            assert_eq!(read_frame(&mut pair.broker).await.unwrap(), ask.body());
            tokio::time::sleep(Duration::from_millis(50)).await;
            pair.broker.write_all(&frame(&ask.answer())).await.unwrap();
        }
    };
    let due: Vec<u8> = asks.iter().filter_map(Ask::expected).flatten().collect();
    heard.resize(due.len(), 0);
    let (_, read) = soon(async { tokio::join!(broker, pair.client.read_exact(&mut heard)) }).await;
    read.unwrap();
    assert!(heard == due);
}

/// A crowd that begins large requests costs no more than the bound; small ones come through.
#[tokio::test]
async fn collected_requests_of_all_pairs_have_a_bound() {
    let collected = Budget::of(600 << 10);
    let options = || Options { collected: collected.clone(), ..options() };
    let large = Ask { filler: 500 << 10, ..Ask::new(WHOLE, 1) }.frame();
    let mut first = piped(Decider::default(), options(), 1 << 20, 1 << 20);
    first.client.write_all(&large[..large.len() - 1]).await.unwrap();
    until(|| collected.used() > 400 << 10).await;

    let mut second = piped(Decider::default(), options(), 1 << 20, 1 << 20);
    second.client.write_all(&large).await.unwrap();
    let (ended, _) = soon(second.ended).await.unwrap();
    assert!(matches!(&ended, Ended::Refused(line) if line.contains("hold too much together")), "{ended:?}");

    let small = Ask { filler: 1 << 10, ..Ask::new(WHOLE, 2) };
    let mut third = piped(Decider::default(), options(), 1 << 20, 1 << 20);
    third.client.write_all(&small.frame()).await.unwrap();
    assert_eq!(soon(read_frame(&mut third.broker)).await.unwrap(), small.body());

    first.client.write_all(&large[large.len() - 1..]).await.unwrap();
    assert_eq!(soon(read_frame(&mut first.broker)).await.unwrap(), large[4..]);
    until(|| collected.used() == 0).await;
}

/// A crowd that asks for large answers and takes none costs no more than the bound; small ones, and whoever takes what it
/// asked for, go on.
#[tokio::test]
async fn answers_that_nobody_takes_have_a_bound_over_all_pairs() {
    let large = UNSENT_ALWAYS_BYTES + (1 << 20);
    let unsent = Budget::of(large + large / 2);
    let options = || Options { unsent: unsent.clone(), ..options() };
    let ask = Ask { answer_bytes: u32::try_from(large).unwrap(), ..Ask::new(LOCAL, 1) };
    let mut first = piped(Decider::default(), options(), 1000, 1000);
    first.client.write_all(&ask.frame()).await.unwrap();
    until(|| unsent.used() >= large - 1000).await;

    let mut second = piped(Decider::default(), options(), 1000, 1000);
    second.client.write_all(&ask.frame()).await.unwrap();
    let (ended, _) = soon(second.ended).await.unwrap();
    assert!(matches!(ended, Ended::Untaken(bytes) if bytes > UNSENT_ALWAYS_BYTES), "{ended:?}");
    until(|| unsent.used() <= large + 1000).await;

    // Not counted, whatever is held.
    let little = Ask { answer_bytes: 1 << 20, ..Ask::new(LOCAL, 2) };
    let mut third = piped(Decider::default(), options(), 1000, 1000);
    third.client.write_all(&little.frame()).await.unwrap();
    assert_eq!(soon(read_frame(&mut third.client)).await.unwrap(), little.expected().unwrap()[4..]);

    assert_eq!(soon(read_frame(&mut first.client)).await.unwrap(), ask.expected().unwrap()[4..]);
    until(|| unsent.used() == 0).await;
}

/// A produce request whose header goes on for ever is not held for ever; one with the longest names that Kafka reads is.
#[tokio::test]
async fn a_header_of_a_produce_request_is_held_up_to_a_bound() {
    let mut header = vec![0, 0, 0, 9, 0, 0, 0, 7];
    header.extend_from_slice(&i16::MAX.to_be_bytes());
    header.extend(std::iter::repeat_n(b'c', i16::MAX as usize));
    // No tags; a transactional id of as many bytes; acks of 0.
    let mut longest = header.clone();
    longest.extend_from_slice(&[0, 0x80, 0x80, 2]);
    longest.extend(std::iter::repeat_n(b't', i16::MAX as usize));
    longest.extend_from_slice(&[0, 0, 1, 2, 3]);
    assert!(longest.len() <= PRODUCE_HEADER_BYTES);
    let mut pair = piped(Decider::default(), options(), 1 << 20, 1 << 20);
    for piece in frame(&longest).chunks(1000) {
        pair.client.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(soon(read_frame(&mut pair.broker)).await.unwrap() == longest);

    // One tag of a megabyte.
    header.extend_from_slice(&[1, 1, 0x80, 0x80, 0x40]);
    header.resize(header.len() + (1 << 20), 0);
    let mut pair = piped(Decider::default(), options(), 1 << 20, 1 << 20);
    let _ = fill(&mut pair.client, &frame(&header)).await;
    let (ended, _) = soon(pair.ended).await.unwrap();
    assert!(matches!(&ended, Ended::Refused(line) if line.contains("header of a produce request")), "{ended:?}");
}
