//! API 15: classic groups.

use bytes::Bytes;

message! {
    /// Asks for classic groups by id.
    DescribeGroupsRequest: key 15, versions 0..=6, flexible 5.. {
        groups: Vec<String> [0..],
        include_authorized_operations: bool [3..],
    }
}

message! {
    /// One entry a group.
    DescribeGroupsResponse: key 15, versions 0..=6, flexible 5.. {
        throttle_time_ms: i32 [1..] [ignorable],
        groups: Vec<DescribedGroup> [0..],
    }
}

structure! {
    /// One group.
    DescribedGroup {
        error_code: i16 [0..],
        error_message: Option<String> [6..] null [6..] = None,
        group_id: String [0..],
        group_state: String [0..],
        protocol_type: String [0..],
        protocol_data: String [0..],
        members: Vec<DescribedGroupMember> [0..],
        /// Bits; the default says that nobody asked.
        authorized_operations: i32 [3..] = i32::MIN,
    }
}

structure! {
    /// One member.
    DescribedGroupMember {
        member_id: String [0..],
        group_instance_id: Option<String> [4..] null [4..] [ignorable] = None,
        client_id: String [0..],
        client_host: String [0..],
        /// What the member's protocol put there.
        member_metadata: Bytes [0..],
        /// What the group's leader put there.
        member_assignment: Bytes [0..],
    }
}
