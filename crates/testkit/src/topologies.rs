//! The 41 topologies of `tests/topologies`, as bodies of API 93, and made-up ones of any size.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The workspace's `tests` folder.
#[must_use]
pub fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// One topology of the collection.
#[derive(Debug, Clone)]
pub struct Sample {
    /// File name without its ending.
    pub name: String,
    /// The `TopologyDescription` that is pushed.
    pub description: Value,
}

fn node(n: &Value) -> Value {
    let list = |name: &str| {
        if n[name].is_null() { json!([]) } else { n[name].clone() }
    };
    let kind = match n["type"].as_str() {
        Some("SOURCE") => 1,
        Some("PROCESSOR") => 2,
        _ => 3,
    };
    json!({"Name": n["name"], "NodeType": kind, "SourceTopics": list("topics"), "SinkTopic": n["topic"],
        "Stores": list("stores"), "Successors": list("successors")})
}

fn each(list: &Value, shape: impl Fn(&Value) -> Value) -> Vec<Value> {
    list.as_array().map(|items| items.iter().map(shape).collect()).unwrap_or_default()
}

/// A description out of the collection's own form.
#[must_use]
pub fn description(file: &Value) -> Value {
    json!({
        "Subtopologies": each(&file["subtopologies"], |s| json!({"SubtopologyId": s["id"], "Nodes": each(&s["nodes"], node)})),
        "GlobalStores": each(&file["globalStores"], |g| json!({"Source": node(&g["source"]), "Processor": node(&g["processor"])})),
    })
}

/// Every topology of the collection, by name.
///
/// # Errors
/// A file that cannot be read or is no JSON.
pub fn samples() -> std::io::Result<Vec<Sample>> {
    let folder = tests_folder().join("topologies");
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            let file: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            out.push(Sample { name, description: description(&file) });
        }
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(out)
}

/// A chain of `nodes` nodes in subtopologies of at most fifty: a source, processors with a store each, a sink.
#[must_use]
pub fn chain(nodes: usize) -> Value {
    const EACH: usize = 50;
    let mut subtopologies = Vec::new();
    let mut left = nodes;
    while left > 0 {
        let count = left.min(EACH);
        let id = subtopologies.len();
        let name = |i: usize| format!("KSTREAM-NODE-{:010}", id * EACH + i);
        let nodes: Vec<Value> = (0..count)
            .map(|i| {
                let next = if i + 1 < count { vec![name(i + 1)] } else { Vec::new() };
                match i {
                    0 => json!({"Name": name(i), "NodeType": 1, "SourceTopics": [format!("topic-{id}-in")], "Successors": next}),
                    i if i + 1 == count => json!({"Name": name(i), "NodeType": 3, "SinkTopic": format!("topic-{id}-out")}),
                    i => json!({"Name": name(i), "NodeType": 2, "Stores": [format!("store-{}", id * EACH + i)], "Successors": next}),
                }
            })
            .collect();
        subtopologies.push(json!({"SubtopologyId": id.to_string(), "Nodes": nodes}));
        left -= count;
    }
    json!({"Subtopologies": subtopologies, "GlobalStores": []})
}

/// What must come back of a description: fields that a node kind has no use for are defaults, all else is as pushed.
#[must_use]
pub fn normal(description: &Value) -> Value {
    let node = |n: &Value| {
        json!([
            n["Name"],
            n["NodeType"],
            each(&n["SourceTopics"], Value::clone),
            n["SinkTopic"],
            each(&n["Stores"], Value::clone),
            each(&n["Successors"], Value::clone)
        ])
    };
    json!([
        each(&description["Subtopologies"], |s| json!([s["SubtopologyId"], each(&s["Nodes"], node)])),
        each(&description["GlobalStores"], |g| json!([node(&g["Source"]), node(&g["Processor"])])),
    ])
}
