//! Bytes that no client sends, peers that stall, crowds: what a listener in the open meets.
//!
//! K numbers are those of `public_bugs.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::codec;
use streamside_testkit::connection::{Connection, ConnectionError, Shape, api};
use streamside_testkit::process;
use streamside_testkit::schema::Catalog;
use streamside_testkit::server::{Server, Setup};
use streamside_testkit::topologies::chain;

const MIB: u64 = 1 << 20;

fn server() -> Server {
    setup().start().unwrap()
}

fn setup() -> Setup {
    // Sessions that outlive a busy machine.
    Setup::recorded(env!("CARGO_BIN_EXE_streamside")).set("group.streams.session.timeout.ms", 60_000)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Bytes until the end; `None` when the connection stays open.
fn until_closed(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => Some(all),
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => Some(all),
        Err(_) => None,
    }
}

/// Sends bytes on a connection of their own; it must be closed without an answer.
fn closes_on(server: &Server, bytes: &[u8]) {
    let mut stream = connect(server);
    // The server may close before it has taken all.
    let _ = stream.write_all(bytes);
    assert_eq!(
        until_closed(&stream).as_deref(),
        Some(&[][..]),
        "{} bytes: {}",
        bytes.len(),
        codec::hex(&bytes[..bytes.len().min(40)])
    );
}

fn still_serves(server: &Server) {
    let mut client = Client::open(server.port, "bystander").unwrap();
    let versions = client.versions().unwrap();
    assert_eq!(versions["ErrorCode"], 0);
}

fn logged_since(server: &Server, from: usize, word: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        if server.log().get(from..).is_some_and(|log| log.contains(word)) {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}

/// A frame with its length: header version 2 and this body.
fn frame(key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let header = json!({"RequestApiKey": key, "RequestApiVersion": version, "CorrelationId": 7, "ClientId": "hostile"});
    let mut data = codec::encode_request_header(2, &header).unwrap();
    data.extend(body);
    let length = i32::try_from(data.len()).unwrap();
    [&length.to_be_bytes(), data.as_slice()].concat()
}

/// K01: the first bytes of a TLS client say so in the log, not as a length or an API key.
#[test]
fn k01_tls_hello_on_a_plaintext_listener_is_called_tls() {
    let server = server();
    let before = server.log().len();
    let mut hello = vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    hello.extend([0x5a; 506]);
    closes_on(&server, &hello);
    assert!(logged_since(&server, before, "TLS"), "{}", server.log());
    still_serves(&server);
}

#[test]
fn an_http_request_is_called_http() {
    let server = server();
    for verb in ["GET / HTTP/1.1", "POST /x HTTP/1.1", "HEAD / HTTP/1.0", "OPTIONS * HTTP/1.1"] {
        let before = server.log().len();
        closes_on(&server, format!("{verb}\r\nHost: streamside\r\n\r\n").as_bytes());
        assert!(logged_since(&server, before, "HTTP"), "{verb}: {}", server.log());
    }
    still_serves(&server);
}

#[test]
fn lengths_that_cannot_be_close_the_connection() {
    let server = server();
    for length in [i32::MIN, -1, 0, 1, 3, 7, 104_857_601, i32::MAX] {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(std::iter::repeat_n(0, usize::try_from(length.clamp(0, 8)).unwrap()));
        closes_on(&server, &bytes);
    }
    still_serves(&server);
}

#[test]
fn the_frame_limit_is_the_configured_one() {
    let server = setup().set("socket.request.max.bytes", 1024).start().unwrap();
    closes_on(&server, &1025_i32.to_be_bytes());
    // 1,024 bytes exactly: bytes after the body are ignored, as Kafka does.
    let mut client = Client::open(server.port, "c").unwrap();
    let heartbeat = api(&json!("StreamsGroupHeartbeat")).unwrap();
    let body = json!({"GroupId": "g", "MemberId": "m", "MemberEpoch": 1});
    let bare = codec::encode(&heartbeat.request, 1, &body).unwrap().len() + 4 + 4 + 2 + 1 + 1;
    for (extra, fits) in [(1024 - bare, true), (1025 - bare, false)] {
        let shape = Shape { append: vec![0; extra], ..Shape::default() };
        let id = client.connection.send(heartbeat, 1, &body, &shape).unwrap();
        match client.connection.receive(id, Duration::from_secs(5)) {
            Ok(answer) => assert!(fits && answer.body().unwrap()["ErrorCode"] != 0),
            Err(ConnectionError::Closed(_)) => assert!(!fits),
            Err(e) => panic!("{e}"),
        }
    }
}

/// K03: buffers grow with bytes received, not with bytes promised.
#[test]
fn k03_eight_gigabytes_promised_cost_nothing() {
    let server = server();
    still_serves(&server);
    let before = server.resident_bytes();
    let mut held = Vec::new();
    for _ in 0..82 {
        let mut stream = connect(&server);
        stream.write_all(&104_857_600_i32.to_be_bytes()).unwrap();
        stream.write_all(&[0, 93, 0, 0, 0, 0, 0, 1]).unwrap();
        held.push(stream);
    }
    sleep(Duration::from_millis(300));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 * MIB, "{grown} bytes for 8.6 GB promised");
    still_serves(&server);
}

#[test]
fn lists_and_strings_that_promise_more_than_there_is_close_the_connection() {
    let server = server();
    let before = server.resident_bytes();
    // A compact length of 2^31 - 2 elements or bytes, and the largest five-byte varint.
    for promise in [[0xff, 0xff, 0xff, 0xff, 0x07], [0xff, 0xff, 0xff, 0xff, 0x0f]] {
        let group: &[u8] = &[2, b'g'];
        closes_on(&server, &frame(89, 1, &promise));
        closes_on(&server, &frame(42, 3, &promise));
        closes_on(&server, &frame(88, 1, &promise));
        closes_on(&server, &frame(93, 0, &[group, group, &[0, 0, 0, 0], &promise].concat()));
    }
    // Nested: 1,000 subtopologies are there, each of which promises 2^31 nodes.
    let mut body = vec![2, b'g', 2, b'm', 0, 0, 0, 0, 0xe9, 0x07];
    for _ in 0..1000 {
        body.extend([2, b's', 0xff, 0xff, 0xff, 0xff, 0x07]);
    }
    closes_on(&server, &frame(93, 0, &body));
    // A varint of six bytes.
    closes_on(&server, &frame(89, 1, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 * MIB, "{grown} bytes");
    still_serves(&server);
}

/// K03: a frame that stops arriving ends the connection after `streamside.frame.timeout.ms`.
#[test]
fn k03_a_stalled_frame_times_out() {
    let server = setup().set("streamside.frame.timeout.ms", 600).start().unwrap();
    let mut stalled = connect(&server);
    stalled.write_all(&1000_i32.to_be_bytes()).unwrap();
    stalled.write_all(&[0; 999]).unwrap();
    let mut half_a_length = connect(&server);
    half_a_length.write_all(&[0, 0]).unwrap();
    let start = Instant::now();
    assert_eq!(until_closed(&stalled).as_deref(), Some(&[][..]));
    let took = start.elapsed();
    assert!((400..4000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(until_closed(&half_a_length).as_deref(), Some(&[][..]));
    still_serves(&server);
}

/// A peer that sends a byte now and then does not win time for ever.
#[test]
fn a_trickled_frame_times_out_too() {
    let server = setup().set("streamside.frame.timeout.ms", 600).start().unwrap();
    let mut stream = connect(&server);
    stream.write_all(&100_000_i32.to_be_bytes()).unwrap();
    let start = Instant::now();
    while stream.write_all(&[0]).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(10), "still open");
        sleep(Duration::from_millis(50));
    }
    assert!(start.elapsed() > Duration::from_millis(400));
}

/// K03: a connection that sends nothing lives `connections.max.idle.ms`.
#[test]
fn k03_a_silent_connection_ends_after_the_idle_time() {
    let server = setup().set("connections.max.idle.ms", 1500).start().unwrap();
    let start = Instant::now();
    assert_eq!(until_closed(&connect(&server)).as_deref(), Some(&[][..]));
    let took = start.elapsed();
    assert!((1000..6000).contains(&took.as_millis()), "{took:?}");
}

#[test]
fn a_string_above_32767_bytes_closes_in_every_api_we_own() {
    let server = server();
    let long = "x".repeat(32_768);
    let bodies = [
        ("StreamsGroupHeartbeat", 1, json!({"GroupId": "g", "MemberId": long, "MemberEpoch": 1})),
        (
            "StreamsGroupTopologyDescriptionUpdate",
            0,
            json!({"GroupId": "g", "MemberId": "m",
            "TopologyDescription": {"Subtopologies": [{"SubtopologyId": long, "Nodes": []}]}}),
        ),
        ("StreamsGroupDescribe", 1, json!({"GroupIds": ["ok", long]})),
        ("DeleteGroups", 3, json!({"GroupsNames": [long]})),
    ];
    for (name, version, body) in bodies {
        let mut client = Client::open(server.port, "c").unwrap();
        let answer = client.call(name, version, &body);
        assert!(matches!(answer, Err(ConnectionError::Closed(_))), "{name}: {answer:?}");
    }
    still_serves(&server);
}

#[test]
fn api_keys_that_nobody_knows_close_the_connection() {
    let server = server();
    for key in [i16::MIN, -1, 94, 150, 10_007, i16::MAX] {
        closes_on(&server, &frame(key, 0, &[0; 16]));
    }
    still_serves(&server);
}

#[test]
fn versions_beyond_the_advertised_close_the_connection() {
    let server = server();
    for (key, version) in [(88, 2), (88, -1), (89, 2), (93, 1), (42, 4), (3, 99), (16, 99)] {
        closes_on(&server, &frame(key, version, &[0; 16]));
    }
    still_serves(&server);
}

#[test]
fn headers_that_end_early_close_the_connection() {
    let server = server();
    let whole = frame(88, 1, &[]);
    for length in 1..whole.len() - 4 {
        let mut bytes = i32::try_from(length).unwrap().to_be_bytes().to_vec();
        bytes.extend(&whole[4..4 + length]);
        closes_on(&server, &bytes);
    }
    still_serves(&server);
}

#[test]
fn a_frame_in_single_bytes_is_answered() {
    let server = server();
    let mut connection = Connection::open(("127.0.0.1", server.port), "slow").unwrap();
    for byte in frame(18, 3, &[2, b'a', 2, b'1', 0]) {
        connection.send_raw(&[byte]).unwrap();
        sleep(Duration::from_millis(2));
    }
    let answer = connection.read_frame(Duration::from_secs(5)).unwrap();
    assert_eq!(answer[..6], [0, 0, 0, 7, 0, 0]);
}

#[test]
fn what_was_asked_before_a_half_close_is_answered() {
    let server = server();
    let mut connection = Connection::open(("127.0.0.1", server.port), "half").unwrap();
    // In place, in several steps (a list, a describe), and in place again.
    let asked = [
        frame(18, 3, &[2, b'a', 2, b'1', 0]),
        frame(16, 5, &[1, 1, 0]),
        frame(89, 1, &[2, 2, b'g', 0, 1, 0]),
        frame(10, 4, &[0, 2, 2, b'g', 0]),
    ];
    connection.send_raw(&asked.concat()).unwrap();
    connection.stream().shutdown(Shutdown::Write).unwrap();
    for _ in &asked {
        assert!(connection.read_frame(Duration::from_secs(5)).unwrap().len() > 10);
    }
    assert!(matches!(connection.read_frame(Duration::from_secs(5)), Err(ConnectionError::Closed(_))));
}

#[test]
fn what_stands_before_a_bad_frame_is_answered_first() {
    let server = server();
    let mut connection = Connection::open(("127.0.0.1", server.port), "then-bad").unwrap();
    connection.send_raw(&[frame(18, 3, &[2, b'a', 2, b'1', 0]), frame(150, 0, &[])].concat()).unwrap();
    assert!(connection.read_frame(Duration::from_secs(5)).unwrap().len() > 20);
    assert!(matches!(connection.read_frame(Duration::from_secs(5)), Err(ConnectionError::Closed(_))));
}

#[test]
fn two_thousand_pipelined_requests_are_answered_in_order() {
    let server = server();
    let mut connection = Connection::open(("127.0.0.1", server.port), "pipeline").unwrap();
    let mut member = Client::open(server.port, "member").unwrap();
    assert_eq!(member.join("pipeline", "m").unwrap()["ErrorCode"], 0);
    let calls: [(&str, i16, Value); 4] = [
        ("StreamsGroupHeartbeat", 1, json!({"GroupId": "pipeline", "MemberId": "m", "MemberEpoch": 2})),
        ("StreamsGroupDescribe", 1, json!({"GroupIds": ["pipeline"], "IncludeTopologyDescription": true})),
        ("ApiVersions", 3, json!({"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"})),
        ("FindCoordinator", 4, json!({"KeyType": 0, "CoordinatorKeys": ["pipeline"]})),
    ];
    let mut sent = Vec::new();
    for i in 0..2000 {
        let (name, version, body) = &calls[i % 4];
        sent.push(connection.send(api(&json!(name)).unwrap(), *version, body, &Shape::default()).unwrap());
    }
    for id in sent {
        let frame = connection.read_frame(Duration::from_secs(20)).unwrap();
        assert_eq!(i32::from_be_bytes(*frame.first_chunk().unwrap()), id, "answers must come in the order of requests");
    }
}

/// A client that asks and never reads: answers must not pile up in our memory.
#[test]
fn a_slow_reader_is_held_back() {
    let server = server();
    let mut client = Client::open(server.port, "reader").unwrap();
    assert_eq!(client.join("big", "m").unwrap()["ErrorCode"], 0);
    let pushed = client.push("big", "m", &chain(4000)).unwrap();
    assert_eq!(pushed["ErrorCode"], 0, "{pushed}");
    assert_eq!(client.describe(&["big"]).unwrap()[0]["TopologyDescriptionStatus"], 3);
    let before = server.resident_bytes();
    let mut flood = connect(&server);
    flood.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    // One answer is some 400 KB; without a bound 20,000 of them would be 8 GB.
    let ask = frame(89, 1, &[2, 4, b'b', b'i', b'g', 0, 1, 0]).repeat(1000);
    let mut asked = 0;
    while asked < 20_000 && flood.write_all(&ask).is_ok() {
        asked += 1000;
    }
    sleep(Duration::from_secs(1));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 * MIB, "{grown} bytes after at least {asked} unread answers");
    still_serves(&server);
    assert_eq!(client.describe(&["big"]).unwrap()[0]["TopologyDescriptionStatus"], 3);
    // The one that was held back gets its answers when it reads.
    let mut length = [0; 4];
    flood.read_exact(&mut length).unwrap();
    assert!(i32::from_be_bytes(length) > 100_000);
}

/// Idle connections: as many of 10,000 as this machine's limit of open files allows.
#[test]
fn ten_thousand_idle_connections_cost_little() {
    let limit = process::raise_open_files(24_000);
    let server = server();
    let mut client = Client::open(server.port, "member").unwrap();
    assert_eq!(client.join("crowd", "m").unwrap()["ErrorCode"], 0);
    let before = server.resident_bytes();
    let wanted = usize::try_from(limit.saturating_sub(200)).unwrap_or(usize::MAX).min(10_000);
    let hello = frame(18, 3, &[2, b'a', 2, b'1', 0]);
    let opened = std::thread::scope(|scope| {
        let open = scope.spawn(|| {
            let mut open = Vec::with_capacity(wanted);
            for i in 0..wanted {
                let Ok(mut stream) = TcpStream::connect(("127.0.0.1", server.port)) else { break };
                if i % 4 == 0 {
                    // Every fourth has asked something once; the others never said a word.
                    stream.write_all(&hello).unwrap();
                    let mut answer = [0; 512];
                    assert!(stream.read(&mut answer).unwrap() > 8);
                }
                stream.set_nonblocking(true).unwrap();
                open.push(stream);
            }
            open
        });
        // The crowd does not keep a member from its heartbeats.
        while !open.is_finished() {
            let start = Instant::now();
            assert_eq!(client.beat("crowd", "m", 2).unwrap()["ErrorCode"], 0);
            assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
            sleep(Duration::from_millis(10));
        }
        open.join().unwrap()
    });
    let each = server.resident_bytes().saturating_sub(before) / opened.len() as u64;
    println!("{} idle connections (limit of open files {limit}), {each} bytes each", opened.len());
    assert!(opened.len() >= wanted * 9 / 10, "{} of {wanted}", opened.len());
    assert!(each < 16_384, "{each} bytes a connection");
    let mut byte = [0];
    let alive = opened.iter().filter(|s| s.peek(&mut byte).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
    assert_eq!(alive.count(), opened.len(), "idle connections must stay open");
    drop(opened);
    still_serves(&server);
}

#[test]
fn connections_beyond_the_limit_are_refused_and_the_others_stay() {
    let server = setup().set("max.connections.per.ip", 10).start().unwrap();
    // The connection that found the server listening may still be counted.
    sleep(Duration::from_millis(200));
    let mut held: Vec<Client> = (0..10).map(|i| Client::open(server.port, &format!("c{i}")).unwrap()).collect();
    for client in &mut held {
        assert_eq!(client.versions().unwrap()["ErrorCode"], 0);
    }
    assert_eq!(until_closed(&connect(&server)).as_deref(), Some(&[][..]));
    for client in &mut held {
        assert_eq!(client.versions().unwrap()["ErrorCode"], 0);
    }
    held.pop();
    sleep(Duration::from_millis(200));
    still_serves(&server);
}

/// Mutated frames of every kind: whatever they are, the server lives and goes on answering others.
#[test]
fn three_thousand_mutated_frames_leave_it_alive() {
    let server = server();
    let mut seed = std::env::var("STREAMSIDE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed_u64);
    println!("STREAMSIDE_SEED={seed}");
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    let heartbeat = json!({"GroupId": "g", "MemberId": "m", "MemberEpoch": 0, "RebalanceTimeoutMs": 1000, "ProcessId": "p",
        "ActiveTasks": [], "StandbyTasks": [], "WarmupTasks": [], "ClientTags": [{"Key": "k", "Value": "v"}],
        "UserEndpoint": {"Host": "h", "Port": 9}, "Topology": {"Epoch": 0, "Subtopologies": [{"SubtopologyId": "0",
            "SourceTopics": ["t"], "StateChangelogTopics": [{"Name": "c"}], "CopartitionGroups": [{"SourceTopics": [0]}]}]}});
    let push = json!({"GroupId": "g", "MemberId": "m", "TopologyEpoch": 0, "TopologyDescription": chain(12)});
    let templates: Vec<Vec<u8>> = [
        (88, 1, heartbeat.clone()),
        (88, 0, heartbeat),
        (93, 0, push),
        (89, 1, json!({"GroupIds": ["g", "h"], "IncludeTopologyDescription": true})),
        (42, 3, json!({"GroupsNames": ["x", "y"]})),
        (42, 0, json!({"GroupsNames": ["x"]})),
        (18, 3, json!({"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"})),
        (3, 12, json!({"Topics": [{"Name": "t"}]})),
        (10, 4, json!({"KeyType": 0, "CoordinatorKeys": ["g"]})),
        (16, 5, json!({"StatesFilter": ["Stable"]})),
        (15, 6, json!({"Groups": ["g"]})),
    ]
    .into_iter()
    .map(|(key, version, body)| {
        let message = &Catalog::get().api(key).unwrap().request;
        let header = json!({"RequestApiKey": key, "RequestApiVersion": version, "CorrelationId": 1, "ClientId": "f"});
        let header_version = codec::request_header_version(message, version);
        let mut data = codec::encode_request_header(header_version, &header).unwrap();
        data.extend(codec::encode(message, version, &body).unwrap());
        data
    })
    .collect();
    for round in 0..3000 {
        let mut data = templates[random(templates.len())].clone();
        for _ in 0..1 + random(4) {
            let at = random(data.len());
            match random(4) {
                0 => data[at] = u8::try_from(random(256)).unwrap(),
                1 => data[at] ^= 1 << random(8),
                2 => data.truncate(at.max(1)),
                _ => data.insert(at, [0x00, 0x7f, 0x80, 0xff][random(4)]),
            }
        }
        let length = i32::try_from(data.len()).unwrap().to_be_bytes();
        let mut stream = connect(&server);
        let _ = stream.write_all(&[&length, data.as_slice()].concat());
        let _ = stream.shutdown(Shutdown::Write);
        assert!(until_closed(&stream).is_some(), "round {round} hangs: {}", codec::hex(&data));
    }
    still_serves(&server);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
