//! Taking connections: how many in all, how many from one address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::StartError;
use super::connection;
use super::context::Context;
use super::shutdown::{Alive, Phase};
use crate::config::HostPort;

/// Pause after the system refused to hand out a connection (no descriptors left): others must close first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that may wait to be taken.
const BACKLOG: u32 = 4096;

/// Binds the Kafka listener; the address that was bound tells the port when the system chose it.
pub(super) async fn bind(wanted: &HostPort) -> Result<(TcpListener, SocketAddr), StartError> {
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

fn bind_one(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
    // A restart must not wait for old connections in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// How many connections each address has.
#[derive(Default)]
struct PerAddress {
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

/// Takes connections until the way down begins; the listener is closed then.
pub(super) async fn accept(
    listener: TcpListener,
    context: Arc<Context>,
    mut phase: watch::Receiver<Phase>,
    alive: Alive,
) {
    let per_address = Arc::new(PerAddress::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|p| *p != Phase::Running) => return,
        };
        match accepted {
            Ok((stream, peer)) => take(stream, peer, &context, &phase, &alive, &per_address),
            Err(e) => {
                context.metrics.limit_hit("accept");
                context.noise.warn(|| {
                    tracing::warn!(error = %e, "a connection could not be taken; raise the limit of open files if this goes on");
                });
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn take(
    stream: TcpStream,
    peer: SocketAddr,
    context: &Arc<Context>,
    phase: &watch::Receiver<Phase>,
    alive: &Alive,
    per_address: &Arc<PerAddress>,
) {
    let limit = |name: &'static str, max: usize| {
        context.metrics.limit_hit(name);
        context.noise.warn(|| tracing::warn!(%peer, max, "connection refused: {name} is reached"));
    };
    let max = context.tunables.max_connections();
    if alive.count() >= max {
        return limit("max.connections", max);
    }
    let max = context.tunables.max_connections_per_ip();
    let Some(from_here) = per_address.enter(peer.ip(), max) else {
        return limit("max.connections.per.ip", max);
    };
    if let Err(e) = stream.set_nodelay(true) {
        tracing::debug!(%peer, error = %e, "TCP_NODELAY could not be set");
    }
    let (context, phase, guard) = (Arc::clone(context), phase.clone(), alive.enter());
    context.metrics.connection_opened();
    tokio::spawn(async move {
        let _held = (from_here, guard);
        let metrics = Arc::clone(&context.metrics);
        let _closed = OnDrop(|| metrics.connection_closed());
        connection::serve(context, stream, peer, phase).await;
    });
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
