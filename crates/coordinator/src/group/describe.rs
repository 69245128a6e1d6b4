//! What describe, list and delete say of a group (spec kip1071 §9, §10.5).

use std::collections::BTreeMap;

use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::streams_group_describe::{
    Assignment, DescribedGroup, Endpoint, KeyValue, Member as DescribedMember, Subtopology, TaskOffset, Topology,
};

use super::Records;
use super::change::TaskOffsets;
use super::leave::member_tombstones;
use super::state::{Group, Member};
use super::stored_topology::{InternalTopic, StoredTopology, topic_to_wire};
use super::tasks::{Tasks, active_to_wire, to_wire};
use super::topics::Configured;
use crate::config::{Compat, Config};
use crate::record::{Durable, MemberId, Record};

/// The described entry, without authorized operations and description.
pub(super) fn describe(group: &Group, config: &Config) -> DescribedGroup {
    let members = group.members_in_order(config.compat);
    DescribedGroup {
        group_id: group.id.as_ref().to_owned(),
        group_state: group.state().name().to_owned(),
        group_epoch: group.metadata.epoch,
        assignment_epoch: group.target_metadata.assignment_epoch,
        topology: Some(topology(group)),
        members: members.into_iter().map(|m| member(group, m)).collect(),
        assignor_name: Some(group.effective(config).assignor_name().to_owned()),
        ..DescribedGroup::default()
    }
}

/// The topology with decided partition counts once the group is ready, else as it came. Admin clients fail on an absent
/// one, so a group without gets an empty one.
fn topology(group: &Group) -> Topology {
    let Some(stored) = &group.topology else {
        return Topology { epoch: -1, subtopologies: Some(Vec::new()), ..Topology::default() };
    };
    let configured = group.configured.as_deref().filter(|c| c.trouble.is_none());
    Topology { epoch: stored.epoch, subtopologies: Some(subtopologies(stored, configured)), ..Topology::default() }
}

fn subtopologies(stored: &StoredTopology, configured: Option<&Configured>) -> Vec<Subtopology> {
    let by_id: BTreeMap<_, _> = stored.subtopologies.iter().map(|s| (s.id.as_ref(), s)).collect();
    by_id
        .into_values()
        .map(|s| {
            let decided = configured.and_then(|c| c.subtopologies.as_ref()).and_then(|all| all.get(&s.id));
            let changelogs = decided.map_or(&s.state_changelog_topics, |d| &d.state_changelog_topics);
            let sources = decided.map_or(&s.repartition_source_topics, |d| &d.repartition_source_topics);
            Subtopology {
                subtopology_id: s.id.as_ref().to_owned(),
                source_topics: names(&s.source_topics, decided.is_some()),
                repartition_sink_topics: names(&s.repartition_sink_topics, decided.is_some()),
                state_changelog_topics: by_name(changelogs),
                repartition_source_topics: by_name(sources),
                ..Subtopology::default()
            }
        })
        .collect()
}

/// Sorted; once counts are decided each name stands once, as Kafka keeps them as sets from then on.
fn names(told: &[String], decided: bool) -> Vec<String> {
    let mut names = told.to_vec();
    names.sort_unstable();
    if decided {
        names.dedup();
    }
    names
}

fn by_name(topics: &[InternalTopic]) -> Vec<streamside_wire::messages::streams_group_describe::TopicInfo> {
    let mut topics: Vec<_> = topics.iter().collect();
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    topics.into_iter().map(topic_to_wire).collect()
}

fn member(group: &Group, member: &Member) -> DescribedMember {
    let (metadata, assigned) = (&member.metadata, &member.current.assigned);
    let text = |text: &std::sync::Arc<str>| text.as_ref().to_owned();
    DescribedMember {
        member_id: text(&member.id),
        member_epoch: member.current.member_epoch,
        instance_id: metadata.instance_id.as_ref().map(text),
        rack_id: metadata.rack_id.as_ref().map(text),
        client_id: text(&metadata.client_id),
        client_host: text(&metadata.client_host),
        topology_epoch: metadata.topology_epoch,
        process_id: text(&metadata.process_id),
        user_endpoint: metadata.user_endpoint.as_ref().map(|e| Endpoint {
            host: e.host.clone(),
            port: e.port,
            ..Endpoint::default()
        }),
        client_tags: metadata
            .client_tags
            .iter()
            .map(|(key, value)| KeyValue { key: key.clone(), value: value.clone(), ..KeyValue::default() })
            .collect(),
        task_offsets: offsets(member.offsets.as_deref()),
        task_end_offsets: offsets(member.end_offsets.as_deref()),
        assignment: Assignment {
            active_tasks: active_to_wire(&assigned.active),
            standby_tasks: to_wire(&assigned.standby),
            warmup_tasks: to_wire(&assigned.warmup),
            ..Assignment::default()
        },
        target_assignment: group.target.get(&member.id).map(|t| assignment(t)).unwrap_or_default(),
        ..DescribedMember::default()
    }
}

fn assignment(tasks: &Tasks) -> Assignment {
    Assignment {
        active_tasks: to_wire(&tasks.active),
        standby_tasks: to_wire(&tasks.standby),
        warmup_tasks: to_wire(&tasks.warmup),
        ..Assignment::default()
    }
}

fn offsets(offsets: Option<&TaskOffsets>) -> Vec<TaskOffset> {
    offsets
        .into_iter()
        .flatten()
        .map(|((id, partition), offset)| TaskOffset {
            subtopology_id: id.as_ref().to_owned(),
            partition: *partition,
            offset: *offset,
            ..TaskOffset::default()
        })
        .collect()
}

/// The tombstones that remove a group, in Kafka's order (spec kip1071 §11.1).
pub(super) fn tombstones(group: &Group) -> Result<Records, ErrorCode> {
    if !group.members.is_empty() {
        return Err(ErrorCode::NON_EMPTY_GROUP);
    }
    let id = &group.id;
    let mut targets: Vec<&MemberId> = group.target.keys().collect();
    targets.sort_unstable();
    // A target may outlive its member if records came in an odd order; what is left of such a member goes too.
    let left = targets.into_iter().flat_map(|member| member_tombstones(group, member));
    let rest = [
        Durable::TargetMetadata { group: id.clone(), value: None },
        Durable::Group { group: id.clone(), value: None },
        Durable::Topology { group: id.clone(), value: None },
    ];
    Ok(left.chain(rest).map(Record::Durable).collect())
}

/// Whether ListGroups should show a group in `state`, given the request's filters; empty filters let everything pass.
/// Kafka compares with `not_ready`, so that its own tools' `NotReady` never matches; ours accepts both (D13; spec kip1071
/// §10.5).
#[must_use]
pub fn passes_filters(state: &str, states: &[String], types: &[String], compat: Compat) -> bool {
    let states: Vec<&str> = states.iter().map(|s| s.trim_matches(|c| c <= ' ')).collect();
    let type_fits = types.is_empty() || types.iter().any(|t| t.eq_ignore_ascii_case("streams"));
    let kafka_name = if state == "NotReady" { "not_ready" } else { state };
    let state_fits = states.is_empty()
        || states.iter().any(|s| {
            s.eq_ignore_ascii_case(kafka_name) || (compat == Compat::Streamside && s.eq_ignore_ascii_case(state))
        });
    type_fits && state_fits
}
