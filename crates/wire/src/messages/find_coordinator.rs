//! API 10. Up to version 3 one key a request, then many.

message! {
    /// Asks which broker coordinates a group or a transaction.
    FindCoordinatorRequest: key 10, versions 0..=6, flexible 3.. {
        key: String [0..=3],
        /// 0 group, 1 transaction, 2 share group's partition.
        key_type: i8 [1..] = 0,
        coordinator_keys: Vec<String> [4..],
    }
}

message! {
    /// The coordinators.
    FindCoordinatorResponse: key 10, versions 0..=6, flexible 3.. {
        throttle_time_ms: i32 [1..] [ignorable],
        error_code: i16 [0..=3],
        error_message: Option<String> [1..=3] null [1..=3] [ignorable] = Some(String::new()),
        node_id: i32 [0..=3],
        host: String [0..=3],
        port: i32 [0..=3],
        coordinators: Vec<Coordinator> [4..],
    }
}

structure! {
    /// The coordinator of one key.
    Coordinator {
        key: String [4..],
        node_id: i32 [4..],
        host: String [4..],
        port: i32 [4..],
        error_code: i16 [4..],
        error_message: Option<String> [4..] null [4..] [ignorable] = Some(String::new()),
    }
}
