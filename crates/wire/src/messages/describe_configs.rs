//! API 32: what is configured for topics, brokers and groups.

message! {
    /// Asks for the configuration of resources.
    DescribeConfigsRequest: key 32, versions 1..=4, flexible 4.. {
        resources: Vec<DescribeConfigsResource> [0..],
        include_synonyms: bool [1..],
        include_documentation: bool [3..],
    }
}

structure! {
    /// One resource.
    DescribeConfigsResource {
        /// 2 topic, 4 broker, 32 group.
        resource_type: i8 [0..],
        resource_name: String [0..],
        /// Names to list; null and empty list all.
        configuration_keys: Option<Vec<String>> [0..] null [0..] = Some(Vec::new()),
    }
}

message! {
    /// One result a resource.
    DescribeConfigsResponse: key 32, versions 1..=4, flexible 4.. {
        throttle_time_ms: i32 [0..],
        results: Vec<DescribeConfigsResult> [0..],
    }
}

structure! {
    /// What is configured for one resource.
    DescribeConfigsResult {
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = Some(String::new()),
        resource_type: i8 [0..],
        resource_name: String [0..],
        configs: Vec<DescribeConfigsResourceResult> [0..],
    }
}

structure! {
    /// One configured value.
    DescribeConfigsResourceResult {
        name: String [0..],
        value: Option<String> [0..] null [0..] = Some(String::new()),
        read_only: bool [0..],
        /// 4 the broker's file, 5 a default, 8 the group's own.
        config_source: i8 [1..] [ignorable] = -1,
        is_sensitive: bool [0..],
        synonyms: Vec<DescribeConfigsSynonym> [1..] [ignorable],
        /// 1 boolean, 2 string, 3 int, 5 long, 7 list.
        config_type: i8 [3..] [ignorable],
        documentation: Option<String> [3..] null [0..] [ignorable] = Some(String::new()),
    }
}

structure! {
    /// Where a value would come from, the strongest first.
    DescribeConfigsSynonym {
        name: String [1..],
        value: Option<String> [1..] null [0..] = Some(String::new()),
        source: i8 [1..],
    }
}
