//! The streams group against the rules of spec kip1071; tests are named after the row that they hold.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod lab;
mod persistence;
mod reconciliation;
mod recorded;
mod settings;
mod simulation;
mod statics;
mod steps;
mod sticky;
mod timers;
mod topology;
mod validation;
