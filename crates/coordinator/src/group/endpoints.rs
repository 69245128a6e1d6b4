//! Who answers interactive queries for which partitions (spec kip1071 §8).

use std::collections::BTreeMap;

use streamside_wire::messages::streams_group_heartbeat::{
    Endpoint, EndpointToPartitions, StreamsGroupHeartbeatResponse, TopicPartition,
};

use super::Changes;
use super::change::GroupChange;
use super::metadata::{MemberMetadata, UserEndpoint};
use super::state::Group;
use super::tasks::{CurrentAssignment, TaskSet, without_epochs};
use super::topics::Configured;
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
    pub(super) fn fill(
        &self,
        known: i32,
        moved: bool,
        response: &mut StreamsGroupHeartbeatResponse<'_>,
        changes: &mut Changes,
    ) {
        let stored = self.group.endpoint_epoch;
        let epoch = if moved { stored.wrapping_add(1) } else { stored };
        // As recorded of Kafka: the heartbeat that makes a group lists its endpoints but does not keep the new epoch.
        let kept = if self.created { stored } else { epoch };
        if kept != stored {
            changes.push(GroupChange::EndpointEpoch { group: self.group.id.clone(), epoch: kept });
        }
        response.endpoint_information_epoch = kept;
        if epoch != known {
            response.partitions_by_user_endpoint = Some(self.entries());
        }
    }

    fn entries(&self) -> Vec<EndpointToPartitions> {
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
            .filter_map(|(_, metadata, current)| Some(self.entry(metadata.user_endpoint.as_ref()?, current)))
            .collect()
    }

    fn entry(&self, endpoint: &UserEndpoint, current: &CurrentAssignment) -> EndpointToPartitions {
        let assigned = &current.assigned;
        let mut standby = assigned.standby.clone();
        for (id, partitions) in &assigned.warmup {
            standby.entry(id.clone()).or_default().extend(partitions);
        }
        EndpointToPartitions {
            user_endpoint: Endpoint { host: endpoint.host.clone(), port: endpoint.port, ..Endpoint::default() },
            active_partitions: self.partitions(&without_epochs(&assigned.active)),
            standby_partitions: self.partitions(&standby),
            ..EndpointToPartitions::default()
        }
    }

    /// Partitions of the topics that feed these tasks. While it is not known which topics do, none.
    fn partitions(&self, tasks: &TaskSet) -> Vec<TopicPartition> {
        let Some(subtopologies) = &self.configured.subtopologies else { return Vec::new() };
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (id, partitions) in tasks {
            let Some(subtopology) = subtopologies.get(id) else { continue };
            for (topic, count) in &subtopology.sources {
                let there: Vec<i32> = partitions.iter().copied().filter(|p| p < count).collect();
                if !there.is_empty() {
                    topics.insert(topic, there);
                }
            }
        }
        topics
            .into_iter()
            .map(|(topic, partitions)| TopicPartition {
                topic: topic.to_owned(),
                partitions,
                ..TopicPartition::default()
            })
            .collect()
    }
}
