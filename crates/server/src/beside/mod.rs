//! In front of a cluster: what does the process add to the proxy?
//!
//! [`start`] composes it: the core, the bootstrap listener, the node map with its ports, the first question to the
//! cluster, the pairs.
//!
//! | module | what it holds |
//! |---|---|
//! | [`pairs`] | one client connection from its listener to the upstream |
//! | [`dial`] | connections to the upstream |
//! | [`nodes`], [`node_file`] | which port stands for which node, in memory and on disk |
//! | [`own`] | our own questions to the cluster |
//! | [`health`] | whether it can be reached |
//! | [`observer`] | clients that go past us, clusters without streams groups |
//! | [`hosts`] | which member speaks from where |
//! | [`intercept`] | the four APIs, decided by the coordinator |
//! | `heartbeat`, `push`, `describe`, `delete` | each of the four |
//! | [`ask`] | questions of ours on a caller's connection |
//! | [`limits`] | every bound, each with its reason |
//! | [`topics`] | topics that only a description names |

pub mod ask;
mod delete;
mod describe;
pub mod dial;
pub mod health;
mod heartbeat;
pub mod hosts;
pub mod intercept;
pub mod limits;
pub mod node_file;
pub mod nodes;
pub mod observer;
pub mod own;
pub mod pairs;
mod push;
#[cfg(test)]
mod tests;
pub mod topics;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use streamside_plugin::Registry;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::upstream::Addressing;
use crate::config::{HostPort, Settings, UpstreamSettings};
use crate::metrics::Metrics;
use crate::shell::StartError;
use crate::shell::context::{NoiseGate, Tunables};
use crate::shell::core::Core;
use crate::shell::listener::{self, Door};
use crate::shell::shutdown::{Alive, Phase, PhaseSender};
use crate::tls::{self, Acceptor};
use dial::Dialer;
use health::Health;
use intercept::Interceptor;
use nodes::{NodeView, Nodes, NodesError, Opened, Setup};
use own::Own;
use pairs::{Pairs, Parts};

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum BesideError {
    /// As standing alone.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A node's port.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// `streamside.upstream` is ourselves.
    #[error("streamside.upstream={address} is our own listener {listener}; set it to the cluster behind us")]
    Ourselves {
        /// Which of them.
        address: String,
        /// Where we listen.
        listener: SocketAddr,
    },
    /// Certificates for the upstream.
    #[error("connections to the upstream cannot be made: {0}")]
    Upstream(String),
}

impl BesideError {
    /// A word for metrics and policy.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Start(e) => e.kind(),
            Self::Nodes(e) => e.kind(),
            Self::Ourselves { .. } => "upstream_is_ourselves",
            Self::Upstream(_) => "upstream",
        }
    }
}

/// Serving before a cluster.
pub struct Running {
    /// Where Kafka clients connect first.
    pub address: SocketAddr,
    /// Journal, coordinator, plugin.
    pub core: Arc<Core>,
    /// Whether the upstream is there.
    pub health: Arc<Health>,
    nodes: Option<Arc<Nodes>>,
    own: Arc<Own>,
    interceptor: Arc<Interceptor>,
    pairs: Arc<Pairs>,
    tunables: Arc<Tunables>,
    tls: Option<Arc<Acceptor>>,
    phase: PhaseSender,
    alive: Alive,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts everything that serves Kafka clients before a cluster. `data_dir` exists and is ours alone; `own_id` is kept
/// in it.
///
/// # Errors
/// [`BesideError`]: what is wrong and what to do. An upstream that is away is no error.
pub async fn start(
    settings: &Settings,
    upstream: &UpstreamSettings,
    registry: &Registry,
    data_dir: &Path,
    own_id: &str,
    metrics: Arc<Metrics>,
) -> Result<Running, BesideError> {
    let tls = Acceptor::of(settings, &metrics).map_err(StartError::from)?;
    tls::expiry::note_upstream(&metrics, &upstream.security);
    let core = Core::start(settings, registry, data_dir, Arc::clone(&metrics)).await?;
    let (listener, address) = listener::bind(&settings.listener).await?;
    not_ourselves(&upstream.bootstrap, address).await?;
    let dialer = Dialer::new(settings.connect_timeout, &upstream.security, address).map_err(BesideError::Upstream)?;
    let noise: Arc<NoiseGate> = Arc::default();
    let (nodes, opened) = match upstream.addresses {
        Addressing::Advertised => (None, None),
        Addressing::Gateway => {
            let setup = Setup {
                file: node_file::path(data_dir),
                ports: upstream.node_ports.clone(),
                listener: address,
                host: settings.advertised.host.as_str().into(),
                advertised_port: advertised_port(settings, address),
                bootstrap: upstream.bootstrap.clone(),
            };
            let (nodes, opened) = Nodes::open(setup, Arc::clone(&noise), Arc::clone(&metrics))?;
            (Some(nodes), Some(opened))
        }
    };
    let health = Arc::new(Health::new(Arc::clone(&metrics)));
    let name = format!("streamside-{own_id}");
    let own = Own::new(&upstream.bootstrap, &upstream.security, settings.connect_timeout, &name);
    let own = Arc::new(own.map_err(BesideError::Upstream)?);

    let interceptor = Arc::new(Interceptor::new(&core, settings));
    let tunables = Arc::new(Tunables::of(settings));
    let parts = Parts {
        dialer,
        bootstrap: upstream.bootstrap.clone(),
        nodes: nodes.clone(),
        intercept: interceptor.clone(),
        health: Arc::clone(&health),
        metrics: Arc::clone(&metrics),
        tunables: Arc::clone(&tunables),
        noise: Arc::clone(&noise),
        max_request_bytes: settings.request_max_bytes,
        name,
    };
    let pairs = Arc::new(Pairs::new(parts, upstream.mode));
    let phase = watch::Sender::new(Phase::Running);
    let alive = Alive::default();
    let door = Arc::new(Door {
        metrics,
        tunables: Arc::clone(&tunables),
        noise,
        alive: alive.clone(),
        per_address: Arc::default(),
        tls: tls.clone(),
    });
    // Who comes before the first answer waits for it.
    let mut tasks =
        vec![tokio::spawn(accept(listener, None, Arc::clone(&door), phase.subscribe(), Arc::clone(&pairs)))];
    if let Some(opened) = opened {
        tasks.push(tokio::spawn(accept_at_nodes(opened, door, phase.subscribe(), Arc::clone(&pairs))));
    }
    if let Err(error) = own::ask_first(&own, &health, nodes.as_deref()).await {
        tasks.iter().for_each(JoinHandle::abort);
        return Err(error.into());
    }
    tasks.push(tokio::spawn(own::keep_asking(Arc::clone(&own), Arc::clone(&health), nodes.clone())));
    Ok(Running { address, core, health, nodes, own, interceptor, pairs, tunables, tls, phase, alive, tasks })
}

fn advertised_port(settings: &Settings, bound: SocketAddr) -> u16 {
    if settings.advertised.port == 0 { bound.port() } else { settings.advertised.port }
}

async fn accept(
    listener: TcpListener,
    node: Option<i32>,
    door: Arc<Door>,
    phase: watch::Receiver<Phase>,
    pairs: Arc<Pairs>,
) {
    listener::accept(listener, door, phase, move |stream, peer| Arc::clone(&pairs).serve(stream, peer, node)).await;
}

/// Serves each listener that the node map opens until it is closed there, or the way down begins.
async fn accept_at_nodes(
    mut opened: mpsc::UnboundedReceiver<Opened>,
    door: Arc<Door>,
    phase: watch::Receiver<Phase>,
    pairs: Arc<Pairs>,
) {
    while let Some(Opened { node, listener, closed }) = opened.recv().await {
        let accepting = accept(listener, Some(node), Arc::clone(&door), phase.clone(), Arc::clone(&pairs));
        tokio::spawn(async move {
            tokio::select! {
                () = accepting => {}
                _ = closed => {}
            }
        });
    }
}

/// An upstream that is our own listener would make every connection open another one, for ever.
async fn not_ourselves(bootstrap: &[HostPort], listener: SocketAddr) -> Result<(), BesideError> {
    for address in bootstrap.iter().filter(|address| address.port == listener.port()) {
        // A name that cannot be resolved now is tried again with each connection.
        let Ok(mut found) = tokio::net::lookup_host((address.host.as_str(), address.port)).await else { continue };
        if found.any(|found| dial::is_ours(found, listener)) {
            return Err(BesideError::Ourselves { address: address.to_string(), listener });
        }
    }
    Ok(())
}

impl Running {
    /// Takes the settings that may change while running.
    pub fn retune(&self, settings: &Settings) {
        self.tunables.take(settings);
        self.core.retune(settings);
        self.interceptor.retune(settings);
        tls::reload(self.tls.as_deref(), settings);
        if let Some(upstream) = &settings.upstream {
            self.pairs.set_mode(upstream.mode);
            let security = &upstream.security;
            match self.pairs.reload(security).and_then(|()| self.own.reload(security)) {
                Ok(()) => tls::expiry::note_upstream(&self.core.metrics, security),
                Err(error) => tracing::error!(error, "security towards the cluster stays as it was"),
            }
        }
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.alive.count()
    }

    /// The node map; `None`: nothing is rewritten.
    #[must_use]
    pub fn nodes(&self) -> Option<Vec<NodeView>> {
        self.nodes.as_ref().map(|nodes| nodes.list())
    }

    /// What keeps it from being whole, each a phrase.
    pub fn troubles(&self) -> impl Fn() -> Vec<String> + Send + Sync + use<> {
        let (health, nodes) = (Arc::clone(&self.health), self.nodes.clone());
        move || health.trouble().into_iter().chain(nodes.as_ref().and_then(|nodes| nodes.ourselves())).collect()
    }

    /// Stops taking connections and lets each end when nothing of it is in flight. Whether all did within `patience`.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.phase.send_replace(Phase::Draining);
        self.pairs.drain();
        self.alive.gone(patience).await
    }

    /// The end: timers stop, the plugin is closed, what is journalled is on disk.
    pub fn close(self) {
        for task in self.tasks {
            task.abort();
        }
        self.core.close();
    }
}
