//! Beside a broker: a scripted broker, its applications, and our coordinators between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod broker;
mod deletes;
mod facts;
mod healing;
mod pushes;

mod tables;
mod world;
