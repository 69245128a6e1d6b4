//! What is odd about a description. Kafka accepts all of it (kip1331 §4.2), so nothing here refuses anything: findings are
//! kept beside the graph and shown with it.

use std::collections::HashMap;
use std::fmt::{self, Display};

use serde::Serialize;

use crate::graph::{Graph, Scope};
use crate::model::{Description, NodeRef};
use crate::text::Sanitized;

/// At most this many findings are listed; the rest is counted. A hostile description of 200,000 nodes has as many findings.
pub const MAX_LISTED: usize = 1000;
/// At most this many names of one loop are listed; the rest is counted.
pub const MAX_CYCLE_NAMES: usize = 20;

/// Everything odd about a description, in order: subtopologies, then global stores, then ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first [`MAX_LISTED`].
    pub listed: Vec<Finding>,
    /// How many more there are.
    pub omitted: usize,
}

/// The part of a description in which a finding lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// A subtopology.
    Subtopology {
        /// Its id as sent.
        id: String,
        /// Its position, from 0; ids may repeat.
        index: usize,
    },
    /// A global store.
    GlobalStore {
        /// Its position, from 0.
        index: usize,
    },
}

/// What a nameless thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// A subtopology's id.
    SubtopologyId,
    /// A node's name.
    Node,
    /// A topic that a source reads or a sink writes.
    Topic,
    /// A state store.
    Store,
}

/// One oddity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Finding {
    /// A successor that names no node of its part.
    DanglingSuccessor {
        /// Where.
        place: Place,
        /// The node that names it.
        node: String,
        /// The name that leads nowhere.
        successor: String,
    },
    /// Nodes that lead back to themselves.
    Cycle {
        /// Where.
        place: Place,
        /// The nodes of the loop, the first [`MAX_CYCLE_NAMES`] of them in order of appearance.
        nodes: Vec<String>,
        /// How many nodes the loop has.
        length: usize,
    },
    /// Nodes of one part that share a name.
    DuplicateNodeName {
        /// Where.
        place: Place,
        /// The name.
        node: String,
        /// How many nodes bear it.
        count: usize,
    },
    /// A node that no source leads to.
    UnreachableNode {
        /// Where.
        place: Place,
        /// The node.
        node: String,
    },
    /// A name that is empty.
    EmptyName {
        /// Where.
        place: Place,
        /// What it should name.
        of: Named,
        /// The node that it belongs to; empty for the subtopology's id and for the node itself.
        node: String,
    },
    /// Subtopologies that share an id.
    DuplicateSubtopologyId {
        /// The id.
        id: String,
        /// How many subtopologies bear it.
        count: usize,
    },
}

impl Finding {
    /// The word that JSON and metrics use.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::DanglingSuccessor { .. } => "dangling_successor",
            Self::Cycle { .. } => "cycle",
            Self::DuplicateNodeName { .. } => "duplicate_node_name",
            Self::UnreachableNode { .. } => "unreachable_node",
            Self::EmptyName { .. } => "empty_name",
            Self::DuplicateSubtopologyId { .. } => "duplicate_subtopology_id",
        }
    }
}

impl Findings {
    /// Examines `description`; linear in nodes and edges.
    pub fn of(description: &Description) -> Self {
        Self::of_graph(description, &Graph::of(description))
    }

    /// As [`Findings::of`], with the edges already resolved.
    pub fn of_graph(description: &Description, graph: &Graph<'_>) -> Self {
        let mut findings = Self::default();
        for (index, (subtopology, scope)) in description.subtopologies.iter().zip(&graph.subtopologies).enumerate() {
            let place = || Place::Subtopology { id: subtopology.id.clone(), index };
            if subtopology.id.is_empty() {
                findings.add(|| Finding::EmptyName { place: place(), of: Named::SubtopologyId, node: String::new() });
            }
            findings.examine(scope, &place);
        }
        for (index, scope) in graph.global_stores.iter().enumerate() {
            findings.examine(scope, &|| Place::GlobalStore { index });
        }
        let mut ids: HashMap<&str, usize> = HashMap::with_capacity(description.subtopologies.len());
        for subtopology in &description.subtopologies {
            *ids.entry(&subtopology.id).or_default() += 1;
        }
        for subtopology in &description.subtopologies {
            // taken out at its first occurrence, which fixes the order
            if let Some(count) = ids.remove(subtopology.id.as_str()).filter(|c| *c > 1) {
                findings.add(|| Finding::DuplicateSubtopologyId { id: subtopology.id.clone(), count });
            }
        }
        findings
    }

    /// How many there are, listed or not.
    pub fn count(&self) -> usize {
        self.listed.len() + self.omitted
    }

    /// Whether nothing is odd.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn add(&mut self, finding: impl FnOnce() -> Finding) {
        if self.listed.len() < MAX_LISTED {
            self.listed.push(finding());
        } else {
            self.omitted += 1;
        }
    }

    fn examine(&mut self, scope: &Scope<'_>, place: &dyn Fn() -> Place) {
        let reachable = scope.reachable();
        for (node, reached) in scope.nodes().iter().zip(reachable) {
            self.examine_node(*node, scope, place);
            if !reached {
                self.add(|| Finding::UnreachableNode { place: place(), node: node.name().to_owned() });
            }
        }
        for (name, count) in scope.occurrences().filter(|(_, count)| *count > 1) {
            self.add(|| Finding::DuplicateNodeName { place: place(), node: name.to_owned(), count });
        }
        for cycle in scope.cycles() {
            let nodes = || cycle.iter().take(MAX_CYCLE_NAMES).map(|n| (*n).to_owned()).collect();
            self.add(|| Finding::Cycle { place: place(), nodes: nodes(), length: cycle.len() });
        }
    }

    fn examine_node(&mut self, node: NodeRef<'_>, scope: &Scope<'_>, place: &dyn Fn() -> Place) {
        let name = node.name();
        let empty = |of| move || Finding::EmptyName { place: place(), of, node: name.to_owned() };
        if name.is_empty() {
            self.add(empty(Named::Node));
        }
        // sets hold the empty name once at most
        if node.topics().iter().any(String::is_empty) {
            self.add(empty(Named::Topic));
        }
        if node.stores().iter().any(String::is_empty) {
            self.add(empty(Named::Store));
        }
        for successor in node.successors().iter().filter(|s| !scope.contains(s)) {
            self.add(|| Finding::DanglingSuccessor {
                place: place(),
                node: name.to_owned(),
                successor: successor.clone(),
            });
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subtopology { id, .. } if !id.is_empty() => {
                write!(f, "subtopology {}", Sanitized(id))
            }
            Self::Subtopology { index, .. } => write!(f, "subtopology at position {index}"),
            Self::GlobalStore { index } => write!(f, "global store at position {index}"),
        }
    }
}

/// One sentence for people, safe for a terminal.
impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DanglingSuccessor { place, node, successor } => {
                write!(
                    f,
                    "{place}: node '{}' leads to '{}', which does not exist",
                    Sanitized(node),
                    Sanitized(successor)
                )
            }
            Self::Cycle { place, nodes, length } => {
                write!(f, "{place}: {length} node(s) form a loop:")?;
                for (i, node) in nodes.iter().enumerate() {
                    write!(f, "{} '{}'", if i == 0 { "" } else { "," }, Sanitized(node))?;
                }
                if nodes.len() < *length { f.write_str(", …") } else { Ok(()) }
            }
            Self::DuplicateNodeName { place, node, count } => {
                write!(f, "{place}: {count} nodes are named '{}'", Sanitized(node))
            }
            Self::UnreachableNode { place, node } => {
                write!(f, "{place}: no source leads to node '{}'", Sanitized(node))
            }
            Self::EmptyName { place, of, node } => match of {
                Named::SubtopologyId => write!(f, "{place}: the id is empty"),
                Named::Node => write!(f, "{place}: a node's name is empty"),
                Named::Topic => write!(f, "{place}: node '{}' has a topic without a name", Sanitized(node)),
                Named::Store => write!(f, "{place}: node '{}' has a store without a name", Sanitized(node)),
            },
            Self::DuplicateSubtopologyId { id, count } => {
                write!(f, "{count} subtopologies have the id '{}'", Sanitized(id))
            }
        }
    }
}
