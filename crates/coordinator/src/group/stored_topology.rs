//! The topology that a group was joined with, as stored (kind 23).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use streamside_topology::Fingerprint;
use streamside_wire::messages::streams_group_heartbeat as wire;

use super::tasks::SubtopologyId;

/// An internal topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InternalTopic {
    /// Topic name.
    pub name: String,
    /// Partition count that the client asks for; 0: to be inferred.
    pub partitions: i32,
    /// Replication factor that the client asks for; 0 and -1: the broker's default.
    pub replication_factor: i16,
    /// Topic settings, in the client's order.
    pub configs: Vec<(String, String)>,
}

/// Topics of a subtopology that must have equally many partitions, as indexes into its lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Copartition {
    pub source_topics: Vec<i16>,
    pub source_topic_regex: Vec<i16>,
    pub repartition_source_topics: Vec<i16>,
}

/// A subtopology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct StoredSubtopology {
    pub id: SubtopologyId,
    pub source_topics: Vec<String>,
    pub source_topic_regex: Vec<String>,
    pub state_changelog_topics: Vec<InternalTopic>,
    pub repartition_sink_topics: Vec<String>,
    pub repartition_source_topics: Vec<InternalTopic>,
    pub copartition_groups: Vec<Copartition>,
}

/// The plain content, which is what the journal holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Body {
    epoch: i32,
    subtopologies: Vec<StoredSubtopology>,
}

/// A heartbeat's topology, kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Body", into = "Body")]
pub struct StoredTopology {
    /// E of the group.
    pub epoch: i32,
    /// In the client's order.
    pub subtopologies: Vec<StoredSubtopology>,
    /// Computed once, when the topology came.
    pub fingerprint: Fingerprint,
}

impl StoredTopology {
    /// Takes over a request's topology.
    #[must_use]
    pub fn from_wire(topology: &wire::Topology) -> Self {
        let subtopologies = topology.subtopologies.iter().map(subtopology_from_wire).collect();
        Self { epoch: topology.epoch, subtopologies, fingerprint: Fingerprint::of_heartbeat(topology) }
    }

    /// As a request would carry it.
    #[must_use]
    pub fn to_wire(&self) -> wire::Topology {
        wire::Topology {
            epoch: self.epoch,
            subtopologies: self.subtopologies.iter().map(subtopology_to_wire).collect(),
            ..wire::Topology::default()
        }
    }

    /// Equality as Kafka has it: list order inside a subtopology counts, the order of subtopologies does not
    /// (spec kip1071 §3.1).
    #[must_use]
    pub fn equals_in_order(&self, other: &Self) -> bool {
        fn by_id(topology: &StoredTopology) -> BTreeMap<&str, &StoredSubtopology> {
            topology.subtopologies.iter().map(|s| (s.id.as_ref(), s)).collect()
        }
        self.epoch == other.epoch && by_id(self) == by_id(other)
    }

    /// Equality in which no order counts (spec kip1071 §14 D4).
    #[must_use]
    pub fn equals_normalised(&self, other: &Self) -> bool {
        // The identity of the order-sensitive form is the common case and allocates least.
        self.epoch == other.epoch
            && (self.subtopologies == other.subtopologies || self.normalised() == other.normalised())
    }

    fn normalised(&self) -> BTreeMap<&str, Normalised<'_>> {
        self.subtopologies.iter().map(|s| (s.id.as_ref(), Normalised::of(s))).collect()
    }
}

impl From<Body> for StoredTopology {
    fn from(body: Body) -> Self {
        // The fingerprint is not stored: its rules may change between versions, the content does not.
        let mut topology = Self {
            epoch: body.epoch,
            subtopologies: body.subtopologies,
            fingerprint: Fingerprint::of_heartbeat(&wire::Topology::default()),
        };
        topology.fingerprint = Fingerprint::of_heartbeat(&topology.to_wire());
        topology
    }
}

impl From<StoredTopology> for Body {
    fn from(topology: StoredTopology) -> Self {
        Self { epoch: topology.epoch, subtopologies: topology.subtopologies }
    }
}

/// Name, partitions, replication factor, sorted settings of an internal topic.
type NormalTopic<'a> = (&'a str, i32, i16, Vec<(&'a str, &'a str)>);

/// A subtopology with every list sorted and co-partition groups by name.
#[derive(PartialEq, Eq)]
struct Normalised<'a> {
    source_topics: Vec<&'a str>,
    source_topic_regex: Vec<&'a str>,
    changelogs: Vec<NormalTopic<'a>>,
    sinks: Vec<&'a str>,
    repartition_sources: Vec<NormalTopic<'a>>,
    copartitions: Vec<Vec<&'a str>>,
}

impl<'a> Normalised<'a> {
    fn of(s: &'a StoredSubtopology) -> Self {
        let mut copartitions: Vec<Vec<&str>> = s
            .copartition_groups
            .iter()
            .map(|group| {
                let mut names: Vec<&str> = s
                    .copartition_names(group)
                    .chain(
                        group
                            .source_topic_regex
                            .iter()
                            .filter_map(|i| at(&s.source_topic_regex, *i))
                            .map(String::as_str),
                    )
                    .collect();
                names.sort_unstable();
                names.dedup();
                names
            })
            .collect();
        copartitions.sort_unstable();
        copartitions.dedup();
        Self {
            source_topics: sorted(&s.source_topics),
            source_topic_regex: sorted(&s.source_topic_regex),
            changelogs: sorted_topics(&s.state_changelog_topics),
            sinks: sorted(&s.repartition_sink_topics),
            repartition_sources: sorted_topics(&s.repartition_source_topics),
            copartitions,
        }
    }
}

fn sorted(names: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn sorted_topics(topics: &[InternalTopic]) -> Vec<NormalTopic<'_>> {
    let mut topics: Vec<_> = topics
        .iter()
        .map(|t| {
            let mut configs: Vec<_> = t.configs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            configs.sort_unstable();
            (t.name.as_str(), t.partitions, t.replication_factor, configs)
        })
        .collect();
    topics.sort_unstable();
    topics
}

fn at<T>(list: &[T], index: i16) -> Option<&T> {
    list.get(usize::try_from(index).ok()?)
}

impl StoredSubtopology {
    /// Names of the topics of one co-partition group; indexes out of range are left out.
    pub fn copartition_names<'a>(&'a self, group: &'a Copartition) -> impl Iterator<Item = &'a str> {
        let sources = group.source_topics.iter().filter_map(|i| at(&self.source_topics, *i)).map(String::as_str);
        let repartition = group
            .repartition_source_topics
            .iter()
            .filter_map(|i| at(&self.repartition_source_topics, *i))
            .map(|t| t.name.as_str());
        sources.chain(repartition)
    }

    /// Whether all indexes of its co-partition groups are in range; those of patterns are never looked at.
    #[must_use]
    pub fn copartition_indexes_fit(&self) -> bool {
        self.copartition_groups.iter().all(|g| {
            g.source_topics.iter().all(|i| at(&self.source_topics, *i).is_some())
                && g.repartition_source_topics.iter().all(|i| at(&self.repartition_source_topics, *i).is_some())
        })
    }

    /// Names of its source and repartition source topics, in order.
    pub fn all_source_topics(&self) -> impl Iterator<Item = &str> {
        self.source_topics
            .iter()
            .map(String::as_str)
            .chain(self.repartition_source_topics.iter().map(|t| t.name.as_str()))
    }

    /// Whether it has state: at least one changelog (spec kip1071 §5.4).
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        !self.state_changelog_topics.is_empty()
    }
}

fn subtopology_from_wire(s: &wire::Subtopology) -> StoredSubtopology {
    StoredSubtopology {
        id: Arc::from(s.subtopology_id.as_str()),
        source_topics: s.source_topics.clone(),
        source_topic_regex: s.source_topic_regex.clone(),
        state_changelog_topics: s.state_changelog_topics.iter().map(topic_from_wire).collect(),
        repartition_sink_topics: s.repartition_sink_topics.clone(),
        repartition_source_topics: s.repartition_source_topics.iter().map(topic_from_wire).collect(),
        copartition_groups: s
            .copartition_groups
            .iter()
            .map(|g| Copartition {
                source_topics: g.source_topics.clone(),
                source_topic_regex: g.source_topic_regex.clone(),
                repartition_source_topics: g.repartition_source_topics.clone(),
            })
            .collect(),
    }
}

fn subtopology_to_wire(s: &StoredSubtopology) -> wire::Subtopology {
    wire::Subtopology {
        subtopology_id: s.id.as_ref().to_owned(),
        source_topics: s.source_topics.clone(),
        source_topic_regex: s.source_topic_regex.clone(),
        state_changelog_topics: s.state_changelog_topics.iter().map(topic_to_wire).collect(),
        repartition_sink_topics: s.repartition_sink_topics.clone(),
        repartition_source_topics: s.repartition_source_topics.iter().map(topic_to_wire).collect(),
        copartition_groups: s
            .copartition_groups
            .iter()
            .map(|g| wire::CopartitionGroup {
                source_topics: g.source_topics.clone(),
                source_topic_regex: g.source_topic_regex.clone(),
                repartition_source_topics: g.repartition_source_topics.clone(),
                ..wire::CopartitionGroup::default()
            })
            .collect(),
        ..wire::Subtopology::default()
    }
}

fn topic_from_wire(t: &wire::TopicInfo) -> InternalTopic {
    InternalTopic {
        name: t.name.clone(),
        partitions: t.partitions,
        replication_factor: t.replication_factor,
        configs: t.topic_configs.iter().map(|c| (c.key.clone(), c.value.clone())).collect(),
    }
}

/// As both the heartbeat and the describe carry it.
pub(super) fn topic_to_wire(t: &InternalTopic) -> wire::TopicInfo {
    wire::TopicInfo {
        name: t.name.clone(),
        partitions: t.partitions,
        replication_factor: t.replication_factor,
        topic_configs: t
            .configs
            .iter()
            .map(|(key, value)| wire::KeyValue { key: key.clone(), value: value.clone(), ..wire::KeyValue::default() })
            .collect(),
        ..wire::TopicInfo::default()
    }
}
