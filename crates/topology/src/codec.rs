//! The canonical bytes of a description: the body struct of API 93 version 0 as Kafka writes it into a describe, which is
//! what stores keep, what a describe splices, and what the hash is of.

use std::fmt::{self, Display};

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use streamside_wire::messages::topology_description::TopologyDescription;
use streamside_wire::{DecodeError as WireError, Reader, Writer};

use crate::convert::ConversionError;
use crate::model::{Description, NodeRef};

/// Why bytes are no description; a store that returns such a copy has it corrupted (difference H1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not the struct.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The struct, but nothing that Kafka would have accepted.
    #[error(transparent)]
    Refused(#[from] ConversionError),
    /// Bytes are left behind the struct, so it cannot be spliced into an answer.
    #[error("{0} bytes behind the description")]
    Trailing(usize),
}

impl DecodeError {
    /// A word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Wire(e) => e.kind(),
            Self::Refused(e) => e.kind(),
            Self::Trailing(_) => "trailing_bytes",
        }
    }
}

/// SHA-256 of a description's encoded bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct DescriptionHash(pub [u8; 32]);

/// The hash of bytes that [`Description::encode`] gave.
pub fn hash_of_encoded(encoded: &[u8]) -> DescriptionHash {
    DescriptionHash(Sha256::digest(encoded).into())
}

impl Description {
    /// The canonical bytes: shortest lengths, no field that the node's kind does not have, no tagged fields. A string
    /// longer than the wire's 32,767 bytes is written all the same (one can arise where invalid UTF-8 was repaired);
    /// see [`Description::longest_name`].
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.size_hint());
        let mut writer = Writer::new(&mut out);
        let w = &mut writer;
        length(w, self.subtopologies.len());
        for subtopology in &self.subtopologies {
            string(w, &subtopology.id);
            length(w, subtopology.nodes.len());
            for node in &subtopology.nodes {
                encode_node(w, node.view());
            }
            w.uvarint(NO_TAGS);
        }
        length(w, self.global_stores.len());
        for store in &self.global_stores {
            for node in store.nodes() {
                encode_node(w, node);
            }
            w.uvarint(NO_TAGS);
        }
        w.uvarint(NO_TAGS);
        out.freeze()
    }

    /// Reads bytes that [`Description::encode`], another writer of Kafka's format, or a plugin gave.
    pub fn decode(encoded: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(encoded);
        let wire = TopologyDescription::decode(&mut reader)?;
        match reader.remaining() {
            0 => Ok(Self::from_wire_owned(wire)?),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    /// SHA-256 of [`Description::encode`].
    pub fn hash(&self) -> DescriptionHash {
        hash_of_encoded(&self.encode())
    }

    fn size_hint(&self) -> usize {
        let list = |names: &[String]| names.iter().map(|n| n.len() + 2).sum::<usize>();
        let nodes =
            self.nodes().map(|n| n.name().len() + list(n.topics()) + list(n.stores()) + list(n.successors()) + 12);
        nodes.sum::<usize>() + self.subtopologies.iter().map(|s| s.id.len() + 8).sum::<usize>() + 16
    }
}

const NO_TAGS: u32 = 0;
const NULL: u32 = 0;

/// Compact form of a length: one more than it is. More than four thousand million elements do not fit into memory.
fn length(w: &mut Writer<'_>, len: usize) {
    w.uvarint(u32::try_from(len).unwrap_or(u32::MAX).saturating_add(1));
}

fn string(w: &mut Writer<'_>, text: &str) {
    length(w, text.len());
    w.raw(text.as_bytes());
}

fn strings(w: &mut Writer<'_>, texts: &[String]) {
    length(w, texts.len());
    for text in texts {
        string(w, text);
    }
}

fn encode_node(w: &mut Writer<'_>, node: NodeRef<'_>) {
    string(w, node.name());
    w.i8(node.node_type().code());
    match node {
        NodeRef::Source(source) => strings(w, &source.topics),
        NodeRef::Processor(_) | NodeRef::Sink(_) => length(w, 0),
    }
    match node {
        NodeRef::Sink(sink) if let Some(topic) = &sink.topic => string(w, topic),
        _ => w.uvarint(NULL),
    }
    strings(w, node.stores());
    strings(w, node.successors());
    w.uvarint(NO_TAGS);
}

/// Lower-case hexadecimal.
impl Display for DescriptionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DescriptionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DescriptionHash({self})")
    }
}
