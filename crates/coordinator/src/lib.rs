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
//! | [`watched`] | groups that a broker owns, as its answers show them |
//! | [`coordinator`] | all composed: `decide` and `apply` |
//! | `broker` | what is decided beside a broker |
//! | [`batch`] | requests over many groups split by shard and joined in Kafka's order |
//!
//! A member joins, is asked for its description, and the shell applies what was decided:
//!
//! ```
//! use streamside_coordinator::{ClientContext, Config, Coordinator, Input, Now, Record, Reply};
//! use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, Topology};
//!
//! let mut coordinator = Coordinator::new(Config::default());
//! let request = StreamsGroupHeartbeatRequest {
//!     group_id: "orders".into(),
//!     member_id: "m1".into(),
//!     rebalance_timeout_ms: 60_000,
//!     topology: Some(Topology::default()),
//!     active_tasks: Some(vec![]),
//!     standby_tasks: Some(vec![]),
//!     warmup_tasks: Some(vec![]),
//!     process_id: Some("p1".into()),
//!     ..StreamsGroupHeartbeatRequest::default()
//! };
//! let client = ClientContext { client_id: "app", client_host: "/127.0.0.1" };
//! let now = Now { at: 1_700_000_000_000, jitter: 7 };
//! let decision = coordinator.decide(now, Input::Heartbeat { request: &request, version: 1, client });
//!
//! let Some(Reply::Heartbeat(answer)) = &decision.reply else { panic!("a heartbeat is answered at once") };
//! assert_eq!(answer.error_code, 0);
//! assert!(answer.topology_description_required);
//!
//! // The shell journals the durable ones first, under the same lock, and sends the answer once they are on disk.
//! let durable = decision.records.iter().filter(|record| matches!(record, Record::Durable(_))).count();
//! assert!(durable > 0);
//! for record in decision.records {
//!     coordinator.apply(record);
//! }
//! assert!(coordinator.group_id("orders").is_some());
//! ```

pub mod batch;
mod broker;
pub mod config;
pub mod coordinator;
pub mod decision;
pub mod description;
pub mod facts;
pub mod group;
pub mod input;
pub mod record;
pub mod watched;

pub use config::{Compat, Config, Limits, Membership, SettingBounds};
pub use coordinator::Coordinator;
pub use decision::{Decision, Effect, LogLine, Reply, Sensor};
pub use facts::{GroupFacts, HeartbeatFacts, Standing};
pub use input::{ClientContext, Input, Millis, Now, OpId, PluginFailure};
pub use record::{Durable, GroupId, MemberId, Record, Volatile};
