//! From a request to the bytes of its frame, and from an answer's frame to its message.

use std::borrow::Cow;

use bytes::{Buf as _, Bytes, BytesMut};
use streamside_wire::header::{RequestHeader, ResponseHeader};
use streamside_wire::{Message, Reader, frame};

/// The whole frame of a request, its length first; the error is a sentence for people.
pub(crate) fn request<'q, Q: Message<'q>>(
    request: &Q,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<Bytes, String> {
    let mut bytes = BytesMut::new();
    let head = RequestHeader {
        api_key: Q::API_KEY,
        api_version: version,
        correlation_id,
        client_id: Some(Cow::Borrowed(client_id)),
        ..Default::default()
    };
    frame::encode_request(&mut bytes, &head, request).map_err(|e| e.to_string())?;
    Ok(bytes.freeze())
}

/// Takes the header off an answer; the error continues the sentence "its answer to X …".
pub(crate) fn answer_body(mut frame: Bytes, api_key: i16, version: i16, correlation_id: i32) -> Result<Bytes, String> {
    let mut reader = Reader::new(&frame);
    let head = ResponseHeader::decode(&mut reader, api_key, version)
        .map_err(|e| format!("has a header that can't be read: {e}"))?;
    if head.correlation_id != correlation_id {
        return Err(format!("carries the number {} where {correlation_id} was due", head.correlation_id));
    }
    let left = reader.remaining();
    frame.advance(frame.len() - left);
    Ok(frame)
}

/// Reads a message; bytes behind it are passed over, as Kafka's clients do.
pub(crate) fn decode<'a, A: Message<'a>>(body: &'a [u8], version: i16) -> Result<A, String> {
    A::decode(&mut Reader::new(body), version).map_err(|e| e.to_string())
}
