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
use crate::config::HostPort;
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
    /// See [`Pairs`].
    pub dialer: Dialer,
    /// See [`Pairs`].
    pub bootstrap: Vec<HostPort>,
    /// See [`Pairs`].
    pub nodes: Option<Arc<Nodes>>,
    /// See [`Pairs`].
    pub intercept: Arc<dyn Intercept>,
    /// See [`Pairs`].
    pub health: Arc<Health>,
    /// See [`Pairs`].
    pub metrics: Arc<Metrics>,
    /// See [`Pairs`].
    pub tunables: Arc<Tunables>,
    /// See [`Pairs`].
    pub noise: Arc<NoiseGate>,
    /// See [`Pairs`].
    pub max_request_bytes: usize,
    /// See [`Pairs`].
    pub name: String,
    /// How much is done at first.
    pub mode: Mode,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pairs {
    /// Ready for connections.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            dialer,
            bootstrap,
            nodes,
            intercept,
            health,
            metrics,
            tunables,
            noise,
            max_request_bytes,
            name,
            mode,
        } = parts;
        let random = u64::from(std::process::id());
        Self {
            dialer,
            bootstrap,
            nodes,
            intercept,
            health,
            metrics,
            tunables,
            noise,
            max_request_bytes,
            name,
            collected: Budget::default(),
            unsent: Budget::of(UNSENT_BYTES),
            era: Mutex::new(Arc::new(Era { mode, draining: watch::Sender::new(false) })),
            next_id: AtomicU64::new(1),
            next_bootstrap: AtomicU64::new(random),
            silent: Mutex::default(),
        }
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
            if !self.health.ever_up() && !self.is_admitted(tcp).await {
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
            max_request_bytes: self.max_request_bytes,
            frame_timeout: self.tunables.frame_timeout(),
            idle: self.tunables.idle(),
            collected: self.collected.clone(),
            unsent: self.unsent.clone(),
        };
        let handler = Gateway::new(Setup {
            connection: connection.clone(),
            intercept: Arc::clone(&self.intercept),
            addresses: self.nodes.clone().map(|nodes| nodes as Arc<dyn Addresses>),
            mode: era.mode,
        });
        let (ended, stats) = pair::run_counted(client, upstream, handler, &options, era.draining.subscribe()).await;
        self.metrics.bytes(stats.request_bytes, stats.answer_bytes);
        self.tell(&connection, &ended);
    }

    /// Before the upstream has ever answered: whether it does now. Our own question, if that is who came, is not carried
    /// on.
    async fn is_admitted(&self, tcp: Option<&TcpStream>) -> bool {
        let Some(tcp) = tcp else { return self.health.admits().await };
        let mut first = [0; 64];
        tokio::select! {
            admitted = self.health.admits() => admitted,
            peeked = peek_past_the_name(tcp, &mut first) => {
                let ours = self.name.as_bytes();
                if peeked && first.windows(ours.len()).any(|window| window == ours) {
                    self.health.met_ourselves();
                    return false;
                }
                self.health.admits().await
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
                    self.health.met_failure(&reason);
                    None
                }
            };
        };
        let route = self.nodes.as_ref()?.route(node)?;
        match self.dialer.dial(&route.upstream).await {
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
                    self.health.met_silent_node();
                }
                None
            }
        }
    }

    /// The bootstrap addresses in turn, all within the time of one connection.
    async fn reach_any(&self) -> Result<Stream, String> {
        let all = self.bootstrap.len().max(1);
        let first = usize::try_from(self.next_bootstrap.fetch_add(1, Ordering::Relaxed) % all as u64).unwrap_or(0);
        let deadline = Instant::now() + self.dialer.timeout;
        let mut reasons = Vec::new();
        for (tried, at) in (first..first + all).enumerate() {
            let Some(address) = self.bootstrap.get(at % all) else { continue };
            // One that does not answer leaves time for the others.
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = left / u32::try_from(all - tried).unwrap_or(1);
            match self.dialer.within(timeout).dial(address).await {
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
                self.metrics.limit_hit("frame_timeout");
                tracing::debug!(%peer, node, "connection closed: a request was begun and not finished");
            }
            Ended::Untaken(bytes) => {
                self.metrics.limit_hit("unsent_answers");
                self.noise.warn(|| {
                    tracing::warn!(
                        %peer,
                        node,
                        bytes,
                        "connection closed: what clients do not take holds more than {UNSENT_BYTES} bytes"
                    );
                });
            }
            Ended::Refused(reason) => {
                self.metrics.limit_hit("refused_frame");
                self.noise.warn(|| tracing::warn!(%peer, node, reason, "connection closed"));
            }
            Ended::Garbled(reason) => {
                self.noise.warn(|| tracing::error!(%peer, node, reason, "connection closed"));
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
