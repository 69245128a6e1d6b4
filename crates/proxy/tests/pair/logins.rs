//! Logins pass through as they are, those whose tokens have no header included.

use bytes::{BufMut, Bytes, BytesMut};
use streamside_proxy::handler::{Answer, Handler, Head, Mapped, Plan, Treat};
use streamside_proxy::pair::Ended;
use tokio::io::AsyncWriteExt;

use crate::support::{
    Ask, Decider, FOLLOWED, OURS, Piped, QUESTION, STREAMED, answer, frame, options, piped, read_frame, soon,
};

/// Body of a SaslHandshake request.
fn handshake(version: i16, mechanism: &str) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i16(17);
    out.put_i16(version);
    out.put_i32(-5);
    out.put_slice(&[0, 2, b'm', b'e']);
    out.put_u16(mechanism.len() as u16);
    out.put_slice(mechanism.as_bytes());
    out
}

/// Body of its answer.
fn handshaken(error: i16) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i32(-5);
    out.put_i16(error);
    out.put_i32(0);
    out
}

async fn to_broker(pair: &mut Piped, body: &[u8]) {
    pair.client.write_all(&frame(body)).await.unwrap();
    assert_eq!(soon(read_frame(&mut pair.broker)).await.unwrap(), body);
}

async fn to_client(pair: &mut Piped, body: &[u8]) {
    pair.broker.write_all(&frame(body)).await.unwrap();
    assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), body);
}

async fn an_ordinary_request(pair: &mut Piped) {
    let ask = Ask::new(STREAMED, 9);
    to_broker(pair, &ask.body()).await;
    to_client(pair, &ask.answer()).await;
}

async fn after_handshake(mechanism: &str) -> Piped {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    to_broker(&mut pair, &handshake(0, mechanism)).await;
    to_client(&mut pair, &handshaken(0)).await;
    pair
}

#[tokio::test]
async fn plain_has_one_token_and_an_empty_answer() {
    let mut pair = after_handshake("PLAIN").await;
    to_broker(&mut pair, b"\0alice\0secret").await;
    to_client(&mut pair, b"").await;
    an_ordinary_request(&mut pair).await;
    // A token that looks like a request.
    let mut pair = after_handshake("PLAIN").await;
    to_broker(&mut pair, &Ask::new(0, 1).body()).await;
    to_client(&mut pair, b"").await;
    an_ordinary_request(&mut pair).await;
}

#[tokio::test]
async fn scram_has_two() {
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let mut pair = after_handshake(mechanism).await;
        to_broker(&mut pair, b"n,,n=alice,r=abc").await;
        to_client(&mut pair, b"r=abcdef,s=QSXCR,i=4096").await;
        to_broker(&mut pair, b"c=biws,r=abcdef,p=xyz").await;
        to_client(&mut pair, b"v=rmF9pq").await;
        an_ordinary_request(&mut pair).await;
    }
}

#[tokio::test]
async fn oauthbearer_has_one_or_a_second_of_one_byte() {
    let mut pair = after_handshake("OAUTHBEARER").await;
    to_broker(&mut pair, b"n,,\x01auth=Bearer x\x01\x01").await;
    to_client(&mut pair, b"").await;
    an_ordinary_request(&mut pair).await;
    let mut pair = after_handshake("OAUTHBEARER").await;
    to_broker(&mut pair, b"n,,\x01auth=Bearer x\x01\x01").await;
    to_client(&mut pair, br#"{"status":"invalid_token"}"#).await;
    to_broker(&mut pair, b"\x01").await;
    drop(pair.broker);
    assert!(soon(read_frame(&mut pair.client)).await.is_none());
    assert_eq!(soon(pair.ended).await.unwrap().0, Ended::Upstream);
}

/// The last token of GSSAPI is answered by nothing; the next frame is told by its looks.
#[tokio::test]
async fn unknown_mechanisms_end_with_what_looks_like_a_request() {
    let mut pair = after_handshake("GSSAPI").await;
    to_broker(&mut pair, &[0x60, 0x82, 1, 2, 3, 4, 5, 6, 7, 8, 9]).await;
    to_client(&mut pair, &[0x60, 0x81, 1]).await;
    to_broker(&mut pair, b"").await;
    to_client(&mut pair, &[5, 4, 5, 0xff, 0, 0, 0, 0, 0, 0]).await;
    to_broker(&mut pair, &[5, 4, 4, 0xff, 0, 0, 0, 0, 0, 0]).await;
    let ask = Ask { correlation_id: -1, ..Ask::new(17, 9) };
    let mut body = ask.body();
    body[1] = 3;
    to_broker(&mut pair, &body).await;
    to_client(&mut pair, &answer(-1, 9, 0)).await;
    an_ordinary_request(&mut pair).await;
}

#[tokio::test]
async fn a_refused_handshake_leaves_frames_as_they_are() {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    to_broker(&mut pair, &handshake(0, "NONE")).await;
    to_client(&mut pair, &handshaken(33)).await;
    an_ordinary_request(&mut pair).await;
}

#[tokio::test]
async fn version_one_has_headers_throughout() {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    to_broker(&mut pair, &handshake(1, "PLAIN")).await;
    to_client(&mut pair, &handshaken(0)).await;
    for _ in 0..3 {
        let ask = Ask { correlation_id: i32::MIN, ..Ask::new(36, 4) };
        to_broker(&mut pair, &ask.body()).await;
        to_client(&mut pair, &ask.answer()).await;
        an_ordinary_request(&mut pair).await;
    }
}

/// A token sent before the handshake is answered waits, since nobody can tell yet that it is one. Byte by byte, too.
#[tokio::test]
async fn a_token_behind_an_unanswered_handshake_waits() {
    for piece in [1, 100] {
        let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
        let bytes = [frame(&handshake(0, "PLAIN")), frame(b"\0a\0b"), frame(&Ask::new(STREAMED, 9).body())].concat();
        for part in bytes.chunks(piece) {
            pair.client.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(soon(read_frame(&mut pair.broker)).await.unwrap(), handshake(0, "PLAIN"));
        to_client(&mut pair, &handshaken(0)).await;
        assert_eq!(soon(read_frame(&mut pair.broker)).await.unwrap(), b"\0a\0b");
        assert_eq!(soon(read_frame(&mut pair.broker)).await.unwrap(), Ask::new(STREAMED, 9).body());
        for part in [frame(b""), frame(&Ask::new(STREAMED, 9).answer())].concat().chunks(piece) {
            pair.broker.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), b"");
        assert_eq!(soon(read_frame(&mut pair.client)).await.unwrap(), Ask::new(STREAMED, 9).answer());
    }
}

/// Questions of ours wait until the client is known to be logged in: a broker closes the connection otherwise.
#[tokio::test]
async fn a_question_of_ours_waits_for_the_login() {
    struct AsksEarly;
    impl Handler for AsksEarly {
        fn head(&mut self, head: Head) -> Treat {
            if head.api_key == 18 { Treat::Whole(1000) } else { Treat::Stream(Answer::Stream) }
        }
        fn request(&mut self, _head: Head, _body: &BytesMut) -> Plan {
            let map = |body: BytesMut| {
                Mapped::Frame(
                    frame(&body),
                    Some(Box::new(|mut upstream| {
                        Box::pin(async move {
                            let _ = upstream.ask(Bytes::from(Ask::new(60, 77).body())).await;
                            Ok(None)
                        })
                    })),
                )
            };
            Plan::Forward(None, Answer::Whole { max: 1000, map: Box::new(map) })
        }
    }
    let mut pair = piped(AsksEarly, options(), 1 << 16, 1 << 16);
    for api_key in [18, 17, 36] {
        let mut ask = Ask::new(api_key, 1);
        ask.count = 1;
        let mut body = ask.body();
        body[3] = 1;
        to_broker(&mut pair, &body).await;
        to_client(&mut pair, &ask.answer()).await;
    }
    an_ordinary_request(&mut pair).await;
    assert_eq!(soon(read_frame(&mut pair.broker)).await.unwrap(), Ask::new(60, 77).body());
    pair.broker.write_all(&frame(&Ask::new(60, 77).answer())).await.unwrap();
    an_ordinary_request(&mut pair).await;
}

/// Clients log in again on the connections that they have (KIP-368); a broker closes one on which something else comes
/// between handshake and token.
#[tokio::test]
async fn a_question_of_ours_waits_for_a_later_login_too() {
    let mut pair = piped(Decider::default(), options(), 1 << 16, 1 << 16);
    an_ordinary_request(&mut pair).await;
    let mut asks = Ask::new(FOLLOWED, 5);
    asks.count = 1;
    to_broker(&mut pair, &asks.body()).await;
    to_broker(&mut pair, &handshake(1, "PLAIN")).await;
    // What leads to the question comes while the login is under way.
    to_client(&mut pair, &asks.answer()).await;
    to_client(&mut pair, &handshaken(0)).await;
    let token = Ask::new(36, 6);
    to_broker(&mut pair, &token.body()).await;
    to_client(&mut pair, &token.answer()).await;
    let next = Ask::new(STREAMED, 7);
    to_broker(&mut pair, &next.body()).await;
    let question = Ask::read(&soon(read_frame(&mut pair.broker)).await.unwrap());
    assert_eq!((question.api_key, question.id), (QUESTION, OURS + 5));
    to_client(&mut pair, &next.answer()).await;
    pair.broker.write_all(&frame(&question.answer())).await.unwrap();
    an_ordinary_request(&mut pair).await;
}
