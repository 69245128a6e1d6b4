//! Peers that break the rules, or the connection.

use bytes::BytesMut;
use proptest::prelude::*;
use streamside_proxy::handler::{Answer, Filter, Handler, Head, Mapped, Plan, Treat};
use streamside_proxy::pair::Ended;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    Ask, CHANGED, Decider, EXCHANGE, FILTERED, FOLLOWED, LATER, LOCAL, Log, PRODUCE, STREAMED, WHOLE, echo, frame,
    options, piped, read_frame, runtime, soon,
};

/// What the client gets and how the pair ends when the client sends `bytes` behind a good request.
async fn behind_a_good_request(bytes: &[u8]) -> Ended {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    let first = Ask::new(STREAMED, 1);
    pair.client.write_all(&[&first.frame(), bytes].concat()).await.unwrap();
    assert_eq!(soon(read_frame(&mut pair.broker)).await.unwrap(), first.body());
    pair.broker.write_all(&frame(&first.answer())).await.unwrap();
    assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), first.answer(), "answers in front still come");
    assert!(soon(read_frame(&mut pair.client)).await.is_none());
    assert!(soon(read_frame(&mut pair.broker)).await.is_none(), "nothing of it went on");
    soon(pair.ended).await.unwrap().0
}

fn refused(line: &str) -> Ended {
    Ended::Refused(line.to_owned())
}

#[tokio::test]
async fn a_length_that_no_request_can_have_is_refused() {
    for (length, line) in [
        (-1, "frame length -1 is negative"),
        (i32::MIN, "frame length -2147483648 is negative"),
        (0, "frame is empty"),
        (7, "frame of 7 bytes is shorter than a header"),
        ((10 << 20) + 1, "frame of 10485761 bytes is over the limit of 10485760"),
    ] {
        assert_eq!(behind_a_good_request(&i32::to_be_bytes(length)).await, refused(line));
    }
    let long = Ask { filler: 1 << 20, ..Ask::new(WHOLE, 2) }.frame();
    assert_eq!(behind_a_good_request(&long[..100]).await, refused("a request of 1048598 bytes (api 202) is too long"));
}

/// K01.
#[tokio::test]
async fn another_protocol_on_the_port_is_named() {
    for (bytes, line) in [
        (
            &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..],
            "this looks like TLS on a plaintext listener; set the client's security.protocol to PLAINTEXT",
        ),
        (b"GET / HTTP/1.1\r\n", "this looks like HTTP on the Kafka listener"),
        (b"SSH-2.0-OpenSSH", "this looks like SSH on the Kafka listener"),
    ] {
        for piece in [1, 100] {
            let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
            for part in bytes.chunks(piece) {
                let _ = pair.client.write_all(part).await;
            }
            assert_eq!(soon(pair.ended).await.unwrap().0, refused(line));
            assert!(soon(read_frame(&mut pair.broker)).await.is_none());
        }
    }
}

/// How the pair ends when the upstream says `bytes` in answer to `asks`, and what the client heard.
async fn upstream_says(asks: &[Ask], bytes: &[u8], piece: usize) -> (Ended, Vec<u8>) {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    for ask in asks {
        pair.client.write_all(&ask.frame()).await.unwrap();
        soon(read_frame(&mut pair.broker)).await.unwrap();
    }
    for part in bytes.chunks(piece) {
        if pair.broker.write_all(part).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let mut heard = Vec::new();
    soon(pair.client.read_to_end(&mut heard)).await.unwrap();
    (soon(pair.ended).await.unwrap().0, heard)
}

/// K02: never the raw bytes, whatever their number.
#[tokio::test]
async fn an_upstream_that_speaks_something_else_is_named() {
    let tls = "the upstream speaks TLS; set streamside.upstream.security.protocol to SSL or SASL_SSL";
    for (bytes, line) in [
        (&[0x15, 3, 3, 0, 2, 2, 0x46][..], tls),
        (&[0x15, 3, 3][..], tls),
        (
            b"HTTP/1.1 400 Bad Request",
            "the upstream speaks HTTP; streamside.upstream must name a broker's Kafka listener",
        ),
    ] {
        for piece in [1, 100] {
            let (ended, heard) = upstream_says(&[Ask::new(STREAMED, 1)], bytes, piece).await;
            assert_eq!((ended, heard), (Ended::Garbled(line.to_owned()), vec![]));
        }
    }
}

#[tokio::test]
async fn an_answer_that_fits_nothing_ends_the_pair() {
    let one = Ask::new(STREAMED, 1);
    let two = Ask::new(STREAMED, 2);
    let good = frame(&one.answer());
    for (bytes, heard, line) in [
        (frame(&two.answer()), &[][..], "the upstream answered 2 where 1 was asked"),
        (BytesMut::from(&[0, 0, 0, 3, 1, 2, 3, 4][..]), &[], "the upstream sent an answer of 3 bytes"),
        (BytesMut::from(&[255, 255, 255, 255, 1, 2, 3, 4][..]), &[], "the upstream sent an answer of -1 bytes"),
        (
            BytesMut::from(&[&good[..], &good].concat()[..]),
            &good,
            "the upstream sent an answer (1) that nobody asked for",
        ),
    ] {
        for piece in [1, 3, 100] {
            let (ended, came) = upstream_says(&[one], &bytes, piece).await;
            assert_eq!((ended, &came[..]), (Ended::Garbled(line.to_owned()), heard));
        }
    }
    // Out of order.
    let bytes = [frame(&two.answer()), good.clone()].concat();
    let (ended, came) = upstream_says(&[one, two], &bytes, 100).await;
    assert_eq!((ended, came), (Ended::Garbled("the upstream answered 2 where 1 was asked".to_owned()), vec![]));
}

#[tokio::test]
async fn an_answer_longer_than_it_may_be_ends_the_pair() {
    let ask = Ask { answer_bytes: 1 << 20, ..Ask::new(WHOLE, 1) };
    let (ended, came) = upstream_says(&[ask], &frame(&ask.answer())[..100], 100).await;
    let line = "an answer of 1048588 bytes is over the limit of 1048576".to_owned();
    assert_eq!((ended, came), (Ended::Garbled(line), vec![]));
}

#[tokio::test]
async fn an_answer_that_its_reader_refuses_ends_the_pair() {
    struct Refuses;
    impl Filter for Refuses {
        fn pass(&mut self, chunk: &mut [u8]) -> Result<(), String> {
            if chunk.contains(&0xee) { Err("unreadable".to_owned()) } else { Ok(()) }
        }
    }
    impl Handler for Refuses {
        fn head(&mut self, head: Head) -> Treat {
            if head.api_key == FILTERED { Treat::Stream(Answer::Filter(Box::new(Refuses))) } else { Treat::Whole(1000) }
        }
        fn request(&mut self, _head: Head, _body: &BytesMut) -> Plan {
            Plan::Forward(None, Answer::Whole { max: 1000, map: Box::new(|_| Mapped::Close("unreadable".to_owned())) })
        }
    }
    for api_key in [FILTERED, WHOLE] {
        let mut pair = piped(Refuses, options(), 1 << 16, 1 << 16);
        let ask = Ask::new(api_key, 1);
        pair.client.write_all(&ask.frame()).await.unwrap();
        soon(read_frame(&mut pair.broker)).await.unwrap();
        let mut bytes = frame(&ask.answer());
        bytes.iter_mut().skip(8).for_each(|byte| *byte = 0xee);
        pair.broker.write_all(&bytes).await.unwrap();
        let mut heard = Vec::new();
        soon(pair.client.read_to_end(&mut heard)).await.unwrap();
        assert_eq!(heard, b"", "nothing of the chunk is sent");
        assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Garbled("unreadable".to_owned()));
    }
}

/// Whatever the handler does with it: the broker never sees more than was sent, the pair ends, nothing is left.
#[tokio::test]
async fn a_client_cut_at_every_byte_of_a_request() {
    for api_key in [STREAMED, FILTERED, WHOLE, CHANGED, LOCAL, EXCHANGE, LATER, FOLLOWED, PRODUCE] {
        let first = Ask::new(STREAMED, 1);
        let bytes = Ask { filler: 9, ..Ask::new(api_key, 2) }.frame();
        for cut in 0..bytes.len() {
            let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
            let log = Log::default();
            let broker = tokio::spawn(echo(pair.broker, log.clone(), 1 << 16));
            pair.client.write_all(&[&first.frame(), &bytes[..cut]].concat()).await.unwrap();
            pair.client.shutdown().await.unwrap();
            let mut heard = Vec::new();
            soon(pair.client.read_to_end(&mut heard)).await.unwrap();
            assert_eq!(heard, first.expected().unwrap());
            let (ended, stats) = soon(pair.ended).await.unwrap();
            assert_eq!((ended, stats.slots, stats.owed), (Ended::Client, 0, 0), "{api_key} {cut}");
            soon(broker).await.unwrap();
            assert_eq!(log.asks(), [first]);
        }
    }
}

#[tokio::test]
async fn an_upstream_cut_at_every_byte_of_an_answer() {
    for api_key in [STREAMED, FILTERED, WHOLE, CHANGED, EXCHANGE, LATER, FOLLOWED] {
        let first = Ask::new(STREAMED, 1);
        let second = Ask { answer_bytes: 9, ..Ask::new(api_key, 2) };
        // A question of ours is answered by less.
        for cut in 0..if api_key == EXCHANGE { 19 } else { 25 } {
            let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
            pair.client.write_all(&[first.frame(), second.frame()].concat()).await.unwrap();
            soon(read_frame(&mut pair.broker)).await.unwrap();
            let asked = Ask::read(&soon(read_frame(&mut pair.broker)).await.unwrap());
            let bytes = [frame(&first.answer()), frame(&asked.answer())].concat();
            pair.broker.write_all(&bytes[..16 + cut]).await.unwrap();
            drop(pair.broker);
            let mut heard = Vec::new();
            soon(pair.client.read_to_end(&mut heard)).await.unwrap();
            let due = [first.expected().unwrap(), second.expected().unwrap()].concat();
            assert!(heard.len() >= 16 && due.starts_with(&heard), "{api_key} {cut}");
            if [STREAMED, FILTERED].contains(&api_key) && cut >= 8 {
                assert_eq!(heard.len(), 16 + cut, "what was received goes out");
            }
            let (ended, stats) = soon(pair.ended).await.unwrap();
            assert_eq!((ended, stats.slots, stats.owed), (Ended::Upstream, 0, 0), "{api_key} {cut}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes from both sides: no panic, no hang.
    #[test]
    fn any_bytes_end_a_pair(
        client in proptest::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>(), 1 => 0_u8..40], 0..400),
        upstream in proptest::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>(), 1 => 0_u8..40], 0..400),
    ) {
        struct Streams;
        impl Handler for Streams {
            fn head(&mut self, head: Head) -> Treat {
                if head.api_key % 2 == 0 { Treat::Stream(Answer::Stream) } else { Treat::Whole(300) }
            }
            fn request(&mut self, _head: Head, _body: &BytesMut) -> Plan {
                Plan::Forward(None, Answer::Whole { max: 300, map: Box::new(|body| Mapped::Frame(frame(&body), None)) })
            }
        }
        runtime().block_on(async {
            let pair = piped(Streams, options(), 100, 100);
            let talk = |stream, bytes: Vec<u8>| async move {
                let (mut from, mut to) = tokio::io::split(stream);
                let write = async {
                    let _ = to.write_all(&bytes).await;
                    let _ = to.shutdown().await;
                };
                let mut heard = Vec::new();
                let _ = tokio::join!(write, from.read_to_end(&mut heard));
            };
            soon(async { tokio::join!(talk(pair.client, client), talk(pair.broker, upstream)) }).await;
            soon(pair.ended).await.unwrap();
        });
    }
}
