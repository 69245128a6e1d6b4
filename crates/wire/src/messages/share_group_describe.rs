//! API 77, answers only.

pub use super::consumer_group_describe::{Assignment, TopicPartitions};

message! {
    /// Share groups (KIP-932).
    ShareGroupDescribeResponse: key 77, versions 1..=1, flexible 0.. {
        throttle_time_ms: i32 [0..],
        groups: Vec<DescribedGroup> [0..],
    }
}

structure! {
    /// One group, or why it is not shown.
    DescribedGroup {
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = None,
        group_id: String [0..],
        group_state: String [0..],
        group_epoch: i32 [0..],
        assignment_epoch: i32 [0..],
        assignor_name: String [0..],
        members: Vec<Member> [0..],
        /// Bits; the default says that nobody asked.
        authorized_operations: i32 [0..] = i32::MIN,
    }
}

structure! {
    /// One member.
    Member {
        member_id: String [0..],
        rack_id: Option<String> [0..] null [0..] = None,
        member_epoch: i32 [0..],
        client_id: String [0..],
        client_host: String [0..],
        subscribed_topic_names: Vec<String> [0..],
        assignment: Assignment [0..],
    }
}
