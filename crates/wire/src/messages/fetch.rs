//! API 1, answers only. Records are copied on decoding: large answers are not meant to be read so.

use bytes::Bytes;

message! {
    /// Records of partitions.
    FetchResponse: key 1, versions 4..=18, flexible 12.. {
        throttle_time_ms: i32 [1..] [ignorable],
        error_code: i16 [7..] [ignorable],
        session_id: i32 [7..],
        responses: Vec<FetchableTopicResponse> [0..],
        /// Addresses of the leaders that partitions with error 6 (NOT_LEADER_OR_FOLLOWER) or 74 (FENCED_LEADER_EPOCH)
        /// name.
        node_endpoints: Vec<NodeEndpoint> [16..] tag 0,
    }
}

structure! {
    /// A topic by name or by id.
    FetchableTopicResponse {
        topic: String [0..=12] [ignorable],
        topic_id: [u8; 16] [13..] [ignorable],
        partitions: Vec<PartitionData> [0..],
    }
}

structure! {
    /// One partition.
    PartitionData {
        partition_index: i32 [0..],
        error_code: i16 [0..],
        high_watermark: i64 [0..],
        last_stable_offset: i64 [4..] [ignorable] = -1,
        log_start_offset: i64 [5..] [ignorable] = -1,
        diverging_epoch: EpochEndOffset [12..] tag 0,
        current_leader: LeaderIdAndEpoch [12..] tag 1,
        snapshot_id: SnapshotId [12..] tag 2,
        aborted_transactions: Option<Vec<AbortedTransaction>> [4..] null [4..] [ignorable] = Some(Vec::new()),
        preferred_read_replica: i32 [11..] = -1,
        /// Record batches as they stand in the log.
        records: Option<Bytes> [0..] null [0..] = None,
    }
}

structure! {
    /// From where on the follower's records differ.
    EpochEndOffset {
        epoch: i32 [12..] = -1,
        end_offset: i64 [12..] = -1,
    }
}

structure! {
    /// Who leads the partition now.
    LeaderIdAndEpoch {
        leader_id: i32 [12..] = -1,
        leader_epoch: i32 [12..] = -1,
    }
}

structure! {
    /// The snapshot to fetch instead.
    SnapshotId {
        end_offset: i64 [0..] = -1,
        epoch: i32 [0..] = -1,
    }
}

structure! {
    /// A transaction whose records are to be skipped.
    AbortedTransaction {
        producer_id: i64 [4..],
        first_offset: i64 [4..],
    }
}

structure! {
    /// Where a leader is reached.
    NodeEndpoint {
        node_id: i32 [16..],
        host: String [16..],
        port: i32 [16..],
        rack: Option<String> [16..] null [16..] = None,
    }
}
