//! What should happen?
//!
//! The coordinator of streams groups (KIP-1071) and of their topology descriptions (KIP-1331). It does no I/O, has no
//! clock and no randomness: time and jitter arrive as values in [`Now`], requests and outcomes as [`Input`]s, and what
//! comes back is a [`Decision`]: records to apply (the durable ones to be journalled first), effects to carry out, and
//! a reply. State changes through [`Coordinator::apply`] alone.
//!
//! | module | what it holds |
//! |---|---|
//! | [`input`] | what may be asked or told |
//! | [`decision`] | what comes back: records, effects, replies |
//! | [`record`] | durable and volatile state changes and the journal's keys and values |
//! | [`facts`] | what `description` may know of a group, by value |
//! | [`config`] | settings and limits |
//! | [`group`] | members, epochs, statuses, timers (KIP-1071) |
//! | [`description`] | marks, solicitation, push, describe, delete, expiry (KIP-1331) |
//! | [`coordinator`] | the two composed: `decide` and `apply` |
//! | [`batch`] | requests over many groups split by shard and joined in Kafka's order |

pub mod batch;
pub mod config;
pub mod coordinator;
pub mod decision;
pub mod description;
pub mod facts;
pub mod group;
pub mod input;
pub mod record;

pub use config::{Compat, Config, Limits};
pub use coordinator::Coordinator;
pub use decision::{Decision, Effect, LogLine, Reply, Sensor};
pub use facts::{GroupFacts, HeartbeatFacts};
pub use input::{ClientContext, Input, Millis, Now, OpId, PluginFailure};
pub use record::{Durable, GroupId, MemberId, Record, Volatile};
