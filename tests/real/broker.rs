//! A Kafka broker of any version from 4.1: one node, formatted and started from Maven's jars.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use streamside_testkit::client::Client;
use streamside_testkit::server::free_port;
use tempfile::TempDir;

use crate::java::{Ran, class_path, jvm};

/// How long a broker may take until it answers as a coordinator.
const START: Duration = Duration::from_secs(90);

/// One node that is its own coordinator, with as few partitions, replicas and waits as Kafka allows.
const SETTINGS: [(&str, &str); 17] = [
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("offsets.topic.num.partitions", "1"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.num.partitions", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("auto.create.topics.enable", "false"),
    ("log.cleaner.enable", "false"),
    ("num.io.threads", "2"),
];

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

    fn properties(&self, version: &str, folder: &Path, port: u16, controller: u16) -> String {
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{port}");
        let mut protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
        for (name, port, protocol) in &self.listeners {
            listeners.push_str(&format!(",{name}://127.0.0.1:{port}"));
            protocols.push_str(&format!(",{name}:{protocol}"));
        }
        let mut lines = vec![
            format!("controller.quorum.voters=1@127.0.0.1:{controller}"),
            format!("listeners={listeners},CONTROLLER://127.0.0.1:{controller}"),
            format!("advertised.listeners={listeners}"),
            format!("listener.security.protocol.map={protocols}"),
            format!("log.dirs={}", folder.join("data").display()),
        ];
        let of_version = of_version(version).iter().filter(|(k, _)| !(self.no_plugin && *k == PLUGIN));
        lines.extend(SETTINGS.iter().chain(of_version).map(|(k, v)| format!("{k}={v}")));
        // Of two lines for a key the later one counts.
        lines.extend(self.settings.iter().map(|(k, v)| format!("{k}={v}")));
        lines.join("\n") + "\n"
    }

    /// Formats, starts, and waits until it coordinates groups.
    pub fn start(self, version: &str) -> Broker {
        let folder = TempDir::with_prefix("streamside-broker-").unwrap();
        let (port, controller) = (free_port().unwrap(), free_port().unwrap());
        let config = folder.path().join("server.properties");
        fs::write(&config, self.properties(version, folder.path(), port, controller)).unwrap();
        let path = class_path(version);

        let mut format = jvm(&path);
        format
            .args(["kafka.tools.StorageTool", "format", "--cluster-id", "c3RyZWFtc2lkZS1yZWFsLQ", "--config"])
            .arg(&config);
        if version.starts_with("4.1.") {
            format.args(["--feature", "streams.version=1"]);
        }
        for user in &self.scram_users {
            format.args(["--add-scram", user]);
        }
        let formatted = Ran::of(&mut format);
        assert_eq!(formatted.code, 0, "{}{}", formatted.out, formatted.err);

        let log = File::create(folder.path().join("log")).unwrap();
        let mut broker = jvm(&path);
        broker.arg("-Xmx512m").arg("kafka.Kafka").arg(&config);
        let child = broker.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut broker = Broker { port, child, folder };
        broker.wait();
        broker
    }
}

/// A running broker. Killed at the end.
#[derive(Debug)]
pub struct Broker {
    /// The port of its listener in the clear.
    pub port: u16,
    child: Child,
    folder: TempDir,
}

impl Broker {
    fn log(&self) -> String {
        let mut text = String::new();
        let _ = File::open(self.folder.path().join("log")).and_then(|mut f| f.read_to_string(&mut text));
        text
    }

    /// It coordinates once it has made the topic for it, which takes a first question.
    fn coordinates(&self) -> Option<()> {
        let mut client = Client::open(self.port, "real").ok()?;
        let body = json!({"KeyType": 0, "CoordinatorKeys": ["any"]});
        let answer = client.call("FindCoordinator", 4, &body).ok()?;
        (answer["Coordinators"][0]["ErrorCode"] == 0).then_some(())?;
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
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
