//! Every bound of the proxy, each with its reason.

/// Bytes of one chunk of what is streamed. Large enough that a system call moves much, small enough for a pool.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Requests of one connection that may wait for their answers. A Java client has five in flight; whoever pipelines more
/// waits.
pub const SLOTS: usize = 1024;

/// Bytes of finished answers that wait behind an unfinished one before the upstream is read no further.
pub const WAITING_ANSWERS_BYTES: usize = 1024 * 1024;

/// An answer that is looked at whole. A describe of many groups with descriptions is the largest of them.
pub const WHOLE_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A request that is looked at whole: Kafka's own `socket.request.max.bytes`.
pub const WHOLE_REQUEST_BYTES: usize = 100 * 1024 * 1024;
