//! One file for each format. Every writer goes through [`std::fmt::Write`], so that [`render`] can stop it: nodes that
//! share a name and have many predecessors make any text that names predecessors grow with the product of both.

pub mod describe;
pub mod json;
pub mod kafka;
mod lines;

use std::fmt::{self, Write};
use std::str::FromStr;

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
        Self::ALL.into_iter().find(|f| f.name() == name).ok_or(UnknownFormat)
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
pub fn render(description: &Description, format: Format, escape: Escape, limit: usize) -> Result<String, TooLong> {
    let mut out = Bounded { text: String::new(), limit };
    let written = match format {
        Format::Kafka => kafka::write(description, escape, &mut out),
        Format::Describe => describe::write(description, escape, &mut out),
        Format::Json => json::write(description, &mut out),
    };
    written.map(|()| out.text).map_err(|fmt::Error| TooLong { limit })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Node, Processor, Subtopology};

    #[test]
    fn text_that_grows_with_a_product_is_stopped() {
        let processor = |name: String, to: &str| {
            Node::Processor(Processor { name, successors: [to].into_iter().collect(), ..Processor::default() })
        };
        let same = (0..2500).map(|_| processor("same".into(), "nowhere"));
        let nodes = same.chain((0..2500).map(|i| processor(format!("before-{i}"), "same"))).collect();
        let hostile =
            Description { subtopologies: vec![Subtopology { id: "0".into(), nodes }], ..Description::default() };
        for format in Format::ALL {
            let limit = 1 << 20;
            assert_eq!(render(&hostile, format, Escape::Exact, limit), Err(TooLong { limit }), "{format:?}");
        }
    }

    #[test]
    fn the_limit_is_the_last_length_that_passes() {
        let text = render(&Description::default(), Format::Kafka, Escape::Exact, 100);
        assert_eq!(text.as_deref(), Ok("Topologies:\n\n"));
        assert!(render(&Description::default(), Format::Kafka, Escape::Exact, 13).is_ok());
        assert_eq!(render(&Description::default(), Format::Kafka, Escape::Exact, 12), Err(TooLong { limit: 12 }));
    }

    #[test]
    fn formats_are_found_by_name() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert_eq!("Kafka".parse::<Format>(), Err(UnknownFormat));
    }
}
