//! What `kafka-streams-groups.sh --describe --topology` of 4.4 prints, byte for byte with [`Escape::Exact`]
//! (kip1331 §11.3): received order outside, sets sorted by UTF-16 code units inside.

use std::fmt::{self, Write};

use super::lines::{NodeLines, node};
use crate::graph::{Graph, Scope};
use crate::model::Description;
use crate::text::Escape;

/// The tool's text, with the newline that its `println` adds.
pub fn text(description: &Description) -> String {
    let mut text = String::new();
    // a String takes everything
    let _ = write(description, Escape::Exact, &mut text);
    text
}

/// Writes the tool's text, with the newline that its `println` adds. Fails only as `out` does.
pub fn write(description: &Description, escape: Escape, out: &mut dyn Write) -> fmt::Result {
    let graph = Graph::of(description);
    out.write_str("Topologies:\n")?;
    for (subtopology, scope) in description.subtopologies.iter().zip(&graph.subtopologies) {
        out.write_str("   Sub-topology: ")?;
        escape.put(out, &subtopology.id)?;
        out.write_char('\n')?;
        write_nodes(scope, escape, out)?;
    }
    for (index, scope) in graph.global_stores.iter().enumerate() {
        // the id is not on the wire: the tool counts on, and may meet the id of a real subtopology
        let id = description.subtopologies.len() + index;
        writeln!(out, "   Sub-topology: {id} for global store (will not generate tasks)")?;
        write_nodes(scope, escape, out)?;
    }
    out.write_char('\n')
}

fn write_nodes(scope: &Scope<'_>, escape: Escape, out: &mut dyn Write) -> fmt::Result {
    for (index, view) in scope.nodes().iter().enumerate() {
        // a dynamic sink reads like one whose topic is called "null"
        let mut lines = NodeLines::of(*view, index, scope, " (topic: null)");
        lines.members.sort_unstable_by(|a, b| crate::names::utf16_order(a, b));
        lines.successors.sort_unstable_by(|a, b| crate::names::utf16_order(a, b));
        node(out, escape, &lines)?;
    }
    out.write_char('\n')
}
