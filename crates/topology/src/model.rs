//! The description model of kip1331 §8.2: what a store is given and gives back. Predecessors are no part of it; see
//! [`crate::Graph`].

use std::collections::BTreeSet;

use crate::names::Names;

/// The whole topology of an application, in the order in which the client sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Description {
    /// Parts that have tasks.
    pub subtopologies: Vec<Subtopology>,
    /// Stores that every instance holds in full. Their ids are not on the wire.
    pub global_stores: Vec<GlobalStore>,
}

/// A connected part of a description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subtopology {
    /// Decimal in what Kafka's client sends, but any string is accepted.
    pub id: String,
    /// Nodes in received order; Kafka's client sorts them by name.
    pub nodes: Vec<Node>,
}

/// A node of a subtopology.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// Reads topics.
    Source(Source),
    /// Processes records.
    Processor(Processor),
    /// Writes a topic.
    Sink(Sink),
}

/// Reads topics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// Unique within its subtopology, unless the client errs.
    pub name: String,
    /// Empty for a source that subscribes by pattern: the pattern is not on the wire.
    pub topics: Names,
    /// Names of the nodes that take its records.
    pub successors: Names,
}

/// Processes records, maybe with state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Processor {
    /// Unique within its subtopology, unless the client errs.
    pub name: String,
    /// Names of the state stores that it may use.
    pub stores: Names,
    /// Names of the nodes that take its records.
    pub successors: Names,
}

/// Writes a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sink {
    /// Unique within its subtopology, unless the client errs.
    pub name: String,
    /// `None` when the topic is chosen for each record.
    pub topic: Option<String>,
    /// A sink has none, yet what a client sends is kept (kip1331 §4.2).
    pub successors: Names,
}

/// A global store: the source that feeds it and the processor that fills it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GlobalStore {
    /// Reads the store's topic.
    pub source: Source,
    /// Fills the store.
    pub processor: Processor,
}

/// The kind of a node, as it is named in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeType {
    /// `NodeType` 1.
    Source,
    /// `NodeType` 2.
    Processor,
    /// `NodeType` 3.
    Sink,
}

impl NodeType {
    /// `SOURCE`, `PROCESSOR` or `SINK`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "SOURCE",
            Self::Processor => "PROCESSOR",
            Self::Sink => "SINK",
        }
    }

    /// The wire's number (kip1331 §1.6).
    pub fn code(self) -> i8 {
        match self {
            Self::Source => 1,
            Self::Processor => 2,
            Self::Sink => 3,
        }
    }
}

/// A node wherever it stands: in a subtopology or in a global store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRef<'a> {
    /// See [`Source`].
    Source(&'a Source),
    /// See [`Processor`].
    Processor(&'a Processor),
    /// See [`Sink`].
    Sink(&'a Sink),
}

impl<'a> NodeRef<'a> {
    /// Its kind.
    pub fn node_type(self) -> NodeType {
        match self {
            Self::Source(_) => NodeType::Source,
            Self::Processor(_) => NodeType::Processor,
            Self::Sink(_) => NodeType::Sink,
        }
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        match self {
            Self::Source(n) => &n.name,
            Self::Processor(n) => &n.name,
            Self::Sink(n) => &n.name,
        }
    }

    /// Names of the nodes that take its records, in received order.
    pub fn successors(self) -> &'a Names {
        match self {
            Self::Source(n) => &n.successors,
            Self::Processor(n) => &n.successors,
            Self::Sink(n) => &n.successors,
        }
    }

    /// Topics that it reads or writes; none for a processor, a pattern source or a dynamic sink.
    pub fn topics(self) -> &'a [String] {
        match self {
            Self::Source(n) => &n.topics,
            Self::Processor(_) => &[],
            Self::Sink(n) => n.topic.as_slice(),
        }
    }

    /// State stores that it may use.
    pub fn stores(self) -> &'a [String] {
        match self {
            Self::Processor(n) => &n.stores,
            Self::Source(_) | Self::Sink(_) => &[],
        }
    }
}

impl Node {
    /// A view that serves nodes of subtopologies and of global stores alike.
    pub fn view(&self) -> NodeRef<'_> {
        match self {
            Self::Source(n) => NodeRef::Source(n),
            Self::Processor(n) => NodeRef::Processor(n),
            Self::Sink(n) => NodeRef::Sink(n),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.view().name()
    }
}

impl GlobalStore {
    /// The source, then the processor.
    pub fn nodes(&self) -> [NodeRef<'_>; 2] {
        [NodeRef::Source(&self.source), NodeRef::Processor(&self.processor)]
    }
}

impl Description {
    /// Every node: those of the subtopologies in order, then two for each global store.
    pub fn nodes(&self) -> impl Iterator<Item = NodeRef<'_>> {
        let inner = self.subtopologies.iter().flat_map(|s| s.nodes.iter().map(Node::view));
        inner.chain(self.global_stores.iter().flat_map(GlobalStore::nodes))
    }

    /// How many nodes there are, two for each global store included.
    pub fn node_count(&self) -> usize {
        let inner: usize = self.subtopologies.iter().map(|s| s.nodes.len()).sum();
        inner + 2 * self.global_stores.len()
    }

    /// Length in UTF-8 bytes of the longest string anywhere: subtopology id, node, topic, store, successor.
    pub fn longest_name(&self) -> usize {
        let ids = self.subtopologies.iter().map(|s| s.id.len());
        let names = self.nodes().map(|n| {
            let lists = [n.topics(), n.stores(), n.successors()];
            lists.into_iter().flatten().map(String::len).max().unwrap_or(0).max(n.name().len())
        });
        ids.chain(names).max().unwrap_or(0)
    }

    /// Every topic that is named, sinks' and global stores' included, empty names left out.
    pub fn topics(&self) -> BTreeSet<&str> {
        self.nodes().flat_map(NodeRef::topics).map(String::as_str).filter(|t| !t.is_empty()).collect()
    }
}
