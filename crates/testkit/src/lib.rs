//! How do we know?
//!
//! | module | what it holds |
//! |---|---|
//! | [`schema`] | message shapes, read from `schema.txt` |
//! | [`codec`] | JSON <-> bytes by those shapes; nothing of what is judged is used to judge |
//! | [`connection`] | one client connection: requests, answers by correlation id, raw bytes |
//! | [`scenario`] | recorded scenarios, and which of them fit a server |
//! | [`expectation`] | variables, repetitions, marks, comparison with defaults |
//! | [`player`] | plays scenarios in threads and reports |
//! | [`differences`] | scenarios that are expected to fail, each with its row |
//! | [`broker`] | a scripted broker, and what a cluster of them says of itself |
//! | [`client`] | join, beat, push, describe, delete in one line |
//! | [`topologies`] | the collection of `tests/topologies`, and chains of any size |
//! | [`server`] | the real binary: ports, folder, log, signals, restarts |
//! | [`certificates`] | authorities, servers and clients for TLS |
//! | [`process`] | memory, processor time, limits of a process |
//!
//! ```no_run
//! use streamside_testkit::{player::Player, scenario};
//!
//! let all = scenario::load(std::path::Path::new("tests/scenarios"))?;
//! let fitting: Vec<_> = all.into_iter().filter(|s| scenario::Selection::provides(&["plugin"]).fits(s)).collect();
//! println!("{}", Player::new(9092).play_all(&fitting, 8));
//! # Ok::<(), scenario::LoadError>(())
//! ```

mod base64;
pub mod broker;
pub mod certificates;
pub mod client;
pub mod codec;
pub mod connection;
pub mod differences;
pub mod expectation;
pub mod player;
pub mod process;
pub mod scenario;
pub mod schema;
pub mod server;
pub mod topologies;
