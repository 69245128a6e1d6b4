//! The engine: one connection pair from its first byte to its end.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::handler::Handler;

/// Both directions of an encrypted connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// One side of a pair.
pub enum Stream {
    /// Plaintext: large runs may bypass user space.
    Tcp(TcpStream),
    /// Anything else, TLS above all.
    Other(Box<dyn Duplex>),
}

/// Settings of a pair.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest request: `socket.request.max.bytes`.
    pub max_request_bytes: usize,
    /// How long a request may take to arrive once begun.
    pub frame_timeout: Duration,
    /// How long nothing may pass either way.
    pub idle: Duration,
}

/// Why a pair ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed it, or the network did.
    Client,
    /// The upstream closed it, or the network did.
    Upstream,
    /// Nothing passed for too long.
    Idle,
    /// A request was begun and not finished in time.
    Stalled,
    /// We are going down and nothing was in flight.
    Drained,
    /// The client sent what cannot be passed on; the line is for the log.
    Refused(String),
    /// The upstream sent what cannot be understood; the line is for the log.
    Garbled(String),
}

/// Serves one pair until it ends. `draining` turns true when the process is going down.
pub async fn run<H: Handler>(
    _client: Stream,
    _upstream: Stream,
    _handler: H,
    _options: &Options,
    _draining: tokio::sync::watch::Receiver<bool>,
) -> Ended {
    Ended::Client
}
