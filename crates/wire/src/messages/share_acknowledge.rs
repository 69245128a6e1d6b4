//! API 79, answers only.

pub use super::share_fetch::{LeaderIdAndEpoch, NodeEndpoint};

message! {
    /// What became of acknowledged records.
    ShareAcknowledgeResponse: key 79, versions 1..=2, flexible 0.. {
        throttle_time_ms: i32 [0..],
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = None,
        acquisition_lock_timeout_ms: i32 [2..] [ignorable],
        responses: Vec<ShareAcknowledgeTopicResponse> [0..],
        /// Addresses of the leaders that partitions with error 6 (NOT_LEADER_OR_FOLLOWER) name.
        node_endpoints: Vec<NodeEndpoint> [0..],
    }
}

structure! {
    /// One topic.
    ShareAcknowledgeTopicResponse {
        topic_id: [u8; 16] [0..],
        partitions: Vec<PartitionData> [0..],
    }
}

structure! {
    /// One partition.
    PartitionData {
        partition_index: i32 [0..],
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = None,
        current_leader: LeaderIdAndEpoch [0..],
    }
}
