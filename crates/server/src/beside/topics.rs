//! Topics that only a description names (H9): sinks, sources of global stores. Kafka checks the topics of the assignment
//! topology alone, so the caller's rights on these others are asked for on the caller's own connection.

use std::collections::{BTreeSet, HashSet};

use streamside_wire::Reader;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use streamside_wire::messages::streams_group_describe::{DescribedGroup, DescriptionField};
use streamside_wire::messages::topology_description::{Node, TopologyDescription};

use super::limits::TOPICS_PER_QUESTION;

/// What Kafka says of a group with a hidden topic (kip1331 §5.3).
const HIDDEN: &str = "The described group uses topics that the client is not authorized to describe.";

/// The topics that only descriptions name, entry by entry.
pub struct Named(Vec<Option<(TopologyDescription, BTreeSet<String>)>>);

impl Named {
    /// Of these entries. What cannot be decoded names nothing that could be shown.
    #[must_use]
    pub fn of(entries: &[DescribedGroup]) -> Self {
        let named = |entry| {
            let description = description_of(entry)?;
            let names = only_described(entry, &description);
            (!names.is_empty()).then_some((description, names))
        };
        Self(entries.iter().map(named).collect())
    }

    /// What to ask on the caller's connection; nothing when no description names a topic of its own. No topic comes to
    /// be because we ask.
    #[must_use]
    pub fn questions(&self) -> Vec<MetadataRequest> {
        let all: BTreeSet<&String> = self.0.iter().flatten().flat_map(|(_, names)| names).collect();
        let all: Vec<&String> = all.into_iter().collect();
        let question = |names: &[&String]| {
            let topic = |name: &&String| MetadataRequestTopic { name: Some((*name).clone()), ..Default::default() };
            let topics = names.iter().map(topic).collect();
            MetadataRequest { topics: Some(topics), allow_auto_topic_creation: false, ..MetadataRequest::default() }
        };
        all.chunks(TOPICS_PER_QUESTION).map(question).collect()
    }

    /// Applies the answers to the entries: those with a hidden topic are refused, or with `redact` their descriptions
    /// do without the names.
    pub fn hide(self, entries: &mut [DescribedGroup], hidden: &HashSet<String>, redact: bool) {
        for (entry, named) in entries.iter_mut().zip(self.0) {
            let Some((mut description, names)) = named else { continue };
            if !names.iter().any(|name| hidden.contains(name)) {
                continue;
            }
            if redact {
                left_out(&mut description, hidden);
                entry.topology_description = Some(DescriptionField::Decoded(description));
            } else {
                *entry = refused(entry);
            }
        }
    }
}

/// The topics that an answer hides. Only 29 does: a topic that is not there (3) or cannot be (17) is nobody's secret.
pub fn hidden_in(answer: MetadataResponse) -> impl Iterator<Item = String> {
    let hidden = answer.topics.into_iter().filter(|t| t.error_code == ErrorCode::TOPIC_AUTHORIZATION_FAILED.0);
    hidden.filter_map(|topic| topic.name)
}

fn description_of(entry: &DescribedGroup) -> Option<TopologyDescription> {
    match entry.topology_description.as_ref()? {
        DescriptionField::Decoded(description) => Some(description.clone()),
        DescriptionField::Encoded(bytes) => TopologyDescription::decode(&mut Reader::new(bytes)).ok(),
    }
}

/// The topics of a description that the broker did not check for this entry. Internal topics may be named without the
/// application's prefix, which is the group's id.
fn only_described(entry: &DescribedGroup, description: &TopologyDescription) -> BTreeSet<String> {
    let subtopologies = entry.topology.iter().flat_map(|topology| topology.subtopologies.iter().flatten());
    let checked: HashSet<&str> = subtopologies
        .flat_map(|s| {
            let internal = s.state_changelog_topics.iter().chain(&s.repartition_source_topics).map(|t| &t.name);
            s.source_topics.iter().chain(&s.repartition_sink_topics).chain(internal)
        })
        .map(String::as_str)
        .collect();
    let is_checked =
        |name: &str| checked.contains(name) || checked.contains(format!("{}-{name}", entry.group_id).as_str());
    let mut names = BTreeSet::new();
    for node in nodes(description) {
        let topics = node.source_topics.iter().chain(&node.sink_topic);
        names.extend(topics.filter(|name| !name.is_empty() && !is_checked(name)).cloned());
    }
    names
}

fn nodes(description: &TopologyDescription) -> impl Iterator<Item = &Node> {
    let stores = description.global_stores.iter().flat_map(|store| [&store.source, &store.processor]);
    description.subtopologies.iter().flat_map(|s| &s.nodes).chain(stores)
}

/// Kafka's entry for a group with hidden topics: nothing of the group but its id (kip1331 §5.3).
fn refused(entry: &mut DescribedGroup) -> DescribedGroup {
    DescribedGroup {
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
        error_message: Some(HIDDEN.to_owned()),
        group_id: std::mem::take(&mut entry.group_id),
        ..DescribedGroup::default()
    }
}

fn left_out(description: &mut TopologyDescription, hidden: &HashSet<String>) {
    let stores = description.global_stores.iter_mut().flat_map(|store| [&mut store.source, &mut store.processor]);
    for node in description.subtopologies.iter_mut().flat_map(|s| &mut s.nodes).chain(stores) {
        node.source_topics.retain(|name| !hidden.contains(name));
        node.sink_topic.take_if(|name| hidden.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use streamside_wire::messages::metadata::MetadataResponseTopic;
    use streamside_wire::messages::streams_group_describe::{Subtopology, TopicInfo, Topology};
    use streamside_wire::messages::topology_description::{GlobalStore, Subtopology as DescribedSubtopology};

    use super::*;

    fn source(topics: &[&str]) -> Node {
        Node { node_type: 1, source_topics: topics.iter().map(|t| (*t).to_owned()).collect(), ..Node::default() }
    }

    fn sink(topic: Option<&str>) -> Node {
        Node { node_type: 3, sink_topic: topic.map(str::to_owned), ..Node::default() }
    }

    /// Reads `in`, counts into `g-count-changelog`, repartitions, writes `out`, has a global store over `world`.
    fn entry() -> DescribedGroup {
        let description = TopologyDescription {
            subtopologies: vec![DescribedSubtopology {
                nodes: vec![
                    source(&["in", "g-by-key-repartition"]),
                    sink(Some("by-key-repartition")),
                    sink(Some("out")),
                    sink(None),
                    sink(Some("")),
                ],
                ..DescribedSubtopology::default()
            }],
            global_stores: vec![GlobalStore { source: source(&["world"]), ..GlobalStore::default() }],
            ..TopologyDescription::default()
        };
        DescribedGroup {
            group_id: "g".to_owned(),
            group_state: "Stable".to_owned(),
            group_epoch: 3,
            topology: Some(Topology {
                epoch: 0,
                subtopologies: Some(vec![Subtopology {
                    source_topics: vec!["in".to_owned()],
                    repartition_sink_topics: vec!["g-by-key-repartition".to_owned()],
                    state_changelog_topics: vec![TopicInfo {
                        name: "g-count-changelog".to_owned(),
                        ..TopicInfo::default()
                    }],
                    ..Subtopology::default()
                }]),
                ..Topology::default()
            }),
            topology_description: Some(DescriptionField::Encoded(description.to_bytes().unwrap())),
            topology_description_status: 3,
            assignor_name: Some("sticky".to_owned()),
            ..DescribedGroup::default()
        }
    }

    fn hidden(redact: bool, codes: &[(&str, i16)]) -> (DescribedGroup, Vec<String>) {
        let mut entries = [entry()];
        let named = Named::of(&entries);
        let questions = named.questions();
        assert!(questions.iter().all(|question| !question.allow_auto_topic_creation));
        let asked: Vec<String> =
            questions.into_iter().flat_map(|q| q.topics.unwrap()).map(|topic| topic.name.unwrap()).collect();
        let topics = codes.iter().map(|(name, code)| MetadataResponseTopic {
            error_code: *code,
            name: Some((*name).to_owned()),
            ..MetadataResponseTopic::default()
        });
        let answer = MetadataResponse { topics: topics.collect(), ..MetadataResponse::default() };
        named.hide(&mut entries, &hidden_in(answer).collect(), redact);
        let [entry] = entries;
        (entry, asked)
    }

    #[test]
    fn h9_topics_that_only_the_description_names_are_asked_for_and_no_others() {
        let (after, asked) = hidden(false, &[]);
        assert_eq!(asked, ["out", "world"]);
        assert_eq!(after, entry());
    }

    #[test]
    fn h9_only_29_hides() {
        let (after, _) = hidden(false, &[("out", 3), ("world", 17)]);
        assert_eq!(after, entry());
        let (after, _) = hidden(false, &[("world", 29)]);
        let kafka = DescribedGroup {
            error_code: 29,
            error_message: Some(HIDDEN.to_owned()),
            group_id: "g".to_owned(),
            ..DescribedGroup::default()
        };
        assert_eq!(after, kafka);
    }

    #[test]
    fn h9_redact_leaves_the_names_out_and_the_rest_in() {
        let (after, _) = hidden(true, &[("out", 29), ("world", 29)]);
        let Some(DescriptionField::Decoded(description)) = &after.topology_description else {
            panic!("a description");
        };
        let sinks: Vec<_> = nodes(description).filter(|n| n.node_type == 3).map(|n| n.sink_topic.as_deref()).collect();
        assert_eq!(sinks, [Some("by-key-repartition"), None, None, Some("")]);
        assert!(description.global_stores[0].source.source_topics.is_empty());
        assert_eq!(description.subtopologies[0].nodes[0].source_topics, ["in", "g-by-key-repartition"]);
        assert_eq!((after.error_code, after.topology_description_status), (0, 3));
        // Nothing hidden: the bytes go out as they are stored.
        assert_eq!(hidden(true, &[]).0, entry());
    }

    #[test]
    fn h9_without_a_description_nothing_is_asked() {
        let entries = [DescribedGroup { topology_description: None, ..entry() }];
        assert_eq!(Named::of(&entries).questions(), []);
    }

    #[test]
    fn h9_more_topics_than_a_question_holds_are_asked_in_turns() {
        for (topics, questions) in [(TOPICS_PER_QUESTION, 1), (TOPICS_PER_QUESTION + 1, 2)] {
            let description = TopologyDescription {
                subtopologies: vec![DescribedSubtopology {
                    nodes: (0..topics).map(|n| sink(Some(&format!("out-{n}")))).collect(),
                    ..DescribedSubtopology::default()
                }],
                ..TopologyDescription::default()
            };
            let described = Some(DescriptionField::Decoded(description));
            let asked = Named::of(&[DescribedGroup { topology_description: described, ..entry() }]).questions();
            assert_eq!(asked.len(), questions);
            assert_eq!(asked.iter().map(|q| q.topics.as_ref().unwrap().len()).sum::<usize>(), topics);
        }
    }
}
