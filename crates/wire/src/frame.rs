//! Frames: a four-byte length, then a header and a body. And what may stand on a Kafka port instead.

use bytes::{BufMut, BytesMut};

use crate::Message;
use crate::error::{EncodeError, Unencodable};
use crate::header::{RequestHeader, ResponseHeader};
use crate::writer::Writer;

/// The least that a request's frame holds: key, version, correlation id.
pub const MIN_REQUEST_BYTES: usize = 8;

/// The least that a response's frame holds: the correlation id.
pub const MIN_RESPONSE_BYTES: usize = 4;

/// A length that no frame can have. Nothing behind it can be made sense of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Below zero.
    #[error("frame length {0} is negative")]
    Negative(i32),
    /// Zero.
    #[error("frame is empty")]
    Zero,
    /// Too short for a header.
    #[error("frame of {0} bytes is shorter than a header")]
    UnderHeader(usize),
    /// Longer than the receiver allows.
    #[error("frame of {length} bytes is over the limit of {max}")]
    OverLimit {
        /// The length claimed.
        length: usize,
        /// The limit.
        max: usize,
    },
}

impl FrameError {
    /// One word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            FrameError::Negative(_) => "negative_length",
            FrameError::Zero => "zero_length",
            FrameError::UnderHeader(_) => "under_header",
            FrameError::OverLimit { .. } => "over_limit",
        }
    }
}

/// Checks a request's length before a byte is reserved for it. `max` is in bytes, without the length itself.
pub fn check_length(length: i32, max: usize) -> Result<usize, FrameError> {
    check(length, MIN_REQUEST_BYTES, max)
}

/// Checks a response's length before a byte is reserved for it. `max` is in bytes, without the length itself.
pub fn check_response_length(length: i32, max: usize) -> Result<usize, FrameError> {
    check(length, MIN_RESPONSE_BYTES, max)
}

fn check(length: i32, min: usize, max: usize) -> Result<usize, FrameError> {
    match usize::try_from(length) {
        Err(_) => Err(FrameError::Negative(length)),
        Ok(0) => Err(FrameError::Zero),
        Ok(length) if length < min => Err(FrameError::UnderHeader(length)),
        Ok(length) if length > max => Err(FrameError::OverLimit { length, max }),
        Ok(length) => Ok(length),
    }
}

/// Another protocol that speaks on a Kafka port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intruder {
    /// A TLS client hello: the client is set to SSL, this port is not.
    TlsHello,
    /// A TLS alert: the peer gave up a TLS handshake.
    TlsAlert,
    /// An HTTP request, of any version.
    Http,
    /// An SSH greeting.
    Ssh,
}

impl Intruder {
    /// Name for logs.
    pub fn name(self) -> &'static str {
        match self {
            Intruder::TlsHello => "TLS hello",
            Intruder::TlsAlert => "TLS alert",
            Intruder::Http => "HTTP",
            Intruder::Ssh => "SSH",
        }
    }

    /// What the log says when a client speaks this to a Kafka listener without TLS.
    pub fn at_a_kafka_listener(self) -> String {
        match self {
            Intruder::TlsHello => {
                "this looks like TLS on a plaintext listener; set the client's security.protocol to PLAINTEXT"
                    .to_owned()
            }
            other => format!("this looks like {} on the Kafka listener", other.name()),
        }
    }
}

/// Says which other protocol a connection's first bytes belong to; three bytes tell TLS, four the rest. `None` where
/// the bytes may be Kafka's or are too few. Each of them read as a length is above 300 MB, so none is a frame that a
/// sane limit lets through.
pub fn diagnose(first: &[u8]) -> Option<Intruder> {
    match first {
        [0x16, 0x03, _, ..] => Some(Intruder::TlsHello),
        [0x15, 0x03, _, ..] => Some(Intruder::TlsAlert),
        [b'S', b'S', b'H', b'-', ..] => Some(Intruder::Ssh),
        [a, b, c, d, ..] => {
            let verbs = [b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "];
            verbs.contains(&&[*a, *b, *c, *d]).then_some(Intruder::Http)
        }
        _ => None,
    }
}

/// True if a connection's first bytes, at least eight, look like a Kafka request: a length below 16 MB, a key and a
/// version that exist. For ports that speak something else.
pub fn looks_like_kafka(first: &[u8]) -> bool {
    match first {
        [0, _, _, _, 0, key, 0, version, ..] => *key < 0x80 && *version < 0x20,
        _ => false,
    }
}

/// Appends a whole request frame to `out`. On an error `out` is as before. The header's key and version decide; the key
/// must be the message's.
pub fn encode_request<'a, M: Message<'a>>(
    out: &mut BytesMut,
    header: &RequestHeader<'_>,
    message: &M,
) -> Result<(), EncodeError> {
    debug_assert_eq!(header.api_key, M::API_KEY);
    encode(out, |w| {
        header.encode(w)?;
        message.encode(w, header.api_version)
    })
}

/// Appends a whole response frame to `out`. On an error `out` is as before.
pub fn encode_response<'a, M: Message<'a>>(
    out: &mut BytesMut,
    correlation_id: i32,
    version: i16,
    message: &M,
) -> Result<(), EncodeError> {
    encode_answer(out, &ResponseHeader::new(correlation_id), version, message)
}

/// The same with a header as it came, unknown tags included.
pub fn encode_answer<'a, M: Message<'a>>(
    out: &mut BytesMut,
    header: &ResponseHeader,
    version: i16,
    message: &M,
) -> Result<(), EncodeError> {
    encode(out, |w| {
        header.encode(w, M::API_KEY, version)?;
        message.encode(w, version)
    })
}

/// Appends a whole frame around what `write` writes. On an error `out` is as before.
pub fn encode(
    out: &mut BytesMut,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.put_i32(0);
    let result = write(&mut Writer::new(out)).and_then(|()| {
        let length = out.len() - start - 4;
        let stored = i32::try_from(length).map_err(|_| EncodeError::new(Unencodable::TooLarge(length)))?;
        if let Some(place) = out.get_mut(start..start + 4) {
            place.copy_from_slice(&stored.to_be_bytes());
        }
        Ok(())
    });
    if result.is_err() {
        out.truncate(start);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::{FrameError, Intruder, check_length, diagnose, looks_like_kafka};

    #[test]
    fn frame_length_errors_are_told_apart() {
        assert_eq!(check_length(-1, 100), Err(FrameError::Negative(-1)));
        assert_eq!(check_length(i32::MIN, 100), Err(FrameError::Negative(i32::MIN)));
        assert_eq!(check_length(0, 100), Err(FrameError::Zero));
        assert_eq!(check_length(7, 100), Err(FrameError::UnderHeader(7)));
        assert_eq!(check_length(8, 100), Ok(8));
        assert_eq!(check_length(100, 100), Ok(100));
        assert_eq!(check_length(101, 100), Err(FrameError::OverLimit { length: 101, max: 100 }));
    }

    #[test]
    fn other_protocols_are_named() {
        assert_eq!(diagnose(&[0x16, 0x03, 0x01, 0x02]), Some(Intruder::TlsHello));
        assert_eq!(diagnose(&[0x16, 0x03, 0x03]), Some(Intruder::TlsHello));
        assert_eq!(diagnose(&[0x15, 0x03, 0x03, 0, 2]), Some(Intruder::TlsAlert));
        assert_eq!(diagnose(b"GET / HTTP/1.1"), Some(Intruder::Http));
        assert_eq!(diagnose(b"PRI * HTTP/2.0"), Some(Intruder::Http));
        assert_eq!(diagnose(b"SSH-2.0-x"), Some(Intruder::Ssh));
        assert_eq!(diagnose(b"GET"), None);
        assert_eq!(diagnose(&[0, 0, 0, 0x26, 0, 0x58]), None);
        assert_eq!(diagnose(&[]), None);
    }

    #[test]
    fn kafka_on_another_port_is_recognised() {
        assert!(looks_like_kafka(&[0, 0, 0, 0x26, 0, 18, 0, 4]));
        assert!(!looks_like_kafka(b"GET / HTTP/1.1"));
        assert!(!looks_like_kafka(&[0, 0, 0]));
    }
}
