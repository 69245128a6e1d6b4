//! API 3.

message! {
    /// Asks for brokers and topics.
    MetadataRequest: key 3, versions 0..=13, flexible 9.. {
        /// Null asks for all topics; in version 0 an empty list does.
        topics: Option<Vec<MetadataRequestTopic>> [0..] null [1..] = Some(Vec::new()),
        allow_auto_topic_creation: bool [4..] = true,
        include_cluster_authorized_operations: bool [8..=10],
        include_topic_authorized_operations: bool [8..],
    }
}

structure! {
    /// A topic by name or by id.
    MetadataRequestTopic {
        topic_id: [u8; 16] [10..] [ignorable],
        name: Option<String> [0..] null [10..] = Some(String::new()),
    }
}

message! {
    /// Brokers and topics.
    MetadataResponse: key 3, versions 0..=13, flexible 9.. {
        throttle_time_ms: i32 [3..] [ignorable],
        brokers: Vec<MetadataResponseBroker> [0..],
        cluster_id: Option<String> [2..] null [2..] [ignorable] = None,
        controller_id: i32 [1..] [ignorable] = -1,
        topics: Vec<MetadataResponseTopic> [0..],
        /// Bits; the default says that nobody asked.
        cluster_authorized_operations: i32 [8..=10] = i32::MIN,
        error_code: i16 [13..] [ignorable],
    }
}

structure! {
    /// One broker.
    MetadataResponseBroker {
        node_id: i32 [0..],
        host: String [0..],
        port: i32 [0..],
        rack: Option<String> [1..] null [1..] [ignorable] = None,
    }
}

structure! {
    /// One topic.
    MetadataResponseTopic {
        error_code: i16 [0..],
        name: Option<String> [0..] null [12..] = Some(String::new()),
        topic_id: [u8; 16] [10..] [ignorable],
        is_internal: bool [1..] [ignorable] = false,
        partitions: Vec<MetadataResponsePartition> [0..],
        /// Bits; the default says that nobody asked.
        topic_authorized_operations: i32 [8..] = i32::MIN,
    }
}

structure! {
    /// One partition.
    MetadataResponsePartition {
        error_code: i16 [0..],
        partition_index: i32 [0..],
        leader_id: i32 [0..],
        leader_epoch: i32 [7..] [ignorable] = -1,
        replica_nodes: Vec<i32> [0..],
        isr_nodes: Vec<i32> [0..],
        offline_replicas: Vec<i32> [5..] [ignorable],
    }
}
