//! One file for each format. Every writer goes through [`std::fmt::Write`], so that [`render`] can stop it: nodes that
//! share a name and have many predecessors make any text that names predecessors grow with the product of both.

pub mod describe;
pub mod json;
pub mod kafka;

use std::fmt::{self, Write};
use std::str::FromStr;

use crate::graph::Scope;
use crate::model::Description;
pub use crate::text::Escape;

/// A way to write a description, named as on the command line and in URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What the stock 4.4 tool prints: [`kafka`].
    Kafka,
    /// What the application's own `Topology#describe()` prints: [`describe`].
    Describe,
    /// [`json`].
    Json,
}

impl Format {
    /// Every format, in the order in which help lists them.
    pub const ALL: [Self; 3] = [Self::Json, Self::Describe, Self::Kafka];

    /// `kafka`, `describe` or `json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Describe => "describe",
            Self::Json => "json",
        }
    }
}

/// No format has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format; known are json, describe, kafka")]
pub struct UnknownFormat;

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|f| f.name() == name)
            .ok_or(UnknownFormat)
    }
}

/// The text would be longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text would be longer than {limit} bytes")]
pub struct TooLong {
    /// The limit, bytes.
    pub limit: usize,
}

/// `description` as text of at most `limit` bytes. `escape` concerns names in `kafka` and `describe`; JSON escapes by its
/// own rules.
pub fn render(
    description: &Description,
    format: Format,
    escape: Escape,
    limit: usize,
) -> Result<String, TooLong> {
    let mut out = Bounded {
        text: String::new(),
        limit,
    };
    let written = match format {
        Format::Kafka => kafka::write(description, escape, &mut out),
        Format::Describe => describe::write(description, escape, &mut out),
        Format::Json => json::write(description, &mut out),
    };
    written
        .map(|()| out.text)
        .map_err(|fmt::Error| TooLong { limit })
}

struct Bounded {
    text: String,
    limit: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.limit - self.text.len() < piece.len() {
            return Err(fmt::Error);
        }
        self.text.push_str(piece);
        Ok(())
    }
}

/// What both text formats share: names with `, ` between them.
fn join<'a>(
    out: &mut dyn Write,
    escape: Escape,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<bool, fmt::Error> {
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
fn set<'a>(
    out: &mut dyn Write,
    escape: Escape,
    names: impl IntoIterator<Item = &'a str>,
) -> fmt::Result {
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
    if join(out, escape, names)? {
        Ok(())
    } else {
        out.write_str("none")
    }
}

/// A node's lines, from its four blanks to its last newline. The formats differ in the order of names and in what they say
/// of a sink without a topic.
fn node(out: &mut dyn Write, escape: Escape, lines: &NodeLines<'_>) -> fmt::Result {
    use crate::model::NodeRef::{Processor, Sink, Source};
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
struct NodeLines<'a> {
    node: crate::model::NodeRef<'a>,
    /// Topics of a source or stores of a processor.
    members: Vec<&'a str>,
    successors: Vec<&'a str>,
    predecessors: Vec<&'a str>,
    dynamic_sink: &'static str,
}

impl<'a> NodeLines<'a> {
    fn of(
        node: crate::model::NodeRef<'a>,
        index: usize,
        scope: &Scope<'a>,
        dynamic_sink: &'static str,
    ) -> Self {
        use crate::model::NodeRef::{Processor, Sink, Source};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Node, Processor, Subtopology};

    #[test]
    fn text_that_grows_with_a_product_is_stopped() {
        let processor = |name: String, to: &str| {
            Node::Processor(Processor {
                name,
                successors: [to].into_iter().collect(),
                ..Processor::default()
            })
        };
        let same = (0..2500).map(|_| processor("same".into(), "nowhere"));
        let nodes = same
            .chain((0..2500).map(|i| processor(format!("before-{i}"), "same")))
            .collect();
        let hostile = Description {
            subtopologies: vec![Subtopology {
                id: "0".into(),
                nodes,
            }],
            ..Description::default()
        };
        for format in Format::ALL {
            let limit = 1 << 20;
            assert_eq!(
                render(&hostile, format, Escape::Exact, limit),
                Err(TooLong { limit }),
                "{format:?}"
            );
        }
    }

    #[test]
    fn the_limit_is_the_last_length_that_passes() {
        let text = render(&Description::default(), Format::Kafka, Escape::Exact, 100);
        assert_eq!(text.as_deref(), Ok("Topologies:\n\n"));
        assert!(render(&Description::default(), Format::Kafka, Escape::Exact, 13).is_ok());
        assert_eq!(
            render(&Description::default(), Format::Kafka, Escape::Exact, 12),
            Err(TooLong { limit: 12 })
        );
    }

    #[test]
    fn formats_are_found_by_name() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert_eq!("Kafka".parse::<Format>(), Err(UnknownFormat));
    }
}
