//! A server of ours, groups on it, and tools that look at them.

use serde_json::Value;
use streamside_testkit::client::Client;
use streamside_testkit::server::{Server, Setup};
use streamside_testkit::topologies::samples;

use crate::broker::{self, Broker};
use crate::java::{KAFKA, Ran, streams_groups};

/// The one member of each group.
const MEMBER: &str = "m";

/// What every server is set to beyond its defaults: sessions outlast the slowest run, nothing waits for other members.
pub const SETTINGS: [(&str, &str); 4] = [
    ("group.streams.max.session.timeout.ms", "3600000"),
    ("group.streams.session.timeout.ms", "3600000"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.assignment.interval.ms", "0"),
];

/// Whether every server is a Kafka broker, which shows that what is expected is what Kafka does.
pub fn native() -> bool {
    std::env::var_os("STREAMSIDE_REAL_NATIVE").is_some()
}

/// What is kept only to be ended at the end.
enum Host {
    Ours(#[expect(dead_code)] Server),
    Kafka(#[expect(dead_code)] Broker),
    /// Somebody else's.
    Other,
}

/// A server and a client of it.
pub struct Stage {
    /// Its client id is `real`.
    pub client: Client,
    port: u16,
    _host: Host,
}

impl Stage {
    /// A new server on a new folder; a new Kafka broker with `STREAMSIDE_REAL_NATIVE` set.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// As [`Self::new`], with more settings; a broker does not take them.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        if native() {
            let broker = SETTINGS.iter().fold(broker::Setup::default(), |setup, (k, v)| setup.set(k, v)).start(KAFKA);
            return Self {
                client: Client::open(broker.port, "real").unwrap(),
                port: broker.port,
                _host: Host::Kafka(broker),
            };
        }
        let binary = env!("CARGO_BIN_EXE_streamside");
        let setup = SETTINGS.iter().chain(settings).fold(Setup::new(binary), |setup, (k, v)| setup.set(k, v));
        let server = setup.start().unwrap();
        Self { client: Client::open(server.port, "real").unwrap(), port: server.port, _host: Host::Ours(server) }
    }

    /// What listens on a port.
    pub fn at(port: u16) -> Self {
        Self { client: Client::open(port, "real").unwrap(), port, _host: Host::Other }
    }

    /// Where it listens.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The stock tool against it.
    pub fn tool(&self, args: &[&str]) -> Ran {
        streams_groups(&self.bootstrap(), args)
    }

    /// A member joins with an empty topology and is asked for its description.
    pub fn join(&mut self, group: &str) {
        let joined = self.client.join(group, MEMBER).unwrap();
        assert_eq!(joined["ErrorCode"], 0, "{group}: {joined}");
        assert_eq!(joined["TopologyDescriptionRequired"], true, "{group}: {joined}");
    }

    /// It leaves.
    pub fn leave(&mut self, group: &str) {
        let left = self.client.leave(group, MEMBER).unwrap();
        assert_eq!(left["ErrorCode"], 0, "{group}: {left}");
    }

    /// Joins and pushes.
    pub fn join_and_push(&mut self, group: &str, description: &Value) {
        self.join(group);
        let pushed = self.client.push(group, MEMBER, description).unwrap();
        assert_eq!(pushed["ErrorCode"], 0, "{group}: {pushed}");
    }

    /// Joins, pushes, leaves.
    pub fn push(&mut self, group: &str, description: &Value) {
        self.join_and_push(group, description);
        self.leave(group);
    }

    /// Pushes the 41 topologies, each to the group of its name.
    pub fn push_samples(&mut self) -> Vec<String> {
        let all = samples().unwrap();
        assert_eq!(all.len(), 41);
        for sample in &all {
            self.push(&sample.name, &sample.description);
        }
        all.into_iter().map(|s| s.name).collect()
    }
}
