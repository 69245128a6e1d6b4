//! API 55, answers only.

message! {
    /// State of the controllers' quorum.
    DescribeQuorumResponse: key 55, versions 0..=2, flexible 0.. {
        error_code: i16 [0..],
        error_message: Option<String> [2..] null [2..] [ignorable] = Some(String::new()),
        topics: Vec<TopicData> [0..],
        nodes: Vec<Node> [2..],
    }
}

structure! {
    /// One topic.
    TopicData {
        topic_name: String [0..],
        partitions: Vec<PartitionData> [0..],
    }
}

structure! {
    /// One partition.
    PartitionData {
        partition_index: i32 [0..],
        error_code: i16 [0..],
        error_message: Option<String> [2..] null [2..] [ignorable] = Some(String::new()),
        leader_id: i32 [0..],
        leader_epoch: i32 [0..],
        high_watermark: i64 [0..],
        current_voters: Vec<ReplicaState> [0..],
        observers: Vec<ReplicaState> [0..],
    }
}

structure! {
    /// How far a replica is.
    ReplicaState {
        replica_id: i32 [0..],
        replica_directory_id: [u8; 16] [2..],
        log_end_offset: i64 [0..],
        last_fetch_timestamp: i64 [1..] [ignorable] = -1,
        last_caught_up_timestamp: i64 [1..] [ignorable] = -1,
    }
}

structure! {
    /// A controller.
    Node {
        node_id: i32 [2..],
        listeners: Vec<Listener> [2..],
    }
}

structure! {
    /// Where a controller is reached.
    Listener {
        name: String [2..],
        host: String [2..],
        port: u16 [2..],
    }
}
