//! The engine under test: a scripted client, a scripted broker, a handler of every kind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ends;
mod faults;
mod logins;
mod order;
mod pressure;
mod support;
