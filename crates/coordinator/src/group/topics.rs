//! Which topics a topology needs, and whether the known ones fit (spec kip1071 §4).

use std::collections::BTreeMap;

use super::stored_topology::InternalTopic;
use super::tasks::SubtopologyId;

/// What the known topics make of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// Hash of the needed topics that exist (spec kip1071 §4.1).
    pub hash: i64,
    /// Why the group is not ready; `None`: it is.
    pub trouble: Option<Trouble>,
    /// By subtopology; absent while a source topic is missing.
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
