//! API 18. A server that does not know the version asked for answers error 35 in version 0.

message! {
    /// Asks what the server speaks.
    ApiVersionsRequest: key 18, versions 0..=5, flexible 3.. {
        client_software_name: String [3..] [ignorable],
        client_software_version: String [3..] [ignorable],
        /// The cluster that the client means to reach.
        cluster_id: Option<String> [5..] null [5..] [ignorable] = None,
        /// The node that the client means to reach.
        node_id: i32 [5..] [ignorable] = -1,
    }
}

message! {
    /// APIs with their versions, and features of the cluster.
    ApiVersionsResponse: key 18, versions 0..=5, flexible 3.. {
        error_code: i16 [0..],
        api_keys: Vec<ApiVersion> [0..],
        throttle_time_ms: i32 [1..] [ignorable],
        supported_features: Vec<SupportedFeatureKey> [3..] tag 0 [ignorable],
        finalized_features_epoch: i64 [3..] tag 1 [ignorable] = -1,
        finalized_features: Vec<FinalizedFeatureKey> [3..] tag 2 [ignorable],
        zk_migration_ready: bool [3..] tag 3 [ignorable] = false,
    }
}

structure! {
    /// Versions of one API.
    ApiVersion {
        api_key: i16 [0..],
        min_version: i16 [0..],
        max_version: i16 [0..],
    }
}

structure! {
    /// Levels of a feature that the server can have.
    SupportedFeatureKey {
        name: String [3..],
        min_version: i16 [3..],
        max_version: i16 [3..],
    }
}

structure! {
    /// Level of a feature that the cluster has.
    FinalizedFeatureKey {
        name: String [3..],
        max_version_level: i16 [3..],
        min_version_level: i16 [3..],
    }
}
