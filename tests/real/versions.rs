//! Every broker version behind us, each with the same applications and clients: one broker, one sidecar, one JVM of
//! clients a version.

use crate::beside::{Sidecar, direct};
use crate::broker::Setup;
use crate::driver::Driver;
use crate::{applications, plain, zoo};

fn play(setup: Setup, version: &str) {
    let broker = setup.start(version);
    let sidecar = Sidecar::new(&[&broker]);
    let mut driver = Driver::new(sidecar.bootstrap());
    plain::play(&mut driver, &broker.bootstrap(), !version.starts_with("4.1."));
    applications::play(&mut driver, broker.port);
    zoo::clear(&mut driver);
    let old = !version.starts_with("4.4.");
    if old && direct() {
        return;
    }
    zoo::play(&mut driver, &zoo::TOGETHER, old);
    zoo::play(&mut driver, &zoo::FURTHER, old);
    zoo::play(&mut driver, &zoo::LAST, old);
    let log = sidecar.log();
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn everything_runs_before_4_1() {
    play(Setup::default(), "4.1.1");
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn everything_runs_before_4_2() {
    play(Setup::default(), "4.2.0");
}

#[test]
#[ignore = "needs Java 17 and Maven"]
fn everything_runs_before_4_3() {
    play(Setup::default(), "4.3.0");
}

/// A broker that could keep descriptions and is not told to.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn everything_runs_before_4_4() {
    play(Setup::default().without_plugin(), "4.4.0");
}

/// A broker that keeps descriptions itself.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn everything_runs_before_4_4_with_a_plugin() {
    play(Setup::default(), "4.4.0");
}
