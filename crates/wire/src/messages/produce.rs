//! API 0, answers only.

message! {
    /// What became of the records of each partition.
    ProduceResponse: key 0, versions 3..=13, flexible 9.. {
        responses: Vec<TopicProduceResponse> [0..],
        throttle_time_ms: i32 [1..] [ignorable],
        /// Addresses of the leaders that partitions with error 6 (NOT_LEADER_OR_FOLLOWER) name.
        node_endpoints: Vec<NodeEndpoint> [10..] tag 0,
    }
}

structure! {
    /// A topic by name or by id.
    TopicProduceResponse {
        name: String [0..=12] [ignorable],
        topic_id: [u8; 16] [13..] [ignorable],
        partition_responses: Vec<PartitionProduceResponse> [0..],
    }
}

structure! {
    /// One partition.
    PartitionProduceResponse {
        index: i32 [0..],
        error_code: i16 [0..],
        base_offset: i64 [0..],
        log_append_time_ms: i64 [2..] [ignorable] = -1,
        log_start_offset: i64 [5..] [ignorable] = -1,
        record_errors: Vec<BatchIndexAndErrorMessage> [8..] [ignorable],
        error_message: Option<String> [8..] null [8..] [ignorable] = None,
        current_leader: LeaderIdAndEpoch [10..] tag 0,
    }
}

structure! {
    /// A record that made its batch be dropped.
    BatchIndexAndErrorMessage {
        batch_index: i32 [8..],
        batch_index_error_message: Option<String> [8..] null [8..] = None,
    }
}

structure! {
    /// Who leads the partition now.
    LeaderIdAndEpoch {
        leader_id: i32 [10..] = -1,
        leader_epoch: i32 [10..] = -1,
    }
}

structure! {
    /// Where a leader is reached.
    NodeEndpoint {
        node_id: i32 [10..],
        host: String [10..],
        port: i32 [10..],
        rack: Option<String> [10..] null [10..] = None,
    }
}
