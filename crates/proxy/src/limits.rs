//! Every bound of the proxy, each with its reason.

/// Bytes of one chunk of what is streamed. Most of what forwarding costs is waking the peers, so that a system call must
/// move much: with 64 KiB a bare relay's cost is met, with 256 KiB a quarter of it is saved. Moving pages through a pipe
/// of the kernel's saved no more.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// Chunks that a worker keeps for its next pairs. A turn of a pair needs one; more are out only behind slow readers.
pub const POOLED_CHUNKS: usize = 8;

/// A frame of so little is copied behind what waits already, for one write.
pub const COPY_BYTES: usize = 4 * 1024;

/// So little is copied out of the chunk that it came in: what waits for a slow reader then holds its own size.
pub const REST_BYTES: usize = 32 * 1024;

/// Pieces handed to one gathering write. More come in the next one.
pub const SEGMENTS_AT_ONCE: usize = 16;

/// Requests of one connection that may wait for their answers, and exchanges that may be under way. A Java client has
/// five in flight; whoever pipelines more waits.
pub const SLOTS: usize = 1024;

/// Bytes of finished answers that wait behind an unfinished one before the upstream is read no further.
pub const WAITING_ANSWERS_BYTES: usize = 1024 * 1024;

/// Bytes of a produce request that are held until it is known whether it wants an answer: a header with the longest
/// client id and transactional id that Kafka reads.
pub const PRODUCE_HEADER_BYTES: usize = 70 * 1024;

/// An answer that is looked at whole. A describe of many groups with descriptions is the largest of them.
pub const WHOLE_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A request that is looked at whole: Kafka's own `socket.request.max.bytes`.
pub const WHOLE_REQUEST_BYTES: usize = 100 * 1024 * 1024;

/// Bytes of such requests while they arrive and until they are decided, of all pairs together: nobody has logged in yet
/// when the first one is sent.
pub const COLLECTED_BYTES: usize = 512 * 1024 * 1024;

/// Bytes that wait for slow peers to take them, of all pairs together: an answer of ours with many descriptions is as long
/// as they are, and whoever asked may never read it.
pub const UNSENT_BYTES: usize = 512 * 1024 * 1024;

/// A pair with so little is not counted among them: streamed bytes and answers behind an unfinished one are bounded pair
/// by pair and come nowhere near.
pub const UNSENT_ALWAYS_BYTES: usize = 2 * 1024 * 1024;

/// A request of so little is collected whatever others hold.
pub const COLLECTED_ALWAYS_BYTES: usize = 64 * 1024;

/// An ApiVersions answer. Kafka 4.4's has 900 bytes.
pub const VERSIONS_ANSWER_BYTES: usize = 1024 * 1024;

/// A heartbeat that is looked at. A topology of thousands of subtopologies has a few hundred kilobytes.
pub const HEARTBEAT_BYTES: usize = 4 * 1024 * 1024;

/// Decoded heap that one message may cost, as a multiple of its bytes on the wire.
pub const DECODED_HEAP_FACTOR: usize = 24;

/// The floor of the above.
pub const DECODED_HEAP_FLOOR: usize = 64 * 1024;

/// The ceiling of the above, unless the bytes on the wire alone are half of it.
pub const DECODED_HEAP_CEILING: usize = 256 * 1024 * 1024;

/// A message of more bytes is decoded aside. Smaller ones take a worker a few milliseconds at most.
pub const LARGE_BYTES: usize = 64 * 1024;

/// Large messages that are decoded at once; each may cost several hundred megabytes. Others wait.
pub const LARGE_AT_ONCE: usize = 2;
