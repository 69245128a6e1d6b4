//! Every bound of the shell, in one place, each with its reason.

use std::time::Duration;

/// Durable bytes that may wait for the disk. At 64 MiB the disk is seconds behind; retriable errors are better then.
pub const JOURNAL_BACKLOG_BYTES: usize = 64 << 20;
/// redb's page cache for the journal: it is read at start only.
pub const JOURNAL_CACHE_BYTES: usize = 8 << 20;
/// Pause between attempts to open a failed journal again.
pub const JOURNAL_REOPEN_PAUSE: Duration = Duration::from_millis(500);
/// Shards of the coordinator: enough that two busy groups seldom share a lock, few enough to walk for a list.
pub const SHARDS: usize = 32;
/// Scratch bytes a worker thread reads into; a connection keeps only what a turn leaves over.
pub const READ_SCRATCH_BYTES: usize = 64 << 10;
/// Bytes of answers after which a turn stops taking further pipelined requests and writes.
pub const WRITE_HIGH_WATER_BYTES: usize = 256 << 10;
/// Received bytes of unfinished frames, all connections together: what a crowd of slow senders may cost.
pub const PARTIAL_FRAMES_BYTES: usize = 512 << 20;
/// Bytes of answers that clients have not taken yet, all connections together: what a crowd of slow readers may cost.
pub const UNSENT_ANSWERS_BYTES: usize = 512 << 20;
/// A request of more bytes is large: it is read and decided on a thread of its own, so that the workers go on serving
/// everybody else. Smaller ones take a worker a few milliseconds at most.
pub const LARGE_REQUEST_BYTES: usize = READ_SCRATCH_BYTES;
/// Large requests that are decoded and decided at once; each may cost several hundred megabytes. Others wait.
pub const LARGE_REQUESTS_AT_ONCE: usize = 2;
/// A leftover or answer buffer with more capacity than this is given back once it is empty.
pub const KEEP_BUFFER_BYTES: usize = 4 << 10;
/// Pushes, deletes and describes with descriptions that may be under way at once: beyond it requests wait for their
/// turn.
pub const OPERATIONS_IN_FLIGHT: usize = 4096;
/// For how long they wait. With `streamside.compat=kafka` a plugin call that hangs keeps its place for ever.
pub const OPERATION_PATIENCE: Duration = Duration::from_secs(10);
/// Decoded heap that one request may cost, as a multiple of its bytes on the wire, above a fixed floor.
pub const DECODED_HEAP_FACTOR: usize = 24;
/// The floor of the above.
pub const DECODED_HEAP_FLOOR: usize = 64 << 10;
/// The ceiling of the above, unless the bytes on the wire alone are half of it.
pub const DECODED_HEAP_CEILING: usize = 256 << 20;
/// Bytes of a heartbeat. A topology of thousands of subtopologies has a few hundred kilobytes; what a member tells is
/// kept for as long as it lives.
pub const HEARTBEAT_BYTES: usize = 4 << 20;
/// A push may have this many times `streamside.description.max.bytes` on the wire: doubles and fields that a node of
/// its type does not have are dropped before the limit counts.
pub const PUSH_WIRE_FACTOR: usize = 8;
/// Groups of one describe that are looked at before others get the worker.
pub const DECISIONS_IN_A_ROW: usize = 64;
/// The least pause between two looks at the timers: a shard with many due ones lets others in between.
pub const TICK_PAUSE_MIN: Duration = Duration::from_millis(10);
/// Resources that one DescribeConfigs or IncrementalAlterConfigs may name; an answer is a hundred times its request.
pub const CONFIG_RESOURCES_PER_REQUEST: usize = 10_000;
/// Group ids that one describe or delete may name; more is refused as malformed by closing the connection.
pub const GROUPS_PER_REQUEST: usize = 100_000;
