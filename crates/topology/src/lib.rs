//! What graph is this? The description of a Kafka Streams application (KIP-1331): its model, its bytes, what is odd about
//! it, and its texts. No sockets, no storage, no clock.
//!
//! | module | answers |
//! |---|---|
//! | [`model`] | what a description is made of |
//! | [`names`] | what a set of strings is, and in which order Kafka's tool sorts it |
//! | [`convert`] | which descriptions Kafka refuses, and in which words |
//! | [`codec`] | which bytes are stored, spliced and hashed |
//! | [`fingerprint`] | is this still the same assignment topology? |
//! | [`graph`] | who precedes whom |
//! | [`findings`] | what is odd, though accepted |
//! | [`json`] | how a description is read from JSON |
//! | [`mod@write`] | how it is written: the 4.4 tool's text, `describe()`'s text, JSON |
//! | [`text`] | how hostile text is made harmless |
//!
//! ```
//! use streamside_topology::{Description, Findings, write};
//!
//! let description = Description::from_json(
//!     r#"{"subtopologies":[{"id":"0","nodes":[
//!         {"name":"K","type":"SINK","topic":"out"},
//!         {"name":"S","type":"SOURCE","topics":["in"],"successors":["K"]}]}]}"#,
//! )?;
//! assert_eq!(
//!     write::kafka::text(&description),
//!     "Topologies:\n   Sub-topology: 0\n    Sink: K (topic: out)\n      <-- S\n    \
//!      Source: S (topics: [in])\n      --> K\n\n\n"
//! );
//! assert!(Findings::of(&description).is_empty());
//! assert_eq!(Description::decode(&description.encode()), Ok(description));
//! # Ok::<(), streamside_topology::JsonError>(())
//! ```

pub mod codec;
pub mod convert;
pub mod findings;
pub mod fingerprint;
pub mod graph;
pub mod json;
pub mod model;
pub mod names;
pub mod text;
pub mod write;

pub use codec::{DecodeError, DescriptionHash, hash_of_encoded};
pub use convert::ConversionError;
pub use findings::{Finding, Findings};
pub use fingerprint::Fingerprint;
pub use graph::{Graph, Scope};
pub use json::JsonError;
pub use model::{Description, GlobalStore, Node, NodeRef, NodeType, Processor, Sink, Source, Subtopology};
pub use names::Names;
