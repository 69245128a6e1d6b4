//! Which topics a topology needs, and whether the known ones fit (spec kip1071 §4).

use std::collections::{BTreeMap, BTreeSet};

use super::hash_order::ordered;
use super::refusal::Refusal;
use super::stored_topology::{InternalTopic, StoredSubtopology, StoredTopology};
use super::tasks::SubtopologyId;
use crate::config::Compat;

/// Status codes of the answer.
pub(super) const MISSING_SOURCE_TOPICS: i8 = 1;
pub(super) const INCORRECTLY_PARTITIONED_TOPICS: i8 = 2;
pub(super) const MISSING_INTERNAL_TOPICS: i8 = 3;

/// How many names a status text spells out.
const NAMES_IN_TEXT: usize = 3;

/// Tasks of one group. A topology of a few megabytes can ask for billions; computing who has which takes time and
/// memory for each.
pub const MAX_TASKS: u64 = 200_000;

/// What the known topics make of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// Hash of the needed topics that exist (spec kip1071 §4.1).
    pub hash: i64,
    /// Why the group is not ready; `None`: it is.
    pub trouble: Option<Trouble>,
    /// By subtopology; absent while a source topic is missing or topics do not fit.
    pub subtopologies: Option<BTreeMap<SubtopologyId, ConfiguredSubtopology>>,
}

/// A status of the answer that says why a group is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Status code: 1, 2 or 3.
    pub code: i8,
    /// Status text.
    pub detail: String,
}

/// A subtopology with its partition counts decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredSubtopology {
    /// How many tasks it has.
    pub tasks: i32,
    /// Source and repartition source topics with their partition counts.
    pub sources: Vec<(String, i32)>,
    /// Repartition source topics with decided counts.
    pub repartition_source_topics: Vec<InternalTopic>,
    /// Changelog topics with decided counts.
    pub state_changelog_topics: Vec<InternalTopic>,
    /// Whether it has state.
    pub stateful: bool,
}

/// Why a topology cannot be configured.
enum Stop {
    /// The group is not ready, the heartbeat goes on.
    Trouble(Trouble),
    /// The heartbeat fails.
    Refused(Refusal),
}

fn incorrect(detail: String) -> Stop {
    Stop::Trouble(Trouble { code: INCORRECTLY_PARTITIONED_TOPICS, detail })
}

/// Looks at a topology with the known topics and their partition counts.
///
/// # Errors
/// A topology that no topics could make right (130).
pub fn configure(
    topology: &StoredTopology,
    topics: &BTreeMap<String, i32>,
    compat: Compat,
) -> Result<Configured, Refusal> {
    if let Some(s) = topology.subtopologies.iter().find(|s| !s.copartition_indexes_fit()) {
        return Err(match compat {
            Compat::Kafka => Refusal::Unexpected,
            Compat::Streamside => Refusal::CopartitionIndex(s.id.as_ref().to_owned()),
        });
    }
    let hash = hash(topology, topics);
    let missing: BTreeSet<&str> = topology
        .subtopologies
        .iter()
        .flat_map(|s| &s.source_topics)
        .map(String::as_str)
        .filter(|name| !topics.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        let detail = format!("Source topics {} are missing.", names(&Vec::from_iter(missing)));
        let trouble = Some(Trouble { code: MISSING_SOURCE_TOPICS, detail });
        return Ok(Configured { hash, trouble, subtopologies: None });
    }
    let mut decider = Decider::new(topology, topics, compat);
    match decider.decide() {
        Ok((subtopologies, trouble)) => Ok(Configured { hash, trouble, subtopologies: Some(subtopologies) }),
        Err(Stop::Trouble(trouble)) => Ok(Configured { hash, trouble: Some(trouble), subtopologies: None }),
        Err(Stop::Refused(refusal)) => Err(refusal),
    }
}

/// Up to three names, and how many more.
fn names(names: &[&str]) -> String {
    let shown = names.get(..NAMES_IN_TEXT).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMES_IN_TEXT) {
        0 => shown,
        more => format!("{shown} and {more} additional topics"),
    }
}

/// FNV-1a over names and counts of the existing topics that the topology needs; 0 without any. Kafka uses another hash
/// and counts racks too (spec kip1071 §14 D5); nobody else reads ours.
fn hash(topology: &StoredTopology, topics: &BTreeMap<String, i32>) -> i64 {
    let needed: BTreeSet<&str> = topology
        .subtopologies
        .iter()
        .flat_map(|s| s.all_source_topics().chain(s.state_changelog_topics.iter().map(|t| t.name.as_str())))
        .collect();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut any = false;
    for name in needed {
        let Some(count) = topics.get(name) else { continue };
        any = true;
        // No topic name contains a zero byte.
        for byte in name.bytes().chain([0]).chain(count.to_be_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    if any { hash.cast_signed() } else { 0 }
}

type Subtopologies = BTreeMap<SubtopologyId, ConfiguredSubtopology>;

/// Decides partition counts, in three passes (spec kip1071 §4.4).
struct Decider<'a> {
    /// In the order in which they are looked at.
    subtopologies: Vec<&'a StoredSubtopology>,
    topics: &'a BTreeMap<String, i32>,
    compat: Compat,
    /// Counts that clients prescribe for repartition topics.
    fixed: BTreeMap<&'a str, i32>,
    /// The one count of all of these, once it was asked for.
    shared_by_all_fixed: Option<Option<i32>>,
    /// Counts decided for internal topics.
    decided: BTreeMap<&'a str, i32>,
}

impl<'a> Decider<'a> {
    fn new(topology: &'a StoredTopology, topics: &'a BTreeMap<String, i32>, compat: Compat) -> Self {
        let by_id: BTreeMap<&str, &StoredSubtopology> =
            topology.subtopologies.iter().map(|s| (s.id.as_ref(), s)).collect();
        let ids = ordered(compat, topology.subtopologies.iter().map(|s| s.id.as_ref()));
        let subtopologies: Vec<_> = ids.into_iter().filter_map(|id| by_id.get(id).copied()).collect();
        let fixed: BTreeMap<&str, i32> = subtopologies
            .iter()
            .flat_map(|s| &s.repartition_source_topics)
            .filter(|t| t.partitions != 0)
            .map(|t| (t.name.as_str(), t.partitions))
            .collect();
        Self { subtopologies, topics, compat, decided: fixed.clone(), fixed, shared_by_all_fixed: None }
    }

    /// An existing topic's real count wins over a decided one.
    fn count(&self, topic: &str) -> Option<i32> {
        self.topics.get(topic).or_else(|| self.decided.get(topic)).copied()
    }

    fn decide(&mut self) -> Result<(Subtopologies, Option<Trouble>), Stop> {
        self.repartition()?;
        self.copartition()?;
        self.changelogs()?;
        self.conclude()
    }

    /// Pass a: a repartition topic has as many partitions as the largest input of the subtopology that writes it.
    ///
    /// Kafka goes over all subtopologies in turn, again and again, until nothing is undecided; what a sink gets depends
    /// on which inputs are known when its turn comes. The same turns are taken here, but only by those for whom a turn
    /// changes something: a chain in the wrong order would cost the square of its length otherwise.
    fn repartition(&mut self) -> Result<(), Stop> {
        let all: Vec<&'a StoredSubtopology> = self.subtopologies.clone();
        let mut open: BTreeSet<&'a str> =
            all.iter().flat_map(|s| &s.repartition_sink_topics).map(String::as_str).collect();
        open.retain(|sink| !self.decided.contains_key(sink));
        let mut readers: BTreeMap<&'a str, Vec<usize>> = BTreeMap::new();
        for (place, s) in all.iter().enumerate() {
            for topic in s.repartition_source_topics.iter().filter(|t| open.contains(t.name.as_str())) {
                readers.entry(&topic.name).or_default().push(place);
            }
        }
        // Places whose turn comes in this round, and in the next one. Each decides all its sinks at once.
        let (mut now, mut next): (BTreeSet<usize>, BTreeSet<usize>) = ((0..all.len()).collect(), BTreeSet::new());
        let mut done = vec![false; all.len()];
        while !open.is_empty() {
            let Some(place) = now.pop_first() else {
                if next.is_empty() {
                    return Err(Stop::Refused(Refusal::RepartitionLoop));
                }
                std::mem::swap(&mut now, &mut next);
                continue;
            };
            let (Some(s), Some(done)) = (all.get(place), done.get_mut(place).filter(|done| !**done)) else { continue };
            let repartition = s.repartition_source_topics.iter();
            let known = repartition
                .filter_map(|t| self.decided.get(t.name.as_str()).copied())
                .chain(s.source_topics.iter().filter_map(|t| self.topics.get(t).copied()))
                .max();
            let Some(count) = known else { continue };
            *done = true;
            for sink in s.repartition_sink_topics.iter().map(String::as_str).filter(|sink| open.remove(sink)) {
                self.decided.insert(sink, count);
                for reader in readers.get(sink).into_iter().flatten() {
                    let turn = if *reader > place { &mut now } else { &mut next };
                    turn.insert(*reader);
                }
            }
        }
        let sources = self.subtopologies.iter().flat_map(|s| &s.repartition_source_topics);
        if sources.into_iter().any(|t| !self.decided.contains_key(t.name.as_str())) {
            return Err(Stop::Refused(Refusal::RepartitionNeverSink));
        }
        Ok(())
    }

    /// Pass b: topics of one co-partition group have equally many partitions.
    fn copartition(&mut self) -> Result<(), Stop> {
        let repartition: BTreeSet<&'a str> =
            self.subtopologies.iter().flat_map(|s| &s.repartition_source_topics).map(|t| t.name.as_str()).collect();
        for s in self.subtopologies.clone() {
            for group in &s.copartition_groups {
                let all: BTreeSet<&'a str> = s.copartition_names(group).collect();
                let inner: BTreeSet<&'a str> = all.intersection(&repartition).copied().collect();
                let outer: BTreeSet<&'a str> = all.difference(&repartition).copied().collect();
                self.copartition_group(&outer, &inner)?;
            }
        }
        Ok(())
    }

    fn copartition_group(&mut self, outer: &BTreeSet<&'a str>, inner: &BTreeSet<&'a str>) -> Result<(), Stop> {
        if !outer.is_empty() {
            let Some(count) = self.shared(outer)? else { return Ok(()) };
            for topic in ordered(self.compat, inner.iter().copied()) {
                let fixed = self.fixed.get(topic).and_then(|_| self.count(topic));
                match fixed {
                    Some(fixed) if fixed != count => {
                        return Err(incorrect(format!(
                            "Number of partitions [{fixed}] of repartition topic [{topic}] doesn't match number of \
                             partitions [{count}] of the source topic."
                        )));
                    }
                    _ => self.decided.insert(topic, count),
                };
            }
            return Ok(());
        }
        if inner.is_empty() {
            return Ok(());
        }
        // Kafka asks all fixed topics of the whole topology to agree; only those of the group need to (D6).
        let fixed = match self.compat {
            Compat::Kafka => match self.shared_by_all_fixed {
                Some(count) => count,
                None => {
                    let all: BTreeSet<&'a str> = self.fixed.keys().copied().collect();
                    *self.shared_by_all_fixed.insert(self.shared_fixed(&all, inner)?)
                }
            },
            Compat::Streamside => {
                let all = inner.iter().copied().filter(|t| self.fixed.contains_key(t)).collect();
                self.shared_fixed(&all, inner)?
            }
        };
        let decided = || inner.iter().filter_map(|t| self.count(t)).max();
        let count = fixed.or_else(decided).unwrap_or(0);
        if count == 0 {
            let topics: Vec<&str> = inner.iter().copied().collect();
            return Err(Stop::Refused(Refusal::CopartitionUnknown(topics.join(", "))));
        }
        for topic in inner {
            self.decided.insert(topic, count);
        }
        Ok(())
    }

    /// The one partition count of these topics.
    fn shared(&self, topics: &BTreeSet<&str>) -> Result<Option<i32>, Stop> {
        let counts = self.counts(topics);
        let distinct: BTreeSet<i32> = counts.values().copied().collect();
        if distinct.len() > 1 { Err(different(&counts)) } else { Ok(distinct.first().copied()) }
    }

    /// The one count that fixed topics have; `None`: there are none. The text names the topics of the group.
    fn shared_fixed(&self, fixed: &BTreeSet<&'a str>, group: &BTreeSet<&'a str>) -> Result<Option<i32>, Stop> {
        let counts: BTreeSet<i32> = fixed.iter().filter_map(|t| self.count(t)).collect();
        if counts.len() > 1 { Err(different(&self.counts(group))) } else { Ok(counts.first().copied()) }
    }

    fn counts<'t>(&self, topics: &BTreeSet<&'t str>) -> BTreeMap<&'t str, i32> {
        topics.iter().filter_map(|t| Some((*t, self.count(t)?))).collect()
    }

    /// Pass c: a changelog has one partition a task.
    fn changelogs(&mut self) -> Result<(), Stop> {
        for s in self.subtopologies.clone() {
            let tasks = self
                .largest_source(s)
                .ok_or_else(|| Stop::Refused(Refusal::NoSourceTopics(s.id.as_ref().to_owned())))?;
            for topic in &s.state_changelog_topics {
                self.decided.insert(&topic.name, tasks);
            }
        }
        Ok(())
    }

    fn largest_source(&self, s: &StoredSubtopology) -> Option<i32> {
        s.all_source_topics().filter_map(|t| self.count(t)).max()
    }

    /// Steps 3 to 5 of spec kip1071 §4.3.
    fn conclude(&self) -> Result<(Subtopologies, Option<Trouble>), Stop> {
        let mut configured = Subtopologies::new();
        let mut all_tasks = 0_u64;
        let mut expected: BTreeMap<&str, i32> = BTreeMap::new();
        let mut internal: Vec<&str> = Vec::new();
        for s in &self.subtopologies {
            if self.compat == Compat::Kafka {
                check_internal_topics(s)?;
            }
            let tasks = self.largest_source(s).unwrap_or_default();
            all_tasks += u64::try_from(tasks).unwrap_or(0);
            configured.insert(s.id.clone(), self.configured(s, tasks));
            for topic in s.repartition_source_topics.iter().chain(&s.state_changelog_topics) {
                internal.push(&topic.name);
                // Where several subtopologies read a topic, the last one's count is expected.
                let decided = self.decided.get(topic.name.as_str()).copied().unwrap_or_default();
                expected.insert(&topic.name, if topic.partitions == 0 { decided } else { topic.partitions });
            }
        }
        let mut missing: Vec<&str> = Vec::new();
        for topic in ordered(self.compat, internal) {
            let expected = expected.get(topic).copied().unwrap_or_default();
            match self.topics.get(topic) {
                None => missing.push(topic),
                Some(found) if *found != expected => {
                    return Err(incorrect(format!(
                        "Existing topic {topic} has different number of partitions: expected {expected}, found {found}"
                    )));
                }
                Some(_) => {}
            }
        }
        if missing.is_empty() && all_tasks > MAX_TASKS {
            return Err(Stop::Refused(Refusal::TooManyTasks(all_tasks)));
        }
        let trouble = (!missing.is_empty()).then(|| Trouble {
            code: MISSING_INTERNAL_TOPICS,
            detail: format!("Internal topics are missing: {}", names(&missing)),
        });
        Ok((configured, trouble))
    }

    /// Kafka keeps them in a hash table from here on.
    fn configs(&self, topic: &InternalTopic) -> Vec<(String, String)> {
        if self.compat == Compat::Streamside {
            return topic.configs.clone();
        }
        let by_key: BTreeMap<&str, &String> = topic.configs.iter().map(|(key, value)| (key.as_str(), value)).collect();
        ordered(self.compat, topic.configs.iter().map(|(key, _)| key.as_str()))
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), (*by_key.get(key)?).clone())))
            .collect()
    }

    fn configured(&self, s: &StoredSubtopology, tasks: i32) -> ConfiguredSubtopology {
        let decided = |topics: &[InternalTopic]| {
            topics
                .iter()
                .map(|t| InternalTopic {
                    partitions: self.count(&t.name).unwrap_or(tasks),
                    configs: self.configs(t),
                    ..t.clone()
                })
                .collect()
        };
        ConfiguredSubtopology {
            tasks,
            sources: s.all_source_topics().filter_map(|t| Some((t.to_owned(), self.count(t)?))).collect(),
            repartition_source_topics: decided(&s.repartition_source_topics),
            state_changelog_topics: decided(&s.state_changelog_topics),
            stateful: s.is_stateful(),
        }
    }
}

/// Kafka fails on these without a word; ours are refused in words when a member joins with them (D1).
fn check_internal_topics(s: &StoredSubtopology) -> Result<(), Stop> {
    let doubles = |topics: &[InternalTopic]| {
        let names: BTreeSet<&str> = topics.iter().map(|t| t.name.as_str()).collect();
        let keys = |t: &InternalTopic| t.configs.iter().map(|(key, _)| key.as_str()).collect::<BTreeSet<_>>().len();
        names.len() < topics.len() || topics.iter().any(|t| keys(t) < t.configs.len())
    };
    let negative = s.repartition_source_topics.iter().any(|t| t.partitions < 0);
    if negative || doubles(&s.repartition_source_topics) || doubles(&s.state_changelog_topics) {
        return Err(Stop::Refused(Refusal::Unexpected));
    }
    Ok(())
}

fn different(counts: &BTreeMap<&str, i32>) -> Stop {
    let listed: Vec<String> = counts.iter().map(|(topic, count)| format!("{topic}={count}")).collect();
    incorrect(format!("Following topics do not have the same number of partitions: [{{{}}}]", listed.join(", ")))
}
