//! The coordinator under faults and kills, in virtual time, from one seed a schedule.
//!
//! `STREAMSIDE_SEED=n cargo test -p streamside-coordinator --test simulator` plays one schedule and tells what happens;
//! `STREAMSIDE_SCHEDULES=n` plays so many.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod book;
mod dice;
mod faults;
mod journal;
mod plugin;
mod world;

use faults::Coverage;
use world::World;

const SCHEDULES: u64 = 10_000;
const HITS: u32 = 100;

/// Names the seed when a schedule fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "failed; replay with STREAMSIDE_SEED={} cargo test -p streamside-coordinator --test simulator",
                self.0
            );
        }
    }
}

fn play(seed: u64, trace: bool, coverage: &mut Coverage) {
    let _named = Named(seed);
    let mut world = World::new(seed, trace);
    world.run();
    coverage.add(&Coverage { faults: world.plan.coverage_faults, crashes: world.plan.coverage_crashes });
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn no_push_is_lost_and_every_group_heals() {
    let mut coverage = Coverage::default();
    if let Some(seed) = number("STREAMSIDE_SEED") {
        return play(seed, true, &mut coverage);
    }
    let schedules = number("STREAMSIDE_SCHEDULES").unwrap_or(SCHEDULES);
    for seed in 0..schedules {
        play(seed, false, &mut coverage);
    }
    let table = coverage.table();
    println!("{schedules} schedules\n{table}");
    assert!(schedules < SCHEDULES || coverage.least() >= HITS, "some were hit too rarely:\n{table}");
}
