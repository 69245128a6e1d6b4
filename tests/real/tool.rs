//! What the stock tool says of groups, members and offsets, beside what it says of Kafka 4.4.0 (`tests/golden/tool`).
//!
//! `STREAMSIDE_REAL_NATIVE=1 STREAMSIDE_REAL_RECORD=1` writes the files anew from a Kafka broker.

use std::{env, fs};

use serde_json::{Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::topologies::{samples, tests_folder};

use crate::stage::{Stage, native};

/// A member that takes what it is given.
struct Player {
    group: &'static str,
    member: &'static str,
    epoch: i64,
}

impl Player {
    fn join(client: &mut Client, group: &'static str, member: &'static str, sources: &[&str]) -> Self {
        let subtopologies = match sources {
            [] => json!([]),
            _ => json!([{"SubtopologyId": "0", "SourceTopics": sources}]),
        };
        let joined = client.join_with(1, group, member, &json!({"Epoch": 0, "Subtopologies": subtopologies})).unwrap();
        assert_eq!(joined["ErrorCode"], 0, "{group}: {joined}");
        Self { group, member, epoch: joined["MemberEpoch"].as_i64().unwrap() }
    }

    /// One heartbeat; tasks that come with the answer are owned in the next. Whether anything changed.
    fn beat(&mut self, client: &mut Client) -> bool {
        let mut changed = false;
        let mut owned = Value::Null;
        loop {
            let mut body = json!({"GroupId": self.group, "MemberId": self.member, "MemberEpoch": self.epoch});
            if !owned.is_null() {
                body["ActiveTasks"] = owned.take();
                body["StandbyTasks"] = json!([]);
                body["WarmupTasks"] = json!([]);
            }
            let mut answer = client.call("StreamsGroupHeartbeat", 1, &body).unwrap();
            assert_eq!(answer["ErrorCode"], 0, "{}: {answer}", self.group);
            let epoch = answer["MemberEpoch"].as_i64().unwrap();
            if epoch == self.epoch && answer["ActiveTasks"].is_null() {
                return changed;
            }
            changed = true;
            self.epoch = epoch;
            owned = answer["ActiveTasks"].take();
        }
    }
}

/// Heartbeats until nothing moves any more.
fn settle(client: &mut Client, players: &mut [Player]) {
    for _ in 0..50 {
        let mut moved = false;
        for player in &mut *players {
            moved |= player.beat(client);
        }
        if !moved {
            return;
        }
    }
    panic!("the groups do not come to rest");
}

/// A topic that every broker has; ours from its configuration.
fn topic(client: &mut Client, name: &str, partitions: i32) {
    if native() {
        let body = json!({"Topics": [{"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1}], "timeoutMs": 10_000});
        let made = client.call("CreateTopics", 7, &body).unwrap();
        assert_eq!(made["Topics"][0]["ErrorCode"], 0, "{made}");
        // The coordinator learns of it a little later; a group that is there before has one epoch more.
        std::thread::sleep(std::time::Duration::from_secs(2));
    }
}

/// The order of groups, and of a group's rows, is that of Kafka's hash tables.
fn in_order(line: &str, said: &str) -> Vec<String> {
    let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
    if line.contains("--list") || line.contains("--all-groups") {
        lines.sort();
    } else if line.starts_with("--describe") {
        let row_of = |line: &String| line.split_once(' ').map(|(group, _)| group.to_owned()).filter(|g| g != "GROUP");
        for rows in lines.chunk_by_mut(|a, b| row_of(a).is_some() && row_of(a) == row_of(b)) {
            rows.sort();
        }
    }
    lines
}

/// What the tool said, call by call.
struct Transcript<'a> {
    stage: &'a Stage,
    text: String,
}

impl<'a> Transcript<'a> {
    fn of(stage: &'a Stage) -> Self {
        Self { stage, text: String::new() }
    }

    fn call(&mut self, line: &str) {
        let args: Vec<&str> = line.split(' ').collect();
        let ran = self.stage.tool(&args);
        let said = ran.out.replace(&self.stage.bootstrap(), "127.0.0.1:<port>");
        self.text.push_str(&format!("$ {line}\n"));
        for row in in_order(line, &said) {
            self.text.push_str(&format!("{row}\n"));
        }
        if !ran.complaint().is_empty() {
            // What is allowed comes in the order of a hash table too.
            let complaint = ran.complaint().split(" Valid states are").next().unwrap_or_default();
            self.text.push_str(&format!("! {complaint}\n"));
        }
        self.text.push_str(&format!("= exit {}\n", ran.code));
    }

    fn equals(self, name: &str) {
        let file = tests_folder().join("golden/tool").join(name);
        if env::var_os("STREAMSIDE_REAL_RECORD").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, &self.text).unwrap();
        }
        let mut golden = fs::read_to_string(&file).unwrap();
        if !native() {
            for (kafka, ours) in DIFFERENCES {
                golden = golden.replace(kafka, ours);
            }
        }
        let calls = |text: &str| text.split("$ ").map(str::to_owned).collect::<Vec<_>>();
        let (wanted, said) = (calls(&golden), calls(&self.text));
        for (wanted, said) in wanted.iter().zip(&said) {
            assert!(wanted == said, "{name}\n--- Kafka\n{wanted}\n--- here\n{said}");
        }
        assert_eq!(wanted.len(), said.len(), "{name}");
    }
}

/// Where ours means to say something else: D13 of `docs/differences.md`.
const DIFFERENCES: [(&str, &str); 1] = [(
    "$ --list --state NotReady\nGROUP           STATE\n=",
    "$ --list --state NotReady\nGROUP           STATE\nnot-ready       NotReady\n=",
)];

const GROUPS: &str = "--group known --group not-ready --group empty-topology";

#[test]
#[ignore = "needs Java 17 and Maven"]
fn groups_members_and_offsets_read_as_from_kafka() {
    let mut stage = Stage::with(&[("streamside.topics", "words:2")]);
    topic(&mut stage.client, "words", 2);
    let client = &mut stage.client;
    let mut players = vec![Player::join(client, "known", "m1", &["words"])];
    settle(client, &mut players);
    players.push(Player::join(client, "known", "m2", &["words"]));
    settle(client, &mut players);
    players.push(Player::join(client, "not-ready", "m1", &["absent"]));
    players.push(Player::join(client, "empty-topology", "m1", &[]));
    settle(client, &mut players);
    let pipe = samples().unwrap().swap_remove(1);
    let pushed = client.push("empty-topology", "m1", &pipe.description).unwrap();
    assert_eq!(pushed["ErrorCode"], 0, "{pushed}");

    let mut present = Transcript::of(&stage);
    for line in [
        "--list",
        "--list --state",
        "--list --state Stable",
        "--list --state NotReady",
        "--list --state Empty,stable",
        "--list --state nonsense",
    ] {
        present.call(line);
    }
    for kind in ["", " --state", " --members", " --offsets"] {
        present.call(&format!("--describe {GROUPS}{kind}"));
        present.call(&format!("--describe {GROUPS}{kind} --verbose"));
        present.call(&format!("--describe --group nobody{kind}"));
    }
    present.call("--describe --all-groups");
    present.call("--describe --all-groups --state");
    present.call("--describe --all-groups --members");
    present.call("--describe --all-groups --topology");
    present.call("--delete --group known --group nobody");
    present.call("--delete --group known");
    present.call("--delete --group nobody");
    present.call("--delete --all-groups");
    present.equals("members-present.txt");

    for player in &players {
        let left = stage.client.leave(player.group, player.member).unwrap();
        assert_eq!(left["ErrorCode"], 0, "{left}");
    }
    let mut left = Transcript::of(&stage);
    left.call("--list --state");
    left.call("--list --state Empty");
    for kind in ["", " --state", " --members", " --offsets"] {
        left.call(&format!("--describe {GROUPS}{kind}"));
        left.call(&format!("--describe {GROUPS}{kind} --verbose"));
    }
    left.call("--describe --all-groups --state");
    left.call("--delete --group known --group nobody");
    left.call("--delete --group not-ready");
    left.call("--list");
    left.call("--delete --all-groups");
    left.call("--list --state");
    left.call("--describe --all-groups");
    left.call("--delete --all-groups");
    left.equals("members-left.txt");
}
