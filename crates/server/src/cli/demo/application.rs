//! The applications that the demonstration plays: real topologies, with the assignment topology that their members
//! would send.

use std::collections::{BTreeMap, BTreeSet};

use streamside_topology::{Description, JsonError, Node};
use streamside_wire::messages::streams_group_heartbeat::{Subtopology, TopicInfo, Topology};

/// Group, number of members, description.
const APPLICATIONS: [(&str, usize, &str); 4] = [
    ("word-count", 2, include_str!("word-count.json")),
    ("orders", 1, include_str!("orders.json")),
    ("game-leaderboard", 3, include_str!("game-leaderboard.json")),
    ("retail-items", 1, include_str!("retail-items.json")),
];

/// Partitions of every topic of the demonstration.
const PARTITIONS: i32 = 4;

/// One application.
#[derive(Clone, Debug)]
pub struct Application {
    /// Its id, which is its group.
    pub id: &'static str,
    /// How many members it runs.
    pub members: usize,
    /// What its members push.
    pub description: Description,
    /// What its members join with.
    pub topology: Topology,
}

/// All of them.
pub fn all() -> Result<Vec<Application>, JsonError> {
    APPLICATIONS
        .into_iter()
        .map(|(id, members, text)| {
            let mut description = Description::from_json(text)?;
            let topology = assignment_topology(id, &description);
            own_internal_topics(id, &mut description);
            Ok(Application { id, members, description, topology })
        })
        .collect()
}

/// The topics that a broker would have for them, internal ones included, as `streamside.topics`.
pub fn topics(applications: &[Application]) -> String {
    let mut topics = BTreeSet::new();
    for subtopology in applications.iter().flat_map(|application| &application.topology.subtopologies) {
        topics.extend(subtopology.source_topics.iter().map(String::as_str));
        let internal = subtopology.repartition_source_topics.iter().chain(&subtopology.state_changelog_topics);
        topics.extend(internal.map(|topic| topic.name.as_str()));
    }
    topics.iter().map(|topic| format!("{topic}:{PARTITIONS}")).collect::<Vec<_>>().join(",")
}

fn internal(topic: &str) -> bool {
    topic.ends_with("-repartition")
}

/// In what is pushed, internal topics carry the application's id too (kip1331 §12.2).
fn own_internal_topics(id: &str, description: &mut Description) {
    let own = |topic: &String| if internal(topic) { format!("{id}-{topic}") } else { topic.clone() };
    for node in description.subtopologies.iter_mut().flat_map(|subtopology| &mut subtopology.nodes) {
        match node {
            Node::Source(source) => source.topics = source.topics.iter().map(own).collect(),
            Node::Sink(sink) => sink.topic = sink.topic.as_ref().map(own),
            Node::Processor(_) => {}
        }
    }
}

/// What Kafka Streams would send beside this description: internal topics carry the application's id.
fn assignment_topology(id: &str, description: &Description) -> Topology {
    let subtopologies = description.subtopologies.iter().map(|subtopology| {
        let (mut sources, mut repartition, mut sinks) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        let mut changelogs = BTreeMap::new();
        let info = |name: String, partitions| (name.clone(), TopicInfo { name, partitions, ..TopicInfo::default() });
        for node in subtopology.nodes.iter().map(|node| node.view()) {
            for topic in node.topics() {
                let written = matches!(node, streamside_topology::NodeRef::Sink(_));
                match (written, internal(topic)) {
                    (false, false) => drop(sources.insert(topic.clone())),
                    (false, true) => repartition.extend([info(format!("{id}-{topic}"), PARTITIONS)]),
                    (true, true) => drop(sinks.insert(format!("{id}-{topic}"))),
                    (true, false) => {}
                }
            }
            // The number of a changelog's partitions is that of its tasks.
            changelogs.extend(node.stores().iter().map(|store| info(format!("{id}-{store}-changelog"), 0)));
        }
        Subtopology {
            subtopology_id: subtopology.id.clone(),
            source_topics: sources.into_iter().collect(),
            state_changelog_topics: changelogs.into_values().collect(),
            repartition_sink_topics: sinks.into_iter().collect(),
            repartition_source_topics: repartition.into_values().collect(),
            ..Subtopology::default()
        }
    });
    Topology { epoch: 0, subtopologies: subtopologies.collect(), ..Topology::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_count_joins_with_the_topics_of_its_description() {
        let all = all().unwrap();
        let word_count = all.iter().find(|application| application.id == "word-count").unwrap();
        let [read, count] = &word_count.topology.subtopologies[..] else { panic!("two subtopologies") };
        assert_eq!(read.source_topics, ["streams-plaintext-input"]);
        assert_eq!(read.repartition_sink_topics, ["word-count-counts-store-repartition"]);
        assert_eq!(count.repartition_source_topics[0].name, "word-count-counts-store-repartition");
        assert_eq!(count.state_changelog_topics[0].name, "word-count-counts-store-changelog");
        assert!(word_count.description.topics().contains("word-count-counts-store-repartition"));
        assert!(topics(&all).contains("streams-plaintext-input:4,"));
    }
}
