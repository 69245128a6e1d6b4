//! Who answers interactive queries for which partitions (spec kip1071 §8).

use std::collections::BTreeMap;

use streamside_wire::messages::streams_group_heartbeat::{
    Endpoint, EndpointToPartitions, StreamsGroupHeartbeatResponse, TopicPartition,
};

use super::Changes;
use super::change::GroupChange;
use super::hash_order::ordered;
use super::metadata::{MemberMetadata, UserEndpoint};
use super::refusal::Refusal;
use super::state::Group;
use super::tasks::{CurrentAssignment, TaskSet, without_epochs};
use super::topics::Configured;
use crate::config::Compat;
use crate::record::MemberId;

/// The group around the member whose heartbeat is being decided, and that member as it is after it.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) group: &'a Group,
    pub(super) created: bool,
    pub(super) member: &'a MemberId,
    pub(super) replaces: Option<&'a MemberId>,
    pub(super) metadata: &'a MemberMetadata,
    pub(super) current: &'a CurrentAssignment,
    pub(super) configured: &'a Configured,
}

impl Around<'_> {
    /// Advances the epoch if the member `moved`, and lists the endpoints unless the member knows this epoch.
    ///
    /// # Errors
    /// Kafka's unexplained -1, under its rules alone.
    pub(super) fn fill(
        &self,
        known: i32,
        moved: bool,
        compat: Compat,
        response: &mut StreamsGroupHeartbeatResponse<'_>,
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        let stored = self.group.endpoint_epoch;
        let epoch = if moved { stored.wrapping_add(1) } else { stored };
        // As recorded of Kafka: the heartbeat that makes a group lists its endpoints but does not keep the new epoch.
        let kept = if self.created { stored } else { epoch };
        if kept != stored {
            changes.push(GroupChange::EndpointEpoch { group: self.group.id.clone(), epoch: kept });
        }
        response.endpoint_information_epoch = kept;
        if epoch != known {
            let entries = self.entries(compat);
            // D1: Kafka stumbles over an endpoint while it does not know the subtopologies.
            if compat == Compat::Kafka && self.configured.subtopologies.is_none() && !entries.is_empty() {
                return Err(Refusal::Unexpected);
            }
            response.partitions_by_user_endpoint = Some(entries);
        }
        Ok(())
    }

    fn entries(&self, compat: Compat) -> Vec<EndpointToPartitions> {
        let others = self
            .group
            .members
            .values()
            .filter(|m| m.id != *self.member && Some(&m.id) != self.replaces)
            .map(|m| (&m.id, &m.metadata, &m.current));
        let mut members: Vec<_> = others
            .chain([(self.member, self.metadata, self.current)])
            .filter(|m| m.1.user_endpoint.is_some())
            .collect();
        members.sort_unstable_by_key(|m| m.0);
        members
            .into_iter()
            .filter_map(|(_, metadata, current)| Some(self.entry(metadata.user_endpoint.as_ref()?, current, compat)))
            .collect()
    }

    fn entry(&self, endpoint: &UserEndpoint, current: &CurrentAssignment, compat: Compat) -> EndpointToPartitions {
        let assigned = &current.assigned;
        let mut standby = assigned.standby.clone();
        for (id, partitions) in &assigned.warmup {
            standby.entry(id.clone()).or_default().extend(partitions);
        }
        EndpointToPartitions {
            user_endpoint: Endpoint { host: endpoint.host.clone(), port: endpoint.port, ..Endpoint::default() },
            active_partitions: self.partitions(&without_epochs(&assigned.active), compat),
            standby_partitions: self.partitions(&standby, compat),
            ..EndpointToPartitions::default()
        }
    }

    /// Partitions of the topics that feed these tasks, by subtopology. While it is not known which topics do, none.
    fn partitions(&self, tasks: &TaskSet, compat: Compat) -> Vec<TopicPartition> {
        let Some(subtopologies) = &self.configured.subtopologies else { return Vec::new() };
        let mut fed = Vec::new();
        for (id, partitions) in tasks {
            let Some(subtopology) = subtopologies.get(id) else { continue };
            let counts: BTreeMap<&str, i32> =
                subtopology.sources.iter().map(|(t, count)| (t.as_str(), *count)).collect();
            for topic in ordered(compat, subtopology.sources.iter().map(|(topic, _)| topic.as_str())) {
                let count = counts.get(topic).copied().unwrap_or_default();
                let partitions: Vec<i32> = partitions.iter().copied().filter(|p| *p < count).collect();
                if !partitions.is_empty() {
                    fed.push(TopicPartition { topic: topic.to_owned(), partitions, ..TopicPartition::default() });
                }
            }
        }
        fed
    }
}
