//! The commands that ask a cluster, as a user calls them: the real binary against the demonstration's server.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_streamside");

/// A running demonstration.
struct Demo {
    child: Child,
    bootstrap: String,
    /// What it printed before it went on serving.
    screen: String,
}

impl Demo {
    fn start() -> Self {
        let mut child =
            Command::new(BINARY).arg("demo").stdout(Stdio::piped()).spawn().expect("the demonstration starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut screen = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            screen.push_str(&line);
            screen.push('\n');
            if line.contains("kafka-streams-groups.sh") {
                break;
            }
        }
        // The pipe stays open, so that the last words find a reader.
        std::thread::spawn(move || lines.count());
        let after = screen.split("serves at ").nth(1).unwrap_or_else(|| panic!("no address in {screen}"));
        let bootstrap = after.split_whitespace().next().unwrap_or_default().trim_end_matches('.').to_owned();
        Self { child, bootstrap, screen }
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        run(&[arguments, &["--bootstrap-server", &self.bootstrap]].concat())
    }

    /// Ends it as Ctrl-C does; gives its exit code.
    fn end(mut self) -> Option<i32> {
        let asked = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(asked.is_ok_and(|status| status.success()));
        self.child.wait().ok().and_then(|status| status.code())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

#[test]
fn groups_members_and_topology_show_what_runs() {
    let demo = Demo::start();
    assert!(demo.screen.contains("was asked for the topology and has pushed"), "{}", demo.screen);

    let groups = demo.ask(&["groups"]);
    assert_eq!(groups.status.code(), Some(0), "{}", err(&groups));
    let table = out(&groups);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["GROUP", "STATE", "MEMBERS", "EPOCH", "DESCRIPTION"]);
    assert_eq!(lines.len(), 5, "{table}");
    assert!(lines[1..].iter().all(|line| line.ends_with("  available")), "{table}");
    assert!(demo.screen.contains(&table), "the demonstration shows the same table");

    let groups: serde_json::Value = serde_json::from_slice(&demo.ask(&["groups", "--json"]).stdout).expect("JSON");
    let word_count = &groups["groups"][3];
    assert_eq!(word_count["group"], "word-count");
    assert_eq!(word_count["members"], 2);
    assert_eq!(word_count["topologyEpoch"], 0);
    assert_eq!(word_count["descriptionStatus"], "AVAILABLE");
    assert_eq!(word_count["error"], serde_json::Value::Null);

    let members = demo.ask(&["members", "--group", "word-count", "--json"]);
    let members: serde_json::Value = serde_json::from_slice(&members.stdout).expect("JSON");
    let list = members["groups"][0]["members"].as_array().expect("members");
    assert_eq!(list.len(), 2);
    assert!(list.iter().all(|member| member["clientHost"] == "/127.0.0.1" && member["topologyEpoch"] == 0));
    let table = out(&demo.ask(&["members", "--group", "word-count"]));
    assert!(list.iter().all(|member| table.contains(member["memberId"].as_str().unwrap_or("-"))), "{table}");

    // The stock tool's bytes, with the internal topic under the application's name.
    let golden = include_str!("golden/01-wordcount.txt");
    let own = golden.replace("counts-store-repartition", "word-count-counts-store-repartition");
    assert_eq!(out(&demo.ask(&["topology", "--group", "word-count"])), own);
    let drawn = out(&demo.ask(&["topology", "--group", "word-count", "--format", "describe"]));
    assert!(drawn.starts_with("Topologies:\n   Sub-topology: 0\n"), "{drawn}");
    let json = demo.ask(&["topology", "--group", "word-count", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["subtopologies"][1]["nodes"][0]["topics"][0], "word-count-counts-store-repartition");
    let every = demo.ask(&["topology", "--all-groups", "--json"]);
    let every: serde_json::Value = serde_json::from_slice(&every.stdout).expect("JSON");
    assert_eq!(every["groups"][3]["topology"], json);

    assert_eq!(demo.end(), Some(0));
}

#[test]
fn an_answer_of_no_is_a_sentence_and_exit_1() {
    let demo = Demo::start();
    for command in ["topology", "members", "groups"] {
        let output = demo.ask(&[command, "--group", "no\u{1b}[2Jbody"]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert_eq!(err(&output), "There is no streams group 'no\\u{1b}[2Jbody'.\n", "{command}");
    }
    // The others are still shown.
    let output = demo.ask(&["topology", "--group", "nobody", "--group", "word-count"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).starts_with("Topologies:\n"));
    let output = demo.ask(&["topology", "--group", "nobody", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["groups"][0]["error"]["code"], 69);
    assert_eq!(demo.end(), Some(0));
}

/// Clients before 4.4, and those that are told not to push: what their heartbeats tell is shown, and marked as that.
#[test]
fn a_group_that_nobody_described_is_shown_by_its_heartbeats() {
    let demo = Demo::start();
    let port = demo.bootstrap.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let mut member = streamside_testkit::client::Client::open(port, "old").expect("a connection");
    let topology = serde_json::json!({"Epoch": 0, "Subtopologies": [
        {"SubtopologyId": "0\u{1b}", "SourceTopics": ["a", "c"], "RepartitionSinkTopics": ["r"]},
        {"SubtopologyId": "1", "RepartitionSourceTopics": [{"Name": "r"}], "StateChangelogTopics": [{"Name": "s"}]},
    ]});
    let joined = member.join_with(0, "old", "m1", &topology).expect("an answer");
    assert_eq!(joined["ErrorCode"], 0, "{joined}");

    let output = demo.ask(&["topology", "--group", "old"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).starts_with("No topology description is stored for streams group 'old'."), "{}", err(&output));
    let said = out(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "Coarse topology of 'old', from the heartbeats of its members:");
    assert_eq!(lines[1..3], ["  Sub-topology: 0\\u{1b}", "    sources: a, c"]);
    assert_eq!(lines[5], "    repartition sources: r");
    let output = demo.ask(&["topology", "--group", "old", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["groups"][0]["topology"], serde_json::Value::Null);
    assert_eq!(json["groups"][0]["coarse"]["subtopologies"][1]["changelogTopics"], serde_json::json!(["s"]));
    assert_eq!(demo.end(), Some(0));
}

#[test]
fn wrong_use_is_exit_2_and_nobody_there_is_exit_3() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    };
    let jks = file("jks.properties", "security.protocol=SSL\nssl.truststore.location=trust.jks\n");
    let topology = file("bad.json", "{\"subtopologies\":1}");
    for (arguments, told) in [
        (vec!["topology"], "--group"),
        (vec!["groups", "--bootstrap-server", "nonsense"], "host:port"),
        (vec!["groups", "--command-config", "/nowhere/at/all"], "can't be read"),
        (vec!["groups", "--command-config", &jks], "keytool -list -rfc -keystore 'trust.jks' > trust.pem"),
        (vec!["topology", "--from", &topology], "is no topology"),
        (vec!["topology", "--group", "g", "--format", "svgg"], "unknown format"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(told), "{arguments:?}: {}", err(&output));
    }
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address").port()
    };
    let output = run(&["groups", "--bootstrap-server", &format!("127.0.0.1:{port}")]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("can't be reached"), "{}", err(&output));
}

#[test]
fn a_file_is_drawn_without_a_server() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/02-pipe.json");
    let output = run(&["topology", "--from", path]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(out(&output), include_str!("golden/02-pipe.txt"));
}
