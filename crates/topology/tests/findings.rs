//! Findings on crafted graphs. Kafka accepts all of these (kip1331 §4.2), so none may be refused, and none may hang.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of the test functions

use std::time::{Duration, Instant};

use streamside_topology::findings::{MAX_CYCLE_NAMES, MAX_LISTED};
use streamside_topology::{
    Description, Findings, GlobalStore, Graph, Node, Processor, Sink, Source, Subtopology, write,
};

fn source(name: &str, successors: &[&str]) -> Node {
    Node::Source(Source { name: name.into(), successors: successors.iter().copied().collect(), ..Source::default() })
}

fn processor(name: &str, successors: &[&str]) -> Node {
    Node::Processor(Processor {
        name: name.into(),
        successors: successors.iter().copied().collect(),
        ..Processor::default()
    })
}

fn sink(name: &str, successors: &[&str]) -> Node {
    Node::Sink(Sink { name: name.into(), topic: Some("t".into()), successors: successors.iter().copied().collect() })
}

fn one(nodes: Vec<Node>) -> Description {
    Description { subtopologies: vec![Subtopology { id: "0".into(), nodes }], ..Description::default() }
}

fn said(description: &Description) -> Vec<String> {
    let findings = Findings::of(description);
    assert_eq!(findings.omitted, 0);
    findings.listed.iter().map(|f| format!("{} | {f}", f.kind())).collect()
}

#[test]
fn a_sound_graph_has_none() {
    let diamond = one(vec![source("s", &["a", "b"]), processor("a", &["k"]), processor("b", &["k"]), sink("k", &[])]);
    assert_eq!(said(&diamond), Vec::<String>::new());
    assert!(Findings::of(&Description::default()).is_empty());
}

#[test]
fn k27c_a_successor_that_does_not_exist() {
    let dangling = one(vec![source("s", &["ghost", "k"]), sink("k", &["s", "other"])]);
    assert_eq!(
        said(&dangling),
        [
            "dangling_successor | subtopology 0: node 's' leads to 'ghost', which does not exist",
            "dangling_successor | subtopology 0: node 'k' leads to 'other', which does not exist",
            "cycle | subtopology 0: 2 node(s) form a loop: 's', 'k'",
        ]
    );
    let graph = Graph::of(&dangling);
    assert_eq!(graph.subtopologies[0].predecessors(1).collect::<Vec<_>>(), ["s"]);
    assert_eq!(graph.subtopologies[0].predecessors(0).collect::<Vec<_>>(), ["k"]);
    assert_eq!(graph.subtopologies[0].predecessors(2).count(), 0);
}

#[test]
fn k27c_successors_do_not_reach_into_another_part() {
    let mut parts = one(vec![source("s", &["k"])]);
    parts.subtopologies.push(Subtopology { id: "1".into(), nodes: vec![source("z", &[]), sink("k", &[])] });
    assert_eq!(
        said(&parts),
        [
            "dangling_successor | subtopology 0: node 's' leads to 'k', which does not exist",
            "unreachable_node | subtopology 1: no source leads to node 'k'",
        ]
    );
}

#[test]
fn k27d_loops() {
    let nodes = vec![
        source("s", &["a"]),
        processor("a", &["b"]),
        processor("b", &["a", "c"]),
        processor("c", &["c", "d"]),
        processor("d", &["e"]),
        processor("e", &["f"]),
        processor("f", &["d", "k"]),
        sink("k", &[]),
    ];
    assert_eq!(
        said(&one(nodes)),
        [
            "cycle | subtopology 0: 2 node(s) form a loop: 'a', 'b'",
            "cycle | subtopology 0: 1 node(s) form a loop: 'c'",
            "cycle | subtopology 0: 3 node(s) form a loop: 'd', 'e', 'f'",
        ]
    );
}

#[test]
fn k27e_two_nodes_of_one_name_and_two_parts_of_one_id() {
    let mut twice = one(vec![source("a", &["b"]), processor("a", &["b"]), sink("b", &[]), processor("b", &[])]);
    twice.subtopologies.push(Subtopology { id: "1".into(), nodes: vec![source("a", &[])] });
    twice.subtopologies.push(Subtopology { id: "0".into(), nodes: vec![source("a", &[])] });
    assert_eq!(
        said(&twice),
        [
            "duplicate_node_name | subtopology 0: 2 nodes are named 'a'",
            "duplicate_node_name | subtopology 0: 2 nodes are named 'b'",
            "duplicate_subtopology_id | 2 subtopologies have the id '0'",
        ]
    );
}

#[test]
fn k27f_empty_names() {
    let empty = || [""].into_iter().collect();
    let nodes = vec![
        Node::Source(Source { name: String::new(), topics: empty(), successors: ["p", "k"].into_iter().collect() }),
        Node::Processor(Processor { name: "p".into(), stores: empty(), successors: empty() }),
        Node::Sink(Sink { name: "k".into(), topic: Some(String::new()), ..Sink::default() }),
    ];
    let mut description = one(nodes);
    description.subtopologies[0].id.clear();
    assert_eq!(
        said(&description),
        [
            "empty_name | subtopology at position 0: the id is empty",
            "empty_name | subtopology at position 0: a node's name is empty",
            "empty_name | subtopology at position 0: node '' has a topic without a name",
            "empty_name | subtopology at position 0: node 'p' has a store without a name",
            "empty_name | subtopology at position 0: node 'k' has a topic without a name",
            "cycle | subtopology at position 0: 2 node(s) form a loop: '', 'p'",
        ]
    );
}

#[test]
fn unreachable_nodes() {
    let island = one(vec![processor("a", &["b"]), sink("b", &[]), source("s", &["k"]), sink("k", &[])]);
    assert_eq!(
        said(&island),
        [
            "unreachable_node | subtopology 0: no source leads to node 'a'",
            "unreachable_node | subtopology 0: no source leads to node 'b'",
        ]
    );
}

#[test]
fn a_global_store_is_a_part_of_its_own() {
    let store = |successors: &[&str], processor: &str| GlobalStore {
        source: Source { name: "g".into(), successors: successors.iter().copied().collect(), ..Source::default() },
        processor: Processor { name: processor.into(), ..Processor::default() },
    };
    let description = Description {
        global_stores: vec![store(&["p"], "p"), store(&["other"], "p"), store(&[], "g"), store(&["p"], "p")],
        ..Description::default()
    };
    assert_eq!(
        said(&description),
        [
            "dangling_successor | global store at position 1: node 'g' leads to 'other', which does not exist",
            "unreachable_node | global store at position 1: no source leads to node 'p'",
            "duplicate_node_name | global store at position 2: 2 nodes are named 'g'",
        ]
    );
}

#[test]
fn sentences_are_safe_for_a_terminal() {
    let hostile = one(vec![source("s\u{1b}[2J", &["x\n\u{202e}"])]);
    assert_eq!(
        said(&hostile),
        ["dangling_successor | subtopology 0: node 's\\u{1b}[2J' leads to 'x\\n\\u{202e}', which does not exist"]
    );
}

#[test]
fn long_lists_are_cut_and_counted() {
    let ring: Vec<Node> = (0..30).map(|i| processor(&format!("n{i}"), &[&format!("n{}", (i + 1) % 30)])).collect();
    let cycle = said(&one(ring)).pop().unwrap();
    assert!(cycle.starts_with("cycle | subtopology 0: 30 node(s) form a loop: 'n0', 'n1'"), "{cycle}");
    assert!(cycle.ends_with("'n19', …"), "{cycle}");
    assert_eq!(cycle.matches("'n").count(), MAX_CYCLE_NAMES);

    for extra in [0, 1] {
        let lonely = one((0..MAX_LISTED + extra).map(|i| processor(&i.to_string(), &[])).collect());
        let findings = Findings::of(&lonely);
        assert_eq!(
            (findings.listed.len(), findings.omitted, findings.count()),
            (MAX_LISTED, extra, MAX_LISTED + extra)
        );
    }
}

/// Each shape would end a recursive walk's stack, or be quadratic where edges are compared with each other.
#[test]
fn k27g_200_000_nodes_are_examined_in_linear_time() {
    const N: usize = 200_000;
    let name = |i: usize| format!("node-{i}");
    let chain = |end: usize| {
        let inner = (1..N).map(|i| processor(&name(i), &[&name(if i + 1 == N { end } else { i + 1 })]));
        std::iter::once(source(&name(0), &[&name(1)])).chain(inner).collect::<Vec<_>>()
    };
    let hub_names: Vec<String> = (1..N).map(name).collect();
    let hub: Vec<&str> = hub_names.iter().map(String::as_str).collect();
    let star =
        std::iter::once(source(&name(0), &hub)).chain((1..N).map(|i| processor(&name(i), &[&name(0)]))).collect();
    let shapes: [(&str, Vec<Node>, usize); 6] = [
        ("chain into nothing", chain(N), 1),
        ("ring", chain(0), 1),
        ("star and back", star, 1),
        ("one name", (0..N).map(|_| source("same", &["same"])).collect(), 2),
        ("pairs", (0..N).map(|i| source(&name(i), &[&name(i ^ 1)])).collect(), N / 2),
        ("islands", (0..N).map(|i| processor(&name(i), &["nowhere"])).collect(), 2 * N),
    ];
    let start = Instant::now();
    for (shape, nodes, count) in shapes {
        assert_eq!(Findings::of(&one(nodes)).count(), count, "{shape}");
    }
    for (shape, end) in [("chain", N), ("ring", 0)] {
        let text = write::render(&one(chain(end)), write::Format::Describe, write::Escape::Exact, 64 << 20);
        assert!(text.is_ok_and(|t| t.len() > N), "{shape}");
    }
    let parts = Description {
        subtopologies: (0..N).map(|i| Subtopology { id: name(i % 2), nodes: Vec::new() }).collect(),
        global_stores: vec![GlobalStore::default(); N],
    };
    // each pair: two empty names, one name twice; and two ids that repeat
    assert_eq!(Findings::of(&parts).count(), 3 * N + 2);
    // generous: unoptimised code on a busy machine takes a few seconds; a quadratic walk would take hours
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
