//! API 9, as the stock tool's plain describe asks it. Up to version 7 one group a request, then many; topics by id from
//! version 10 on.

message! {
    /// Asks for committed offsets.
    OffsetFetchRequest: key 9, versions 1..=10, flexible 6.. {
        group_id: String [0..=7],
        topics: Option<Vec<OffsetFetchRequestTopic>> [0..=7] null [2..=7] = Some(Vec::new()),
        groups: Vec<OffsetFetchRequestGroup> [8..],
        require_stable: bool [7..] = false,
    }
}

structure! {
    /// One topic of the only group.
    OffsetFetchRequestTopic {
        name: String [0..=7],
        partition_indexes: Vec<i32> [0..=7],
    }
}

structure! {
    /// One group of many.
    OffsetFetchRequestGroup {
        group_id: String [8..],
        member_id: Option<String> [9..] null [9..] [ignorable] = None,
        member_epoch: i32 [9..] [ignorable] = -1,
        /// Null asks for all topics.
        topics: Option<Vec<OffsetFetchRequestTopics>> [8..] null [8..] = Some(Vec::new()),
    }
}

structure! {
    /// One topic of one group of many.
    OffsetFetchRequestTopics {
        name: String [8..=9] [ignorable],
        topic_id: [u8; 16] [10..] [ignorable],
        partition_indexes: Vec<i32> [8..],
    }
}

message! {
    /// The committed offsets.
    OffsetFetchResponse: key 9, versions 1..=10, flexible 6.. {
        throttle_time_ms: i32 [3..] [ignorable],
        topics: Vec<OffsetFetchResponseTopic> [0..=7],
        error_code: i16 [2..=7] [ignorable] = 0,
        groups: Vec<OffsetFetchResponseGroup> [8..],
    }
}

structure! {
    /// One topic of the only group.
    OffsetFetchResponseTopic {
        name: String [0..=7],
        partitions: Vec<OffsetFetchResponsePartition> [0..=7],
    }
}

structure! {
    /// One partition of the only group.
    OffsetFetchResponsePartition {
        partition_index: i32 [0..=7],
        /// -1 if nothing is committed.
        committed_offset: i64 [0..=7],
        committed_leader_epoch: i32 [5..=7] [ignorable] = -1,
        metadata: Option<String> [0..=7] null [0..=7] = Some(String::new()),
        error_code: i16 [0..=7],
    }
}

structure! {
    /// One group of many.
    OffsetFetchResponseGroup {
        group_id: String [8..],
        topics: Vec<OffsetFetchResponseTopics> [8..],
        error_code: i16 [8..] = 0,
    }
}

structure! {
    /// One topic of one group of many.
    OffsetFetchResponseTopics {
        name: String [8..=9] [ignorable],
        topic_id: [u8; 16] [10..] [ignorable],
        partitions: Vec<OffsetFetchResponsePartitions> [8..],
    }
}

structure! {
    /// One partition of one group of many.
    OffsetFetchResponsePartitions {
        partition_index: i32 [8..],
        /// -1 if nothing is committed.
        committed_offset: i64 [8..],
        committed_leader_epoch: i32 [8..] [ignorable] = -1,
        metadata: Option<String> [8..] null [8..] = Some(String::new()),
        error_code: i16 [8..],
    }
}
