//! The gateway under test, end to end: a client that writes bytes, the engine, a scripted broker.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod beats;
mod captures;
mod decided;
mod describes;
mod garbled;
mod passing;
mod replay;
mod stage;
mod versions;
