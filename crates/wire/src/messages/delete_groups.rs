//! API 42 (kip1331 §1.7).

message! {
    /// Deletes groups of any kind.
    DeleteGroupsRequest: key 42, versions 0..=3, flexible 2.. {
        groups_names: Vec<String> [0..],
    }
}

message! {
    /// One result a group.
    DeleteGroupsResponse: key 42, versions 0..=3, flexible 2.. {
        throttle_time_ms: i32 [0..],
        results: Vec<DeletableGroupResult> [0..],
    }
}

structure! {
    /// What became of one group.
    DeletableGroupResult {
        group_id: String [0..],
        error_code: i16 [0..],
        error_message: Option<String> [3..] null [3..] [ignorable] = None,
    }
}
