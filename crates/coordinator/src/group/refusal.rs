//! Why a heartbeat is refused: code and text as Kafka gives them.

use streamside_wire::error_code::ErrorCode;
use thiserror::Error;

/// A refused heartbeat. The texts are what clients see (spec kip1071 §1.1, §1.2, §1.5, §4.4).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Refusal {
    // §1.1, before the coordinator is asked.
    #[error("Use of Kafka internal topics {0} in a Kafka Streams topology is prohibited.")]
    InternalTopics(String),
    #[error("Topic names {0} are not valid topic names.")]
    InvalidTopicNames(String),
    // §1.2
    #[error("Regular expressions for source topics are not supported yet.")]
    SourceRegex,
    #[error("MemberId can't be empty.")]
    BlankMemberId,
    #[error("GroupId can't be empty.")]
    BlankGroupId,
    #[error("InstanceId can't be empty.")]
    BlankInstanceId,
    #[error("RackId can't be empty.")]
    BlankRackId,
    #[error("RebalanceTimeoutMs must be provided in first request.")]
    NoRebalanceTimeout,
    #[error("{0}Tasks must be empty when (re-)joining.")]
    TasksOnJoin(&'static str),
    #[error("Topology must be non-null when (re-)joining.")]
    NoTopologyOnJoin,
    #[error("Changelog topic {0} must have an undefined partition count, but it is set to {1}.")]
    ChangelogPartitions(String, i32),
    #[error("InstanceId can't be null.")]
    NoInstanceId,
    #[error("MemberEpoch is {0}, but must be greater than or equal to -2.")]
    MemberEpochRange(i32),
    #[error("If one task-type is non-null, all must be non-null.")]
    SomeTaskLists,
    #[error("Topology can only be provided when (re-)joining.")]
    TopologyAfterJoin,
    // §14 D1: what Kafka answers with an unexplained -1.
    #[error("Topology epoch must be non-negative.")]
    NegativeTopologyEpoch,
    #[error("Subtopology {0} appears more than once in the topology.")]
    DoubleSubtopology(String),
    #[error("A co-partition group of subtopology {0} refers to a topic that does not exist.")]
    CopartitionIndex(String),
    #[error("Subtopology {0} appears more than once in a task list.")]
    DoubleTaskList(String),
    #[error("Internal topic {0} appears more than once in a subtopology.")]
    DoubleInternalTopic(String),
    #[error("Config {1} of internal topic {0} appears more than once.")]
    DoubleTopicConfig(String, String),
    #[error("Repartition topic {0} cannot have {1} partitions.")]
    RepartitionPartitions(String, i32),
    #[error("Client tag {0} appears more than once.")]
    DoubleClientTag(String),
    // §1.5
    #[error("The streams group has reached its maximum capacity of {0} members.")]
    GroupFull(i32),
    #[error("Streams group {0} not found.")]
    StreamsGroupNotFound(String),
    #[error("Group {0} not found.")]
    GroupNotFound(String),
    #[error("Member {member} is not a member of group {group}.")]
    UnknownMember { group: String, member: String },
    #[error(
        "The streams group member has a {relation} member epoch ({received}) than the one known by the group coordinator \
         ({known}). The member must abandon all its partitions and rejoin."
    )]
    FencedEpoch { relation: &'static str, received: i32, known: i32 },
    #[error("Instance id {0} is unknown.")]
    UnknownInstance(String),
    #[error("Static member {member} with instance id {instance} was fenced by member {owner}.")]
    FencedInstance { member: String, instance: String, owner: String },
    #[error(
        "Static member {member} with instance id {instance} cannot join the group because the instance id is owned by \
         {owner} member."
    )]
    UnreleasedInstance { member: String, instance: String, owner: String },
    #[error("Topology updates are not supported yet.")]
    TopologyUpdate,
    #[error("Subtopology {0} does not exist in the topology.")]
    UnknownSubtopology(String),
    #[error("Task {partition} for subtopology {subtopology} is invalid. Number of tasks for this subtopology: {tasks}")]
    InvalidTask { subtopology: String, partition: i32, tasks: i32 },
    #[error("Task offsets contain a duplicate entry for subtopology {subtopology} and partition {partition}.")]
    DoubleOffset { subtopology: String, partition: i32 },
    #[error("The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.")]
    UnknownState,
    // §4.4
    #[error(
        "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that \
         cannot be resolved."
    )]
    RepartitionLoop,
    #[error(
        "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never \
         used as a sink topic."
    )]
    RepartitionNeverSink,
    #[error("Failed to compute number of partitions for the co-partitioned repartition topics {0}.")]
    CopartitionUnknown(String),
    #[error("No source topics found for subtopology {0}")]
    NoSourceTopics(String),
    // Ours.
    #[error("The coordinator holds as many groups as it may.")]
    TooManyGroups,
    #[error("The topology has {0} tasks; at most {max} are accepted.", max = super::topics::MAX_TASKS)]
    TooManyTasks(u64),
    #[error("The assignor failed.")]
    Assignor,
    /// Kafka's unexplained -1 (`streamside.compat=kafka` only).
    #[error("unexpected")]
    Unexpected,
}

impl Refusal {
    /// The answer's error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InternalTopics(_)
            | Self::InvalidTopicNames(_)
            | Self::ChangelogPartitions(..)
            | Self::DoubleSubtopology(_)
            | Self::CopartitionIndex(_)
            | Self::DoubleInternalTopic(_)
            | Self::DoubleTopicConfig(..)
            | Self::RepartitionPartitions(..)
            | Self::RepartitionLoop
            | Self::RepartitionNeverSink
            | Self::CopartitionUnknown(_)
            | Self::NoSourceTopics(_)
            | Self::TooManyTasks(_) => ErrorCode::STREAMS_INVALID_TOPOLOGY,
            Self::SourceRegex
            | Self::BlankMemberId
            | Self::BlankGroupId
            | Self::BlankInstanceId
            | Self::BlankRackId
            | Self::NoRebalanceTimeout
            | Self::TasksOnJoin(_)
            | Self::NoTopologyOnJoin
            | Self::NoInstanceId
            | Self::MemberEpochRange(_)
            | Self::SomeTaskLists
            | Self::TopologyAfterJoin
            | Self::NegativeTopologyEpoch
            | Self::DoubleTaskList(_)
            | Self::DoubleClientTag(_)
            | Self::TopologyUpdate
            | Self::UnknownSubtopology(_)
            | Self::InvalidTask { .. }
            | Self::DoubleOffset { .. } => ErrorCode::INVALID_REQUEST,
            Self::GroupFull(_) => ErrorCode::GROUP_MAX_SIZE_REACHED,
            Self::StreamsGroupNotFound(_) | Self::GroupNotFound(_) => ErrorCode::GROUP_ID_NOT_FOUND,
            Self::UnknownMember { .. } | Self::UnknownInstance(_) => ErrorCode::UNKNOWN_MEMBER_ID,
            Self::FencedEpoch { .. } | Self::UnknownState => ErrorCode::FENCED_MEMBER_EPOCH,
            Self::FencedInstance { .. } => ErrorCode::FENCED_INSTANCE_ID,
            Self::UnreleasedInstance { .. } => ErrorCode::UNRELEASED_INSTANCE_ID,
            // Trouble of our own is 14: anything else is fatal to clients or makes them look for another coordinator.
            Self::TooManyGroups | Self::Assignor => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            Self::Unexpected => ErrorCode::UNKNOWN_SERVER_ERROR,
        }
    }

    /// The answer's text.
    #[must_use]
    pub fn client_message(&self) -> Option<String> {
        match self {
            Self::Unexpected => None,
            _ => Some(self.to_string()),
        }
    }

    /// Which limit was met, if it was one.
    #[must_use]
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::GroupFull(_) => Some("members"),
            Self::TooManyGroups => Some("groups"),
            Self::TooManyTasks(_) => Some("tasks"),
            _ => None,
        }
    }

    /// A short word for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.code().name()
    }
}
