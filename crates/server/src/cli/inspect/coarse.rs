//! What a group's heartbeats tell of its topology: all that there is to show while nobody has described it.

use serde::Serialize;
use streamside_topology::text::sanitize;
use streamside_wire::messages::streams_group_describe::{Subtopology, Topology};

/// The topics of the subtopologies; nodes, stores and how they hang together are not known.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Coarse {
    epoch: i32,
    subtopologies: Vec<Part>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    id: String,
    source_topics: Vec<String>,
    repartition_source_topics: Vec<String>,
    repartition_sink_topics: Vec<String>,
    changelog_topics: Vec<String>,
}

impl Coarse {
    /// `None` for a group that has told nothing.
    pub(super) fn of(topology: Option<&Topology>) -> Option<Self> {
        let topology = topology?;
        let parts = topology.subtopologies.as_ref()?;
        (!parts.is_empty()).then(|| Self { epoch: topology.epoch, subtopologies: parts.iter().map(Part::of).collect() })
    }

    /// Lines for people, marked as what they are; names are made harmless.
    pub(super) fn text(&self, group: &str) -> String {
        let shown = |text: &str| sanitize(text).into_owned();
        let mut lines = vec![format!("Coarse topology of '{}', from the heartbeats of its members:", shown(group))];
        for part in &self.subtopologies {
            lines.push(format!("  Sub-topology: {}", shown(&part.id)));
            for (what, topics) in [
                ("sources", &part.source_topics),
                ("repartition sources", &part.repartition_source_topics),
                ("repartition sinks", &part.repartition_sink_topics),
                ("changelogs", &part.changelog_topics),
            ] {
                if !topics.is_empty() {
                    let topics: Vec<String> = topics.iter().map(|topic| shown(topic)).collect();
                    lines.push(format!("    {what}: {}", topics.join(", ")));
                }
            }
        }
        lines.join("\n") + "\n"
    }
}

impl Part {
    fn of(part: &Subtopology) -> Self {
        Self {
            id: part.subtopology_id.clone(),
            source_topics: part.source_topics.clone(),
            repartition_source_topics: part.repartition_source_topics.iter().map(|topic| topic.name.clone()).collect(),
            repartition_sink_topics: part.repartition_sink_topics.clone(),
            changelog_topics: part.state_changelog_topics.iter().map(|topic| topic.name.clone()).collect(),
        }
    }
}
