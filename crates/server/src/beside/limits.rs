//! Every bound of what stands beside a broker, each with its reason.

/// Members whose client address is known. A member costs a few hundred bytes; those beyond keep the broker's view.
pub const HOSTS: usize = 200_000;
/// The same for one connection. A Streams thread or a consumer has a connection of its own; only what bundles many
/// clients comes near.
pub const HOSTS_PER_CONNECTION: usize = 1_000;
/// Bytes of a group's and a member's id together: those of real clients have some dozens.
pub const HOSTS_ID_BYTES: usize = 1_024;
/// Topics of one Metadata question of ours. A description has a few; more are asked in turns.
pub const TOPICS_PER_QUESTION: usize = 5_000;
