//! API 78, answers only. Records are copied on decoding: large answers are not meant to be read so.

use bytes::Bytes;

message! {
    /// Records acquired for a member of a share group.
    ShareFetchResponse: key 78, versions 1..=2, flexible 0.. {
        throttle_time_ms: i32 [0..],
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = None,
        acquisition_lock_timeout_ms: i32 [1..],
        responses: Vec<ShareFetchableTopicResponse> [0..],
        /// Addresses of the leaders that partitions with error 6 (NOT_LEADER_OR_FOLLOWER) name.
        node_endpoints: Vec<NodeEndpoint> [0..],
    }
}

structure! {
    /// One topic.
    ShareFetchableTopicResponse {
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
        acknowledge_error_code: i16 [0..],
        acknowledge_error_message: Option<String> [0..] null [0..] = None,
        current_leader: LeaderIdAndEpoch [0..],
        /// Record batches as they stand in the log.
        records: Option<Bytes> [0..] null [0..=0] = Some(Bytes::new()),
        acquired_records: Vec<AcquiredRecords> [0..],
    }
}

structure! {
    /// Who leads the partition now.
    LeaderIdAndEpoch {
        leader_id: i32 [0..],
        leader_epoch: i32 [0..],
    }
}

structure! {
    /// A run of records that the member may work on.
    AcquiredRecords {
        first_offset: i64 [0..],
        last_offset: i64 [0..],
        delivery_count: i16 [0..],
    }
}

structure! {
    /// Where a leader is reached.
    NodeEndpoint {
        node_id: i32 [0..],
        host: String [0..],
        port: i32 [0..],
        rack: Option<String> [0..] null [0..] = None,
    }
}
