//! The description struct that APIs 93 and 89 share (kip1331 §1.6). It has the same bytes in every version.

use bytes::{Bytes, BytesMut};

use crate::error::{DecodeError, EncodeError};
use crate::reader::Reader;
use crate::tree::Tree;
use crate::value::{Layout, Nullable, Value};
use crate::writer::Writer;

structure! {
    /// A whole topology as a Streams client describes it.
    TopologyDescription {
        subtopologies: Vec<Subtopology> [0..],
        global_stores: Vec<GlobalStore> [0..],
    }
}

structure! {
    /// A connected part of the topology; Kafka's `TopologyDescriptionSubtopology`.
    Subtopology {
        subtopology_id: String [0..],
        nodes: Vec<Node> [0..],
    }
}

structure! {
    /// A source, processor or sink; Kafka's `TopologyDescriptionNode`.
    Node {
        name: String [0..],
        /// 1 source, 2 processor, 3 sink.
        node_type: i8 [0..],
        /// Of a source.
        source_topics: Vec<String> [0..],
        /// Of a sink; null if chosen for each record.
        sink_topic: Option<String> [0..] null [0..] = None,
        /// Of a processor.
        stores: Vec<String> [0..],
        /// Names of nodes.
        successors: Vec<String> [0..],
    }
}

structure! {
    /// A global store's source and processor; Kafka's `TopologyDescriptionGlobalStore`.
    GlobalStore {
        source: Node [0..],
        processor: Node [0..],
    }
}

/// Kafka's name of [`Subtopology`].
pub type TopologyDescriptionSubtopology = Subtopology;
/// Kafka's name of [`Node`].
pub type TopologyDescriptionNode = Node;
/// Kafka's name of [`GlobalStore`].
pub type TopologyDescriptionGlobalStore = GlobalStore;

const LAYOUT: Layout = Layout { version: 1, flexible: true, nullable: false };

impl TopologyDescription {
    /// Reads a description that stands alone, as stores keep it. Bytes behind it are left in `r`.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Value::read(r, LAYOUT)
    }

    /// Writes a description to stand alone.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        Value::write(self, w, LAYOUT)
    }

    /// The description's bytes.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        let mut out = BytesMut::new();
        self.encode(&mut Writer::new(&mut out))?;
        Ok(out.freeze())
    }
}

/// A description inside a describe answer: decoded, or bytes that are a whole encoded [`TopologyDescription`] and go
/// out as they are. Reading gives `Decoded`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescriptionField {
    /// Field by field.
    Decoded(TopologyDescription),
    /// Encoded before.
    Encoded(Bytes),
}

impl<'a> Value<'a> for DescriptionField {
    fn read(r: &mut Reader<'a>, l: Layout) -> Result<Self, DecodeError> {
        TopologyDescription::read(r, l).map(DescriptionField::Decoded)
    }

    fn write(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        match self {
            DescriptionField::Decoded(description) => description.write(w, l),
            DescriptionField::Encoded(bytes) => {
                w.raw(bytes);
                Ok(())
            }
        }
    }

    fn tree(&self, version: i16) -> Tree {
        match self {
            DescriptionField::Decoded(description) => description.tree(version),
            DescriptionField::Encoded(bytes) => Tree::Bytes(bytes.to_vec()),
        }
    }
}

impl<'a> Nullable<'a> for DescriptionField {
    fn read_nullable(r: &mut Reader<'a>, l: Layout) -> Result<Option<Self>, DecodeError> {
        Ok(TopologyDescription::read_nullable(r, l)?.map(DescriptionField::Decoded))
    }

    fn write_null(w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        TopologyDescription::write_null(w, l)
    }

    fn write_present(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.i8(1);
        self.write(w, l)
    }
}
