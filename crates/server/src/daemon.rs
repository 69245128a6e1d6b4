//! The daemon as a whole: data folder, Kafka side, HTTP side, signals, the way down.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use streamside_plugin::{Outcome, Registry};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::beside::nodes::NodeView;
use crate::beside::{self, BesideError};
use crate::config::upstream::Mode;
use crate::config::{self, HostPort, Protocol, Settings, Sources};
use crate::data_dir::{DataDir, DataDirError};
use crate::http::guard::Guard;
use crate::http::token::{TokenError, Tokens, is_open_to_others};
use crate::http::{self, HttpState, Readiness, RetryFn, RetryOutcome, TroublesFn};
use crate::logging;
use crate::metrics::{Gauges, Metrics};
use crate::shell::core::Core;
use crate::shell::{self, StartError};
use crate::signals::{Asked, Signals};

/// How long a figure of `/metrics` that needs a walk over all groups may be old.
const GAUGES_AGE: Duration = Duration::from_secs(1);

/// How long `/readyz` waits for the plugin to say how it is: less than probes wait.
const HEALTH_PATIENCE: Duration = Duration::from_millis(500);

/// Groups that get figures of their own with `streamside.metrics.per.group`; more would drown whoever scrapes them.
const MAX_GROUP_SERIES: usize = 10_000;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The data folder.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The Kafka side.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The same before a cluster.
    #[error(transparent)]
    Beside(#[from] BesideError),
    /// The token file.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The HTTP listener.
    #[error(
        "cannot listen for HTTP on {address}: {reason}; choose another with --override streamside.http.listen=HOST:PORT, or off"
    )]
    Http {
        /// What was configured.
        address: String,
        /// What the system said.
        reason: std::io::Error,
    },
}

impl DaemonError {
    /// A word for metrics and policy.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::DataDir(e) => e.kind(),
            Self::Start(e) => e.kind(),
            Self::Beside(e) => e.kind(),
            Self::Token(_) => "token",
            Self::Http { .. } => "http_listen",
        }
    }

    /// The process' exit code: 2 for what configuration can mend, 3 for what cannot be reached or bound.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Http { .. }
            | Self::Start(StartError::Listen { .. })
            | Self::Beside(BesideError::Start(StartError::Listen { .. }) | BesideError::Nodes(_)) => 3,
            _ => 2,
        }
    }
}

/// The Kafka side.
enum Running {
    Alone(shell::Running),
    Beside(beside::Running),
}

impl Running {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Alone(running) => running.address,
            Self::Beside(running) => running.address,
        }
    }

    fn core(&self) -> &Arc<Core> {
        match self {
            Self::Alone(running) => &running.core,
            Self::Beside(running) => &running.core,
        }
    }

    fn connections(&self) -> usize {
        match self {
            Self::Alone(running) => running.connections(),
            Self::Beside(running) => running.connections(),
        }
    }

    fn troubles(&self) -> Troubles {
        match self {
            Self::Alone(_) => Box::new(Vec::new),
            Self::Beside(running) => Box::new(running.troubles()),
        }
    }

    fn retune(&self, settings: &Settings) {
        match self {
            Self::Alone(running) => running.retune(settings),
            Self::Beside(running) => running.retune(settings),
        }
    }

    async fn drain(&self, patience: Duration) -> bool {
        match self {
            Self::Alone(running) => running.drain(patience).await,
            Self::Beside(running) => running.drain(patience).await,
        }
    }

    fn close(self) {
        match self {
            Self::Alone(running) => running.close(),
            Self::Beside(running) => running.close(),
        }
    }
}

/// What keeps the Kafka side from being whole, each a phrase.
type Troubles = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// A daemon that serves.
pub struct Daemon {
    running: Running,
    data_dir: DataDir,
    http: Option<SocketAddr>,
    http_state: Arc<HttpState>,
    http_stop: watch::Sender<bool>,
    readiness: watch::Sender<Readiness>,
    per_group: Arc<AtomicBool>,
    settings: Settings,
}

impl Daemon {
    /// Starts everything; it serves when this returns.
    ///
    /// # Errors
    /// [`DaemonError`]: what is wrong and what to do.
    pub async fn start(settings: Settings, registry: &Registry) -> Result<Self, DaemonError> {
        let data_dir = DataDir::open(&settings.data_dir)?;
        let readiness = watch::Sender::new(Readiness::Starting);
        let mode = if settings.upstream.is_some() { "beside" } else { "standalone" };
        let metrics = Metrics::new(mode, settings.plugin.class.as_deref(), data_dir.cluster_id());
        let metrics = Arc::new(metrics.named(settings.cluster_name.clone()));
        // HTTP comes first: a long journal is no reason to call the process dead.
        let core = Arc::new(OnceLock::new());
        let (http_stop, stop) = watch::channel(false);
        let listener = match &settings.http.listen {
            Some(wanted) => Some(bind_http(wanted).await?),
            None => None,
        };
        let http = listener.as_ref().map(|(_, address)| *address);
        let http_state = Arc::new(HttpState {
            readiness: readiness.subscribe(),
            metrics: Arc::clone(&metrics),
            retry: retry(Arc::clone(&core)),
            troubles: troubles(Arc::clone(&core)),
            cluster_name: settings.cluster_name.clone(),
            guard: Mutex::new(Arc::new(Guard {
                names: own_names(&settings),
                loopback: http.is_none_or(|address| address.ip().is_loopback()),
                tokens: tokens(&settings)?,
            })),
        });
        if let Some((listener, _)) = listener {
            tokio::spawn(http::serve(listener, Arc::clone(&http_state), stop));
        }
        let running = kafka_side(&settings, registry, &data_dir, Arc::clone(&metrics)).await.inspect_err(|_| {
            http_stop.send_replace(true);
        })?;
        let per_group = Arc::new(AtomicBool::new(settings.metrics_per_group));
        metrics.set_gauges(gauges(&running, Arc::clone(&per_group)));
        let _ = core.set((Arc::clone(running.core()), running.troubles()));
        tokio::spawn(crate::tls::expiry::watch(Arc::clone(&metrics)));
        readiness.send_replace(Readiness::Ready);
        Ok(Self { running, data_dir, http, http_state, http_stop, readiness, per_group, settings })
    }

    /// Where Kafka clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// Where HTTP is served.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// What a person who has just started it wants to read.
    #[must_use]
    pub fn welcome(&self) -> Welcome {
        Welcome {
            kafka: self.running.address(),
            protocol: self.settings.protocol,
            upstream: self.front(),
            http: self.http,
            data_dir: std::path::absolute(self.data_dir.path()).unwrap_or_else(|_| self.data_dir.path().to_path_buf()),
            plugin: self.settings.plugin.class.clone(),
            groups: self
                .running
                .core()
                .shards
                .look(|c| c.stats())
                .iter()
                .map(|s| s.full + s.none + s.refused + s.uncertain + s.coarse)
                .sum(),
        }
    }

    fn front(&self) -> Option<Front> {
        let (Running::Beside(running), Some(upstream)) = (&self.running, &self.settings.upstream) else { return None };
        let bootstrap = upstream.bootstrap.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let advertised = &self.settings.advertised;
        let port = if advertised.port == 0 { running.address.port() } else { advertised.port };
        Some(Front {
            bootstrap,
            relay: upstream.mode == Mode::Relay,
            nodes: running.nodes(),
            trouble: running.health.trouble(),
            clients: HostPort { host: advertised.host.clone(), port },
        })
    }

    /// Serves until a signal asks for the end, then goes down in order; the signals have been caught since before the
    /// start. `sources` are read again at SIGHUP. Whether the end was in order: a second signal ends at once.
    pub async fn serve_until(mut self, mut signals: Signals, sources: &Sources) -> bool {
        while signals.next().await == Asked::Reload {
            self.reload(sources);
        }
        let patience = self.settings.shutdown_timeout;
        tracing::info!(?patience, connections = self.running.connections(), "going down; a second signal ends at once");
        let down = self.stop(patience);
        tokio::select! {
            () = down => {
                tracing::info!("ended");
                true
            }
            () = async { while signals.next().await != Asked::End {} } => {
                tracing::warn!("ended at once");
                false
            }
        }
    }

    /// Goes down in order: not ready, listener closed, connections drained within `patience`, plugin and journal closed.
    pub async fn stop(self, patience: Duration) {
        self.readiness.send_replace(Readiness::Draining);
        if !self.running.drain(patience).await {
            tracing::warn!(
                connections = self.running.connections(),
                "some connections did not end in time and are cut"
            );
        }
        self.http_stop.send_replace(true);
        let running = self.running;
        // The last commit may take a moment; it blocks a thread of its own.
        if tokio::task::spawn_blocking(move || running.close()).await.is_err() {
            tracing::error!("the way down met a defect of ours");
        }
    }

    fn reload(&mut self, sources: &Sources) {
        let (change, warnings) = match config::reload(&self.settings, sources) {
            Ok(read) => read,
            Err(e) => {
                tracing::error!(error = %e, "the configuration was read again and is not good; nothing changes");
                return;
            }
        };
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        for (key, value) in &change.refused {
            tracing::warn!(key, value, "this change waits for a restart");
        }
        for (key, value) in &change.changed {
            tracing::info!(key, value, "changed");
        }
        self.settings = change.settings;
        self.running.retune(&self.settings);
        self.per_group.store(self.settings.metrics_per_group, Ordering::Relaxed);
        if let Err(e) = crate::logging::set_level(&self.settings.log.level) {
            tracing::error!(error = %e, "the log level stays as it was");
        }
        if self.http.is_some() {
            match Tokens::read(&self.settings.http.token_file) {
                Ok(tokens) => self.http_state.set_tokens(tokens),
                Err(e) => tracing::error!(error = %e, "the tokens stay as they were"),
            }
        }
        tracing::info!("the configuration was read again");
    }
}

/// The cluster behind us, for the first lines of a start.
#[derive(Debug)]
struct Front {
    bootstrap: String,
    relay: bool,
    /// `None`: nothing is rewritten.
    nodes: Option<Vec<NodeView>>,
    trouble: Option<String>,
    /// What clients are to be pointed at.
    clients: HostPort,
}

impl fmt::Display for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// So many nodes are named.
        const SHOWN: usize = 8;
        match (&self.trouble, self.nodes.as_deref()) {
            (Some(trouble), _) => writeln!(f, "the cluster cannot be reached yet: {}", logging::escaped(trouble))?,
            (None, Some([])) => {
                writeln!(f, "before {}; its nodes get a port each as clients learn of them", self.bootstrap)?;
            }
            (None, None) => {
                writeln!(f, "before {}, which advertises our address; nothing is rewritten", self.bootstrap)?
            }
            (None, Some(_)) => writeln!(f, "before {}", self.bootstrap)?,
        }
        if let Some(nodes) = self.nodes.as_deref().filter(|nodes| !nodes.is_empty()) {
            let port = |n: &NodeView| format!("node {} ({}) at port {}", n.id, n.upstream, n.port);
            let more = if nodes.len() > SHOWN { format!(" and {} more", nodes.len() - SHOWN) } else { String::new() };
            let shown = nodes.iter().take(SHOWN).map(port).collect::<Vec<_>>().join(", ");
            writeln!(f, "{}{more}", logging::escaped(&shown))?;
        }
        if self.relay {
            writeln!(f, "streamside.mode=relay: addresses are rewritten, all else is off")?;
        }
        Ok(())
    }
}

/// The first lines of a start.
#[derive(Debug)]
pub struct Welcome {
    kafka: SocketAddr,
    protocol: Protocol,
    upstream: Option<Front>,
    http: Option<SocketAddr>,
    data_dir: PathBuf,
    plugin: Option<String>,
    groups: usize,
}

impl fmt::Display for Welcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kafka, protocol, upstream, http, data_dir, plugin, groups } = self;
        let (clients, config) = match protocol {
            Protocol::Plaintext => (String::new(), ""),
            other => (format!(" and security.protocol={}", other.name()), " --command-config client.properties"),
        };
        let kept = match plugin.as_deref() {
            Some(plugin) => format!("descriptions kept by '{plugin}'"),
            None => "descriptions off".to_owned(),
        };
        writeln!(
            f,
            "streamside {} listens on {kafka}, stores in {}, {kept}, {groups} groups",
            env!("CARGO_PKG_VERSION"),
            data_dir.display()
        )?;
        if let Some(upstream) = upstream {
            write!(f, "{upstream}")?;
        }
        if let Some(http) = http {
            writeln!(f, "health and metrics: http://{http}/readyz  http://{http}/metrics")?;
        }
        match upstream {
            Some(front) => writeln!(
                f,
                "next: set bootstrap.servers={}{clients} in your applications, then: streamside groups --bootstrap-server {}{config}",
                front.clients, front.clients
            ),
            None => writeln!(
                f,
                "next: streamside groups --bootstrap-server {kafka}{config}   (or: streamside demo, to see it with applications)"
            ),
        }
    }
}

async fn kafka_side(
    settings: &Settings,
    registry: &Registry,
    data_dir: &DataDir,
    metrics: Arc<Metrics>,
) -> Result<Running, DaemonError> {
    Ok(match &settings.upstream {
        Some(upstream) => Running::Beside(
            beside::start(settings, upstream, registry, data_dir.path(), data_dir.cluster_id(), metrics).await?,
        ),
        None => {
            Running::Alone(shell::start(settings, registry, data_dir.path(), data_dir.cluster_id(), metrics).await?)
        }
    })
}

async fn bind_http(wanted: &HostPort) -> Result<(TcpListener, SocketAddr), DaemonError> {
    let error = |reason| DaemonError::Http { address: wanted.to_string(), reason };
    let listener = TcpListener::bind((wanted.bind_host(), wanted.port)).await.map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    Ok((listener, address))
}

/// Names by which this server may be asked for over HTTP.
fn own_names(settings: &Settings) -> Vec<String> {
    let mut names = vec![settings.advertised.host.clone()];
    names.extend(settings.http.listen.as_ref().map(|l| l.host.clone()));
    names.retain(|n| n.parse::<IpAddr>().is_err());
    names
}

/// What HTTP may look at once it has been started.
type Started = Arc<OnceLock<(Arc<Core>, Troubles)>>;

fn retry(started: Started) -> RetryFn {
    Arc::new(move |group| {
        let started = Arc::clone(&started);
        Box::pin(async move {
            let Some((core, _)) = started.get() else {
                return RetryOutcome::Unavailable("The journal is still being read; try again.".to_owned());
            };
            match core.operations.retry(&group).await {
                Ok(true) => RetryOutcome::Done,
                Ok(false) => RetryOutcome::NoSuchGroup,
                Err(e) => RetryOutcome::Unavailable(e.to_string()),
            }
        })
    })
}

/// What `/readyz` calls degraded.
fn troubles(started: Started) -> TroublesFn {
    Arc::new(move || {
        let started = Arc::clone(&started);
        Box::pin(async move {
            let Some((core, kafka_side)) = started.get() else { return Vec::new() };
            let mut troubles = kafka_side();
            if !core.shards.journal().healthy() {
                troubles.push("the journal cannot be written; see the log".to_owned());
            }
            if let Some(runner) = &core.runner {
                let stats = runner.stats();
                if stats.hung > 0 {
                    troubles.push(format!("{} plugin calls are past their deadline", stats.hung));
                }
                match tokio::time::timeout(HEALTH_PATIENCE, runner.health()).await {
                    Ok(None | Some(Outcome::Ok(()))) => {}
                    Ok(Some(Outcome::Failure(failure))) => troubles.push(format!("the plugin says: {failure}")),
                    Ok(Some(other)) => troubles.push(format!("the plugin's health cannot be told ({})", other.kind())),
                    Err(_) => troubles.push("the plugin does not say whether it is well".to_owned()),
                }
            }
            troubles
        })
    })
}

fn tokens(settings: &Settings) -> Result<Tokens, TokenError> {
    if settings.http.listen.is_none() {
        return Ok(Tokens::default());
    }
    let path = &settings.http.token_file;
    let tokens = Tokens::read_or_make(path)?;
    if is_open_to_others(path) {
        tracing::warn!("the token file {} can be read by others than its owner; chmod 600 is better", path.display());
    }
    Ok(tokens)
}

fn gauges(running: &Running, per_group: Arc<AtomicBool>) -> impl Fn() -> Gauges + Send + Sync + 'static {
    let shards = Arc::clone(&running.core().shards);
    let runner = running.core().runner.clone();
    // Of a broker's groups the heartbeats alone may have told something.
    let beside = matches!(running, Running::Beside(_));
    let last: Mutex<Option<(std::time::Instant, Gauges)>> = Mutex::new(None);
    move || {
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((at, gauges)) = last.as_ref()
            && at.elapsed() < GAUGES_AGE
        {
            return gauges.clone();
        }
        let stats = shards.look(streamside_coordinator::Coordinator::stats);
        let sum = |of: fn(&streamside_coordinator::coordinator::Stats) -> usize| -> u64 {
            stats.iter().map(of).map(|n| n as u64).sum()
        };
        let mut gauges = Gauges {
            groups: vec![
                ("full", sum(|s| s.full)),
                ("none", sum(|s| s.none)),
                ("refused", sum(|s| s.refused)),
                ("uncertain", sum(|s| s.uncertain)),
            ],
            members: sum(|s| s.members),
            journal_backlog_bytes: shards.journal().backlog_bytes() as u64,
            journal_bytes: Some(shards.journal().size_bytes()),
            ..Gauges::default()
        };
        if beside {
            gauges.groups.push(("coarse", sum(|s| s.coarse)));
        }
        if let Some(runner) = &runner {
            let calls = runner.stats();
            gauges.plugin_in_flight = calls.in_flight as u64;
            gauges.plugin_hung = calls.hung as u64;
            gauges.plugin_waiting = calls.waiting as u64;
            gauges.plugin_corrupt_reads = calls.corrupt_reads;
            gauges.store_bytes = runner.size_bytes();
        }
        if per_group.load(Ordering::Relaxed) {
            for of_shard in
                shards.look(|c| c.each_group().map(|(id, n, word)| (id.clone(), n, word)).collect::<Vec<_>>())
            {
                let room = MAX_GROUP_SERIES - gauges.per_group.len();
                let of_shard = of_shard.into_iter().take(room);
                gauges.per_group.extend(of_shard.map(|(id, members, word)| (id.to_string(), members as u64, word)));
            }
        }
        *last = Some((std::time::Instant::now(), gauges.clone()));
        gauges
    }
}
