//! API 69, answers only.

message! {
    /// Groups of the consumer protocol (KIP-848).
    ConsumerGroupDescribeResponse: key 69, versions 0..=1, flexible 0.. {
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
        instance_id: Option<String> [0..] null [0..] = None,
        rack_id: Option<String> [0..] null [0..] = None,
        member_epoch: i32 [0..],
        client_id: String [0..],
        client_host: String [0..],
        subscribed_topic_names: Vec<String> [0..],
        subscribed_topic_regex: Option<String> [0..] null [0..] = None,
        assignment: Assignment [0..],
        target_assignment: Assignment [0..],
        /// -1 unknown, 0 classic, 1 consumer.
        member_type: i8 [1..] [ignorable] = -1,
    }
}

structure! {
    /// What a member has, or shall have.
    Assignment {
        topic_partitions: Vec<TopicPartitions> [0..],
    }
}

structure! {
    /// Partitions of one topic.
    TopicPartitions {
        topic_id: [u8; 16] [0..],
        topic_name: String [0..],
        partitions: Vec<i32> [0..],
    }
}
