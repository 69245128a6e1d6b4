//! Connections to the upstream: names are resolved anew each time, addresses tried in turn, all within one time.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock};
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
    /// The address is our own listener's.
    #[error("{0} is our own listener; set streamside.upstream to the cluster behind us")]
    Ourselves(SocketAddr),
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
            Self::Ourselves(_) => "ourselves",
            Self::Tls(_) => "tls",
        }
    }
}

/// Makes connections to the upstream.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// For one connection, from the name to the end of the TLS handshake.
    pub timeout: Duration,
    /// Encryption; `None`: plaintext. Shared, so that certificates may change while it is in use.
    tls: Arc<RwLock<Option<TlsConnector>>>,
    /// Where we listen ourselves: never connected to.
    own: SocketAddr,
}

impl Dialer {
    /// As configured; `own` is where we listen.
    ///
    /// # Errors
    /// Certificates that cannot be read or used, as a sentence.
    pub fn new(timeout: Duration, security: &UpstreamSecurity, own: SocketAddr) -> Result<Self, String> {
        Ok(Self { timeout, tls: Arc::new(RwLock::new(connector(security)?)), own })
    }

    /// Reads the certificates again: connections that are made from now on get them.
    ///
    /// # Errors
    /// As [`Dialer::new`]; nothing changes then.
    pub fn reload(&self, security: &UpstreamSecurity) -> Result<(), String> {
        let fresh = connector(security)?;
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
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
    pub async fn dial(&self, to: &HostPort) -> Result<Stream, DialError> {
        let deadline = Instant::now() + self.timeout;
        let late = |_| DialError::Timeout(self.timeout);
        let tcp = tokio::time::timeout_at(deadline, connect(to, self.own)).await.map_err(late)??;
        tokio::time::timeout_at(deadline, self.secure(tcp, &to.host)).await.map_err(late)?
    }

    /// What is spoken over a TCP connection to `host`, which the certificate must be for.
    async fn secure(&self, tcp: TcpStream, host: &str) -> Result<Stream, DialError> {
        let tls = self.tls.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(tls) = tls else { return Ok(Stream::Tcp(tcp)) };
        let stream = tls.connect(host, tcp, self.timeout).await.map_err(DialError::Tls)?;
        Ok(Stream::Other(Box::new(stream)))
    }
}

fn connector(security: &UpstreamSecurity) -> Result<Option<TlsConnector>, String> {
    security.tls.as_ref().map(TlsConnector::new).transpose().map_err(|e| e.reason)
}

async fn connect(to: &HostPort, own: SocketAddr) -> Result<TcpStream, DialError> {
    let found = tokio::net::lookup_host((to.host.as_str(), to.port)).await.map_err(DialError::Name)?;
    let mut last = DialError::Connect(io::Error::new(io::ErrorKind::NotFound, "its name has no address"));
    for address in found {
        if is_ours(address, own) {
            // A name may stand for others as well.
            last = DialError::Ourselves(address);
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(tcp) => {
                // Without it a small request may wait for the acknowledgement of the one before.
                tcp.set_nodelay(true).map_err(DialError::Connect)?;
                return Ok(tcp);
            }
            Err(e) => last = DialError::Connect(e),
        }
    }
    Err(last)
}

/// Whether a connection to this address comes out at our own listener.
#[must_use]
pub fn is_ours(address: SocketAddr, listener: SocketAddr) -> bool {
    let (ip, own) = (address.ip().to_canonical(), listener.ip().to_canonical());
    address.port() == listener.port() && (ip == own || (own.is_unspecified() && is_of_this_machine(ip)))
}

/// Only addresses of this machine can be bound.
fn is_of_this_machine(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_listener_is_known_by_its_address() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(is_ours(at("127.0.0.1:1"), at("127.0.0.1:1")));
        assert!(is_ours(at("[::ffff:127.0.0.1]:1"), at("127.0.0.1:1")));
        assert!(is_ours(at("127.0.0.1:1"), at("0.0.0.0:1")));
        assert!(!is_ours(at("127.0.0.1:2"), at("127.0.0.1:1")));
        assert!(!is_ours(at("127.0.0.2:1"), at("127.0.0.1:1")));
        assert!(!is_ours(at("192.0.2.1:1"), at("0.0.0.0:1")), "of a network for documents");
    }
}
