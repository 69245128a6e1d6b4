//! Which bytes are this message, and is it safe to read them?
//!
//! | module | what |
//! |---|---|
//! | [`messages`] | requests and responses, one module an API, every version that Kafka 4.4 serves |
//! | [`header`] | request and response headers; a look at the first bytes of any request |
//! | [`frame`] | lengths, whole frames, and other protocols on a Kafka port |
//! | [`error_code`], [`api_key`] | names of numbers |
//! | [`reader`], [`writer`], [`value`], [`tags`] | primitives, and how each type of field stands on the wire |
//! | [`error`] | what can be wrong, each with a kind and the field |
//! | [`tree`] | any message as named values |
//! | `schema`, `utf8` | the tables that messages are written as; text as Java reads it |
//!
//! Reading is safe with any bytes: nothing panics, and nothing is reserved on the strength of a promised length.
//!
//! ```
//! use streamside_wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsResponse};
//! use streamside_wire::{Message, Reader, Writer, bytes::BytesMut};
//!
//! let answer = DeleteGroupsResponse {
//!     results: vec![DeletableGroupResult { group_id: "orders".into(), error_code: 69, ..Default::default() }],
//!     ..Default::default()
//! };
//! let mut bytes = BytesMut::new();
//! answer.encode(&mut Writer::new(&mut bytes), 3)?;
//! assert_eq!(DeleteGroupsResponse::decode(&mut Reader::new(&bytes), 3)?, answer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[macro_use]
mod schema;

pub mod api_key;
pub mod error;
pub mod error_code;
pub mod frame;
pub mod header;
pub mod messages;
pub mod reader;
pub mod tags;
pub mod tree;
mod utf8;
pub mod value;
pub mod writer;

use std::ops::RangeInclusive;

pub use bytes;

pub use error::{DecodeError, EncodeError, Malformed, Unencodable};
pub use error_code::ErrorCode;
pub use frame::{FrameError, Intruder};
pub use reader::Reader;
pub use tags::Tags;
pub use tree::Tree;
pub use writer::Writer;

/// The longest string, in UTF-8 bytes, that Kafka reads or writes, compact or not (recorded from Kafka 4.4.0).
pub const MAX_STRING_BYTES: usize = 32767;

/// A request's or response's body.
pub trait Message<'a>: Sized {
    /// The API.
    const API_KEY: i16;
    /// Versions that can be read and written.
    const VERSIONS: RangeInclusive<i16>;
    /// The first version with compact lengths and tag sections; `i16::MAX` if none has.
    const FIRST_FLEXIBLE: i16;

    /// Reads a body. Bytes behind it are left alone, as Java leaves them.
    fn decode(r: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError>;

    /// Writes a body.
    fn encode(&self, w: &mut Writer<'_>, version: i16) -> Result<(), EncodeError>;
}
