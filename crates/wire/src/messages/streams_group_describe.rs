//! API 89 (kip1331 §1.5).

pub use super::streams_group_heartbeat::{Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo};
pub use super::topology_description::DescriptionField;

message! {
    /// Asks for streams groups by id.
    StreamsGroupDescribeRequest: key 89, versions 0..=1, flexible 0.. {
        group_ids: Vec<String> [0..],
        include_authorized_operations: bool [0..],
        include_topology_description: bool [1..] = false,
    }
}

message! {
    /// One entry a group.
    StreamsGroupDescribeResponse: key 89, versions 0..=1, flexible 0.. {
        throttle_time_ms: i32 [0..],
        groups: Vec<DescribedGroup> [0..],
    }
}

structure! {
    /// One group.
    DescribedGroup {
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = None,
        group_id: String [0..],
        group_state: String [0..],
        group_epoch: i32 [0..],
        assignment_epoch: i32 [0..],
        topology: Option<Topology> [0..] null [0..] = None,
        members: Vec<Member> [0..],
        /// Bits; the default says that nobody asked.
        authorized_operations: i32 [0..] = i32::MIN,
        topology_description: Option<DescriptionField> [1..] null [1..] = None,
        /// 0 not requested, 1 not stored, 2 error, 3 available (kip1331 §5.2).
        topology_description_status: i8 [1..] = 0,
        assignor_name: Option<String> [1..] null [1..] [ignorable] = None,
    }
}

structure! {
    /// The assignment topology as brokers keep it.
    Topology {
        epoch: i32 [0..],
        subtopologies: Option<Vec<Subtopology>> [0..] null [0..] = None,
    }
}

structure! {
    /// One subtopology's topics; the order of fields is not the heartbeat's.
    Subtopology {
        subtopology_id: String [0..],
        source_topics: Vec<String> [0..],
        repartition_sink_topics: Vec<String> [0..],
        state_changelog_topics: Vec<TopicInfo> [0..],
        repartition_source_topics: Vec<TopicInfo> [0..],
    }
}

structure! {
    /// One member.
    Member {
        member_id: String [0..],
        member_epoch: i32 [0..],
        instance_id: Option<String> [0..] null [0..] = None,
        rack_id: Option<String> [0..] null [0..] = None,
        client_id: String [0..],
        client_host: String [0..],
        topology_epoch: i32 [0..],
        process_id: String [0..],
        user_endpoint: Option<Endpoint> [0..] null [0..] = None,
        client_tags: Vec<KeyValue> [0..],
        task_offsets: Vec<TaskOffset> [0..],
        task_end_offsets: Vec<TaskOffset> [0..],
        assignment: Assignment [0..],
        target_assignment: Assignment [0..],
        is_classic: bool [0..],
    }
}

structure! {
    /// Tasks of one member.
    Assignment {
        active_tasks: Vec<TaskIds> [0..],
        standby_tasks: Vec<TaskIds> [0..],
        warmup_tasks: Vec<TaskIds> [0..],
    }
}
