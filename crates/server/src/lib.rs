//! How is it run?
//!
//! | module | what it holds |
//! |---|---|
//! | [`beside`] | in front of a cluster: listeners, node map, the four APIs |
//! | [`cli`] | the command line |
//! | [`config`] | keys, sources, settings |
//! | [`daemon`] | the whole: start, serve, go down |
//! | [`data_dir`] | the data folder: lock, layout, identity |
//! | [`http`] | health, metrics, API |
//! | [`logging`] | one line an event |
//! | [`metrics`] | counters and `/metrics` |
//! | [`open_files`] | the limit of open files |
//! | [`shell`] | connections, shards, journal, plugin calls |
//! | [`signals`] | shutdown and reload |
//! | [`tls`] | encryption of the Kafka listener, the end of certificates |

pub mod beside;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod data_dir;
pub mod http;
pub mod logging;
pub mod metrics;
pub mod open_files;
pub mod shell;
pub mod signals;
pub mod tls;
