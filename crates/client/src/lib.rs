//! How do we speak to a cluster ourselves?
//!
//! | module | what it holds |
//! |---|---|
//! | [`options`] | how to connect, read from the file that the stock tools take as `--command-config` |
//! | `properties` | that file's syntax, and the login line in it |
//! | [`address`] | `host:port` lists |
//! | `secret` | text that no log shows |
//! | [`connection`] | one connection: frames, order, limits, one fate for all who wait on it |
//! | `versions` | which requests a server takes, in which versions |
//! | [`pem`] | certificates and keys |
//! | [`tls`] | trust, host names, own certificate, and what a failed handshake means |
//! | `sasl`, `scram` | login |
//! | [`cluster`] | brokers, one connection each, pauses between attempts |
//! | [`groups`] | coordinators, lists, descriptions, deletions |
//! | [`member`] | a streams group's member, played by ourselves |
//! | `codec` | the step from messages to frames and back |
//! | [`error`] | what can go wrong, in words that say what to do |
//!
//! ```no_run
//! # async fn example() -> Result<(), streamside_client::Error> {
//! use streamside_client::{Cluster, Options};
//!
//! let cluster = Cluster::connect("127.0.0.1:9092", Options::default()).await?;
//! for group in cluster.list_groups(&["streams"]).await? {
//!     println!("{} is {}", group.group_id, group.state);
//! }
//! # Ok(())
//! # }
//! ```

pub mod address;
pub mod cluster;
mod codec;
pub mod connection;
pub mod error;
pub mod groups;
pub mod member;
pub mod options;
pub mod pem;
mod properties;
mod sasl;
mod scram;
mod secret;
pub mod tls;
mod versions;

pub use address::Address;
pub use cluster::{Broker, Cluster};
pub use connection::{Answer, Connection};
pub use error::Error;
pub use groups::{DescribedStreamsGroup, ListedGroup};
pub use member::{Member, MemberOptions};
pub use options::{Login, Mechanism, Options, OptionsError, TlsOptions};
pub use pem::Pem;
pub use secret::Secret;
pub use tls::TlsConnector;
