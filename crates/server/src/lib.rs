//! How is it run?
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | keys, sources, settings |
//! | [`logging`] | one line an event |
//! | [`metrics`] | counters and `/metrics` |

pub mod config;
pub mod logging;
pub mod metrics;
