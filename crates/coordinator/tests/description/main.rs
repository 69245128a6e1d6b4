//! The rules of descriptions, each test named after its rule (see docs/rules.md).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod world;

mod delete;
mod describe;
mod differences;
mod expiry;
mod heartbeat;
mod outcome;
mod push;
mod solicit;
