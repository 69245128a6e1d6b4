//! One client connection: find the upstream's end, join the two, say how it ended.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use streamside_proxy::gateway::{Gateway, Mode, Setup};
use streamside_proxy::intercept::{Addresses, Connection, Intercept};
use streamside_proxy::limits::UNSENT_BYTES;
use streamside_proxy::pair::{self, Budget, Ended, Options, Stream};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::dial::{DialError, Dialer};
use super::health::Health;
use super::nodes::{Nodes, Route};
use crate::config::{HostPort, UpstreamSecurity};
use crate::metrics::Metrics;
use crate::shell::context::{NoiseGate, Tunables};

/// From one change of `streamside.mode` to the next: a change lets every connection of the era before end once nothing
/// of it is in flight.
#[derive(Debug)]
struct Era {
    mode: Mode,
    draining: watch::Sender<bool>,
}

/// What every pair shares.
pub struct Pairs {
    parts: Parts,
    /// What collected requests of all connections hold.
    collected: Budget,
    /// What waits for peers of all connections.
    unsent: Budget,
    era: Mutex<Arc<Era>>,
    next_id: AtomicU64,
    /// Where to begin in the list of bootstrap addresses.
    next_bootstrap: AtomicU64,
    /// Nodes that could not be reached when last tried, so that each change is told once.
    silent: Mutex<HashSet<i32>>,
}

/// What a new [`Pairs`] is made of.
pub struct Parts {
    /// Connections to the upstream.
    pub dialer: Dialer,
    /// Where the cluster is first looked for.
    pub bootstrap: Vec<HostPort>,
    /// The node map; `None`: nothing is rewritten.
    pub nodes: Option<Arc<Nodes>>,
    /// The four APIs.
    pub intercept: Arc<dyn Intercept>,
    /// Whether the upstream is there.
    pub health: Arc<Health>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Times that may change while running.
    pub tunables: Arc<Tunables>,
    /// Keeps clients from flooding the log.
    pub noise: Arc<NoiseGate>,
    /// `socket.request.max.bytes`.
    pub max_request_bytes: usize,
    /// What our own questions call themselves.
    pub name: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pairs {
    /// Ready for connections. `mode`: how much is done at first.
    #[must_use]
    pub fn new(parts: Parts, mode: Mode) -> Self {
        let random = u64::from(std::process::id());
        Self {
            parts,
            collected: Budget::default(),
            unsent: Budget::of(UNSENT_BYTES),
            era: Mutex::new(Arc::new(Era { mode, draining: watch::Sender::new(false) })),
            next_id: AtomicU64::new(1),
            next_bootstrap: AtomicU64::new(random),
            silent: Mutex::default(),
        }
    }

    /// Reads the certificates of connections to the upstream again.
    ///
    /// # Errors
    /// What can't be used; nothing changes then.
    pub fn reload(&self, security: &UpstreamSecurity) -> Result<(), String> {
        self.parts.dialer.reload(security)
    }

    /// Takes a mode; where it is another one, clients reconnect once.
    pub fn set_mode(&self, mode: Mode) {
        let mut era = lock(&self.era);
        if era.mode != mode {
            let before = std::mem::replace(&mut *era, Arc::new(Era { mode, draining: watch::Sender::new(false) }));
            before.draining.send_replace(true);
        }
    }

    /// Every pair ends once nothing of it is in flight.
    pub fn drain(&self) {
        lock(&self.era).draining.send_replace(true);
    }

    /// Serves one client connection to its end. `node`: whose port it came to.
    pub async fn serve(self: Arc<Self>, client: Stream, peer: SocketAddr, node: Option<i32>) {
        let tcp = match &client {
            Stream::Tcp(tcp) => Some(tcp),
            Stream::Other(_) => None,
        };
        let era = Arc::clone(&lock(&self.era));
        let mut draining = era.draining.subscribe();
        let reached = async {
            if !self.parts.health.ever_up() && !self.is_admitted(tcp).await {
                return None;
            }
            self.reach(peer, node).await
        };
        // Nothing of a client that is not carried on yet is in flight.
        let reached = tokio::select! {
            reached = reached => reached,
            _ = draining.wait_for(|draining| *draining) => None,
        };
        let Some((upstream, _route)) = reached else { return };
        let connection = Connection { id: self.next_id.fetch_add(1, Ordering::Relaxed), peer, node };
        let options = Options {
            max_request_bytes: self.parts.max_request_bytes,
            frame_timeout: self.parts.tunables.frame_timeout(),
            idle: self.parts.tunables.idle(),
            collected: self.collected.clone(),
            unsent: self.unsent.clone(),
        };
        let handler = Gateway::new(Setup {
            connection: connection.clone(),
            intercept: Arc::clone(&self.parts.intercept),
            addresses: self.parts.nodes.clone().map(|nodes| nodes as Arc<dyn Addresses>),
            mode: era.mode,
        });
        let (ended, stats) = pair::run_counted(client, upstream, handler, &options, era.draining.subscribe()).await;
        self.parts.metrics.bytes(stats.request_bytes, stats.answer_bytes);
        self.tell(&connection, &ended);
    }

    /// Before the upstream has ever answered: whether it does now. Our own question, if that is who came, is not carried
    /// on.
    async fn is_admitted(&self, tcp: Option<&TcpStream>) -> bool {
        let Some(tcp) = tcp else { return self.parts.health.admits().await };
        let mut first = [0; 64];
        tokio::select! {
            admitted = self.parts.health.admits() => admitted,
            peeked = peek_past_the_name(tcp, &mut first) => {
                let ours = self.parts.name.as_bytes();
                if peeked && first.windows(ours.len()).any(|window| window == ours) {
                    self.parts.health.met_ourselves();
                    return false;
                }
                self.parts.health.admits().await
            }
        }
    }

    /// A connection to where this one leads.
    async fn reach(&self, peer: SocketAddr, node: Option<i32>) -> Option<(Stream, Option<Route>)> {
        let Some(node) = node else {
            return match self.reach_any().await {
                Ok(stream) => Some((stream, None)),
                Err(reason) => {
                    tracing::debug!(%peer, reason, "connection closed: the upstream is away");
                    self.parts.health.met_failure(&reason);
                    None
                }
            };
        };
        let route = self.parts.nodes.as_ref()?.route(node)?;
        match self.parts.dialer.dial(&route.upstream).await {
            Ok(stream) => {
                if lock(&self.silent).remove(&node) {
                    tracing::info!(node, upstream = %route.upstream, "the node can be reached again");
                }
                Some((stream, Some(route)))
            }
            Err(e) => {
                if lock(&self.silent).insert(node) {
                    tracing::warn!(
                        node,
                        upstream = %route.upstream,
                        "the node cannot be reached: {e}; clients that come to its port are closed"
                    );
                    self.parts.health.met_silent_node();
                }
                None
            }
        }
    }

    /// The bootstrap addresses in turn, all within the time of one connection.
    async fn reach_any(&self) -> Result<Stream, String> {
        let all = self.parts.bootstrap.len().max(1);
        let first = usize::try_from(self.next_bootstrap.fetch_add(1, Ordering::Relaxed) % all as u64).unwrap_or(0);
        let deadline = Instant::now() + self.parts.dialer.timeout;
        let mut reasons = Vec::new();
        for (tried, at) in (first..first + all).enumerate() {
            let Some(address) = self.parts.bootstrap.get(at % all) else { continue };
            // One that does not answer leaves time for the others.
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = left / u32::try_from(all - tried).unwrap_or(1);
            match self.parts.dialer.within(timeout).dial(address).await {
                Ok(stream) => return Ok(stream),
                Err(e) => reasons.push(sentence(address, &e)),
            }
        }
        Err(reasons.join("; "))
    }

    fn tell(&self, connection: &Connection, ended: &Ended) {
        let Connection { peer, node, .. } = connection;
        let node = node.map_or_else(|| "bootstrap".to_owned(), |node| node.to_string());
        match ended {
            Ended::Client | Ended::Upstream | Ended::Idle | Ended::Drained => {
                tracing::debug!(%peer, node, ?ended, "connection closed");
            }
            Ended::Stalled => {
                self.parts.metrics.limit_hit("frame_timeout");
                tracing::debug!(%peer, node, "connection closed: a request was begun and not finished");
            }
            Ended::Untaken(bytes) => {
                self.parts.metrics.limit_hit("unsent_answers");
                self.parts.noise.warn(|| {
                    tracing::warn!(
                        %peer,
                        node,
                        bytes,
                        "connection closed: what clients do not take holds more than {UNSENT_BYTES} bytes"
                    );
                });
            }
            Ended::Refused(reason) => {
                self.parts.metrics.limit_hit("refused_frame");
                self.parts.noise.warn(|| tracing::warn!(%peer, node, reason, "connection closed"));
            }
            Ended::Garbled(reason) => {
                self.parts.noise.warn(|| tracing::error!(%peer, node, reason, "connection closed"));
            }
        }
    }
}

/// For the log and `/readyz`.
fn sentence(address: &HostPort, error: &DialError) -> String {
    format!("upstream {address} can't be reached: {error}")
}

/// Waits for the first bytes of a request, up to where the client's name ends; whether there are any.
async fn peek_past_the_name(tcp: &TcpStream, first: &mut [u8]) -> bool {
    tcp.peek(first).await.is_ok_and(|n| n > 0)
}
