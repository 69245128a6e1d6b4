//! The shell: everything between a socket and a decision.
//!
//! [`start`] composes it, top to bottom: journal, shards, plugin, operations, timers, listener.
//!
//! | module | what it holds |
//! |---|---|
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

use streamside_coordinator::Compat;
use streamside_plugin::{PluginError, Registry, Runner, RunnerConfig};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::config::Settings;
use crate::metrics::Metrics;
use clock::Clock;
use context::{Context, Identity, NoiseGate, Tunables};
use journal::{Journal, JournalError};
use limits::LARGE_REQUESTS_AT_ONCE;
use operations::Operations;
use shards::{Shards, SharedShards};
use shutdown::{Alive, Phase, PhaseSender};

/// The only node's id: 0 and above is what clients expect, and 1 is what a single broker is usually called.
const NODE_ID: i32 = 1;
/// "For ever" for timers that a setting switches off.
const NEVER: Duration = Duration::from_secs(31_536_000);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The plugin.
    #[error("the topology description plugin cannot be used: {0}")]
    Plugin(#[from] PluginError),
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
            Self::Listen { .. } => "listen",
        }
    }
}

/// A started shell.
pub struct Running {
    /// Where Kafka clients connect.
    pub address: SocketAddr,
    /// What every connection shares.
    pub context: Arc<Context>,
    /// Calls to the plugin; absent when the feature is off.
    pub runner: Option<Arc<Runner>>,
    phase: PhaseSender,
    alive: Alive,
    tasks: Vec<tokio::task::JoinHandle<()>>,
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
    // Where the plugin lives, before anything is written.
    let factory = registry.resolve(settings.plugin.class.as_deref().unwrap_or_default())?;
    let config = settings.plugin_config(data_dir);
    let plugin = factory.as_ref().map(|f| f.open(&config).map(|p| (f.name, p))).transpose()?;

    let (failed, failures) = mpsc::unbounded_channel();
    let journal = Journal::open(data_dir, failed, Arc::clone(&metrics))?;
    let records = journal.read_all()?;
    let config = settings.coordinator_config(plugin.as_ref().map(|(name, _)| (*name).to_owned()));
    let shards: SharedShards = Arc::new(Shards::restore(config, journal.clone(), Clock::new(), records));

    let (late_sender, late) = mpsc::unbounded_channel();
    let runner = plugin.map(|(_, plugin)| {
        let base = match settings.compat {
            Compat::Kafka => RunnerConfig::kafka(),
            Compat::Streamside => RunnerConfig {
                call_timeout: Some(settings.plugin.call_timeout),
                max_in_flight: Some(settings.plugin.max_in_flight),
                ..RunnerConfig::default()
            },
        };
        // The receiver ends with the process; bounded by the hung calls that the runner allows.
        let on_late = Arc::new(move |late| drop(late_sender.send(late)));
        Arc::new(Runner::new(plugin, RunnerConfig { on_late, ..base }))
    });
    let operations = Arc::new(Operations::new(Arc::clone(&shards), runner.clone(), Arc::clone(&metrics)));
    if settings.compat == Compat::Streamside {
        operations.check_against_list().await;
    }

    let (listener, address) = listener::bind(&settings.listener).await?;
    let context = Arc::new(Context {
        identity: Identity {
            node_id: NODE_ID,
            cluster_id: cluster_id.to_owned(),
            host: settings.advertised.host.clone(),
            port: if settings.advertised.port == 0 { address.port() } else { settings.advertised.port },
        },
        shards: Arc::clone(&shards),
        operations: Arc::clone(&operations),
        metrics,
        tunables: Tunables::new(
            settings.connections_max_idle.unwrap_or(NEVER),
            settings.frame_timeout,
            settings.max_connections,
            settings.max_connections_per_ip,
        ),
        max_frame: settings.request_max_bytes,
        effective: RwLock::new(Arc::new(settings.effective.clone())),
        topics: settings.topics.clone(),
        partial_bytes: Arc::default(),
        unsent_bytes: Arc::default(),
        large: Arc::new(Semaphore::new(LARGE_REQUESTS_AT_ONCE)),
        noise: NoiseGate::new(),
    });
    let phase = watch::Sender::new(Phase::Running);
    let alive = Alive::default();
    let tasks = vec![
        tokio::spawn(timers::tick(Arc::clone(&shards), Arc::clone(&operations))),
        tokio::spawn(timers::sweep_and_clean(Arc::clone(&operations), settings.offsets_retention_check_interval)),
        tokio::spawn(take_late_results(late, Arc::clone(&operations))),
        tokio::spawn(reload_after_failures(failures, Arc::clone(&shards), Arc::clone(&operations))),
        tokio::spawn(listener::accept(listener, Arc::clone(&context), phase.subscribe(), alive.clone())),
    ];
    Ok(Running { address, context, runner, phase, alive, tasks })
}

impl Running {
    /// Takes the settings that may change while running.
    pub fn retune(&self, settings: &Settings) {
        self.context.tunables.set(
            settings.connections_max_idle.unwrap_or(NEVER),
            settings.frame_timeout,
            settings.max_connections,
            settings.max_connections_per_ip,
        );
        let effective = Arc::new(settings.effective.clone());
        *self.context.effective.write().unwrap_or_else(std::sync::PoisonError::into_inner) = effective;
        self.context.shards.retune(&settings.coordinator_config(None));
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
        for task in self.tasks {
            task.abort();
        }
        if let Some(runner) = &self.runner {
            runner.close();
        }
        self.context.shards.journal().close(Duration::from_secs(5));
    }
}

async fn take_late_results(mut late: mpsc::UnboundedReceiver<streamside_plugin::Late>, operations: Arc<Operations>) {
    while let Some(late) = late.recv().await {
        operations.late(late).await;
    }
}

/// After a failed commit, memory is what the disk holds.
async fn reload_after_failures(
    mut failures: mpsc::UnboundedReceiver<()>,
    shards: SharedShards,
    operations: Arc<Operations>,
) {
    while failures.recv().await.is_some() {
        let (journal, all) = (shards.journal().clone(), Arc::clone(&shards));
        let reload =
            tokio::task::spawn_blocking(move || journal.reload(|records, generation| all.reload(records, generation)));
        if reload.await.is_ok() && shards.config().compat == Compat::Streamside {
            operations.check_against_list().await;
        }
    }
}
