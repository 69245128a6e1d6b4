//! Between bytes and messages with their headers. Errors are sentences for the log.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use streamside_wire::header::{RequestHeader, ResponseHeader};
use streamside_wire::{Message, Reader, Writer, api_key, frame};

use crate::limits::{DECODED_HEAP_CEILING, DECODED_HEAP_FACTOR, DECODED_HEAP_FLOOR};

fn reader(body: &[u8]) -> Reader<'_> {
    let most = DECODED_HEAP_CEILING.max(body.len().saturating_mul(2));
    Reader::with_heap_limit(body, body.len().saturating_mul(DECODED_HEAP_FACTOR).clamp(DECODED_HEAP_FLOOR, most))
}

/// Reads a request from the body of its frame.
pub(super) fn read_request<'a, M: Message<'a>>(body: &'a [u8]) -> Result<(RequestHeader<'a>, M), String> {
    let mut r = reader(body);
    let header = RequestHeader::decode(&mut r).map_err(|e| format!("a request's header: {e}"))?;
    match M::decode(&mut r, header.api_version) {
        Ok(message) => Ok((header, message)),
        Err(e) => Err(format!("a {} request of version {}: {e}", api_key::name(M::API_KEY), header.api_version)),
    }
}

/// Reads an answer from the body of its frame.
pub(super) fn read_answer<'a, M: Message<'a>>(body: &'a [u8], version: i16) -> Result<(ResponseHeader, M), String> {
    let mut r = reader(body);
    let name = api_key::name(M::API_KEY);
    let header = ResponseHeader::decode(&mut r, M::API_KEY, version).map_err(|e| format!("{name} answer: {e}"))?;
    let message = M::decode(&mut r, version).map_err(|e| format!("{name} answer: {e}"))?;
    Ok((header, message))
}

/// The body of a request's frame.
pub(super) fn write_request<'a, M: Message<'a>>(header: &RequestHeader<'_>, message: &M) -> Result<BytesMut, String> {
    let mut body = BytesMut::new();
    let mut w = Writer::new(&mut body);
    header.encode(&mut w).and_then(|()| message.encode(&mut w, header.api_version)).map_err(|e| {
        format!("a {} request can't be said in version {}: {e}", api_key::name(M::API_KEY), header.api_version)
    })?;
    Ok(body)
}

/// The body of the frame of a request of ours.
pub(super) fn request<'a, M: Message<'a>>(
    message: &M,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Bytes, String> {
    let header = RequestHeader {
        api_key: M::API_KEY,
        api_version: version,
        correlation_id,
        client_id: client_id.map(Cow::Borrowed),
        ..Default::default()
    };
    write_request(&header, message).map(BytesMut::freeze)
}

/// The whole frame of an answer.
pub(super) fn write_answer<'a, M: Message<'a>>(
    header: &ResponseHeader,
    message: &M,
    version: i16,
) -> Result<BytesMut, String> {
    let mut frame = BytesMut::new();
    frame::encode_answer(&mut frame, header, version, message)
        .map_err(|e| format!("a {} answer can't be said in version {version}: {e}", api_key::name(M::API_KEY)))?;
    Ok(frame)
}

/// The whole frame of a body that stays as it is.
pub(super) fn framed(body: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(4 + body.len());
    frame.put_u32(body.len() as u32);
    frame.extend_from_slice(body);
    frame
}
