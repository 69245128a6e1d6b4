//! Which topics a topology needs, and whether the known ones fit (spec kip1071 §4).

use std::collections::{BTreeMap, BTreeSet};

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
    let hash = hash(topology, topics);
    let missing: BTreeSet<&str> = topology
        .subtopologies
        .iter()
        .flat_map(|s| &s.source_topics)
        .map(String::as_str)
        .filter(|name| !topics.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        let detail = format!("Source topics {} are missing.", names(&missing));
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
fn names(names: &BTreeSet<&str>) -> String {
    let shown: Vec<&str> = names.iter().copied().take(NAMES_IN_TEXT).collect();
    let shown = shown.join(", ");
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
    /// By id.
    subtopologies: BTreeMap<&'a str, &'a StoredSubtopology>,
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
        let subtopologies: BTreeMap<_, _> = topology.subtopologies.iter().map(|s| (s.id.as_ref(), s)).collect();
        let fixed: BTreeMap<_, _> = topology
            .subtopologies
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
        let all: Vec<&'a StoredSubtopology> = self.subtopologies.values().copied().collect();
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
        let sources = self.subtopologies.values().flat_map(|s| &s.repartition_source_topics);
        if sources.into_iter().any(|t| !self.decided.contains_key(t.name.as_str())) {
            return Err(Stop::Refused(Refusal::RepartitionNeverSink));
        }
        Ok(())
    }

    /// Pass b: topics of one co-partition group have equally many partitions.
    fn copartition(&mut self) -> Result<(), Stop> {
        let repartition: BTreeSet<&'a str> =
            self.subtopologies.values().flat_map(|s| &s.repartition_source_topics).map(|t| t.name.as_str()).collect();
        let subtopologies: Vec<&'a StoredSubtopology> = self.subtopologies.values().copied().collect();
        for s in subtopologies {
            if !s.copartition_indexes_fit() {
                return Err(Stop::Refused(match self.compat {
                    Compat::Kafka => Refusal::Unexpected,
                    Compat::Streamside => Refusal::CopartitionIndex(s.id.as_ref().to_owned()),
                }));
            }
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
            for topic in inner {
                match self.fixed.get(topic) {
                    Some(fixed) if *fixed != count => {
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
                None => *self.shared_by_all_fixed.insert(self.shared_fixed(self.fixed.keys())?),
            },
            Compat::Streamside => self.shared_fixed(inner)?,
        };
        let decided = || inner.iter().filter_map(|t| self.decided.get(t).copied()).max();
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
        one_count(topics.iter().filter_map(|t| Some((*t, self.count(t)?))).collect())
    }

    /// The one count that clients prescribe for these topics; `None`: for none of them.
    fn shared_fixed<'t>(&self, topics: impl IntoIterator<Item = &'t &'a str>) -> Result<Option<i32>, Stop>
    where
        'a: 't,
    {
        one_count(topics.into_iter().filter_map(|t| Some((*t, *self.fixed.get(t)?))).collect())
    }

    /// Pass c: a changelog has one partition a task.
    fn changelogs(&mut self) -> Result<(), Stop> {
        let subtopologies: Vec<&'a StoredSubtopology> = self.subtopologies.values().copied().collect();
        for s in subtopologies.into_iter().filter(|s| s.is_stateful()) {
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
        let mut missing: BTreeSet<&str> = BTreeSet::new();
        let mut configured = Subtopologies::new();
        let mut all_tasks = 0_u64;
        for s in self.subtopologies.values() {
            let tasks = self.largest_source(s).ok_or_else(|| {
                Stop::Refused(match self.compat {
                    Compat::Kafka => Refusal::Unexpected,
                    Compat::Streamside => Refusal::NoSourceTopics(s.id.as_ref().to_owned()),
                })
            })?;
            for topic in s.repartition_source_topics.iter().chain(&s.state_changelog_topics) {
                let expected = self.decided.get(topic.name.as_str()).copied().unwrap_or(tasks);
                match self.topics.get(&topic.name) {
                    None => {
                        missing.insert(&topic.name);
                    }
                    Some(found) if *found != expected => {
                        return Err(incorrect(format!(
                            "Existing topic {} has different number of partitions: expected {expected}, found {found}",
                            topic.name
                        )));
                    }
                    Some(_) => {}
                }
            }
            all_tasks += u64::try_from(tasks).unwrap_or(0);
            configured.insert(s.id.clone(), self.configured(s, tasks));
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

    fn configured(&self, s: &StoredSubtopology, tasks: i32) -> ConfiguredSubtopology {
        let decided = |topics: &[InternalTopic]| {
            topics
                .iter()
                .map(|t| InternalTopic { partitions: self.count(&t.name).unwrap_or(tasks), ..t.clone() })
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

/// The count that all share; `None` of nothing.
fn one_count(counts: BTreeMap<&str, i32>) -> Result<Option<i32>, Stop> {
    let distinct: BTreeSet<i32> = counts.values().copied().collect();
    if distinct.len() <= 1 {
        return Ok(distinct.first().copied());
    }
    let listed: Vec<String> = counts.iter().map(|(topic, count)| format!("{topic}={count}")).collect();
    Err(incorrect(format!("Following topics do not have the same number of partitions: [{{{}}}]", listed.join(", "))))
}
