//! `describe()` text against what real applications printed (`tests/describe`), read back, sorted as Kafka's client sorts,
//! and written again.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of the test functions

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use streamside_topology::text::Escape;
use streamside_topology::write::{self, Format};
use streamside_topology::{Description, GlobalStore, Names, Node, Processor, Sink, Source, Subtopology};

fn recorded() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/describe");
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    all.sort();
    assert_eq!(all.len(), EXPECTED);
    all
}

const EXPECTED: usize = 24;

fn names(text: &str) -> Names {
    text.split(", ").filter(|n| !n.is_empty() && *n != "none").collect()
}

/// The list in the last parentheses; a pattern stands without brackets and gives none.
fn members(line: &str) -> &str {
    let (_, inside) = line.trim_end_matches(')').rsplit_once(": ").unwrap();
    inside.strip_prefix('[').map(|list| list.trim_end_matches(']')).unwrap_or_default()
}

/// Reads the plain shape; enough for names without blanks.
fn read(text: &str) -> Description {
    let mut description = Description::default();
    let mut globals: Vec<Vec<Node>> = Vec::new();
    let mut global = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let node = match words.as_slice() {
            ["Sub-topology:", id] => {
                global = false;
                description.subtopologies.push(Subtopology { id: (*id).into(), nodes: Vec::new() });
                continue;
            }
            ["Sub-topology:", ..] => {
                global = true;
                globals.push(Vec::new());
                continue;
            }
            ["-->", ..] => {
                let nodes = if global {
                    globals.last_mut()
                } else {
                    description.subtopologies.last_mut().map(|s| &mut s.nodes)
                };
                match nodes.unwrap().last_mut().unwrap() {
                    Node::Source(n) => n.successors = names(line.trim().strip_prefix("--> ").unwrap()),
                    Node::Processor(n) => n.successors = names(line.trim().strip_prefix("--> ").unwrap()),
                    Node::Sink(_) => unreachable!("a sink has no arrow out"),
                }
                continue;
            }
            ["Source:", name, ..] => {
                Node::Source(Source { name: (*name).into(), topics: names(members(line)), ..Source::default() })
            }
            ["Processor:", name, ..] => Node::Processor(Processor {
                name: (*name).into(),
                stores: names(members(line)),
                ..Processor::default()
            }),
            ["Sink:", name, "(topic:", topic] => Node::Sink(Sink {
                name: (*name).into(),
                topic: Some(topic.trim_end_matches(')').into()),
                ..Sink::default()
            }),
            ["Sink:", name, ..] => Node::Sink(Sink { name: (*name).into(), ..Sink::default() }),
            _ => continue,
        };
        if global {
            globals.last_mut().unwrap().push(node)
        } else {
            description.subtopologies.last_mut().unwrap().nodes.push(node)
        }
    }
    description.global_stores = globals
        .into_iter()
        .map(|mut nodes| {
            let processor = nodes.pop().unwrap();
            GlobalStore::from_nodes(nodes.pop().unwrap(), processor).unwrap()
        })
        .collect();
    description
}

/// Without what Java's hashing decides or the wire loses: names behind arrows as sets, no extractor class, no pattern.
fn comparable(text: &str) -> Vec<String> {
    let line = |line: &str| match line.trim().split_once(' ') {
        Some((arrow @ ("-->" | "<--"), rest)) => {
            let names: BTreeSet<&str> = rest.split(", ").collect();
            format!("      {arrow} {names:?}")
        }
        Some(("Source:", _)) if !line.contains("(topics: [") => {
            line.split("(topics: ").next().unwrap_or_default().to_owned() + "(topics: [])"
        }
        _ => line.split("(extractor class").next().unwrap_or_default().to_owned(),
    };
    text.lines().map(line).collect()
}

#[test]
fn text_of_real_applications_is_restored() {
    for (name, text) in recorded() {
        let mut description = read(&text);
        for subtopology in &mut description.subtopologies {
            subtopology.nodes.sort_by(|a, b| a.name().cmp(b.name()));
        }
        assert_eq!(comparable(&write::describe::text(&description)), comparable(&text), "{name}");
    }
}

#[test]
fn bytes_are_restored_where_hashing_decides_nothing() {
    let all = recorded();
    for name in ["wordcount", "global-ktable-join", "papi-two-globals", "pipe", "named-operators"] {
        let text = &all.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(&write::describe::text(&read(text)), text);
    }
}

#[test]
fn empty_description() {
    assert_eq!(write::describe::text(&Description::default()), "Topologies:\n ");
}

#[test]
fn global_stores_fill_the_gaps_and_go_on() {
    let ids = |subtopologies: &[&str], globals: usize| {
        let subtopologies =
            subtopologies.iter().map(|id| Subtopology { id: (*id).into(), ..Subtopology::default() }).collect();
        let description = Description { subtopologies, global_stores: vec![GlobalStore::default(); globals] };
        let text = write::describe::text(&description);
        let heads = text.lines().filter_map(|l| l.trim_start().strip_prefix("Sub-topology: "));
        heads.map(|l| l.replace(" for global store (will not generate tasks)", "g")).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["0", "1", "3"], 1), ["0", "1", "2g", "3"]);
    assert_eq!(ids(&["2", "10"], 4), ["0g", "1g", "2", "3g", "4g", "10"]);
    assert_eq!(ids(&["10", "9"], 0), ["9", "10"]);
    assert_eq!(ids(&[], 2), ["0g", "1g"]);
    // ids that no application has
    assert_eq!(ids(&["1", "0", "1"], 1), ["1", "0", "1", "2g"]);
    assert_eq!(ids(&["x", "00", "99999999999999999999", ""], 1), ["x", "00", "99999999999999999999", "", "0g"]);
}

#[test]
fn names_are_harmless_on_a_terminal_and_exact_elsewhere() {
    let name = "a\n    Sink: fake\u{1b}[2J\u{202e}";
    let node = Node::Sink(Sink { name: name.into(), topic: Some("t\r".into()), ..Sink::default() });
    let description = Description {
        subtopologies: vec![Subtopology { id: "0\u{9b}".into(), nodes: vec![node] }],
        ..Description::default()
    };
    for format in [Format::Describe, Format::Kafka] {
        let safe = write::render(&description, format, Escape::Terminal, 10_000).unwrap();
        assert!(safe.contains("Sink: a\\n    Sink: fake\\u{1b}[2J\\u{202e} (topic: t\\r)\n"), "{safe}");
        assert!(safe.contains("Sub-topology: 0\\u{9b}\n"), "{safe}");
        let exact = write::render(&description, format, Escape::Exact, 10_000).unwrap();
        assert!(exact.contains(&format!("Sink: {name} (topic: t\r)\n")), "{exact}");
    }
}
