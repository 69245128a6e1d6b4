//! Between the wire's structs and the model, with Kafka's own refusals (kip1331 §4.2). Subtopologies come first, nodes in
//! order, then global stores, source before processor; the first error wins.

use streamside_wire::messages::topology_description as wire;

use crate::model::{Description, GlobalStore, Node, NodeRef, Processor, Sink, Source, Subtopology};
use crate::names::Names;

/// Why Kafka refuses a description: INVALID_REQUEST (42) on a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// `NodeType` is none of 1, 2, 3.
    #[error("Unknown topology node type: {0}")]
    UnknownNodeType(i8),
    /// A global store's source is no source, or its processor is no processor.
    #[error("Global store must be composed of a source and a processor node.")]
    GlobalStorePair,
}

impl ConversionError {
    /// A word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UnknownNodeType(_) => "unknown_node_type",
            Self::GlobalStorePair => "global_store_pair",
        }
    }

    /// Kafka's text, word for word, for the pushing client.
    pub fn client_message(&self) -> String {
        self.to_string()
    }
}

impl Description {
    /// Converts what a client sent. Lists lose repetitions, fields that do not belong to a node's kind and unknown tagged
    /// fields are dropped, all else stays as it came.
    pub fn from_wire(description: &wire::TopologyDescription) -> Result<Self, ConversionError> {
        Self::from_wire_owned(description.clone())
    }

    /// As [`Description::from_wire`], taking the strings instead of copying them.
    pub fn from_wire_owned(description: wire::TopologyDescription) -> Result<Self, ConversionError> {
        let subtopologies = description.subtopologies.into_iter().map(|s| {
            let nodes = s.nodes.into_iter().map(node_from_wire).collect::<Result<_, _>>()?;
            Ok(Subtopology { id: s.subtopology_id, nodes })
        });
        let subtopologies = subtopologies.collect::<Result<_, _>>()?;
        let global_stores = description.global_stores.into_iter().map(|g| {
            let source = node_from_wire(g.source)?;
            GlobalStore::from_nodes(source, node_from_wire(g.processor)?)
        });
        Ok(Self { subtopologies, global_stores: global_stores.collect::<Result<_, _>>()? })
    }

    /// The wire's struct; [`Description::from_wire`] of it gives an equal description.
    pub fn to_wire(&self) -> wire::TopologyDescription {
        wire::TopologyDescription {
            subtopologies: self
                .subtopologies
                .iter()
                .map(|s| wire::Subtopology {
                    subtopology_id: s.id.clone(),
                    nodes: s.nodes.iter().map(|n| node_to_wire(n.view())).collect(),
                    ..Default::default()
                })
                .collect(),
            global_stores: self
                .global_stores
                .iter()
                .map(|g| wire::GlobalStore {
                    source: node_to_wire(NodeRef::Source(&g.source)),
                    processor: node_to_wire(NodeRef::Processor(&g.processor)),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }
}

impl GlobalStore {
    /// A global store of two nodes, refused unless they are a source and a processor.
    pub fn from_nodes(source: Node, processor: Node) -> Result<Self, ConversionError> {
        match (source, processor) {
            (Node::Source(source), Node::Processor(processor)) => Ok(Self { source, processor }),
            _ => Err(ConversionError::GlobalStorePair),
        }
    }
}

fn node_from_wire(node: wire::Node) -> Result<Node, ConversionError> {
    let wire::Node { name, node_type, source_topics, sink_topic, stores, successors, .. } = node;
    let successors = Names::from(successors);
    Ok(match node_type {
        1 => Node::Source(Source { name, topics: source_topics.into(), successors }),
        2 => Node::Processor(Processor { name, stores: stores.into(), successors }),
        3 => Node::Sink(Sink { name, topic: sink_topic, successors }),
        other => return Err(ConversionError::UnknownNodeType(other)),
    })
}

fn node_to_wire(node: NodeRef<'_>) -> wire::Node {
    let mut out = wire::Node {
        name: node.name().to_owned(),
        node_type: node.node_type().code(),
        successors: node.successors().to_vec(),
        stores: node.stores().to_vec(),
        ..Default::default()
    };
    match node {
        NodeRef::Source(source) => out.source_topics = source.topics.to_vec(),
        NodeRef::Sink(sink) => out.sink_topic.clone_from(&sink.topic),
        NodeRef::Processor(_) => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, node_type: i8) -> wire::Node {
        wire::Node { name: name.into(), node_type, ..Default::default() }
    }

    /// Every field filled, with repetitions.
    fn full(name: &str, node_type: i8) -> wire::Node {
        let list = |items: &[&str]| items.iter().map(|s| (*s).to_owned()).collect();
        wire::Node {
            source_topics: list(&["t2", "t1", "t2"]),
            sink_topic: Some("out".into()),
            stores: list(&["s2", "s2", "s1"]),
            successors: list(&["c", "b", "c"]),
            ..node(name, node_type)
        }
    }

    fn one(nodes: Vec<wire::Node>) -> wire::TopologyDescription {
        let subtopology = wire::Subtopology { subtopology_id: "0".into(), nodes, ..Default::default() };
        wire::TopologyDescription { subtopologies: vec![subtopology], ..Default::default() }
    }

    fn global(source: wire::Node, processor: wire::Node) -> wire::TopologyDescription {
        let store = wire::GlobalStore { source, processor, ..Default::default() };
        wire::TopologyDescription { global_stores: vec![store], ..Default::default() }
    }

    fn refusal(description: &wire::TopologyDescription) -> String {
        Description::from_wire(description).unwrap_err().client_message()
    }

    #[test]
    fn kip1331_4_2_each_kind_keeps_its_own_fields() {
        let names = |items: &[&str]| -> Names { items.iter().copied().collect() };
        let got = Description::from_wire(&one(vec![full("a", 1), full("b", 2), full("c", 3)])).unwrap();
        let successors = names(&["c", "b"]);
        let want = vec![
            Node::Source(Source { name: "a".into(), topics: names(&["t2", "t1"]), successors: successors.clone() }),
            Node::Processor(Processor {
                name: "b".into(),
                stores: names(&["s2", "s1"]),
                successors: successors.clone(),
            }),
            Node::Sink(Sink { name: "c".into(), topic: Some("out".into()), successors }),
        ];
        assert_eq!(got.subtopologies, vec![Subtopology { id: "0".into(), nodes: want }]);
    }

    #[test]
    fn kip1331_4_2_p6_unknown_node_types_are_refused() {
        for node_type in [0, 4, 99, -1, i8::MIN, i8::MAX] {
            let want = format!("Unknown topology node type: {node_type}");
            assert_eq!(refusal(&one(vec![node("a", 1), node("b", node_type)])), want);
            assert_eq!(refusal(&global(node("a", node_type), node("b", 2))), want);
            assert_eq!(refusal(&global(node("a", 1), node("b", node_type))), want);
            // the pair is judged after both of its nodes
            assert_eq!(refusal(&global(node("a", 3), node("b", node_type))), want);
        }
    }

    #[test]
    fn kip1331_4_2_p6_a_global_store_is_a_source_and_a_processor() {
        for source in 1..=3 {
            for processor in 1..=3 {
                let pair = global(node("a", source), node("b", processor));
                if (source, processor) == (1, 2) {
                    assert_eq!(Description::from_wire(&pair).map(|d| d.global_stores.len()), Ok(1));
                } else {
                    assert_eq!(refusal(&pair), "Global store must be composed of a source and a processor node.");
                }
            }
        }
    }

    #[test]
    fn kip1331_4_2_the_first_error_wins() {
        let mut both = one(vec![node("a", 7), node("b", 8)]);
        both.global_stores = global(node("g", 9), node("h", 10)).global_stores;
        assert_eq!(refusal(&both), "Unknown topology node type: 7");
        both.subtopologies.clear();
        assert_eq!(refusal(&both), "Unknown topology node type: 9");
        both.global_stores.insert(0, global(node("g", 2), node("h", 1)).global_stores.remove(0));
        assert_eq!(refusal(&both), "Global store must be composed of a source and a processor node.");
    }

    #[test]
    fn kip1331_4_2_p7_oddities_are_accepted_unchanged() {
        assert_eq!(Description::from_wire(&wire::TopologyDescription::default()), Ok(Description::default()));
        let sink = Description::from_wire(&one(vec![node("k", 3)])).unwrap();
        assert_eq!(sink.subtopologies[0].nodes, [Node::Sink(Sink { name: "k".into(), ..Sink::default() })]);

        let mut odd = one(vec![full("", 2), full("c", 3), node("c", 1)]);
        odd.subtopologies.push(odd.subtopologies[0].clone());
        odd.subtopologies[1].nodes[0].stores = vec![String::new()];
        let got = Description::from_wire(&odd).unwrap();
        assert_eq!(got.subtopologies.len(), 2);
        assert_eq!(got.subtopologies[0].id, got.subtopologies[1].id);
        assert_eq!(got.subtopologies[0].nodes.iter().map(Node::name).collect::<Vec<_>>(), ["", "c", "c"]);
        assert_eq!(got.subtopologies[1].nodes[0].view().stores(), [""]);
    }
}
