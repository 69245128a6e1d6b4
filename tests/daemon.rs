//! The real binary as people run it: exit codes, the first lines, configuration, HTTP, SIGHUP, the demonstration.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::process::hang_up;
use streamside_testkit::server::{Server, Setup};
use streamside_testkit::topologies::{chain, samples};

const BINARY: &str = env!("CARGO_BIN_EXE_streamside");

fn run(arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    // Nothing of the developer's own environment counts.
    let clean = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("STREAMSIDE_"));
    let mut command = Command::new(BINARY);
    command.args(arguments).env_clear().envs(clean).current_dir(folder.path()).stdin(Stdio::null());
    told(&command.output().unwrap())
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        sleep(Duration::from_millis(20));
    }
}

fn figure(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}")).parse().unwrap()
}

#[test]
fn wrong_use_and_wrong_configuration_end_with_2() {
    assert_eq!(run(&["--nonsense"]).0, 2);
    let (code, _, error) =
        run(&["--override", "listeners=PLAINTEXT://0.0.0.0:1", "--override", "max.connections=many"]);
    assert_eq!(code, 2);
    assert!(error.contains("the configuration has 2 mistakes"), "{error}");
    assert!(
        error.contains("max.connections=many (from --override): must be a whole number from 0 to 2147483647"),
        "{error}"
    );
    assert!(error.contains("set advertised.listeners"), "{error}");
    let (code, _, error) = run(&["--override", "group.streams.topology.description.plugin.class=com.acme.Store"]);
    assert_eq!(code, 2);
    assert!(error.contains("not in this build"), "{error}");
}

#[test]
fn a_taken_port_ends_with_3_and_names_the_key() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let kafka = format!("listeners=PLAINTEXT://127.0.0.1:{port}");
    let (code, _, error) = run(&["--override", &kafka, "--override", "streamside.http.listen=off"]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("listeners="), "{error}");
    let http = format!("streamside.http.listen=127.0.0.1:{port}");
    let (code, _, error) = run(&["--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", &http]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("streamside.http.listen="), "{error}");
}

#[test]
fn nobody_there_ends_with_3() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let (code, ..) = run(&["groups", "--bootstrap-server", &free.to_string(), "--timeout", "1000"]);
    assert_eq!(code, 3);
    let url = format!("http://{free}");
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "operator 0123456789abcdef\n").unwrap();
    let (code, _, error) = run(&["retry", "--url", &url, "--group", "g", "--token-file", token.to_str().unwrap()]);
    assert_eq!(code, 3, "{error}");
}

#[test]
fn config_tells_values_and_origins_and_hides_secrets() {
    let (code, shown, _) = run(&[
        "config",
        "--changed",
        "--override",
        "streamside.plugin.config.password=hunter2",
        "--override",
        "max.connections=7",
    ]);
    assert_eq!(code, 0);
    assert!(
        shown.lines().any(|line| line.starts_with("max.connections=7") && line.ends_with("# --override")),
        "{shown}"
    );
    assert!(shown.contains("streamside.plugin.config.password=[hidden]") && !shown.contains("hunter2"), "{shown}");
    let (_, json, _) = run(&["config", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let listeners = json.as_array().unwrap().iter().find(|entry| entry["key"] == "listeners").unwrap();
    assert_eq!(listeners, &json!({"key": "listeners", "value": "PLAINTEXT://127.0.0.1:9092", "origin": "default"}));
}

#[test]
fn check_tells_each_thing_and_ends_with_1_when_one_is_wrong() {
    let free = ["check", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "streamside.http.listen=off"];
    let (code, told, _) = run(&free);
    assert_eq!(code, 0, "{told}");
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listener = format!("listeners=PLAINTEXT://{}", taken.local_addr().unwrap());
    let (code, told, _) = run(&["check", "--override", &listener, "--override", "streamside.http.listen=off"]);
    assert_eq!(code, 1);
    assert!(told.lines().any(|line| line.starts_with("FAIL Kafka's protocol can't listen on")), "{told}");
}

#[test]
fn plugins_are_listed_described_and_checked() {
    let (code, list, _) = run(&["plugin", "list"]);
    assert!(code == 0 && list.contains("disk ") && list.contains("memory "), "{list}");
    let (code, schema, _) = run(&["plugin", "schema", "disk"]);
    assert_eq!(code, 0);
    assert_eq!(serde_json::from_str::<Value>(&schema).unwrap()["name"], "disk");
    assert_eq!(run(&["plugin", "schema", "nothing"]).0, 2);
    let (code, report, _) = run(&["plugin", "check", "memory"]);
    assert!(code == 0 && report.contains(" 0 failed"), "{report}");
}

#[test]
fn the_first_lines_say_where_it_listens_where_it_stores_and_what_comes_next() {
    let server = Setup::new(BINARY).start().unwrap();
    eventually("the first lines", || server.log().lines().count() >= 3);
    let log = server.log();
    let first = log.lines().next().unwrap();
    assert!(first.contains(&format!("listens on 127.0.0.1:{}", server.port)), "{log}");
    assert!(first.contains(&server.folder().join("data").display().to_string()), "{log}");
    assert!(log.contains(&format!("next: streamside groups --bootstrap-server 127.0.0.1:{}", server.port)), "{log}");
}

#[test]
fn the_demonstration_shows_every_group_with_its_topology() {
    let (code, shown, error) = run(&["demo", "--once"]);
    assert_eq!(code, 0, "{shown}{error}");
    for group in ["word-count", "orders", "game-leaderboard", "retail-items"] {
        let row = shown.lines().find(|line| line.starts_with(group) && line.contains("available"));
        assert!(row.is_some_and(|row| row.contains("Stable")), "{shown}");
    }
    assert!(shown.contains("Source: KSTREAM-SOURCE-0000000000 (topics: [streams-plaintext-input])"), "{shown}");
}

#[test]
fn kip1331_10_1_sensors_count_what_the_plugin_did() {
    let server = Setup::recorded(BINARY).start().unwrap();
    let mut client = Client::open(server.port, "c").unwrap();
    let description = &samples().unwrap()[0].description;
    client.join("g", "m").unwrap();
    assert_eq!(client.push("g", "m", description).unwrap()["ErrorCode"], 0);
    client.describe(&["g"]).unwrap();
    client.leave("g", "m").unwrap();
    assert_eq!(client.delete(&["g"]).unwrap()[0]["ErrorCode"], 0);
    let (status, metrics) = server.get("/metrics").unwrap();
    assert_eq!(status, 200);
    let prefix = "kafka_server_group_coordinator_metrics_streams_group_topology_description";
    for (sensor, expected) in [("set_success", 1.0), ("set_error", 0.0), ("get_success", 1.0), ("delete_success", 1.0)]
    {
        assert_eq!(figure(&metrics, &format!("{prefix}_{sensor}_count")), expected, "{sensor}");
        assert_eq!(figure(&metrics, &format!("{prefix}_{sensor}_rate")) > 0.0, expected > 0.0, "{sensor}");
    }
    assert_eq!(figure(&metrics, "streamside_connections"), 1.0);
    assert_eq!(figure(&metrics, "streamside_pushes_total{result=\"stored\"}"), 1.0);
    assert_eq!(figure(&metrics, "streamside_plugin_seconds_count{op=\"set\"}"), 1.0);
    let pushes = "streamside_request_seconds_count{api=\"StreamsGroupTopologyDescriptionUpdate\",side=\"own\"}";
    assert_eq!(figure(&metrics, pushes), 1.0);
    assert!(figure(&metrics, "process_resident_memory_bytes") > 1e6);
}

#[test]
fn h2_a_limit_raised_by_sighup_holds_at_once_and_retry_clears_a_refusal() {
    let server = Setup::recorded(BINARY).start().unwrap();
    let config = server.folder().join("live.properties");
    std::fs::write(&config, "streamside.description.max.nodes=10\n").unwrap();
    // The same server, but with a file that can be changed.
    let data = format!("streamside.data.dir={}", server.folder().join("second").display());
    let (kafka, http) = (free(), free());
    let (listen, web) =
        (format!("listeners=PLAINTEXT://127.0.0.1:{kafka}"), format!("streamside.http.listen=127.0.0.1:{http}"));
    let child = Ended(
        Command::new(BINARY)
            .arg("--config")
            .arg(&config)
            .args(["--override", &data, "--override", &listen, "--override", &web])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    eventually("it listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, kafka)).is_ok());
    let mut client = Client::open(kafka, "c").unwrap();
    let large = chain(20);
    client.join("g", "m").unwrap();
    let refused = client.push("g", "m", &large).unwrap();
    assert_eq!(refused["ErrorCode"], 135);
    assert!(refused["ErrorMessage"].as_str().unwrap().starts_with("too_many_nodes"), "{refused}");

    let token = server.folder().join("second/http-token");
    let url = format!("http://127.0.0.1:{http}");
    let ask = |group: &str| run(&["retry", "--url", &url, "--group", group, "--token-file", token.to_str().unwrap()]);
    assert_eq!(ask("g").0, 0);
    assert_eq!(ask("unknown").0, 1);

    std::fs::write(&config, "streamside.description.max.nodes=100\n").unwrap();
    hang_up(child.0.id()).unwrap();
    let start = Instant::now();
    loop {
        let answer = client.push("g", "m", &large).unwrap();
        if answer["ErrorCode"] == 0 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "the limit is raised; the last answer was {answer}");
        sleep(Duration::from_millis(20));
    }
}

/// A process that does not outlive its test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free() -> u16 {
    streamside_testkit::server::free_port().unwrap()
}

fn exchange(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_kafka_client_on_the_http_port_is_named_in_the_log() {
    let server: Server = Setup::new(BINARY).start().unwrap();
    let answer = exchange(server.http, &[0, 0, 0, 12, 0, 18, 0, 4, 0, 0, 0, 1, 0, 2, b'c', b'1']);
    assert_eq!(answer, "");
    eventually("the log names it", || server.log().contains("it is a Kafka client"));
}

#[test]
fn http_serves_its_own_names_only_and_changes_need_a_token() {
    let server = Setup::new(BINARY).start().unwrap();
    let ask = |line: &str, host: &str| {
        exchange(server.http, format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
    };
    eventually("it is ready", || ask("GET /readyz", "127.0.0.1").starts_with("HTTP/1.1 200"));
    assert!(ask("GET /metrics", "evil.example").starts_with("HTTP/1.1 403"));
    let refused = ask("POST /api/v1/clusters/-/groups/g/retry", "localhost");
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("application/problem+json"), "{refused}");
    assert!(ask("GET /api/v1/clusters", "localhost").starts_with("HTTP/1.1 501"));
    assert!(ask("GET /nowhere", "localhost").starts_with("HTTP/1.1 404"));
}
