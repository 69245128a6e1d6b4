//! The stable JSON shape: compact, one object, keys only ever added. [`Description::from_json`] reads it back.
//!
//! ```text
//! { "subtopologies": [ { "id": string, "nodes": [ NODE … ] } … ],
//!   "globalStores":  [ { "source": NODE, "processor": NODE } … ],
//!   "findings":      [ { "kind": word, …, "text": sentence } … ],   see `Finding`; at most 1000
//!   "findingsOmitted": number }
//!
//! NODE: { "name": string, "type": "SOURCE" | "PROCESSOR" | "SINK",
//!         "topics": [string …] | null,      a list on sources only; empty for a pattern source
//!         "topic": string | null,           on sinks only; null when chosen for each record
//!         "stores": [string …],             on processors only
//!         "successors": [string …],         as received; may name nodes that do not exist
//!         "predecessors": [string …] }      rebuilt; sorted by UTF-16 code units
//! ```
//!
//! Nodes, lists and parts keep the received order. Control, bidi and invisible characters stand as `\u` escapes, so the
//! text is as safe in a terminal as it is exact to a reader.

use std::fmt::{self, Write};
use std::io;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::ser::Formatter;

use crate::findings::{Finding, Findings};
use crate::graph::{Graph, Scope};
use crate::model::{Description, NodeRef};
use crate::text::is_hostile;

/// The JSON text, without a newline at the end.
pub fn text(description: &Description) -> String {
    let mut text = String::new();
    // a String takes everything
    let _ = write(description, &mut text);
    text
}

/// Writes the JSON text. Fails only as `out` does.
pub fn write(description: &Description, out: &mut dyn Write) -> fmt::Result {
    let graph = Graph::of(description);
    let findings = Findings::of_graph(description, &graph);
    let document = Document { description, graph: &graph, findings: &findings };
    let mut serializer = serde_json::Serializer::with_formatter(Utf8(out), Inert);
    document.serialize(&mut serializer).map_err(|_| fmt::Error)
}

struct Document<'a> {
    description: &'a Description,
    graph: &'a Graph<'a>,
    findings: &'a Findings,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        let subtopologies = self.description.subtopologies.iter().zip(&self.graph.subtopologies);
        map.serialize_entry(
            "subtopologies",
            &Seq(|| subtopologies.clone().map(|(s, scope)| SubtopologyJson { id: &s.id, scope })),
        )?;
        map.serialize_entry("globalStores", &Seq(|| self.graph.global_stores.iter().map(GlobalStoreJson)))?;
        map.serialize_entry("findings", &Seq(|| self.findings.listed.iter().map(FindingJson::of)))?;
        map.serialize_entry("findingsOmitted", &self.findings.omitted)?;
        map.end()
    }
}

/// A list that is made while it is written.
struct Seq<F>(F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Seq<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

struct SubtopologyJson<'a> {
    id: &'a str,
    scope: &'a Scope<'a>,
}

impl Serialize for SubtopologyJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("id", self.id)?;
        map.serialize_entry("nodes", &Seq(|| (0..self.scope.nodes().len()).map(|index| NodeJson(self.scope, index))))?;
        map.end()
    }
}

struct GlobalStoreJson<'a>(&'a Scope<'a>);

impl Serialize for GlobalStoreJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("source", &NodeJson(self.0, 0))?;
        map.serialize_entry("processor", &NodeJson(self.0, 1))?;
        map.end()
    }
}

struct NodeJson<'a>(&'a Scope<'a>, usize);

impl Serialize for NodeJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(scope, index) = self;
        let Some(node) = scope.nodes().get(*index) else {
            return serializer.serialize_none();
        };
        let (topics, topic) = match node {
            NodeRef::Source(source) => (Some(&*source.topics), None),
            NodeRef::Processor(_) => (None, None),
            NodeRef::Sink(sink) => (None, sink.topic.as_deref()),
        };
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("name", node.name())?;
        map.serialize_entry("type", node.node_type().name())?;
        map.serialize_entry("topics", &topics)?;
        map.serialize_entry("topic", &topic)?;
        map.serialize_entry("stores", node.stores())?;
        map.serialize_entry("successors", &**node.successors())?;
        map.serialize_entry("predecessors", &Seq(|| scope.predecessors(*index)))?;
        map.end()
    }
}

#[derive(serde::Serialize)]
struct FindingJson<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    text: String,
}

impl<'a> FindingJson<'a> {
    fn of(finding: &'a Finding) -> Self {
        Self { finding, text: finding.to_string() }
    }
}

/// Writes hostile characters as `\u` escapes; any reader gets the same string.
struct Inert;

impl Formatter for Inert {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hostile(*c)) {
            let (before, from) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = from.get(c.len_utf8()..).unwrap_or_default();
        }
        out.write_all(rest.as_bytes())
    }
}

/// serde_json writes whole characters only, so each piece is text.
struct Utf8<'a>(&'a mut dyn Write);

impl io::Write for Utf8<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_fixed() {
        let description = Description::from_json(
            r#"{"subtopologies":[{"id":"0","nodes":[
                {"name":"s","type":"SOURCE","topics":["in"],"successors":["k","ghost"]},
                {"name":"k","type":"SINK","topic":"out"}]}],
              "globalStores":[{"source":{"name":"gs","type":"SOURCE","topics":["gt"],"successors":["gp"]},
                               "processor":{"name":"gp","type":"PROCESSOR","stores":["st"]}}]}"#,
        )
        .unwrap();
        assert_eq!(
            text(&description),
            concat!(
                r#"{"subtopologies":[{"id":"0","nodes":["#,
                r#"{"name":"s","type":"SOURCE","topics":["in"],"topic":null,"stores":[],"successors":["k","ghost"],"predecessors":[]},"#,
                r#"{"name":"k","type":"SINK","topics":null,"topic":"out","stores":[],"successors":[],"predecessors":["s"]}]}],"#,
                r#""globalStores":[{"#,
                r#""source":{"name":"gs","type":"SOURCE","topics":["gt"],"topic":null,"stores":[],"successors":["gp"],"predecessors":[]},"#,
                r#""processor":{"name":"gp","type":"PROCESSOR","topics":null,"topic":null,"stores":["st"],"successors":[],"predecessors":["gs"]}}],"#,
                r#""findings":[{"kind":"dangling_successor","place":{"subtopology":{"id":"0","index":0}},"node":"s","successor":"ghost","#,
                r#""text":"subtopology 0: node 's' leads to 'ghost', which does not exist"}],"findingsOmitted":0}"#,
            )
        );
    }

    #[test]
    fn hostile_characters_are_escaped_and_read_back() {
        let mut description = Description::default();
        let id = "a\u{202e}\u{9b}\u{1b}\n\"\\\u{e0041}é";
        description.subtopologies.push(crate::Subtopology { id: id.into(), nodes: Vec::new() });
        let json = text(&description);
        assert!(json.contains(r#""a\u202e\u009b\u001b\n\"\\\udb40\udc41é""#), "{json}");
        assert_eq!(Description::from_json(&json).unwrap(), description);
    }
}
