//! API 74: which resources have a configuration.

message! {
    /// Asks for resources by type.
    ListConfigResourcesRequest: key 74, versions 0..=1, flexible 0.. {
        /// Empty: all types.
        resource_types: Vec<i8> [1..],
    }
}

message! {
    /// The resources.
    ListConfigResourcesResponse: key 74, versions 0..=1, flexible 0.. {
        throttle_time_ms: i32 [0..],
        error_code: i16 [0..],
        config_resources: Vec<ConfigResource> [0..],
    }
}

structure! {
    /// One resource.
    ConfigResource {
        resource_name: String [0..],
        /// 2 topic, 4 broker, 16 client metrics, 32 group.
        resource_type: i8 [1..] [ignorable] = 16,
    }
}
