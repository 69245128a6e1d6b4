//! A client that is not Java's: librdkafka, by its Python binding from PyPI. What it gets through us is what it gets from
//! the broker.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::beside::Sidecar;
use crate::broker::Setup;
use crate::java::{cached, must};
use streamside_testkit::topologies::tests_folder;

const BINDING: &str = "confluent-kafka==2.16.1";

/// A Python of its own that has the binding.
fn python() -> PathBuf {
    let folder = cached("librdkafka-2.16.1", |folder| {
        must(Command::new("python3").args(["-m", "venv"]).arg(folder));
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", BINDING];
        must(Command::new(folder.join("bin/python")).args(pip));
    });
    folder.join("bin/python")
}

fn round(python: &Path, bootstrap: &str, prefix: &str) -> Value {
    let program = tests_folder().join("real/python/librdkafka.py");
    let output = must(Command::new(python).arg(program).args([bootstrap, prefix]));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs Java 17, Maven and Python 3"]
fn librdkafka_gets_through_us_what_the_broker_gives() {
    let python = python();
    let broker = Setup::default().start("4.3.0");
    let sidecar = Sidecar::new(&[&broker]);
    let there = round(&python, &broker.bootstrap(), "aa-");
    let here = round(&python, &sidecar.bootstrap(), "bb-");
    assert_eq!(there, here);
    // That there was something to compare.
    assert_eq!(here["topics"], json!({"topic": 3, "transactions": 1}));
    assert_eq!(here["classic"][0].as_array().unwrap().len(), 1500);
    assert_eq!(here["committed"], json!(["None 4"]));
    assert_eq!(here["groups"], json!(["classic", "committed", "consumer"]));
}
