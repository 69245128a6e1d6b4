//! Requests that are sound and heavy: what they cost whoever sends them, and what they may not cost everybody else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::json;
use streamside_testkit::client::Client;
use streamside_testkit::codec;
use streamside_testkit::connection::Connection;
use streamside_testkit::server::Setup;

const PATIENCE: Duration = Duration::from_secs(60);

fn setup() -> Setup {
    Setup::recorded(env!("CARGO_BIN_EXE_streamside"))
}

fn uvarint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [uvarint(text.len() + 1), text.as_bytes().to_vec()].concat()
}

fn list(items: impl ExactSizeIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = uvarint(items.len() + 1);
    items.for_each(|item| bytes.extend(item));
    bytes
}

/// A frame with its length: header version 2 and this body.
fn frame(key: i16, version: i16, id: i32, body: &[u8]) -> Vec<u8> {
    let header = json!({"RequestApiKey": key, "RequestApiVersion": version, "CorrelationId": id, "ClientId": "heavy"});
    let mut data = codec::encode_request_header(2, &header).unwrap();
    data.extend(body);
    [&i32::try_from(data.len()).unwrap().to_be_bytes(), data.as_slice()].concat()
}

/// A push of one subtopology with so many sources, some 20 bytes each.
fn push(group: &str, id: i32, nodes: usize) -> Vec<u8> {
    let node = |i: usize| [text(&format!("source-{i:06}")), vec![1, 1, 0, 1, 1, 0]].concat();
    let body = [
        text(group),
        text("m"),
        vec![0; 4],
        list([[text("0"), list((0..nodes).map(node)), vec![0]].concat()].into_iter()),
        vec![1, 0, 0],
    ];
    frame(93, 0, id, &body.concat())
}

/// A join whose topology has so many subtopologies, some 20 bytes each.
fn join(group: &str, id: i32, subtopologies: usize) -> Vec<u8> {
    let one = |i: usize| [text(&format!("sub-{i:06}")), vec![2], text("in"), vec![1, 1, 1, 1, 1, 0]].concat();
    let body = [
        text(group),
        text("m"),
        vec![0; 4],
        (-1_i32).to_be_bytes().to_vec(),
        vec![0, 0],
        60_000_i32.to_be_bytes().to_vec(),
        vec![1, 0, 0, 0, 0],
        list((0..subtopologies).map(one)),
        vec![0, 1, 1, 1],
        text("p"),
        vec![0xff, 0, 0, 0, 0, 0],
    ];
    frame(88, 1, id, &body.concat())
}

/// Correlation id, and error code of an answer that begins with its throttle time.
fn head(answer: &[u8]) -> (i32, i16) {
    let id = i32::from_be_bytes(answer[..4].try_into().unwrap());
    (id, i16::from_be_bytes(answer[9..11].try_into().unwrap()))
}

fn says(answer: &[u8], words: &str) -> bool {
    answer.windows(words.len()).any(|window| window == words.as_bytes())
}

/// With one worker alone: heavy work is done beside it.
#[test]
fn heavy_requests_hold_up_nobody_else() {
    let server = setup().set("streamside.worker.threads", 1).start().unwrap();
    let mut member = Client::open(server.port, "member").unwrap();
    assert_eq!(member.join("heavy", "m").unwrap()["ErrorCode"], 0);
    assert_eq!(member.join("light", "m").unwrap()["ErrorCode"], 0);
    let heavy = push("heavy", 1, 350_000);
    let (done, mut beats) = (AtomicBool::new(false), Vec::new());
    let took = scope(|scope| {
        let pushes: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = Connection::open(("127.0.0.1", server.port), "heavy").unwrap();
                    let began = Instant::now();
                    connection.send_raw(&heavy).unwrap();
                    let answer = connection.read_frame(PATIENCE).unwrap();
                    assert_eq!(head(&answer).1, 135);
                    began.elapsed()
                })
            })
            .collect();
        let beating = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let began = Instant::now();
                assert_eq!(member.beat("light", "m", 2).unwrap()["ErrorCode"], 0);
                beats.push(began.elapsed());
                sleep(Duration::from_millis(2));
            }
        });
        let took: Vec<Duration> = pushes.into_iter().map(|push| push.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        beating.join().unwrap();
        took.into_iter().max().unwrap()
    });
    let worst = beats.iter().max().copied().unwrap();
    println!(
        "{} beats during three pushes of {} bytes that took {took:?}; the slowest took {worst:?}",
        beats.len(),
        heavy.len()
    );
    // One after the other on the only worker, the first push alone would take a third of it.
    assert!(beats.len() >= 5 || took < Duration::from_millis(100), "{} beats, the slowest {worst:?}", beats.len());
    assert!(worst < took / 4 + Duration::from_millis(50), "{worst:?} of {took:?}");
}

#[test]
fn what_is_over_a_bound_is_refused_in_words_and_the_connection_lives() {
    let server = setup().start().unwrap();
    let mut member = Client::open(server.port, "member").unwrap();
    assert_eq!(member.join("g", "m").unwrap()["ErrorCode"], 0);
    let before = server.resident_bytes();
    let mut connection = Connection::open(("127.0.0.1", server.port), "heavy").unwrap();
    connection.send_raw(&join("j", 1, 250_000)).unwrap();
    let answer = connection.read_frame(PATIENCE).unwrap();
    assert_eq!(head(&answer), (1, 42));
    assert!(says(&answer, "at most 4194304 are accepted"), "{}", codec::hex(&answer));
    // Far beyond what a description may have: not even decoded.
    connection.send_raw(&push("g", 2, 900_000)).unwrap();
    let answer = connection.read_frame(PATIENCE).unwrap();
    assert_eq!(head(&answer), (2, 135));
    assert!(says(&answer, "too_large: The topology description has 1"), "{}", codec::hex(&answer));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for 5 and 18 MB");
    // Who is no member hears that first.
    connection.send_raw(&push("nobody", 3, 900_000)).unwrap();
    assert_eq!(head(&connection.read_frame(PATIENCE).unwrap()), (3, 69));
}

/// Requests of more than 64 KiB take another way; their answers come in order all the same.
#[test]
fn large_and_small_requests_are_answered_in_order() {
    let server = setup().start().unwrap();
    let mut connection = Connection::open(("127.0.0.1", server.port), "mixed").unwrap();
    let mut all = Vec::new();
    for round in 0..5 {
        let group = format!("g{round}");
        all.extend(join(&group, 10 * round, 10_000));
        all.extend(push(&group, 10 * round + 1, 4_900));
        all.extend(push(&group, 10 * round + 2, 10));
        all.extend(frame(89, 1, 10 * round + 3, &[list([text(&group)].into_iter()), vec![0, 1, 0]].concat()));
    }
    connection.send_raw(&all).unwrap();
    for round in 0..5 {
        for (id, code) in [(0, 0), (1, 0), (2, 0)] {
            assert_eq!(head(&connection.read_frame(PATIENCE).unwrap()), (10 * round + id, code));
        }
        let described = connection.read_frame(PATIENCE).unwrap();
        assert_eq!(head(&described).0, 10 * round + 3);
        assert!(says(&described, "sub-009999") && says(&described, "source-000009"));
    }
}

/// An id may be as long as a text may be, and then no text that repeats it fits as a whole.
#[test]
fn the_longest_ids_are_answered() {
    let server = setup().start().unwrap();
    let mut client = Client::open(server.port, "long").unwrap();
    let long = "ä".repeat(16_383);
    let described = client.describe(&[&long, "other"]).unwrap();
    assert_eq!((described[0]["ErrorCode"].as_i64(), described[1]["ErrorCode"].as_i64()), (Some(69), Some(69)));
    let message = described[0]["ErrorMessage"].as_str().unwrap();
    assert!(message.starts_with("Group ää") && message.ends_with('…') && message.len() <= 32_767);
    assert_eq!(client.delete(&[&long]).unwrap()[0]["ErrorCode"], 69);
    assert_eq!(client.push(&long, "m", &json!({"Subtopologies": [], "GlobalStores": []})).unwrap()["ErrorCode"], 69);
    let classic = client.call("DescribeGroups", 6, &json!({"Groups": [long]})).unwrap();
    assert_eq!(classic["Groups"][0]["ErrorCode"], 69);
    assert_eq!(client.join(&long, "m").unwrap()["ErrorCode"], 0);
    assert_eq!(client.beat(&long, "nobody", 1).unwrap()["ErrorCode"], 25);
}

/// A client that takes its time over a large answer is not one that does not finish its next request.
#[test]
fn a_slow_reader_is_not_taken_for_a_slow_sender() {
    let server = setup().set("streamside.frame.timeout.ms", 600).start().unwrap();
    let mut connection = Connection::open(("127.0.0.1", server.port), "slow").unwrap();
    let ids = (0..20_000).map(|i| text(&format!("{i}{}", "x".repeat(1000))));
    let large = frame(89, 1, 1, &[list(ids), vec![0, 0, 0]].concat());
    let next = frame(18, 3, 2, &[2, b'a', 2, b'1', 0]);
    let (first, rest) = next.split_at(7);
    connection.send_raw(&[&large, first].concat()).unwrap();
    // The answer, 40 MB, is more than what sockets hold for it.
    sleep(Duration::from_secs(3));
    assert_eq!(head(&connection.read_frame(PATIENCE).unwrap()).0, 1);
    connection.send_raw(rest).unwrap();
    assert_eq!(connection.read_frame(PATIENCE).unwrap()[..4], 2_i32.to_be_bytes());
}
