//! How is it run?
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | keys, sources, settings |
//! | [`logging`] | one line an event |
//! | [`metrics`] | counters and `/metrics` |
//! | [`shell`] | from sockets to decisions: listener, connections, shards, journal, plugin calls |

pub mod config;
pub mod logging;
pub mod metrics;
pub mod shell;
