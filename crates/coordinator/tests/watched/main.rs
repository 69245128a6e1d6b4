//! Beside a broker: a scripted broker, its applications, and our coordinators between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod broker;
mod captured;
mod deletes;
#[path = "../simulator/dice.rs"]
mod dice;
mod facts;
mod healing;
mod pushes;
mod schedules;

mod table;
mod tables;
mod world;
