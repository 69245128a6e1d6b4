//! API 2, as the stock tool's plain describe asks it.

message! {
    /// Asks for offsets by time.
    ListOffsetsRequest: key 2, versions 1..=11, flexible 6.. {
        /// -1 from clients.
        replica_id: i32 [0..],
        isolation_level: i8 [2..],
        topics: Vec<ListOffsetsTopic> [0..],
        timeout_ms: i32 [10..] [ignorable],
    }
}

structure! {
    /// One topic.
    ListOffsetsTopic {
        name: String [0..],
        partitions: Vec<ListOffsetsPartition> [0..],
    }
}

structure! {
    /// One partition.
    ListOffsetsPartition {
        partition_index: i32 [0..],
        current_leader_epoch: i32 [4..] [ignorable] = -1,
        /// -1 latest, -2 earliest; milliseconds since 1970 otherwise.
        timestamp: i64 [0..],
    }
}

message! {
    /// The offsets.
    ListOffsetsResponse: key 2, versions 1..=11, flexible 6.. {
        throttle_time_ms: i32 [2..] [ignorable],
        topics: Vec<ListOffsetsTopicResponse> [0..],
    }
}

structure! {
    /// One topic.
    ListOffsetsTopicResponse {
        name: String [0..],
        partitions: Vec<ListOffsetsPartitionResponse> [0..],
    }
}

structure! {
    /// One partition.
    ListOffsetsPartitionResponse {
        partition_index: i32 [0..],
        error_code: i16 [0..],
        timestamp: i64 [1..] = -1,
        offset: i64 [1..] = -1,
        leader_epoch: i32 [4..] = -1,
    }
}
