//! API 16.

message! {
    /// Asks for all groups, or those in some states or of some types.
    ListGroupsRequest: key 16, versions 0..=5, flexible 3.. {
        states_filter: Vec<String> [4..],
        types_filter: Vec<String> [5..],
    }
}

message! {
    /// The groups.
    ListGroupsResponse: key 16, versions 0..=5, flexible 3.. {
        throttle_time_ms: i32 [1..] [ignorable],
        error_code: i16 [0..],
        groups: Vec<ListedGroup> [0..],
    }
}

structure! {
    /// One group.
    ListedGroup {
        group_id: String [0..],
        protocol_type: String [0..],
        group_state: String [4..] [ignorable],
        group_type: String [5..] [ignorable],
    }
}
