//! What the application's own `Topology#describe()` prints, as far as the wire lets it be restored.
//!
//! | of `describe()` | here |
//! |---|---|
//! | subtopologies and global stores together, by id | the same; global stores, whose ids are not on the wire, fill the gaps that the subtopologies' ids leave, then go on |
//! | nodes by falling size of what hangs on them, then by name | the same |
//! | successors and predecessors in an order that depends on Java's hashing | by falling size, then by name |
//! | topics of a source, stores of a processor, in hash order | as received |
//! | pattern source: the pattern, without brackets | `(topics: [])` |
//! | dynamic sink: its extractor's class | `(extractor class: unknown)` |
//!
//! When subtopology ids repeat or are not numbers (no application does that), subtopologies keep the received order and
//! global stores come last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Write};

use super::lines::{NodeLines, node};
use crate::graph::{Graph, Scope};
use crate::model::Description;
use crate::names::utf16_order;
use crate::text::Escape;

/// Stands for the extractor's class, which is not on the wire.
pub const DYNAMIC_SINK: &str = " (extractor class: unknown)";

/// `describe()`'s text.
pub fn text(description: &Description) -> String {
    let mut text = String::new();
    // a String takes everything
    let _ = write(description, Escape::Exact, &mut text);
    text
}

/// Writes `describe()`'s text. Fails only as `out` does.
pub fn write(description: &Description, escape: Escape, out: &mut dyn Write) -> fmt::Result {
    let graph = Graph::of(description);
    out.write_str("Topologies:\n ")?;
    for part in order(description) {
        out.write_str("  Sub-topology: ")?;
        match part {
            Part::Subtopology(index) => {
                let (Some(subtopology), Some(scope)) =
                    (description.subtopologies.get(index), graph.subtopologies.get(index))
                else {
                    continue;
                };
                escape.put(out, &subtopology.id)?;
                out.write_char('\n')?;
                write_nodes(scope, escape, out)?;
                out.write_char('\n')?;
            }
            Part::GlobalStore(index, id) => {
                writeln!(out, "{id} for global store (will not generate tasks)")?;
                let Some(scope) = graph.global_stores.get(index) else {
                    continue;
                };
                for (index, view) in scope.nodes().iter().enumerate() {
                    node(out, escape, &NodeLines::of(*view, index, scope, DYNAMIC_SINK))?;
                }
            }
        }
    }
    Ok(())
}

/// Ids for the global stores, in their order: those that no subtopology bears, ascending from 0.
pub fn global_store_ids(description: &Description) -> Vec<u64> {
    let taken: HashSet<u64> = description.subtopologies.iter().filter_map(|s| number(&s.id)).collect();
    (0..).filter(|id| !taken.contains(id)).take(description.global_stores.len()).collect()
}

#[derive(Clone, Copy)]
enum Part {
    Subtopology(usize),
    GlobalStore(usize, u64),
}

fn order(description: &Description) -> Vec<Part> {
    let global_ids = global_store_ids(description);
    let globals = (0..).zip(global_ids).map(|(index, id)| (id, Part::GlobalStore(index, id)));
    let subtopologies = description.subtopologies.iter().enumerate();
    let by_id: BTreeMap<u64, Part> =
        subtopologies.filter_map(|(index, s)| Some((number(&s.id)?, Part::Subtopology(index)))).collect();
    if by_id.len() == description.subtopologies.len() {
        return by_id.into_iter().chain(globals).collect::<BTreeMap<u64, Part>>().into_values().collect();
    }
    let received = (0..description.subtopologies.len()).map(Part::Subtopology);
    received.chain(globals.map(|(_, part)| part)).collect()
}

/// A decimal number as Java prints an int: no sign, no leading zero.
fn number(id: &str) -> Option<u64> {
    let plain = id == "0" || (!id.starts_with('0') && id.bytes().all(|b| b.is_ascii_digit()));
    id.parse().ok().filter(|_| plain)
}

fn write_nodes(scope: &Scope<'_>, escape: Escape, out: &mut dyn Write) -> fmt::Result {
    let sizes: HashMap<&str, u64> = scope.sizes();
    // a successor that does not exist has size 0
    let size = |name: &str| sizes.get(name).copied().unwrap_or(0);
    let by_size = |a: &&str, b: &&str| size(b).cmp(&size(a)).then_with(|| utf16_order(a, b));
    let mut nodes: Vec<_> = scope.nodes().iter().copied().enumerate().collect();
    nodes.sort_by(|(_, a), (_, b)| by_size(&a.name(), &b.name()));
    for (index, view) in nodes {
        let mut lines = NodeLines::of(view, index, scope, DYNAMIC_SINK);
        lines.successors.sort_unstable_by(by_size);
        lines.predecessors.sort_unstable_by(by_size);
        node(out, escape, &lines)?;
    }
    Ok(())
}
