//! Kafka brokers of any version from 4.1, one or three nodes, formatted and started from Maven's jars; killed and
//! started again on their data.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use streamside_testkit::client::Client;
use streamside_testkit::server::free_port;
use tempfile::TempDir;

use crate::java::{Ran, class_path, jvm, must};

/// How long a broker may take until it answers as a coordinator.
const START: Duration = Duration::from_secs(90);

/// Each node is broker and controller, with as few partitions and waits as Kafka allows.
const SETTINGS: [(&str, &str); 15] = [
    ("process.roles", "broker,controller"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("offsets.topic.num.partitions", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.num.partitions", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("auto.create.topics.enable", "false"),
    ("log.cleaner.enable", "false"),
    ("num.io.threads", "2"),
    ("num.network.threads", "2"),
    ("background.threads", "2"),
];

/// Settings that say on how many nodes something is kept.
const REPLICATED: [&str; 4] = [
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
    "default.replication.factor",
];

/// A cluster id, the same at every start.
pub const CLUSTER: &str = "c3RyZWFtc2lkZS1yZWFsLQ";

/// The setting that makes a broker keep topology descriptions.
const PLUGIN: &str = "group.streams.topology.description.plugin.class";

/// What a version needs for streams groups, and for descriptions of them.
fn of_version(version: &str) -> &'static [(&'static str, &'static str)] {
    match version.rsplit_once('.').map(|(minor, _)| minor) {
        // Early access.
        Some("4.1") => &[
            ("group.coordinator.rebalance.protocols", "classic,consumer,streams"),
            ("unstable.api.versions.enable", "true"),
            ("unstable.feature.versions.enable", "true"),
        ],
        Some("4.2" | "4.3") => &[],
        _ => &[(PLUGIN, "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin")],
    }
}

/// How a broker is started: its version, settings that win over ours, further listeners, users of SCRAM-SHA-512.
#[derive(Debug, Default)]
pub struct Setup {
    settings: Vec<(String, String)>,
    listeners: Vec<(String, u16, String)>,
    scram_users: Vec<String>,
    no_plugin: bool,
}

impl Setup {
    /// One more setting.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// One more listener on 127.0.0.1, beside the one in the clear.
    pub fn listener(mut self, name: &str, port: u16, protocol: &str) -> Self {
        self.listeners.push((name.to_owned(), port, protocol.to_owned()));
        self
    }

    /// A user who may log in by SCRAM-SHA-512.
    pub fn scram_user(mut self, name: &str, password: &str) -> Self {
        self.scram_users.push(format!("SCRAM-SHA-512=[name={name},password={password}]"));
        self
    }

    /// A broker of 4.4 that keeps no descriptions.
    pub fn without_plugin(mut self) -> Self {
        self.no_plugin = true;
        self
    }

    fn properties(&self, version: &str, node: &Node, nodes: &[Node]) -> String {
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{}", node.port);
        let mut protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
        for (name, port, protocol) in &self.listeners {
            listeners.push_str(&format!(",{name}://127.0.0.1:{port}"));
            protocols.push_str(&format!(",{name}:{protocol}"));
        }
        let voters: Vec<String> = nodes.iter().map(|n| format!("{}@127.0.0.1:{}", n.id, n.controller)).collect();
        let mut lines = vec![
            format!("node.id={}", node.id),
            format!("controller.quorum.voters={}", voters.join(",")),
            format!("listeners={listeners},CONTROLLER://127.0.0.1:{}", node.controller),
            format!("advertised.listeners={listeners}"),
            format!("listener.security.protocol.map={protocols}"),
            format!("log.dirs={}", node.folder.path().join("data").display()),
        ];
        lines.extend(SETTINGS.iter().map(|(k, v)| format!("{k}={v}")));
        lines.extend(REPLICATED.iter().map(|k| format!("{k}={}", nodes.len())));
        let of_version = of_version(version).iter().filter(|(k, _)| !(self.no_plugin && *k == PLUGIN));
        lines.extend(of_version.map(|(k, v)| format!("{k}={v}")));
        // Of two lines for a key the later one counts.
        lines.extend(self.settings.iter().map(|(k, v)| format!("{k}={v}")));
        lines.join("\n") + "\n"
    }

    fn format(&self, version: &str, config: &Path) {
        let mut format = jvm(&class_path(version));
        format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config"]).arg(config);
        if version.starts_with("4.1.") {
            format.args(["--feature", "streams.version=1"]);
        }
        for user in &self.scram_users {
            format.args(["--add-scram", user]);
        }
        let formatted = Ran::of(&mut format);
        assert_eq!(formatted.code, 0, "{}{}", formatted.out, formatted.err);
    }

    fn launch(&self, version: &str, count: usize) -> Vec<Broker> {
        let nodes: Vec<Node> = (1..).take(count).map(Node::new).collect();
        for node in &nodes {
            fs::write(node.config(), self.properties(version, node, &nodes)).unwrap();
            self.format(version, &node.config());
        }
        let brokers = nodes.into_iter().map(|node| {
            let child = node.launch(version);
            Broker { port: node.port, id: node.id, version: version.to_owned(), child, node }
        });
        brokers.collect()
    }

    /// Formats, starts, and waits until it coordinates groups.
    pub fn start(self, version: &str) -> Broker {
        let mut broker = self.launch(version, 1).remove(0);
        broker.wait();
        broker
    }

    /// The same with three nodes, each of which may coordinate; every topic is kept on all of them.
    pub fn cluster(self, version: &str) -> Vec<Broker> {
        let mut brokers = self.set("offsets.topic.num.partitions", "3").launch(version, 3);
        for broker in &mut brokers {
            broker.wait();
        }
        brokers
    }
}

/// What stays of a node while its process comes and goes.
#[derive(Debug)]
struct Node {
    id: i32,
    port: u16,
    controller: u16,
    folder: TempDir,
}

impl Node {
    fn new(id: i32) -> Self {
        let folder = TempDir::with_prefix("streamside-broker-").unwrap();
        Self { id, port: free_port().unwrap(), controller: free_port().unwrap(), folder }
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("server.properties")
    }

    fn launch(&self, version: &str) -> Child {
        let log = OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut broker = jvm(&class_path(version));
        broker.arg("-Xmx512m").arg("kafka.Kafka").arg(self.config());
        broker.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }
}

/// A running broker. Killed at the end.
#[derive(Debug)]
pub struct Broker {
    /// The port of its listener in the clear.
    pub port: u16,
    /// Its node id.
    pub id: i32,
    version: String,
    child: Child,
    node: Node,
}

impl Broker {
    /// Where it listens in the clear.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn log(&self) -> String {
        let mut text = String::new();
        let _ = File::open(self.node.folder.path().join("log")).and_then(|mut f| f.read_to_string(&mut text));
        text
    }

    /// A node answers a question about groups: it knows the node that coordinates, or coordinates itself (69).
    fn coordinates(&self) -> Option<()> {
        let mut client = Client::open(self.port, "real").ok()?;
        let body = json!({"KeyType": 0, "CoordinatorKeys": ["any"]});
        let answer = client.call("FindCoordinator", 4, &body).ok()?;
        let coordinator = &answer["Coordinators"][0];
        (coordinator["ErrorCode"] == 0).then_some(())?;
        if coordinator["NodeId"] != self.id {
            return Some(());
        }
        let body = json!({"GroupIds": ["any"]});
        let answer = client.call("StreamsGroupDescribe", 0, &body).ok()?;
        (answer["Groups"][0]["ErrorCode"] == 69).then_some(())
    }

    fn wait(&mut self) {
        let start = Instant::now();
        while self.coordinates().is_none() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the broker ended at start ({status}): {}", self.log());
            }
            assert!(start.elapsed() < START, "the broker is not there after {START:?}: {}", self.log());
            sleep(Duration::from_millis(100));
        }
    }

    /// Whether its process runs.
    pub fn is_up(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts again on its data, after [`Self::kill`]; waits until it answers.
    pub fn restart(&mut self) {
        self.child = self.node.launch(&self.version);
        self.wait();
    }

    /// Stops its process without ending it: connections stay, nothing is answered.
    pub fn freeze(&self) {
        must(Command::new("kill").args(["-STOP", &self.child.id().to_string()]));
    }

    /// Undoes [`Self::freeze`].
    pub fn thaw(&self) {
        must(Command::new("kill").args(["-CONT", &self.child.id().to_string()]));
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
