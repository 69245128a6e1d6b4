//! One client connection: requests by name out of JSON, answers found by their correlation id.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::codec::{self, CodecError};
use crate::schema::{Api, Catalog};

/// Frames longer than this are not read.
const MAX_FRAME_BYTES: i32 = 200 << 20;

/// Why an exchange failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectionError {
    /// The server ended the connection, or it could not be made.
    #[error("connection closed: {0}")]
    Closed(String),
    /// Nothing came in time.
    #[error("no answer in time")]
    Timeout,
    /// A body that cannot be written or read.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// An API that the catalog lacks, or an answer nobody asked for.
    #[error("{0}")]
    Unknown(String),
}

impl ConnectionError {
    /// Word for reports.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Closed(_) => "closed",
            Self::Timeout => "timeout",
            Self::Codec(_) => "codec",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// What a request holds beside its body.
#[derive(Debug, Default, Clone)]
pub struct Shape {
    /// Body bytes in place of an encoded one.
    pub body: Option<Vec<u8>>,
    /// So many bytes are cut off the end.
    pub truncate: usize,
    /// Bytes put behind the end.
    pub append: Vec<u8>,
    /// Version in which the answer is read, where it differs.
    pub response_version: Option<i16>,
    /// Header fields that replace the usual ones.
    pub header: Option<Value>,
}

/// An answer: its API, the version in which it is read, and the body's bytes.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Whose answer it is.
    pub api: &'static Api,
    /// Version of the body.
    pub version: i16,
    /// Header, decoded.
    pub header: Value,
    /// Body bytes.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The decoded body.
    ///
    /// # Errors
    /// Bytes that are not the message.
    pub fn body(&self) -> Result<Value, CodecError> {
        codec::decode(&self.api.response, self.version, &self.bytes)
    }
}

/// A connection with its own correlation ids; the name is the client id.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    client_id: String,
    buffer: Vec<u8>,
    correlation: i32,
    waiting: BTreeMap<i32, (&'static Api, i16)>,
    arrived: BTreeMap<i32, Vec<u8>>,
}

/// An API by number or name.
///
/// # Errors
/// An API that the catalog lacks.
pub fn api(api: &Value) -> Result<&'static Api, ConnectionError> {
    let found = match api {
        Value::String(name) => Catalog::get().named(name),
        other => other.as_i64().and_then(|key| i16::try_from(key).ok()).and_then(|key| Catalog::get().api(key)),
    };
    found.ok_or_else(|| ConnectionError::Unknown(format!("unknown api {api}")))
}

impl Connection {
    /// Connects within ten seconds.
    ///
    /// # Errors
    /// [`ConnectionError::Closed`] when it does not work.
    pub fn open(address: impl ToSocketAddrs, client_id: &str) -> Result<Self, ConnectionError> {
        let closed = |e: std::io::Error| ConnectionError::Closed(e.to_string());
        let address: SocketAddr = address
            .to_socket_addrs()
            .map_err(closed)?
            .next()
            .ok_or_else(|| ConnectionError::Closed("no address".to_owned()))?;
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).map_err(closed)?;
        stream.set_nodelay(true).map_err(closed)?;
        Ok(Self {
            stream,
            client_id: client_id.to_owned(),
            buffer: Vec::new(),
            correlation: 0,
            waiting: BTreeMap::new(),
            arrived: BTreeMap::new(),
        })
    }

    /// The socket, for tests that write by hand.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// [`ConnectionError::Closed`].
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.stream.write_all(bytes).map_err(|e| ConnectionError::Closed(e.to_string()))
    }

    /// Sends one request and gives its correlation id.
    ///
    /// # Errors
    /// A body that does not fit the schema, a closed connection.
    pub fn send(
        &mut self,
        api: &'static Api,
        version: i16,
        body: &Value,
        shape: &Shape,
    ) -> Result<i32, ConnectionError> {
        self.correlation += 1;
        let frame = self.frame(api, version, body, shape)?;
        self.waiting.insert(self.correlation, (api, shape.response_version.unwrap_or(version)));
        self.send_raw(&frame)?;
        Ok(self.correlation)
    }

    fn frame(&self, api: &'static Api, version: i16, body: &Value, shape: &Shape) -> Result<Vec<u8>, ConnectionError> {
        let mut header = json!({"RequestApiKey": api.key, "RequestApiVersion": version,
            "CorrelationId": self.correlation, "ClientId": self.client_id});
        if let (Some(header), Some(Value::Object(given))) = (header.as_object_mut(), &shape.header) {
            header.extend(given.clone());
        }
        let mut data = codec::encode_request_header(codec::request_header_version(&api.request, version), &header)?;
        match &shape.body {
            Some(bytes) => data.extend(bytes),
            None => data.extend(codec::encode(&api.request, version, body)?),
        }
        data.truncate(data.len().saturating_sub(shape.truncate));
        data.extend(&shape.append);
        let length = i32::try_from(data.len()).map_err(|_| ConnectionError::Unknown("request too long".to_owned()))?;
        Ok([&length.to_be_bytes(), data.as_slice()].concat())
    }

    fn fill(&mut self, wanted: usize, deadline: Instant) -> Result<(), ConnectionError> {
        let mut chunk = [0_u8; 1 << 16];
        while self.buffer.len() < wanted {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ConnectionError::Timeout);
            }
            let closed = |e: std::io::Error| ConnectionError::Closed(e.to_string());
            self.stream.set_read_timeout(Some(left)).map_err(closed)?;
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ConnectionError::Closed("closed by the server".to_owned())),
                Ok(n) => self.buffer.extend(&chunk[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(ConnectionError::Timeout);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(closed(e)),
            }
        }
        Ok(())
    }

    /// The next frame without its length.
    ///
    /// # Errors
    /// A closed connection, nothing within `timeout`, a length that cannot be.
    pub fn read_frame(&mut self, timeout: Duration) -> Result<Vec<u8>, ConnectionError> {
        let deadline = Instant::now() + timeout;
        self.fill(4, deadline)?;
        let length = i32::from_be_bytes([self.buffer[0], self.buffer[1], self.buffer[2], self.buffer[3]]);
        if !(0..=MAX_FRAME_BYTES).contains(&length) {
            return Err(ConnectionError::Unknown(format!("frame length {length}")));
        }
        let end = 4 + length as usize;
        self.fill(end, deadline)?;
        let frame = self.buffer[4..end].to_vec();
        self.buffer.drain(..end);
        Ok(frame)
    }

    /// The answer to one request; answers to others are kept for later.
    ///
    /// # Errors
    /// As [`Self::read_frame`], and a request that was never sent.
    pub fn receive(&mut self, correlation: i32, timeout: Duration) -> Result<Answer, ConnectionError> {
        let deadline = Instant::now() + timeout;
        let frame = loop {
            if let Some(frame) = self.arrived.remove(&correlation) {
                break frame;
            }
            let frame = self.read_frame(deadline.saturating_duration_since(Instant::now()))?;
            let Some(id) = frame.first_chunk::<4>() else {
                return Err(ConnectionError::Unknown(format!("an answer of {} bytes", frame.len())));
            };
            self.arrived.insert(i32::from_be_bytes(*id), frame);
        };
        let (api, version) = self
            .waiting
            .remove(&correlation)
            .ok_or_else(|| ConnectionError::Unknown(format!("nobody waits for {correlation}")))?;
        let mut bytes = frame.as_slice();
        let header_version = codec::response_header_version(api.key, &api.response, version);
        let header = codec::decode_prefix(&Catalog::get().response_header, header_version, &mut bytes)?;
        Ok(Answer { api, version, header, bytes: bytes.to_vec() })
    }

    /// Sends a request by name and waits for the decoded answer.
    ///
    /// # Errors
    /// As [`Self::send`] and [`Self::receive`].
    pub fn call(
        &mut self,
        name: &str,
        version: i16,
        body: &Value,
        timeout: Duration,
    ) -> Result<Value, ConnectionError> {
        let api = api(&Value::from(name))?;
        let id = self.send(api, version, body, &Shape::default())?;
        Ok(self.receive(id, timeout)?.body()?)
    }
}
