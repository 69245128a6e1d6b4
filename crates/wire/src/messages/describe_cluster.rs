//! API 60.

message! {
    /// Asks for the cluster's id and nodes.
    DescribeClusterRequest: key 60, versions 0..=2, flexible 0.. {
        include_cluster_authorized_operations: bool [0..],
        /// 1 brokers, 2 controllers.
        endpoint_type: i8 [1..] = 1,
        include_fenced_brokers: bool [2..],
    }
}

message! {
    /// The cluster's id and nodes.
    DescribeClusterResponse: key 60, versions 0..=2, flexible 0.. {
        throttle_time_ms: i32 [0..],
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = None,
        endpoint_type: i8 [1..] = 1,
        cluster_id: String [0..],
        controller_id: i32 [0..] = -1,
        brokers: Vec<DescribeClusterBroker> [0..],
        /// Bits; the default says that nobody asked.
        cluster_authorized_operations: i32 [0..] = i32::MIN,
    }
}

structure! {
    /// One node.
    DescribeClusterBroker {
        broker_id: i32 [0..],
        host: String [0..],
        port: i32 [0..],
        rack: Option<String> [0..] null [0..] = None,
        is_fenced: bool [2..],
    }
}
