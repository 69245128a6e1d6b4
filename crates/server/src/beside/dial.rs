//! Connections to the upstream: names are resolved anew each time, addresses tried in turn, all within one time.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use streamside_client::TlsConnector;
use streamside_proxy::pair::Stream;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::config::{HostPort, UpstreamSecurity};

/// Why there is no connection to the upstream. The text continues "cannot reach HOST:PORT: ".
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name.
    #[error("its name cannot be resolved ({0})")]
    Name(io::Error),
    /// Nobody listens, or the network says no.
    #[error("{0}")]
    Connect(io::Error),
    /// Nothing came in time.
    #[error("no connection within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The encrypted connection could not be made; a sentence that says what to do.
    #[error("{0}")]
    Tls(String),
}

impl DialError {
    /// A word for metrics and policy.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Name(_) => "name",
            Self::Connect(_) => "connect",
            Self::Timeout(_) => "timeout",
            Self::Tls(_) => "tls",
        }
    }
}

/// A connection to the upstream.
pub struct Dialled {
    /// Both directions.
    pub stream: Stream,
    /// Our own end.
    pub local: SocketAddr,
}

/// Makes connections to the upstream.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// For one connection, from the name to the end of the TLS handshake.
    pub timeout: Duration,
    /// Encryption; `None`: plaintext.
    tls: Option<TlsConnector>,
}

impl Dialer {
    /// As configured.
    ///
    /// # Errors
    /// Certificates that cannot be read or used, as a sentence.
    pub fn new(timeout: Duration, security: &UpstreamSecurity) -> Result<Self, String> {
        let tls = security.tls.as_ref().map(TlsConnector::new).transpose().map_err(|e| e.reason)?;
        Ok(Self { timeout, tls })
    }

    /// The same with less time.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        let mut quicker = self.clone();
        quicker.timeout = timeout;
        quicker
    }

    /// A connection, ready for the Kafka protocol.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn dial(&self, to: &HostPort) -> Result<Dialled, DialError> {
        let deadline = Instant::now() + self.timeout;
        let late = |_| DialError::Timeout(self.timeout);
        let tcp = tokio::time::timeout_at(deadline, connect(to)).await.map_err(late)??;
        let local = tcp.local_addr().map_err(DialError::Connect)?;
        let stream = tokio::time::timeout_at(deadline, self.secure(tcp, &to.host)).await.map_err(late)??;
        Ok(Dialled { stream, local })
    }

    /// What is spoken over a TCP connection to `host`, which the certificate must be for.
    async fn secure(&self, tcp: TcpStream, host: &str) -> Result<Stream, DialError> {
        let Some(tls) = &self.tls else { return Ok(Stream::Tcp(tcp)) };
        let stream = tls.connect(host, tcp, self.timeout).await.map_err(DialError::Tls)?;
        Ok(Stream::Other(Box::new(stream)))
    }
}

async fn connect(to: &HostPort) -> Result<TcpStream, DialError> {
    let found = tokio::net::lookup_host((to.host.as_str(), to.port)).await.map_err(DialError::Name)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in found {
        match TcpStream::connect(address).await {
            Ok(tcp) => {
                // Without it a small request may wait for the acknowledgement of the one before.
                tcp.set_nodelay(true).map_err(DialError::Connect)?;
                return Ok(tcp);
            }
            Err(e) => last = e,
        }
    }
    Err(DialError::Connect(last))
}
