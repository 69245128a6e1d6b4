//! Unmodified Kafka clients in one JVM (`src/Driver.java`), a line of JSON a command.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::java::{Ran, jvm, programs};

/// The stock `kafka-streams-groups`.
const STREAMS_GROUPS: &str = "org.apache.kafka.tools.streams.StreamsGroupCommand";

/// Clients that go to one address. Ended at the end.
pub struct Driver {
    bootstrap: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    folder: TempDir,
}

impl Driver {
    /// A JVM whose commands go to an address where they name no other.
    pub fn new(bootstrap: impl Into<String>) -> Self {
        let folder = TempDir::with_prefix("streamside-clients-").unwrap();
        let log = OpenOptions::new().create(true).append(true).open(folder.path().join("log")).unwrap();
        let mut java = jvm(programs());
        java.args(["-Xmx768m", "-Dorg.slf4j.simpleLogger.showDateTime=true", "Driver"]);
        let mut child = java.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { bootstrap: bootstrap.into(), child, input, output, folder }
    }

    /// Where commands go.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// What the clients logged, warnings and errors.
    pub fn log(&self) -> String {
        let mut text = String::new();
        let _ = File::open(self.folder.path().join("log")).and_then(|mut file| file.read_to_string(&mut text));
        text
    }

    /// One command; its result, or the failure's trace.
    pub fn attempt(&mut self, mut command: Value) -> Result<Value, String> {
        if command["bootstrap"].is_null() {
            command["bootstrap"] = self.bootstrap.clone().into();
        }
        writeln!(self.input, "{command}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{command}: {e}: {line:?}: {}", self.log()));
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["ok"].take()),
        }
    }

    /// One command that has to succeed.
    pub fn ask(&mut self, command: Value) -> Value {
        let text = command.to_string();
        self.attempt(command).unwrap_or_else(|e| panic!("{text}: {e}\n{}", self.log()))
    }

    /// Properties that every later client gets, as where a cluster is secured.
    pub fn configure(&mut self, config: &Value) {
        self.ask(json!({"do": "config", "config": config}));
    }

    /// Makes topics.
    pub fn topics(&mut self, topics: &Value) {
        self.ask(json!({"do": "topics", "topics": topics}));
    }

    /// Makes the topics of a sample and starts an instance of it; what its `describe()` says.
    pub fn start(&mut self, instance: &str, application: &str, sample: &str, config: &Value) -> String {
        let topics = self.ask(json!({"do": "topology", "topology": sample}));
        self.topics(&topics);
        let mut all = json!({
            "application.id": application,
            "group.protocol": "streams",
            "state.dir": self.folder.path().join(instance),
        });
        for (key, value) in config.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        let started = self.ask(json!({"do": "start", "instance": instance, "topology": sample, "config": all}));
        started.as_str().unwrap().to_owned()
    }

    /// Waits until an instance runs.
    pub fn running(&mut self, instance: &str, limit: Duration) {
        let millis = u64::try_from(limit.as_millis()).unwrap();
        let state = self.ask(json!({"do": "await", "instance": instance, "state": "RUNNING", "millis": millis}));
        assert_eq!(state, json!({"state": "RUNNING", "failures": []}), "{instance}: {}", self.log());
    }

    /// Ends an instance, which leaves its group.
    pub fn close(&mut self, instance: &str) {
        let clean = self.ask(json!({"do": "close", "instance": instance}));
        assert_eq!(clean, true, "{instance}: {}", self.log());
    }

    /// The first records of a topic from its beginning, as sorted `key=value`.
    pub fn read(&mut self, topic: &str, count: usize) -> Vec<String> {
        let read = self.ask(
            json!({"do": "read", "topic": topic, "count": count, "config": {"isolation.level": "read_committed"}}),
        );
        serde_json::from_value(read).unwrap()
    }

    /// The stock `kafka-streams-groups`.
    pub fn tool(&mut self, args: &[&str]) -> Ran {
        let mut ran = self.ask(json!({"do": "tool", "main": STREAMS_GROUPS, "args": args}));
        let mut text = |name: &str| ran[name].take().as_str().unwrap_or_default().to_owned();
        let (out, err) = (text("out"), text("err"));
        Ran { code: ran["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(-1), out, err }
    }

    /// What the Admin client says of a streams group: state, status, epoch, members, hosts, coordinator.
    pub fn describe(&mut self, group: &str) -> Result<Value, String> {
        self.attempt(json!({"do": "describe", "group": group}))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
