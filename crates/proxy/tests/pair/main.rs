//! The engine under test: a scripted client, a scripted broker, a handler of every kind.

mod order;
mod support;
