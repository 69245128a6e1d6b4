//! The shell: everything between a socket and a decision.
//!
//! [`start`] composes it, top to bottom: the core, then the listener.
//!
//! | module | what it holds |
//! |---|---|
//! | [`core`] | journal, shards, plugin, operations, timers: what standing alone and beside a broker share |
//! | [`journal`] | durable records, group commit, reload after a failed commit |
//! | [`shards`] | the coordinator's shards: decide, journal, apply under one short lock |
//! | [`operations`] | what takes several steps: push, describe, delete, cleanup |
//! | [`answers`] | from request bytes to answer bytes, by API |
//! | [`connection`] | one client connection |
//! | [`listener`] | taking connections, and their limits |
//! | [`timers`] | what happens by the clock |
//! | [`shutdown`] | the way down |
//! | [`context`] | what every connection shares |
//! | [`clock`] | where time and chance come from |
//! | [`limits`] | every bound, each with its reason |

pub mod answers;
pub mod clock;
pub mod connection;
pub mod context;
pub mod core;
pub mod journal;
pub mod limits;
pub mod listener;
pub mod operations;
pub mod shards;
pub mod shutdown;
pub mod timers;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use streamside_plugin::{PluginError, Registry};
use streamside_proxy::pair::Stream;
use tokio::sync::{Semaphore, watch};

use self::core::Core;
use crate::config::Settings;
use crate::metrics::Metrics;
use crate::tls::{self, Acceptor, TlsError};
use context::{Context, Identity, Tunables};
use journal::JournalError;
use limits::LARGE_REQUESTS_AT_ONCE;
use listener::Door;
use shutdown::{Alive, Phase, PhaseSender};

/// The only node's id: 0 and above is what clients expect, and 1 is what a single broker is usually called.
const NODE_ID: i32 = 1;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The plugin.
    #[error("the topology description plugin cannot be used: {0}")]
    Plugin(#[from] PluginError),
    /// Certificates and keys, of the listener or towards the cluster.
    #[error("TLS cannot be used: {0}")]
    Tls(#[from] TlsError),
    /// The Kafka listener.
    #[error(
        "cannot listen on {address}: {reason}; is another process using the port? Choose another with --override listeners=PLAINTEXT://HOST:PORT"
    )]
    Listen {
        /// What was configured.
        address: String,
        /// What the system said.
        reason: std::io::Error,
    },
}

impl StartError {
    /// A word for metrics and policy.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Journal(e) => e.kind(),
            Self::Plugin(e) => e.kind(),
            Self::Tls(e) => e.kind(),
            Self::Listen { .. } => "listen",
        }
    }
}

/// A started shell.
pub struct Running {
    /// Where Kafka clients connect.
    pub address: SocketAddr,
    /// Journal, coordinator, plugin.
    pub core: Arc<Core>,
    context: Arc<Context>,
    tls: Option<Arc<Acceptor>>,
    phase: PhaseSender,
    alive: Alive,
    accepting: tokio::task::JoinHandle<()>,
}

/// Starts everything that serves Kafka clients. `data_dir` exists and is ours alone; `cluster_id` is kept in it.
///
/// # Errors
/// [`StartError`], with what to do about it.
pub async fn start(
    settings: &Settings,
    registry: &Registry,
    data_dir: &Path,
    cluster_id: &str,
    metrics: Arc<Metrics>,
) -> Result<Running, StartError> {
    let tls = Acceptor::of(settings, &metrics)?;
    let core = Core::start(settings, registry, data_dir, Arc::clone(&metrics)).await?;
    let (listener, address) = listener::bind(&settings.listener).await?;
    let context = Arc::new(Context {
        identity: Identity {
            node_id: NODE_ID,
            cluster_id: cluster_id.to_owned(),
            host: settings.advertised.host.clone(),
            port: if settings.advertised.port == 0 { address.port() } else { settings.advertised.port },
        },
        shards: Arc::clone(&core.shards),
        operations: Arc::clone(&core.operations),
        metrics: Arc::clone(&metrics),
        max_frame: settings.request_max_bytes,
        effective: RwLock::new(Arc::new(settings.effective.clone())),
        topics: settings.topics.clone(),
        partial_bytes: Arc::default(),
        unsent_bytes: Arc::default(),
        large: Arc::new(Semaphore::new(LARGE_REQUESTS_AT_ONCE)),
        tunables: Arc::new(Tunables::of(settings)),
        noise: Arc::default(),
    });
    let phase = watch::Sender::new(Phase::Running);
    let alive = Alive::default();
    let door = Arc::new(Door {
        metrics,
        tunables: Arc::clone(&context.tunables),
        noise: Arc::clone(&context.noise),
        alive: alive.clone(),
        per_address: Arc::default(),
        tls: tls.clone(),
    });
    let accepting = tokio::spawn(listener::accept(listener, door, phase.subscribe(), {
        let (context, phase) = (Arc::clone(&context), phase.subscribe());
        move |stream, peer| {
            let (context, phase) = (Arc::clone(&context), phase.clone());
            async move {
                match stream {
                    Stream::Tcp(stream) => connection::serve(context, stream, peer, phase).await,
                    Stream::Other(stream) => connection::serve(context, stream, peer, phase).await,
                }
            }
        }
    }));
    Ok(Running { address, core, context, tls, phase, alive, accepting })
}

impl Running {
    /// Takes the settings that may change while running.
    pub fn retune(&self, settings: &Settings) {
        self.context.tunables.take(settings);
        let effective = Arc::new(settings.effective.clone());
        *self.context.effective.write().unwrap_or_else(std::sync::PoisonError::into_inner) = effective;
        self.core.retune(settings);
        tls::reload(self.tls.as_deref(), settings);
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.alive.count()
    }

    /// Stops taking connections and lets each end when nothing of it is in flight. Whether all did within `patience`.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.phase.send_replace(Phase::Draining);
        self.alive.gone(patience).await
    }

    /// The end: timers stop, the plugin is closed, what is journalled is on disk.
    pub fn close(self) {
        self.accepting.abort();
        self.core.close();
    }
}
