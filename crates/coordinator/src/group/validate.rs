//! Checks that need no state (spec kip1071 §1.1 stage 3 and §1.2), in Kafka's order.

use std::collections::BTreeSet;

use streamside_wire::messages::streams_group_heartbeat::{
    KeyValue, StreamsGroupHeartbeatRequest, Subtopology, TaskIds, Topology,
};

use super::refusal::Refusal;
use crate::config::Compat;

/// Topics that Kafka keeps for itself.
const INTERNAL_TOPICS: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Longest legal topic name, in bytes.
const MAX_TOPIC_NAME: usize = 249;

/// A member joins or joins again.
pub(super) const JOIN: i32 = 0;
/// A member leaves for good.
pub(super) const LEAVE: i32 = -1;
/// A static member leaves for a while.
pub(super) const LEAVE_FOR_A_WHILE: i32 = -2;

/// Refuses what no state can make right.
///
/// # Errors
/// The first check that fails.
pub(super) fn check(request: &StreamsGroupHeartbeatRequest<'_>, compat: Compat) -> Result<(), Refusal> {
    if let Some(topology) = &request.topology {
        check_topic_names(topology)?;
    }
    check_fields(request)?;
    if compat == Compat::Streamside {
        check_sanity(request)?;
    }
    Ok(())
}

/// Spec kip1071 §1.1, stages 3a and 3b.
fn check_topic_names(topology: &Topology) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    let (mut internal, mut invalid) = (Vec::new(), Vec::new());
    for s in &topology.subtopologies {
        let names = s
            .source_topics
            .iter()
            .chain(&s.repartition_sink_topics)
            .chain(s.repartition_source_topics.iter().map(|t| &t.name))
            .chain(s.state_changelog_topics.iter().map(|t| &t.name));
        for name in names.map(String::as_str) {
            if seen.insert(name) {
                if INTERNAL_TOPICS.contains(&name) {
                    internal.push(name);
                }
                if !is_topic_name(name) {
                    invalid.push(name);
                }
            }
        }
    }
    if !internal.is_empty() {
        return Err(Refusal::InternalTopics(internal.join(",")));
    }
    if !invalid.is_empty() {
        return Err(Refusal::InvalidTopicNames(invalid.join(",")));
    }
    Ok(())
}

/// Whether Kafka would let a topic have this name.
#[must_use]
pub fn is_topic_name(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && name.len() <= MAX_TOPIC_NAME
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Empty after what Java's `trim` takes away: all up to U+0020.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c <= ' ')
}

fn check_fields(r: &StreamsGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    // U5
    if let Some(topology) = &r.topology
        && topology.subtopologies.iter().any(|s| !s.source_topic_regex.is_empty())
    {
        return Err(Refusal::SourceRegex);
    }
    // V1-V4
    if is_blank(&r.member_id) {
        return Err(Refusal::BlankMemberId);
    }
    if is_blank(&r.group_id) {
        return Err(Refusal::BlankGroupId);
    }
    if r.instance_id.as_deref().is_some_and(is_blank) {
        return Err(Refusal::BlankInstanceId);
    }
    if r.rack_id.as_deref().is_some_and(is_blank) {
        return Err(Refusal::BlankRackId);
    }
    if r.member_epoch == JOIN {
        check_join(r)?;
    }
    // V11, V12
    if r.member_epoch == LEAVE_FOR_A_WHILE && r.instance_id.is_none() {
        return Err(Refusal::NoInstanceId);
    }
    if r.member_epoch < LEAVE_FOR_A_WHILE {
        return Err(Refusal::MemberEpochRange(r.member_epoch));
    }
    // V13, V14
    let lists = [&r.active_tasks, &r.standby_tasks, &r.warmup_tasks];
    if lists.iter().any(|l| l.is_some()) && lists.iter().any(|l| l.is_none()) {
        return Err(Refusal::SomeTaskLists);
    }
    if r.topology.is_some() && r.member_epoch != JOIN {
        return Err(Refusal::TopologyAfterJoin);
    }
    Ok(())
}

/// V5-V10.
fn check_join(r: &StreamsGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    if r.rebalance_timeout_ms == -1 {
        return Err(Refusal::NoRebalanceTimeout);
    }
    for (tasks, role) in [(&r.active_tasks, "Active"), (&r.standby_tasks, "Standby"), (&r.warmup_tasks, "Warmup")] {
        if tasks.as_ref().is_none_or(|t| !t.is_empty()) {
            return Err(Refusal::TasksOnJoin(role));
        }
    }
    let topology = r.topology.as_ref().ok_or(Refusal::NoTopologyOnJoin)?;
    match topology.subtopologies.iter().flat_map(|s| &s.state_changelog_topics).find(|t| t.partitions != 0) {
        Some(topic) => Err(Refusal::ChangelogPartitions(topic.name.clone(), topic.partitions)),
        None => Ok(()),
    }
}

/// What makes Kafka fail with -1 and no text, refused in words (spec kip1071 §14 D1).
fn check_sanity(r: &StreamsGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    if let Some(topology) = &r.topology {
        if topology.epoch < 0 {
            return Err(Refusal::NegativeTopologyEpoch);
        }
        if let Some(id) = double(topology.subtopologies.iter().map(|s| s.subtopology_id.as_str())) {
            return Err(Refusal::DoubleSubtopology(id.to_owned()));
        }
        let fits = |indexes: &[i16], len: usize| indexes.iter().all(|i| usize::try_from(*i).is_ok_and(|i| i < len));
        let wrong = topology.subtopologies.iter().find(|s| {
            s.copartition_groups.iter().any(|g| {
                !fits(&g.source_topics, s.source_topics.len())
                    || !fits(&g.source_topic_regex, s.source_topic_regex.len())
                    || !fits(&g.repartition_source_topics, s.repartition_source_topics.len())
            })
        });
        if let Some(s) = wrong {
            return Err(Refusal::CopartitionIndex(s.subtopology_id.clone()));
        }
        topology.subtopologies.iter().try_for_each(check_internal_topics)?;
    }
    if let Some(key) = r.client_tags.as_deref().and_then(double_client_tag) {
        return Err(Refusal::DoubleClientTag(key.to_owned()));
    }
    for tasks in [&r.active_tasks, &r.standby_tasks, &r.warmup_tasks].into_iter().flatten() {
        if let Some(id) = double_task_list(tasks) {
            return Err(Refusal::DoubleTaskList(id.to_owned()));
        }
    }
    Ok(())
}

fn check_internal_topics(s: &Subtopology) -> Result<(), Refusal> {
    for topics in [&s.repartition_source_topics, &s.state_changelog_topics] {
        if let Some(name) = double(topics.iter().map(|t| t.name.as_str())) {
            return Err(Refusal::DoubleInternalTopic(name.to_owned()));
        }
        for t in topics {
            if let Some(key) = double(t.topic_configs.iter().map(|c| c.key.as_str())) {
                return Err(Refusal::DoubleTopicConfig(t.name.clone(), key.to_owned()));
            }
        }
    }
    match s.repartition_source_topics.iter().find(|t| t.partitions < 0) {
        Some(t) => Err(Refusal::RepartitionPartitions(t.name.clone(), t.partitions)),
        None => Ok(()),
    }
}

/// A client tag that is told twice.
pub(super) fn double_client_tag(tags: &[KeyValue]) -> Option<&str> {
    double(tags.iter().map(|tag| tag.key.as_str()))
}

/// A subtopology that a task list names twice.
pub(super) fn double_task_list(tasks: &[TaskIds]) -> Option<&str> {
    double(tasks.iter().map(|t| t.subtopology_id.as_str()))
}

/// The first name that comes twice.
pub(super) fn double<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}
