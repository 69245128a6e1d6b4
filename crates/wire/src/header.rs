//! Headers of requests and responses, and a look at the first bytes of a request of any API.

use std::borrow::Cow;

use crate::api_key;
use crate::error::{DecodeError, EncodeError};
use crate::reader::Reader;
use crate::tags::{KnownTags, Tags};
use crate::writer::Writer;

/// What every request begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek {
    /// API key.
    pub api_key: i16,
    /// Version of the API.
    pub api_version: i16,
    /// The client's number for the request.
    pub correlation_id: i32,
}

/// Reads the first eight bytes of a frame's payload, for any key and version.
pub fn peek(frame: &[u8]) -> Result<Peek, DecodeError> {
    let mut r = Reader::new(frame);
    Ok(Peek {
        api_key: r.i16().map_err(|e| e.at("api_key"))?,
        api_version: r.i16().map_err(|e| e.at("api_version"))?,
        correlation_id: r.i32().map_err(|e| e.at("correlation_id"))?,
    })
}

/// Version of a request's header: 0 for the one request that had no client id, 2 with tags, else 1.
pub fn request_header_version(api_key: i16, version: i16) -> i16 {
    match (api_key, version) {
        (7, 0) => 0,
        _ if is_flexible(api_key, version) => 2,
        _ => 1,
    }
}

/// Version of a response's header: 1 with tags, else 0. ApiVersions answers have 0 always, so that a client can read
/// them before it knows what the server speaks.
pub fn response_header_version(api_key: i16, version: i16) -> i16 {
    i16::from(api_key != 18 && is_flexible(api_key, version))
}

fn is_flexible(api_key: i16, version: i16) -> bool {
    api_key::first_flexible(api_key).is_some_and(|first| version >= first)
}

/// A request's header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestHeader<'a> {
    /// API key.
    pub api_key: i16,
    /// Version of the API.
    pub api_version: i16,
    /// The client's number for the request; the response repeats it.
    pub correlation_id: i32,
    /// What the client calls itself. Its length is never compact.
    pub client_id: Option<Cow<'a, str>>,
    /// Unknown tagged fields.
    pub tags: Tags,
}

impl<'a> RequestHeader<'a> {
    /// Reads a header; the body follows in `r`.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let Peek { api_key, api_version, correlation_id } = peek(r.rest())?;
        r.take(8)?;
        let header_version = request_header_version(api_key, api_version);
        let client_id = if header_version >= 1 { r.string(false).map_err(|e| e.at("client_id"))? } else { None };
        let tags = if header_version >= 2 {
            Tags::read(r, |_, _| Ok(false)).map_err(|e| e.at("header_tags"))?
        } else {
            Tags::default()
        };
        Ok(RequestHeader { api_key, api_version, correlation_id, client_id, tags })
    }

    /// Writes a header; the body is to follow.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let header_version = request_header_version(self.api_key, self.api_version);
        w.i16(self.api_key);
        w.i16(self.api_version);
        w.i32(self.correlation_id);
        if header_version >= 1 {
            w.string(self.client_id.as_deref(), false).map_err(|e| e.at("client_id"))?;
        }
        if header_version >= 2 {
            self.tags.write(w, KnownTags::default()).map_err(|e| e.at("header_tags"))?;
        }
        Ok(())
    }
}

/// A response's header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseHeader {
    /// The number that the request carried.
    pub correlation_id: i32,
    /// Unknown tagged fields.
    pub tags: Tags,
}

impl ResponseHeader {
    /// A header without tags.
    pub fn new(correlation_id: i32) -> Self {
        ResponseHeader { correlation_id, tags: Tags::default() }
    }

    /// Reads the header of an answer to `api_key` in `api_version`; the body follows in `r`.
    pub fn decode(r: &mut Reader<'_>, api_key: i16, api_version: i16) -> Result<Self, DecodeError> {
        let correlation_id = r.i32().map_err(|e| e.at("correlation_id"))?;
        let tags = if response_header_version(api_key, api_version) >= 1 {
            Tags::read(r, |_, _| Ok(false)).map_err(|e| e.at("header_tags"))?
        } else {
            Tags::default()
        };
        Ok(ResponseHeader { correlation_id, tags })
    }

    /// Writes the header of an answer to `api_key` in `api_version`; the body is to follow.
    pub fn encode(&self, w: &mut Writer<'_>, api_key: i16, api_version: i16) -> Result<(), EncodeError> {
        w.i32(self.correlation_id);
        if response_header_version(api_key, api_version) >= 1 {
            self.tags.write(w, KnownTags::default()).map_err(|e| e.at("header_tags"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Peek, peek, request_header_version, response_header_version};

    #[test]
    fn kip1331_1_1_header_versions() {
        assert_eq!(request_header_version(42, 1), 1);
        assert_eq!(request_header_version(42, 2), 2);
        assert_eq!(request_header_version(88, 0), 2);
        assert_eq!(request_header_version(7, 0), 0);
        assert_eq!(request_header_version(17, 1), 1);
        assert_eq!(request_header_version(18, 99), 2);
        assert_eq!(response_header_version(18, 4), 0);
        assert_eq!(response_header_version(89, 0), 1);
        assert_eq!(response_header_version(42, 1), 0);
    }

    #[test]
    fn any_key_and_version_can_be_peeked() {
        let bytes = [0x7f, 0xff, 0xff, 0xfe, 0, 0, 1, 0, 9, 9];
        assert_eq!(peek(&bytes), Ok(Peek { api_key: 32767, api_version: -2, correlation_id: 256 }));
        let short = peek(&bytes[..7]).unwrap_err();
        assert_eq!((short.kind(), short.field), ("truncated", "correlation_id"));
    }
}
