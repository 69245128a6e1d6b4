//! Groups that go and come back, and what was stored of them, in front of a broker that cannot tell (H12): the right
//! description is served again within two heartbeat intervals, and nobody is asked in vain.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use streamside_testkit::client::Client;

use crate::beside::{Sidecar, direct};
use crate::broker::{Broker, Setup};
use crate::driver::Driver;

/// Statuses of a description in an answer.
const NOT_STORED: i64 = 1;
const AVAILABLE: i64 = 3;

/// As the broker is told; a member is asked within two of them.
const INTERVAL: Duration = Duration::from_millis(500);

/// A graph of one source and one sink.
fn graph(source: &str) -> Value {
    json!({"Subtopologies": [{"SubtopologyId": "0", "Nodes": [
        {"Name": "in", "NodeType": 1, "SourceTopics": [source], "Successors": ["out"]},
        {"Name": "out", "NodeType": 3, "SinkTopic": "results"},
    ]}], "GlobalStores": []})
}

fn topology(source: &str) -> Value {
    json!({"Epoch": 0, "Subtopologies": [{"SubtopologyId": "0", "SourceTopics": [source]}]})
}

/// Broker, sidecar, and somebody who goes round the sidecar.
struct Scene {
    broker: Broker,
    sidecar: Sidecar,
    behind: Client,
}

/// One member of a group, on a connection of its own.
struct Member {
    client: Client,
    group: String,
    id: &'static str,
    epoch: i64,
    asked: usize,
}

impl Member {
    /// Joins through the sidecar.
    fn join(scene: &Scene, group: &str, id: &'static str, source: &str) -> Self {
        let client = Client::open(scene.sidecar.port(), "member").unwrap();
        let mut member = Self { client, group: group.to_owned(), id, epoch: 0, asked: 0 };
        let answer = member.client.join_with(1, group, id, &topology(source)).unwrap();
        member.take(&answer);
        member
    }

    fn take(&mut self, answer: &Value) {
        assert_eq!(answer["ErrorCode"], 0, "{}: {answer}", self.group);
        self.epoch = answer["MemberEpoch"].as_i64().unwrap();
        self.asked += usize::from(answer["TopologyDescriptionRequired"] == true);
    }

    fn beat(&mut self) {
        let answer = self.client.beat(&self.group, self.id, self.epoch).unwrap();
        self.take(&answer);
    }

    /// Beats as a client does until it is asked, for at most two intervals.
    fn asked_soon(&mut self) -> bool {
        for _ in 0..3 {
            if self.asked > 0 {
                return true;
            }
            sleep(INTERVAL);
            self.beat();
        }
        self.asked > 0
    }

    fn push(&mut self, source: &str) {
        let answer = self.client.push(&self.group, self.id, &graph(source)).unwrap();
        assert_eq!(answer["ErrorCode"], 0, "{}: {answer}", self.group);
        self.asked = 0;
    }

    /// Is asked once, answers, and is left alone from then on.
    fn heals(&mut self, scene: &Scene, source: &str) {
        assert!(self.asked_soon(), "{}: nobody is asked\n{}", self.group, scene.sidecar.log());
        assert_eq!(self.asked, 1, "{}: asked too often", self.group);
        self.push(source);
        scene.serves(&self.group, source);
        self.rests();
    }

    /// Is not asked, whatever it does.
    fn rests(&mut self) {
        for _ in 0..4 {
            self.beat();
        }
        assert_eq!(self.asked, 0, "{}: asked in vain", self.group);
    }

    /// Reconnects, as clients do when a sidecar was restarted.
    fn reconnect(&mut self, scene: &Scene) {
        self.client = Client::open(scene.sidecar.port(), "member").unwrap();
    }

    fn leave(mut self) {
        let answer = self.client.leave(&self.group, self.id).unwrap();
        assert_eq!(answer["ErrorCode"], 0, "{}: {answer}", self.group);
    }
}

impl Scene {
    fn describe(&self, group: &str) -> Value {
        Client::open(self.sidecar.port(), "tool").unwrap().describe(&[group]).unwrap().remove(0)
    }

    /// The description with this source is served.
    fn serves(&self, group: &str, source: &str) {
        let said = self.describe(group);
        assert_eq!((&said["ErrorCode"], &said["TopologyDescriptionStatus"]), (&json!(0), &json!(AVAILABLE)), "{said}");
        let nodes = &said["TopologyDescription"]["Subtopologies"][0]["Nodes"];
        let topics = nodes.as_array().unwrap().iter().find(|n| n["Name"] == "in").map(|n| n["SourceTopics"].clone());
        assert_eq!(topics, Some(json!([source])), "{said}");
    }

    /// The group is there and no description is served.
    fn serves_none(&self, group: &str) {
        let said = self.describe(group);
        assert_eq!((&said["ErrorCode"], &said["TopologyDescriptionStatus"]), (&json!(0), &json!(NOT_STORED)), "{said}");
    }

    fn gone(&self, group: &str) {
        let said = self.describe(group);
        assert_eq!(said["ErrorCode"], 69, "{said}");
    }

    /// A group of one member whose description is stored.
    fn described(&self, group: &str, source: &str) -> Member {
        let mut member = Member::join(self, group, "m1", source);
        member.heals(self, source);
        member
    }

    fn delete_through_us(&self, group: &str) -> i64 {
        let mut tool = Client::open(self.sidecar.port(), "tool").unwrap();
        tool.delete(&[group]).unwrap()[0]["ErrorCode"].as_i64().unwrap()
    }

    fn delete_behind_our_back(&mut self, group: &str) {
        let answer = self.behind.call("DeleteGroups", 2, &json!({"GroupsNames": [group]})).unwrap();
        assert_eq!(answer["Results"][0]["ErrorCode"], 0, "{group}: {answer}");
    }

    fn restart(&mut self, meanwhile: impl FnOnce(&std::path::Path)) {
        let server = self.sidecar.server().unwrap();
        server.kill().unwrap();
        meanwhile(&server.folder().join("data"));
        server.restart().unwrap();
    }
}

/// kip1331 §6: deleted and made again through us; a new group knows nothing of the old one.
fn deleted_and_made_again_through_us(scene: &Scene) {
    let group = "through-us";
    scene.described(group, "words").leave();
    scene.serves(group, "words");
    assert_eq!(scene.delete_through_us(group), 0);
    scene.gone(group);
    Member::join(scene, group, "m1", "words").heals(scene, "words");
}

/// H12: a delete that passed us by; the same bytes again.
fn deleted_and_made_again_behind_our_back(scene: &mut Scene) {
    let group = "behind-our-back";
    scene.described(group, "words").leave();
    scene.delete_behind_our_back(group);
    Member::join(scene, group, "m1", "words").heals(scene, "words");
}

/// A describe between shows that it is gone.
fn deleted_behind_our_back_and_described(scene: &mut Scene) {
    let group = "seen-gone";
    scene.described(group, "words").leave();
    scene.delete_behind_our_back(group);
    scene.gone(group);
    let mut member = Member::join(scene, group, "m1", "words");
    scene.serves_none(group);
    member.heals(scene, "words");
}

/// Another application under the old name, at the same epoch, as all clients use 0.
fn made_again_with_another_topology(scene: &mut Scene) {
    let group = "other-topology";
    scene.described(group, "words").leave();
    scene.delete_behind_our_back(group);
    Member::join(scene, group, "m2", "lines").heals(scene, "lines");
}

/// The same, made by somebody who goes round us: what we hold is not what the broker describes.
fn made_again_behind_our_back(scene: &mut Scene) {
    let group = "other-topology-unseen";
    scene.described(group, "words").leave();
    scene.delete_behind_our_back(group);
    let joined = scene.behind.join_with(0, group, "m3", &topology("lines")).unwrap();
    assert_eq!(joined["ErrorCode"], 0, "{joined}");
    scene.serves_none(group);
    Member::join(scene, group, "m4", "lines").heals(scene, "lines");
}

/// What lasts over a restart needs no second telling, not even of a sidecar that was killed.
fn restarted_with_its_folder(scene: &mut Scene) {
    let group = "restarted";
    let mut member = scene.described(group, "words");
    scene.restart(|_| ());
    scene.serves(group, "words");
    member.reconnect(scene);
    member.rests();
    member.leave();
    scene.serves(group, "words");
}

/// Nothing known: a member that goes on with its heartbeats is asked.
fn restarted_without_its_folder(scene: &mut Scene) {
    let group = "forgotten";
    let mut member = scene.described(group, "words");
    scene.restart(|data| fs::remove_dir_all(data).unwrap());
    scene.serves_none(group);
    member.reconnect(scene);
    member.heals(scene, "words");
    member.leave();
}

/// H1: marks without the descriptions that they speak of.
fn store_lost_its_entries(scene: &mut Scene) {
    let group = "lost";
    let mut member = scene.described(group, "words");
    scene.restart(|data| fs::remove_file(data.join("descriptions.redb")).unwrap());
    member.reconnect(scene);
    member.heals(scene, "words");
    member.leave();
}

/// A classic group takes over the name of an empty streams group.
fn a_classic_group_takes_over(scene: &Scene, driver: &mut Driver) {
    let group = "taken-over";
    scene.described(group, "words").leave();
    let consume = json!({"do": "consume", "topic": "words", "group": group, "protocol": "classic", "count": 0});
    driver.ask(consume);
    scene.gone(group);
    let mut member = Member::join(scene, group, "m1", "words");
    scene.serves_none(group);
    member.heals(scene, "words");
}

/// K33: a simple consumer committed offsets under the name before; they stay.
fn offsets_of_a_simple_consumer_come_first(scene: &Scene, driver: &mut Driver) {
    let group = "offsets-first";
    driver.ask(json!({"do": "commit", "group": group, "topic": "words", "offset": 7}));
    scene.gone(group);
    let member = scene.described(group, "words");
    let committed = driver.ask(json!({"do": "committed", "group": group}));
    assert_eq!(committed, json!(["words-0@7"]));
    member.leave();
}

/// Refused by the broker: what we hold stays, and so does the group.
fn a_refused_delete_leaves_the_description(scene: &Scene, driver: &mut Driver) {
    let group = "guarded";
    scene.described(group, "words").leave();
    driver.ask(json!({"do": "deny", "group": group, "operation": "DELETE"}));
    assert_eq!(scene.delete_through_us(group), 30);
    scene.serves(group, "words");
    let members = scene.described("inhabited", "words");
    assert_eq!(scene.delete_through_us("inhabited"), 68);
    scene.serves("inhabited", "words");
    drop(members);
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn groups_heal_before_4_3() {
    heal(Setup::default(), "4.3.0");
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn groups_heal_before_4_4() {
    heal(Setup::default().without_plugin(), "4.4.0");
}

fn heal(setup: Setup, version: &str) {
    if direct() {
        return;
    }
    let interval = INTERVAL.as_millis().to_string();
    let broker = setup
        .set("group.streams.min.heartbeat.interval.ms", &interval)
        .set("group.streams.heartbeat.interval.ms", &interval)
        .set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        .set("allow.everyone.if.no.acl.found", "true")
        .start(version);
    let sidecar = Sidecar::new(&[&broker]);
    let mut driver = Driver::new(sidecar.bootstrap());
    driver.topics(&json!({"words": 2, "lines": 2, "results": 2}));
    let behind = Client::open(broker.port, "behind").unwrap();
    let mut scene = Scene { broker, sidecar, behind };

    deleted_and_made_again_through_us(&scene);
    deleted_and_made_again_behind_our_back(&mut scene);
    deleted_behind_our_back_and_described(&mut scene);
    made_again_with_another_topology(&mut scene);
    made_again_behind_our_back(&mut scene);
    a_classic_group_takes_over(&scene, &mut driver);
    offsets_of_a_simple_consumer_come_first(&scene, &mut driver);
    a_refused_delete_leaves_the_description(&scene, &mut driver);
    restarted_with_its_folder(&mut scene);
    restarted_without_its_folder(&mut scene);
    store_lost_its_entries(&mut scene);
    assert!(scene.broker.is_up());
}
