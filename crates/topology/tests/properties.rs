//! What holds for every description that the wire can carry.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of the test functions

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use streamside_topology::names::utf16_order;
use streamside_topology::{DecodeError, Description, Findings, Graph, hash_of_encoded, write};
use streamside_wire::messages::topology_description as wire;

/// Few names, so that they meet: duplicates, loops, dangling edges; now and then any text.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a-e]", 1 => Just(String::new()), 1 => any::<String>()]
}

fn node(types: impl Strategy<Value = i8>) -> impl Strategy<Value = wire::Node> {
    (name(), types, vec(name(), 0..4), option::of(name()), vec(name(), 0..4), vec(name(), 0..6)).prop_map(
        |(name, node_type, source_topics, sink_topic, stores, successors)| wire::Node {
            name,
            node_type,
            source_topics,
            sink_topic,
            stores,
            successors,
            ..Default::default()
        },
    )
}

fn description(odd_types: bool) -> impl Strategy<Value = wire::TopologyDescription> {
    let types = move |usual: std::ops::RangeInclusive<i8>| {
        if odd_types { prop_oneof![20 => usual, 1 => any::<i8>()].boxed() } else { usual.boxed() }
    };
    let subtopology = (name(), vec(node(types(1..=3)), 0..8)).prop_map(|(subtopology_id, nodes)| wire::Subtopology {
        subtopology_id,
        nodes,
        ..Default::default()
    });
    let global = (node(types(1..=1)), node(types(2..=2))).prop_map(|(source, processor)| wire::GlobalStore {
        source,
        processor,
        ..Default::default()
    });
    (vec(subtopology, 0..4), vec(global, 0..3)).prop_map(|(subtopologies, global_stores)| wire::TopologyDescription {
        subtopologies,
        global_stores,
        ..Default::default()
    })
}

proptest! {
    #[test]
    fn java_order_is_that_of_utf16(a in any::<String>(), b in any::<String>(), ascii in "[a-z]{0,3}") {
        for (a, b) in [(&a, &b), (&a, &ascii), (&ascii, &b)] {
            prop_assert_eq!(utf16_order(a, b), a.encode_utf16().cmp(b.encode_utf16()));
        }
    }

    #[test]
    fn what_converts_survives_every_way_out_and_in(wire in description(true)) {
        if let Ok(description) = Description::from_wire(&wire) {
            let encoded = description.encode();
            prop_assert_eq!(&description.to_wire().to_bytes().unwrap(), &encoded);
            prop_assert_eq!(Description::decode(&encoded), Ok(description.clone()));
            prop_assert_eq!(Description::from_wire(&description.to_wire()), Ok(description.clone()));
            prop_assert_eq!(description.hash(), hash_of_encoded(&encoded));
            prop_assert_eq!(&Description::from_json(&write::json::text(&description)).unwrap(), &description);
        }
    }

    /// kip1331 §4.2: exactly the node types and the pairs decide.
    #[test]
    fn only_node_types_and_pairs_are_refused(wire in description(true)) {
        let nodes = wire.subtopologies.iter().flat_map(|s| &s.nodes);
        let sound = nodes.into_iter().all(|n| (1..=3).contains(&n.node_type))
            && wire.global_stores.iter().all(|g| g.source.node_type == 1 && g.processor.node_type == 2);
        prop_assert_eq!(Description::from_wire(&wire).is_ok(), sound);
    }

    #[test]
    fn hashes_are_equal_when_and_only_when_bytes_are(a in description(false), b in description(false)) {
        let (a, b) = (Description::from_wire(&a).unwrap(), Description::from_wire(&b).unwrap());
        prop_assert_eq!(a.hash() == b.hash(), a.encode() == b.encode());
        prop_assert_eq!(a.hash() == b.hash(), a == b);
        prop_assert_eq!(a.hash(), a.clone().hash());
    }

    /// kip1331 §11.1, by its definition.
    #[test]
    fn predecessors_are_the_nodes_that_name_it(wire in description(false)) {
        let description = Description::from_wire(&wire).unwrap();
        let graph = Graph::of(&description);
        for scope in graph.subtopologies.iter().chain(&graph.global_stores) {
            for (index, node) in scope.nodes().iter().enumerate() {
                let want: BTreeSet<&str> = scope
                    .nodes()
                    .iter()
                    .filter(|n| n.successors().iter().any(|s| s == node.name()))
                    .map(|n| n.name())
                    .collect();
                let got: Vec<&str> = scope.predecessors(index).collect();
                prop_assert_eq!(got.len(), want.len());
                prop_assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), want);
            }
        }
    }

    /// A node lies on a loop when it can reach itself: the slow definition beside the fast answer.
    #[test]
    fn loops_are_what_leads_back(wire in description(false)) {
        let description = Description::from_wire(&wire).unwrap();
        for subtopology in &description.subtopologies {
            let step = |from: &BTreeSet<String>| -> BTreeSet<String> {
                let nodes = subtopology.nodes.iter().filter(|n| from.contains(n.name()));
                let all = nodes.flat_map(|n| n.view().successors().iter().cloned());
                all.filter(|s| subtopology.nodes.iter().any(|n| n.name() == s)).collect()
            };
            let looping: BTreeSet<String> = subtopology.nodes.iter().map(|n| n.name().to_owned()).filter(|name| {
                let mut reached = step(&BTreeSet::from([name.clone()]));
                for _ in 0..=subtopology.nodes.len() {
                    reached.extend(step(&reached));
                }
                reached.contains(name)
            }).collect();
            let alone = Description { subtopologies: vec![subtopology.clone()], ..Description::default() };
            let found = Findings::of(&alone).listed.into_iter().filter_map(|f| match f {
                streamside_topology::Finding::Cycle { nodes, .. } => Some(nodes),
                _ => None,
            });
            prop_assert_eq!(found.flatten().collect::<BTreeSet<String>>(), looping);
        }
    }

    #[test]
    fn writers_and_findings_take_everything(wire in description(false)) {
        let description = Description::from_wire(&wire).unwrap();
        let findings = Findings::of(&description);
        let harmless = findings.listed.iter().all(|f| !f.to_string().contains(char::is_control));
        prop_assert!(harmless);
        for format in write::Format::ALL {
            let whole = write::render(&description, format, write::Escape::Exact, usize::MAX).unwrap();
            prop_assert!(write::render(&description, format, write::Escape::Exact, whole.len()).is_ok());
            if !whole.is_empty() {
                prop_assert!(write::render(&description, format, write::Escape::Exact, whole.len() - 1).is_err());
            }
            let safe = write::render(&description, format, write::Escape::Terminal, usize::MAX).unwrap();
            let lines = whole.lines().count();
            prop_assert!(format == write::Format::Json || safe.lines().count() <= lines);
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(description) = Description::decode(&bytes) {
            prop_assert_eq!(Description::decode(&description.encode()), Ok(description));
        }
    }

    #[test]
    fn damaged_bytes_never_panic(wire in description(false), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = Description::from_wire(&wire).unwrap().encode().to_vec();
        let at = at.index(bytes.len());
        prop_assert!(Description::decode(&bytes[..at]).is_err());
        bytes.push(to);
        prop_assert_eq!(Description::decode(&bytes), Err(DecodeError::Trailing(1)));
        bytes.pop();
        bytes[at] = to;
        if let Ok(description) = Description::decode(&bytes) {
            prop_assert!(Findings::of(&description).count() < 10_000);
        }
    }
}
