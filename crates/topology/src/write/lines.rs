//! A node's lines, which the tool's text and `describe()`'s text share.

use std::fmt::{self, Write};

use crate::graph::Scope;
use crate::model::NodeRef::{self, Processor, Sink, Source};
use crate::text::Escape;

/// Names with `, ` between them; whether there were any.
fn join<'a>(out: &mut dyn Write, escape: Escape, names: impl IntoIterator<Item = &'a str>) -> Result<bool, fmt::Error> {
    let mut any = false;
    for name in names {
        if any {
            out.write_str(", ")?;
        }
        escape.put(out, name)?;
        any = true;
    }
    Ok(any)
}

/// `[a, b]`
fn set<'a>(out: &mut dyn Write, escape: Escape, names: impl IntoIterator<Item = &'a str>) -> fmt::Result {
    out.write_char('[')?;
    join(out, escape, names)?;
    out.write_char(']')
}

/// An arrow on a line of its own, and names or `none`. No newline at the end.
fn arrow<'a>(
    out: &mut dyn Write,
    escape: Escape,
    arrow: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> fmt::Result {
    write!(out, "\n      {arrow} ")?;
    if join(out, escape, names)? { Ok(()) } else { out.write_str("none") }
}

/// A node's lines, from its four blanks to its last newline. The formats differ in the order of names and in what they say
/// of a sink without a topic.
pub(super) fn node(out: &mut dyn Write, escape: Escape, lines: &NodeLines<'_>) -> fmt::Result {
    let sets = |out: &mut dyn Write, word, names: &[&str]| {
        write!(out, " ({word}: ")?;
        set(out, escape, names.iter().copied())?;
        out.write_char(')')
    };
    out.write_str(match lines.node {
        Source(_) => "    Source: ",
        Processor(_) => "    Processor: ",
        Sink(_) => "    Sink: ",
    })?;
    escape.put(out, lines.node.name())?;
    match lines.node {
        Source(_) => sets(out, "topics", &lines.members)?,
        Processor(_) => sets(out, "stores", &lines.members)?,
        Sink(sink) => match &sink.topic {
            Some(topic) => {
                out.write_str(" (topic: ")?;
                escape.put(out, topic)?;
                out.write_char(')')?;
            }
            None => out.write_str(lines.dynamic_sink)?,
        },
    }
    if !matches!(lines.node, Sink(_)) {
        arrow(out, escape, "-->", lines.successors.iter().copied())?;
    }
    if !matches!(lines.node, Source(_)) {
        arrow(out, escape, "<--", lines.predecessors.iter().copied())?;
    }
    out.write_char('\n')
}

/// What [`node`] writes.
pub(super) struct NodeLines<'a> {
    pub(super) node: NodeRef<'a>,
    /// Topics of a source or stores of a processor.
    pub(super) members: Vec<&'a str>,
    pub(super) successors: Vec<&'a str>,
    pub(super) predecessors: Vec<&'a str>,
    pub(super) dynamic_sink: &'static str,
}

impl<'a> NodeLines<'a> {
    pub(super) fn of(node: NodeRef<'a>, index: usize, scope: &Scope<'a>, dynamic_sink: &'static str) -> Self {
        let strs = |names: &'a [String]| names.iter().map(String::as_str).collect();
        Self {
            node,
            members: match node {
                Source(_) => strs(node.topics()),
                Processor(_) => strs(node.stores()),
                Sink(_) => Vec::new(),
            },
            successors: strs(node.successors()),
            predecessors: scope.predecessors(index).collect(),
            dynamic_sink,
        }
    }
}
