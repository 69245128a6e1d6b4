//! API 44: changes of single configured values.

message! {
    /// Asks for changes, resource by resource.
    IncrementalAlterConfigsRequest: key 44, versions 0..=1, flexible 1.. {
        resources: Vec<AlterConfigsResource> [0..],
        /// Look, and change nothing.
        validate_only: bool [0..],
    }
}

structure! {
    /// The changes of one resource: all or none.
    AlterConfigsResource {
        /// 2 topic, 4 broker, 32 group.
        resource_type: i8 [0..],
        resource_name: String [0..],
        configs: Vec<AlterableConfig> [0..],
    }
}

structure! {
    /// One change.
    AlterableConfig {
        name: String [0..],
        /// 0 set, 1 delete, 2 append, 3 subtract.
        config_operation: i8 [0..],
        value: Option<String> [0..] null [0..] = Some(String::new()),
    }
}

message! {
    /// One result a resource.
    IncrementalAlterConfigsResponse: key 44, versions 0..=1, flexible 1.. {
        throttle_time_ms: i32 [0..],
        responses: Vec<AlterConfigsResourceResponse> [0..],
    }
}

structure! {
    /// What became of one resource.
    AlterConfigsResourceResponse {
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = Some(String::new()),
        resource_type: i8 [0..],
        resource_name: String [0..],
    }
}
