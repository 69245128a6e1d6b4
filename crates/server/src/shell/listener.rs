//! Taking connections: how many in all, how many from one address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use streamside_proxy::pair::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::StartError;
use super::context::{NoiseGate, Tunables};
use super::shutdown::{Alive, Phase};
use crate::config::HostPort;
use crate::metrics::Metrics;
use crate::tls::{Acceptor, NoHands};

/// Pause after the system refused to hand out a connection (no descriptors left): others must close first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that may wait to be taken.
const BACKLOG: u32 = 4096;

/// Binds a Kafka listener; the address that was bound tells the port when the system chose it.
///
/// # Errors
/// [`StartError::Listen`].
pub async fn bind(wanted: &HostPort) -> Result<(TcpListener, SocketAddr), StartError> {
    let error = |reason| StartError::Listen { address: wanted.to_string(), reason };
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name resolves to no address");
    let addresses = tokio::net::lookup_host((wanted.host.as_str(), wanted.port)).await.map_err(error)?;
    for address in addresses {
        match bind_one(address) {
            Ok(listener) => {
                let bound = listener.local_addr().map_err(error)?;
                return Ok((listener, bound));
            }
            Err(e) => last = e,
        }
    }
    Err(error(last))
}

pub(crate) fn bind_one(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
    // A restart must not wait for old connections in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// How many connections each address has.
#[derive(Debug, Default)]
pub struct PerAddress {
    counts: Mutex<HashMap<IpAddr, usize>>,
}

struct PerAddressGuard {
    all: Arc<PerAddress>,
    address: IpAddr,
}

impl PerAddress {
    fn enter(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<PerAddressGuard> {
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Who is refused leaves no entry.
        if counts.get(&address).copied().unwrap_or(0) >= max {
            return None;
        }
        *counts.entry(address).or_insert(0) += 1;
        Some(PerAddressGuard { all: Arc::clone(self), address })
    }
}

impl Drop for PerAddressGuard {
    fn drop(&mut self) {
        let mut counts = self.all.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Who may come in: shared by all Kafka listeners of the process.
pub struct Door {
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// How many may come in.
    pub tunables: Arc<Tunables>,
    /// Keeps clients from flooding the log.
    pub noise: Arc<NoiseGate>,
    /// Who is in.
    pub alive: Alive,
    /// Who is in, by address.
    pub per_address: Arc<PerAddress>,
    /// Encryption; `None`: plaintext.
    pub tls: Option<Arc<Acceptor>>,
}

/// Takes connections until the way down begins; the listener is closed then. Each is given to `serve` with the client's
/// address, in a task of its own, once the TLS handshake is done where there is one.
pub async fn accept<S, F>(listener: TcpListener, door: Arc<Door>, mut phase: watch::Receiver<Phase>, serve: S)
where
    S: Fn(Stream, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let serve = Arc::new(serve);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|p| *p != Phase::Running) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(inside) = door.enter(&stream, peer) else { continue };
                let Some(acceptor) = door.tls.clone() else {
                    let serving = serve(Stream::Tcp(stream), peer);
                    tokio::spawn(async move {
                        let _inside = inside;
                        serving.await;
                    });
                    continue;
                };
                let (door, serve, phase) = (Arc::clone(&door), Arc::clone(&serve), phase.clone());
                tokio::spawn(async move {
                    let _inside = inside;
                    if let Some(stream) = door.shake_hands(&acceptor, stream, peer, phase).await {
                        serve(stream, peer).await;
                    }
                });
            }
            Err(e) => {
                door.metrics.limit_hit("accept");
                door.noise.warn(|| {
                    tracing::warn!(error = %e, "a connection could not be taken; raise the limit of open files if this goes on");
                });
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Door {
    /// Lets a connection in, or refuses it; it is out again when what this returns is dropped.
    fn enter(&self, stream: &TcpStream, peer: SocketAddr) -> Option<impl Send + use<>> {
        let limit = |name: &'static str, max: usize| {
            self.metrics.limit_hit(name);
            self.noise.warn(|| tracing::warn!(%peer, max, "connection refused: {name} is reached"));
        };
        let max = self.tunables.max_connections();
        if self.alive.count() >= max {
            limit("max.connections", max);
            return None;
        }
        let max = self.tunables.max_connections_per_ip();
        let Some(from_here) = self.per_address.enter(peer.ip(), max) else {
            limit("max.connections.per.ip", max);
            return None;
        };
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!(%peer, error = %e, "TCP_NODELAY could not be set");
        }
        self.metrics.connection_opened();
        let metrics = Arc::clone(&self.metrics);
        // Counted out before its place is free again.
        Some((OnDrop(move || metrics.connection_closed()), from_here, self.alive.enter()))
    }

    /// Within the time that a frame has; `None`: the connection is closed, and the log says why.
    async fn shake_hands(
        &self,
        acceptor: &Acceptor,
        stream: TcpStream,
        peer: SocketAddr,
        mut phase: watch::Receiver<Phase>,
    ) -> Option<Stream> {
        let shaken = tokio::select! {
            shaken = acceptor.accept(stream, self.tunables.frame_timeout()) => shaken,
            _ = phase.wait_for(|p| *p != Phase::Running) => return None,
        };
        match shaken {
            Ok(stream) => Some(Stream::Other(Box::new(stream))),
            Err(NoHands::Gone) => {
                tracing::debug!(%peer, "connection closed by the client before the TLS handshake");
                None
            }
            Err(NoHands::Failed(reason)) => {
                self.metrics.limit_hit("tls_handshake");
                self.noise.warn(|| tracing::warn!(%peer, reason, "connection closed"));
                None
            }
        }
    }
}

/// Runs its function at the end, a panic's too.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_its_share_and_gives_it_back() {
        let all = Arc::new(PerAddress::default());
        let address: IpAddr = "127.0.0.1".parse().unwrap();
        let first = all.enter(address, 2).unwrap();
        let second = all.enter(address, 2).unwrap();
        assert!(all.enter(address, 2).is_none());
        assert!(all.enter("127.0.0.2".parse().unwrap(), 2).is_some());
        drop(first);
        assert!(all.enter(address, 2).is_some());
        drop(second);
        assert!(all.enter(address, 0).is_none());
        assert!(all.counts.lock().unwrap().is_empty());
    }
}
