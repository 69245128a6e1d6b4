//! How a pair ends: closed halves, lost upstreams, drains, time.

use std::future::pending;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use streamside_proxy::handler::{Handler, Head, Plan, Treat};
use streamside_proxy::pair::{self, Ended, Options, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::{
    Ask, Decider, EXCHANGE, FOLLOWED, LOCAL, PRODUCE, STREAMED, WHOLE, answer, frame, options, piped, read_frame, soon,
};

/// The upstream is told that no more comes, and what it answers afterwards still arrives.
#[tokio::test]
async fn a_client_that_has_said_all_still_hears_its_answers() {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    let asks = [Ask::new(STREAMED, 1), Ask::new(WHOLE, 2), Ask { count: 0, ..Ask::new(PRODUCE, 3) }];
    for ask in &asks {
        pair.client.write_all(&ask.frame()).await.unwrap();
    }
    pair.client.shutdown().await.unwrap();
    let mut heard = Vec::new();
    soon(pair.broker.read_to_end(&mut heard)).await.unwrap();
    assert_eq!(heard, asks.iter().flat_map(Ask::frame).collect::<Vec<_>>());
    for ask in &asks[..2] {
        pair.broker.write_all(&frame(&ask.answer())).await.unwrap();
        assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), ask.answer());
    }
    assert_eq!(soon(pair.client.read_u8()).await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Client);
}

/// What was received goes out, what is finished in front as well, and nothing behind what never comes.
#[tokio::test]
async fn a_lost_upstream_closes_the_client_behind_what_it_said() {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    let asks = [Ask::new(STREAMED, 1), Ask::new(LOCAL, 2), Ask::new(STREAMED, 3), Ask::new(LOCAL, 4)];
    for ask in &asks {
        pair.client.write_all(&ask.frame()).await.unwrap();
    }
    assert_eq!(soon(read_frame(&mut pair.broker)).await.unwrap(), asks[0].body());
    let answer = Ask { answer_bytes: 5, ..asks[2] }.answer();
    pair.broker.write_all(&frame(&asks[0].answer())).await.unwrap();
    pair.broker.write_all(&frame(&answer)[..15]).await.unwrap();
    drop(pair.broker);
    let mut heard = Vec::new();
    soon(pair.client.read_to_end(&mut heard)).await.unwrap();
    let expected = [asks[0].expected().unwrap(), asks[1].expected().unwrap()].concat();
    assert_eq!(heard, [&expected, &frame(&answer)[..15]].concat());
    let (ended, stats) = soon(pair.ended).await.unwrap();
    assert_eq!((ended, stats.slots, stats.owed), (Ended::Upstream, 0, 0));
}

/// An exchange whose question was lost may still answer; the one behind it, which asked nothing yet, learns the same.
#[tokio::test]
async fn a_lost_upstream_fails_all_who_wait_at_once() {
    struct Tells;
    impl Handler for Tells {
        fn head(&mut self, _head: Head) -> Treat {
            Treat::Whole(1000)
        }
        fn request(&mut self, _head: Head, body: &BytesMut) -> Plan {
            let ask = Ask::read(body);
            Plan::Exchange(Box::new(move |mut upstream| {
                Box::pin(async move {
                    let lost = upstream.ask(Bytes::from(ask.body())).await.is_err();
                    let again = upstream.ask(Bytes::from(ask.body())).await.is_err();
                    Ok(Some(frame(&answer(ask.correlation_id, u64::from(lost && again), 0))))
                })
            }))
        }
    }
    let mut pair = piped(Tells, options(), 1 << 16, 1 << 16);
    pair.client.write_all(&Ask::new(EXCHANGE, 7).frame()).await.unwrap();
    soon(read_frame(&mut pair.broker)).await.unwrap();
    drop(pair.broker);
    assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), answer(7, 1, 0));
    assert!(soon(read_frame(&mut pair.client)).await.is_none());
    let (ended, stats) = soon(pair.ended).await.unwrap();
    assert_eq!((ended, stats.slots, stats.owed, stats.exchanges), (Ended::Upstream, 0, 0, 0));
}

#[tokio::test]
async fn a_question_that_is_no_request_is_lost() {
    struct Short;
    impl Handler for Short {
        fn head(&mut self, _head: Head) -> Treat {
            Treat::Whole(1000)
        }
        fn request(&mut self, _head: Head, _body: &BytesMut) -> Plan {
            Plan::Exchange(Box::new(move |mut upstream| {
                Box::pin(async move {
                    let lost = upstream.ask(Bytes::from_static(&[0; 7])).await.is_err();
                    Ok(Some(frame(&answer(0, u64::from(lost), 0))))
                })
            }))
        }
    }
    let mut pair = piped(Short, options(), 1 << 16, 1 << 16);
    pair.client.write_all(&Ask::new(EXCHANGE, 7).frame()).await.unwrap();
    assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), answer(0, 1, 0));
}

/// Nothing is begun any more, what is in flight is finished, a half request is waited for.
#[tokio::test]
async fn a_drained_pair_finishes_what_is_in_flight() {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    let ask = Ask { filler: 50, ..Ask::new(STREAMED, 1) };
    let bytes = ask.frame();
    pair.client.write_all(&bytes[..40]).await.unwrap();
    let mut begun = [0; 40];
    soon(pair.broker.read_exact(&mut begun)).await.unwrap();
    pair.draining.send(true).unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!pair.ended.is_finished());
    pair.client.write_all(&bytes[40..]).await.unwrap();
    let mut rest = vec![0; bytes.len() - 40];
    soon(pair.broker.read_exact(&mut rest)).await.unwrap();
    assert_eq!([&begun[..], &rest].concat(), bytes);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!pair.ended.is_finished());
    pair.broker.write_all(&frame(&ask.answer())).await.unwrap();
    assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), ask.answer());
    assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Drained);
}

fn hasty() -> Options {
    Options { frame_timeout: Duration::from_millis(100), idle: Duration::from_millis(300), ..options() }
}

/// K03, whether the request is collected or streamed. Answers to requests in front still come.
#[tokio::test]
async fn a_request_that_is_not_finished_in_time_ends_the_pair() {
    for api_key in [STREAMED, WHOLE, PRODUCE] {
        let mut pair =
            piped(Decider::default(), Options { idle: Duration::from_secs(60), ..hasty() }, 1 << 16, 1 << 16);
        let first = Ask::new(STREAMED, 1);
        pair.client.write_all(&first.frame()).await.unwrap();
        let bytes = Ask { filler: 1000, ..Ask::new(api_key, 2) }.frame();
        pair.client.write_all(&bytes[..bytes.len() - 1]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
        pair.broker.write_all(&frame(&first.answer())).await.unwrap();
        assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), first.answer());
        assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Stalled, "{api_key}");
    }
    for bytes in 1..12 {
        let mut pair =
            piped(Decider::default(), Options { idle: Duration::from_secs(60), ..hasty() }, 1 << 16, 1 << 16);
        pair.client.write_all(&Ask::new(STREAMED, 1).frame()[..bytes]).await.unwrap();
        assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Stalled, "{bytes}");
    }
}

/// A streamed request may take as long as it makes progress, and a full upstream is not the client's fault.
#[tokio::test]
async fn a_slow_request_is_no_stalled_one() {
    let mut pair = piped(Decider::default(), Options { idle: Duration::from_secs(60), ..hasty() }, 1 << 16, 10);
    let bytes = Ask { filler: 300, ..Ask::new(STREAMED, 1) }.frame();
    for part in bytes.chunks(60) {
        pair.client.write_all(part).await.unwrap();
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(soon(read_frame(&mut pair.broker)).await.unwrap(), bytes[4..]);
    assert!(!pair.ended.is_finished());
}

#[tokio::test]
async fn a_pair_where_nothing_passes_is_idle() {
    let pair = piped(Decider::default(), hasty(), 1 << 16, 1 << 16);
    assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Idle);
    // One that speaks now and then is not.
    let mut pair = piped(Decider::default(), hasty(), 1 << 16, 1 << 16);
    for id in 1..5 {
        let ask = Ask::new(STREAMED, id);
        pair.client.write_all(&ask.frame()).await.unwrap();
        soon(read_frame(&mut pair.broker)).await.unwrap();
        pair.broker.write_all(&frame(&ask.answer())).await.unwrap();
        soon(read_frame(&mut pair.client)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert!(!pair.ended.is_finished());
    assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Idle);
}

/// Follow-up questions do not keep a pair whose client is gone.
#[tokio::test]
async fn a_question_of_ours_does_not_hold_a_closed_connection() {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    let ask = Ask::new(FOLLOWED, 1);
    pair.client.write_all(&ask.frame()).await.unwrap();
    soon(read_frame(&mut pair.broker)).await.unwrap();
    pair.broker.write_all(&frame(&ask.answer())).await.unwrap();
    assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), ask.answer());
    soon(read_frame(&mut pair.broker)).await.unwrap();
    drop(pair.client);
    // The question is at its place; nothing more is asked.
    assert!(!pair.ended.is_finished());
    pair.broker
        .write_all(&frame(&Ask { answer_bytes: 3, count: 0, id: ask.id + crate::support::OURS, ..ask }.answer()))
        .await
        .unwrap();
    assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Client);
}

/// Over sockets: a client that is reset shows while an exchange has the upstream, and so does an upstream.
#[tokio::test]
async fn a_reset_connection_shows_during_an_exchange() {
    struct Hangs;
    impl Handler for Hangs {
        fn head(&mut self, _head: Head) -> Treat {
            Treat::Whole(1000)
        }
        fn request(&mut self, _head: Head, _body: &BytesMut) -> Plan {
            Plan::Exchange(Box::new(move |upstream| {
                Box::pin(async move {
                    pending::<()>().await;
                    drop(upstream);
                    Ok(None)
                })
            }))
        }
    }
    async fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (ours.unwrap(), theirs.unwrap().0)
    }
    for client_is_reset in [true, false] {
        let (mut client, ours) = sockets().await;
        let (upstream, broker) = sockets().await;
        let (_draining, drain) = watch::channel(false);
        let ended =
            tokio::spawn(
                async move { pair::run(Stream::Tcp(ours), Stream::Tcp(upstream), Hangs, &options(), drain).await },
            );
        client.write_all(&Ask::new(EXCHANGE, 1).frame()).await.unwrap();
        client.write_all(&Ask::new(EXCHANGE, 2).frame()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (reset, _kept) = if client_is_reset { (client, broker) } else { (broker, client) };
        reset.set_zero_linger().unwrap();
        drop(reset);
        if client_is_reset {
            assert_eq!(soon(ended).await.unwrap(), Ended::Client);
        } else {
            // The exchange may still answer; nothing of the upstream's is waited for.
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(!ended.is_finished());
        }
    }
}
