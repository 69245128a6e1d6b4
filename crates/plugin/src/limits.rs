//! Bounds of this crate, each with its reason.

use std::time::Duration;

/// Largest decoded description a store hands out: Kafka's own frame bound (`socket.request.max.bytes`), so nothing
/// that could be pushed is ever refused here, and a damaged length promises no more.
pub const MAX_DESCRIPTION_BYTES: usize = 100 * 1024 * 1024;
/// Groups whose newest sequence number a store remembers; beyond it the longest untouched is forgotten. A late call
/// is at most minutes old, and no server changes that many groups meanwhile.
pub const MAX_FENCED_GROUPS: usize = 65_536;
/// Characters kept of a panic's text.
pub const MAX_PANIC_TEXT: usize = 500;

/// Mutations that wait for the disk store's writer; more are refused. The writer takes hundreds a commit, so a full
/// queue means a disk that stands still.
pub const MAX_QUEUED_WRITES: usize = 1_024;
/// Bytes of descriptions that wait for the writer.
pub const MAX_QUEUED_WRITE_BYTES: usize = 128 * 1024 * 1024;
/// Mutations in one transaction: enough that the sync is shared, few enough that the first does not wait long.
pub const MAX_BATCH: usize = 256;
/// Reads that wait for the disk store's reader threads.
pub const MAX_QUEUED_READS: usize = 4_096;
/// Reader threads of the disk store: a second one so that one slow read does not hold all others.
pub const READERS: usize = 2;
/// Versions one history answer holds at most, whatever was asked for.
pub const MAX_HISTORY_ANSWER: usize = 1_000;
/// Bytes of descriptions one history answer holds at most.
pub const MAX_HISTORY_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// How often the disk store looks for history past its age.
pub const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// Calls that wait for their lane or for the limit in flight; more are `Busy` at once. A describe of all groups of a
/// large cluster starts all its reads together, so it is far above the limit in flight.
pub const MAX_WAITING: usize = 16_384;
/// Reads of one group that may hang; more are `Busy`, so that one group's hang does not use up the plugin's cap.
pub const MAX_HUNG_READS_PER_GROUP: usize = 4;
