//! A sidecar of a secured cluster is killed and started again under clients of two versions.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use streamside_testkit::server::free_port;

use crate::java::{KAFKA, class_path, jvm, must};
use crate::secured::{Keys, SECRET, leaves_no_secret, login_lines, ready, topics, with_logins};

/// The oldest clients that are tried, and the newest.
const VERSIONS: [&str; 2] = ["3.7.2", KAFKA];
/// Records of each producer, at so many a second.
const RECORDS: u64 = 1500;
const PER_SECOND: u64 = 150;

/// A stock tool that tells what it does in lines of JSON. Ended at the end.
struct Tool {
    child: Child,
    out: PathBuf,
}

impl Tool {
    fn start(version: &str, class: &str, out: PathBuf, args: &[&str]) -> Self {
        let mut java = jvm(&class_path(version));
        java.arg("-Xmx128m").arg(format!("org.apache.kafka.tools.{class}")).args(args);
        let log = File::create(&out).unwrap();
        let child = java.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Self { child, out }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// Of all lines of this name, the sum of a field; one each where they lack it.
    fn sum(&self, name: &str, field: &str) -> u64 {
        let lines = self.text();
        let told = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.filter(|line| line["name"] == name).map(|line| line[field].as_u64().unwrap_or(1)).sum()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Clients {
    version: &'static str,
    producer: Tool,
    consumer: Tool,
}

impl Clients {
    fn start(version: &'static str, port: u16, config: &Path, folder: &Path) -> Self {
        let (bootstrap, config) = (format!("127.0.0.1:{port}"), config.display().to_string());
        let topic = format!("records-{version}");
        let (records, rate) = (RECORDS.to_string(), PER_SECOND.to_string());
        let common = ["--bootstrap-server", &bootstrap, "--topic", &topic];
        let consume = ["--group-id", version, "--reset-policy", "earliest", "--consumer.config", &config];
        let produce = ["--throughput", &rate, "--max-messages", &records, "--producer.config", &config];
        let out = |what: &str| folder.join(format!("{what}-{version}.out"));
        Self {
            version,
            consumer: Tool::start(version, "VerifiableConsumer", out("consumer"), &[&common[..], &consume].concat()),
            producer: Tool::start(version, "VerifiableProducer", out("producer"), &[&common[..], &produce].concat()),
        }
    }

    fn produced(&self) -> u64 {
        self.producer.sum("producer_send_success", "")
    }

    fn consumed(&self) -> u64 {
        self.consumer.sum("records_consumed", "count")
    }
}

fn until(what: &str, all: &[Clients], holds: impl Fn(&Clients) -> bool) {
    let start = Instant::now();
    while !all.iter().all(&holds) {
        if start.elapsed() > Duration::from_secs(90) {
            for clients in all {
                let Clients { version, producer, consumer } = clients;
                println!("{version}: {} produced, {} consumed", clients.produced(), clients.consumed());
                for text in [producer.text(), consumer.text()] {
                    println!("{}", text.lines().rev().take(10).collect::<Vec<_>>().join("\n"));
                }
            }
            panic!("{what}");
        }
        sleep(Duration::from_millis(200));
    }
}

/// The clients know the node's port and go on as soon as it is open again, before anybody has logged in anew.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn clients_of_two_versions_outlive_a_restart() {
    let keys = Keys::new();
    let port = free_port().unwrap();
    let kafka = with_logins(keys.broker(), port, &["ann"]).start(KAFKA);
    for version in VERSIONS {
        must(&mut topics(&kafka, &format!("records-{version}")));
    }
    let mut sidecar = keys.sidecar("SASL_SSL", port).set("streamside.log.level", "debug").start().unwrap();
    // The tool would try each record once.
    let login = login_lines("SCRAM-SHA-512", "ann", &format!("ann-{SECRET}"));
    let config = keys.client(sidecar.port, &format!("{login}retries=2147483647\nenable.idempotence=true\n"));
    let folder = tempfile::tempdir().unwrap();
    let mut all = VERSIONS.map(|version| Clients::start(version, sidecar.port, &config, folder.path()));
    until("records come before the restart", &all, |c| c.produced() > 100 && c.consumed() > 100);

    sidecar.kill().unwrap();
    sleep(Duration::from_secs(1));
    assert!(all.iter().all(|c| c.produced() < RECORDS), "too late to show anything");
    sidecar.restart().unwrap();
    ready(&sidecar);
    until("all records come after the restart", &all, |c| c.produced() == RECORDS && c.consumed() >= RECORDS);
    for clients in &mut all {
        assert!(clients.producer.child.wait().unwrap().success(), "{}", clients.producer.text());
        assert_eq!(clients.producer.sum("producer_send_error", ""), 0, "{}", clients.version);
    }
    leaves_no_secret(&sidecar);
}
