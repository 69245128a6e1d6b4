//! Descriptions that the suite stores. Their nodes stand in the order of their names unless order is what is checked.

use bytes::Bytes;
use streamside_topology::{Description, GlobalStore, Node, Processor, Sink, Source, Subtopology};

/// A small application: source, processor with a store, sink. `variant` makes it another one.
pub(super) fn small(variant: usize) -> Bytes {
    chain(&format!("variant-{variant}"), 3).encode()
}

/// Many small nodes in one subtopology.
pub(super) fn nodes(count: usize) -> Bytes {
    chain("wide", count).encode()
}

/// About `bytes` bytes in a hundred nodes of long names.
pub(super) fn bytes(bytes: usize) -> Bytes {
    // A node's name stands in it and in its predecessor.
    let filler = "x".repeat(bytes / 200);
    chain(&filler, 100).encode()
}

/// What a store may be tempted to tidy: order, repetition over subtopologies, odd names, absent and empty fields.
pub(super) fn odd() -> Bytes {
    let names = [
        "zebra",
        "ant",
        "",
        " leading and trailing ",
        "tab\tnewline\nnul\0",
        "quote\" <b>&amp; end --> `x`",
        "\u{202e}right-to-left\u{202c}",
        "e\u{301} is not \u{e9}",
        "\u{1f600}",
        "none",
    ];
    let mut nodes: Vec<Node> = names
        .iter()
        .map(|name| {
            Node::Processor(Processor {
                name: (*name).to_owned(),
                stores: ["s2", "s1", ""].into_iter().collect(),
                successors: names.iter().rev().copied().collect(),
            })
        })
        .collect();
    nodes.push(Node::Source(Source { name: "pattern source".to_owned(), ..Source::default() }));
    nodes.push(Node::Sink(Sink { name: "topic chosen by record".to_owned(), topic: None, ..Sink::default() }));
    nodes.push(Node::Sink(Sink {
        name: "empty topic".to_owned(),
        topic: Some(String::new()),
        successors: ["ant"].into_iter().collect(),
    }));
    nodes.push(Node::Processor(Processor { name: "n".repeat(32_767), ..Processor::default() }));
    let subtopologies = ["1", "0", "not a number"]
        .iter()
        .map(|id| Subtopology { id: (*id).to_owned(), nodes: nodes.clone() })
        .collect();
    let global = |name: &str| GlobalStore {
        source: Source {
            name: format!("{name}-source"),
            topics: [name].into_iter().collect(),
            successors: [name].into_iter().collect(),
        },
        processor: Processor {
            name: name.to_owned(),
            stores: ["global"].into_iter().collect(),
            ..Processor::default()
        },
    };
    Description { subtopologies, global_stores: vec![global("z"), global("a")] }.encode()
}

/// Nodes one behind another.
fn chain(tag: &str, count: usize) -> Description {
    let name = |n: usize| format!("node-{n:07}-{tag}");
    let last = count.saturating_sub(1);
    let nodes = (0..count).map(|n| match n {
        0 => Node::Source(Source {
            name: name(n),
            topics: ["input"].into_iter().collect(),
            successors: [name(n + 1)].into_iter().collect(),
        }),
        n if n == last => Node::Sink(Sink { name: name(n), topic: Some("output".to_owned()), ..Sink::default() }),
        n => Node::Processor(Processor {
            name: name(n),
            stores: ["store"].into_iter().collect(),
            successors: [name(n + 1)].into_iter().collect(),
        }),
    });
    Description {
        subtopologies: vec![Subtopology { id: "0".to_owned(), nodes: nodes.collect() }],
        global_stores: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_what_they_are_called() {
        let count = |bytes: &Bytes| Description::decode(bytes).unwrap().node_count();
        assert_eq!(count(&small(1)), 3);
        assert_ne!(small(1), small(2));
        assert_eq!(count(&nodes(5_000)), 5_000);
        assert!(nodes(5_000).len() < 800_000, "{}", nodes(5_000).len());
        let megabyte = bytes(1 << 20);
        assert!((1_000_000..1 << 20).contains(&megabyte.len()), "{}", megabyte.len());
        assert_eq!(count(&megabyte), 100);
        let odd = Description::decode(&odd()).unwrap();
        assert_eq!(odd.longest_name(), 32_767);
        assert_eq!(odd.subtopologies[1].id, "0");
    }
}
