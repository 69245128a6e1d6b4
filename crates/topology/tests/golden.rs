//! The 41 topologies of `tests/topologies` against the bytes that the stock 4.4 tool printed for them (`tests/golden`).

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of the test functions

use std::fs;
use std::path::PathBuf;

use streamside_topology::{Description, Findings, hash_of_encoded, write};
use streamside_wire::messages::topology_description as wire;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(name)
}

fn golden(name: &str) -> String {
    fs::read_to_string(folder("golden").join(name).with_extension("txt")).unwrap()
}

fn topologies() -> Vec<(String, Description)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder("topologies")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            all.push((name, Description::from_json(&fs::read_to_string(&path).unwrap()).unwrap()));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(all.len(), 41);
    all
}

/// Kafka's own struct with defaults but for the name and kind.
fn node(name: &str, node_type: i8) -> wire::Node {
    wire::Node { name: name.into(), node_type, ..Default::default() }
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|s| (*s).to_owned()).collect()
}

fn subtopology(id: &str, nodes: Vec<wire::Node>) -> wire::Subtopology {
    wire::Subtopology { subtopology_id: id.into(), nodes, ..Default::default() }
}

fn tool_text(subtopologies: Vec<wire::Subtopology>) -> String {
    let wire = wire::TopologyDescription { subtopologies, ..Default::default() };
    write::kafka::text(&Description::from_wire(&wire).unwrap())
}

#[test]
fn kip1331_11_3_tool_text_of_every_topology() {
    for (name, description) in topologies() {
        assert_eq!(write::kafka::text(&description), golden(&name), "{name}");
    }
}

#[test]
fn kip1331_11_3_empty_description_and_subtopology() {
    assert_eq!(tool_text(Vec::new()), golden("x-empty-description"));
    assert_eq!(tool_text(vec![subtopology("0", vec![]), subtopology("", vec![])]), golden("x-empty-subtopology"));
}

#[test]
fn kip1331_11_3_sorting_and_successors_that_do_not_exist() {
    let z = wire::Node {
        source_topics: list(&["\u{1f980}", "\u{ff5e}", "b", "B", "a", ""]),
        successors: list(&["\u{1f980}", "\u{ff5e}", "b", "B", "ä", "z"]),
        ..node("z", 1)
    };
    let b = wire::Node { stores: list(&["s10", "s2", "S1"]), successors: list(&["z", "ghost"]), ..node("b", 2) };
    let umlaut = wire::Node { sink_topic: Some(String::new()), successors: list(&["b"]), ..node("ä", 3) };
    let big_b = wire::Node { sink_topic: Some("null".into()), ..node("B", 3) };
    assert_eq!(tool_text(vec![subtopology("0", vec![z, b, umlaut, big_b])]), golden("x-sorting"));
}

#[test]
fn kip1331_11_1_nodes_of_one_name_share_their_predecessors() {
    let nodes = vec![
        wire::Node { successors: list(&["b", "a"]), ..node("a", 1) },
        wire::Node { successors: list(&["b"]), ..node("a", 2) },
        wire::Node { sink_topic: Some("o".into()), ..node("b", 3) },
        node("b", 2),
    ];
    let text = tool_text(vec![subtopology("0", nodes), subtopology("0", vec![node("b", 2)])]);
    assert_eq!(text, golden("x-same-names-twice"));
}

#[test]
fn kip1331_4_2_every_topology_survives_the_wire() {
    for (name, description) in topologies() {
        assert_eq!(Description::from_wire(&description.to_wire()).as_ref(), Ok(&description), "{name}");
        let encoded = description.encode();
        assert_eq!(description.to_wire().to_bytes().unwrap(), encoded, "{name}: canonical bytes are the wire's");
        assert_eq!(Description::decode(&encoded).as_ref(), Ok(&description), "{name}");
        assert_eq!(hash_of_encoded(&encoded), description.hash(), "{name}");
        assert_eq!(Description::from_json(&write::json::text(&description)).unwrap(), description, "{name}");
    }
}

#[test]
fn sizes_of_the_topologies() {
    let topologies = topologies();
    let of = |name: &str| &topologies.iter().find(|(n, _)| n == name).unwrap().1;
    let nodes: usize = topologies.iter().map(|(_, d)| d.node_count()).sum();
    assert_eq!(
        (of("18-two-global-stores").node_count(), of("36-retail-item-identifiers-large").node_count()),
        (4, 149)
    );
    assert_eq!(of("36-retail-item-identifiers-large").longest_name(), 87);
    assert_eq!(of("41-constructed-odd-names").longest_name(), 249);
    assert_eq!(
        of("41-constructed-odd-names").topics().into_iter().collect::<Vec<_>>(),
        ["g", "in-1", "in-2", "out.with.dots_and-dashes", "t10", "t2"]
    );
    assert_eq!(nodes, 973);
}

/// Real topologies have nothing odd about them but what their makers put there.
#[test]
fn findings_of_the_topologies() {
    let odd: Vec<String> = topologies()
        .iter()
        .flat_map(|(name, d)| Findings::of(d).listed.into_iter().map(move |f| format!("{}: {f}", &name[..2])))
        .collect();
    assert_eq!(odd, ["17: 3 subtopologies have the id '0'", "17: 3 subtopologies have the id '1'"]);
}

/// kip1331 §1.6 and Appendix A 1: the description inside the recorded push frame.
#[test]
fn kip1331_appendix_a_canonical_bytes() {
    let hex = "02023003024b0301046f75740101000253010203696e000102024b00000203475301020367740001020347500003475002010002037374010000\
               00";
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let description = Description::decode(&bytes).unwrap();
    assert_eq!(description.encode(), bytes);
    assert_eq!(
        write::kafka::text(&description),
        "Topologies:\n   Sub-topology: 0\n    Sink: K (topic: out)\n      <-- S\n    Source: S (topics: [in])\n      --> K\n\n   \
         Sub-topology: 1 for global store (will not generate tasks)\n    Source: GS (topics: [gt])\n      --> GP\n    \
         Processor: GP (stores: [st])\n      --> none\n      <-- GS\n\n\n"
    );
}
