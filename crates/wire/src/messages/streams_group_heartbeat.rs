//! API 88 (kip1331 §§1.3, 1.4). The names that every beat carries are borrowed, so that reading a steady beat takes no
//! heap.

use std::borrow::Cow;

message! {
    /// A member joins, stays or leaves.
    StreamsGroupHeartbeatRequest<'a>: key 88, versions 0..=1, flexible 0.. {
        group_id: Cow<'a, str> [0..],
        member_id: Cow<'a, str> [0..],
        /// 0 to join, -1 to leave, -2 to leave for a while as a static member.
        member_epoch: i32 [0..],
        endpoint_information_epoch: i32 [0..],
        instance_id: Option<Cow<'a, str>> [0..] null [0..] = None,
        rack_id: Option<Cow<'a, str>> [0..] null [0..] = None,
        rebalance_timeout_ms: i32 [0..] = -1,
        /// On a join alone.
        topology: Option<Topology> [0..] null [0..] = None,
        active_tasks: Option<Vec<TaskIds>> [0..] null [0..] = None,
        standby_tasks: Option<Vec<TaskIds>> [0..] null [0..] = None,
        warmup_tasks: Option<Vec<TaskIds>> [0..] null [0..] = None,
        process_id: Option<Cow<'a, str>> [0..] null [0..] = None,
        user_endpoint: Option<Endpoint> [0..] null [0..] = None,
        client_tags: Option<Vec<KeyValue>> [0..] null [0..] = None,
        task_offsets: Option<Vec<TaskOffset>> [0..] null [0..] = None,
        task_end_offsets: Option<Vec<TaskOffset>> [0..] null [0..] = None,
        shutdown_application: bool [0..] = false,
    }
}

structure! {
    /// What the assignment needs to know of a topology.
    Topology {
        epoch: i32 [0..],
        subtopologies: Vec<Subtopology> [0..],
    }
}

structure! {
    /// One subtopology's topics.
    Subtopology {
        subtopology_id: String [0..],
        source_topics: Vec<String> [0..],
        source_topic_regex: Vec<String> [0..],
        state_changelog_topics: Vec<TopicInfo> [0..],
        repartition_sink_topics: Vec<String> [0..],
        repartition_source_topics: Vec<TopicInfo> [0..],
        copartition_groups: Vec<CopartitionGroup> [0..],
    }
}

structure! {
    /// Topics that must have equally many partitions, as indexes into the subtopology's lists.
    CopartitionGroup {
        source_topics: Vec<i16> [0..],
        source_topic_regex: Vec<i16> [0..],
        repartition_source_topics: Vec<i16> [0..],
    }
}

structure! {
    /// An internal topic.
    TopicInfo {
        name: String [0..],
        partitions: i32 [0..],
        replication_factor: i16 [0..],
        topic_configs: Vec<KeyValue> [0..],
    }
}

structure! {
    /// A pair of strings.
    KeyValue {
        key: String [0..],
        value: String [0..],
    }
}

structure! {
    /// Tasks of one subtopology.
    TaskIds {
        subtopology_id: String [0..],
        partitions: Vec<i32> [0..],
    }
}

structure! {
    /// Where a member answers interactive queries.
    Endpoint {
        host: String [0..],
        port: u16 [0..],
    }
}

structure! {
    /// A task's offset, summed over its changelogs.
    TaskOffset {
        subtopology_id: String [0..],
        partition: i32 [0..],
        offset: i64 [0..],
    }
}

message! {
    /// What the member is to do. Null lists mean "as before".
    StreamsGroupHeartbeatResponse<'a>: key 88, versions 0..=1, flexible 0.. {
        throttle_time_ms: i32 [0..],
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = None,
        member_id: Cow<'a, str> [0..],
        member_epoch: i32 [0..],
        heartbeat_interval_ms: i32 [0..],
        acceptable_recovery_lag_legacy: i32 [0..=0],
        task_offset_interval_ms: i32 [0..],
        acceptable_recovery_lag: i64 [1..] [ignorable] = -1,
        status: Option<Vec<Status>> [0..] null [0..] = Some(Vec::new()),
        active_tasks: Option<Vec<TaskIds>> [0..] null [0..] = None,
        standby_tasks: Option<Vec<TaskIds>> [0..] null [0..] = None,
        warmup_tasks: Option<Vec<TaskIds>> [0..] null [0..] = None,
        /// The member is asked to push its description.
        topology_description_required: bool [1..] = false,
        endpoint_information_epoch: i32 [0..],
        partitions_by_user_endpoint: Option<Vec<EndpointToPartitions>> [0..] null [0..] = None,
    }
}

structure! {
    /// Something about the group that the member should know.
    Status {
        /// 0 stale topology, 1 missing source topics, 2 incorrectly partitioned topics, 3 missing internal topics,
        /// 4 shutdown application, 5 assignment delayed, 6 missing client tags (clients of v0 crash on it).
        status_code: i8 [0..],
        status_detail: String [0..],
    }
}

structure! {
    /// Partitions that can be queried at an endpoint.
    EndpointToPartitions {
        user_endpoint: Endpoint [0..],
        active_partitions: Vec<TopicPartition> [0..],
        standby_partitions: Vec<TopicPartition> [0..],
    }
}

structure! {
    /// Partitions of a topic.
    TopicPartition {
        topic: String [0..],
        partitions: Vec<i32> [0..],
    }
}
