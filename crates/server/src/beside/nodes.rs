//! The node map: which port of ours stands for which node of the cluster, and where that node is now.
//!
//! A port is bound before the answer that names it leaves. The map is kept on disk and its ports are open before
//! readiness after a restart, since on a secured cluster nobody can tell us the nodes before a client logs in.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use streamside_proxy::intercept::{Addresses, Reach};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::node_file::{KeptNode, NodeFile};
use crate::config::HostPort;
use crate::config::upstream::NodePorts;
use crate::metrics::Metrics;
use crate::shell::context::NoiseGate;
use crate::shell::listener;

/// Nodes in the map; each may hold a listener.
pub const MAX_NODES: usize = 1000;
/// How far the next free port is looked for.
const MAX_TRIES: u16 = 1000;
/// A node that the cluster no longer names keeps its port open for so long: brokers that restart come back.
const GONE_AFTER: Duration = Duration::from_secs(600);

/// Why a node has no port.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// The port that was written down cannot be had.
    #[error(
        "node {node} has the port {port} by {key}, which cannot be opened: {reason}; free it, or choose others with --override streamside.node.ports=BASE+id"
    )]
    Taken {
        /// Which node.
        node: i32,
        /// Its port.
        port: u16,
        /// The key that says so.
        key: &'static str,
        /// What the system said.
        reason: String,
    },
    /// No number is left.
    #[error(
        "node {node} has no port: streamside.node.ports leads beyond 65535; choose a lower base or list the nodes as ID:PORT"
    )]
    Overflow {
        /// Which node.
        node: i32,
    },
    /// None of the ports tried is free.
    #[error("no free port was found for node {node}: {reason}")]
    None {
        /// Which node.
        node: i32,
        /// What the system said of the last one.
        reason: String,
    },
    /// More than the map holds.
    #[error("the cluster names more than {MAX_NODES} nodes; node {node} cannot be reached through here")]
    TooMany {
        /// Which node.
        node: i32,
    },
    /// The cluster says that a node is at an address of ours.
    #[error(
        "the upstream says that node {node} is at {address}, which is ourselves: streamside.upstream leads back to this process, or the broker advertises our address (then set streamside.addresses=advertised)"
    )]
    Ourselves {
        /// Which node.
        node: i32,
        /// What it said.
        address: String,
    },
    /// A node without an address.
    #[error("the upstream says that node {node} is at {address}, which is no address")]
    NoAddress {
        /// Which node.
        node: i32,
        /// What it said, made harmless.
        address: String,
    },
}

impl NodesError {
    /// A word for metrics and policy.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Taken { .. } => "node_port_taken",
            Self::Overflow { .. } => "node_port_overflow",
            Self::None { .. } => "no_free_port",
            Self::TooMany { .. } => "too_many_nodes",
            Self::Ourselves { .. } => "upstream_is_ourselves",
            Self::NoAddress { .. } => "no_address",
        }
    }
}

/// What the map is made of.
#[derive(Debug)]
pub struct Setup {
    /// `nodes.json`.
    pub file: PathBuf,
    /// `streamside.node.ports`.
    pub ports: NodePorts,
    /// Where the bootstrap listener was bound; nodes' listeners are bound to the same address.
    pub listener: SocketAddr,
    /// Host that clients are told for every node.
    pub host: Arc<str>,
    /// Port that clients are told for the bootstrap listener.
    pub advertised_port: u16,
    /// Addresses of the upstream that are no node's: no port of ours may be theirs.
    pub bootstrap: Vec<HostPort>,
}

/// A listener that was opened for a node.
#[derive(Debug)]
pub struct Opened {
    /// Which node.
    pub node: i32,
    /// Bound and listening.
    pub listener: TcpListener,
    /// Ready when the node's port is to be closed.
    pub closed: oneshot::Receiver<()>,
}

/// Where a connection to a node's port leads now. The port stays open while one of these lives.
#[derive(Clone, Debug)]
pub struct Route {
    /// Where the node is.
    pub upstream: HostPort,
    _held: Arc<()>,
}

/// A node as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its id.
    pub id: i32,
    /// Where it is.
    pub upstream: HostPort,
    /// The port of ours that stands for it.
    pub port: u16,
    /// Whether the port is open.
    pub open: bool,
    /// Whether the cluster's last list lacked it.
    pub gone: bool,
}

#[derive(Debug)]
struct Entry {
    upstream: HostPort,
    /// `streamside.node.ports` says where it is.
    pinned: bool,
    port: u16,
    /// Dropped to close the listener.
    open: Option<oneshot::Sender<()>>,
    gone_since: Option<Instant>,
    held: Arc<()>,
}

#[derive(Debug, Default)]
struct Map {
    cluster: Option<String>,
    nodes: BTreeMap<i32, Entry>,
    /// The upstream named an address of ours.
    ourselves: Option<String>,
    /// Ports in the cluster's last list.
    brokers: BTreeSet<u16>,
}

/// The node map.
#[derive(Debug)]
pub struct Nodes {
    setup: Setup,
    map: Mutex<Map>,
    opened: mpsc::UnboundedSender<Opened>,
    noise: Arc<NoiseGate>,
    metrics: Arc<Metrics>,
}

impl Nodes {
    /// Reads what is kept and opens the ports of all nodes that are known. The listeners come out of the receiver; as
    /// many as there are nodes.
    ///
    /// # Errors
    /// [`NodesError::Taken`] and [`NodesError::Overflow`] where ports were written down.
    pub fn open(
        setup: Setup,
        noise: Arc<NoiseGate>,
        metrics: Arc<Metrics>,
    ) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<Opened>), NodesError> {
        let (opened, listeners) = mpsc::unbounded_channel();
        let kept = NodeFile::read(&setup.file);
        let nodes = Arc::new(Self { setup, map: Mutex::default(), opened, noise, metrics });
        {
            let mut map = nodes.map();
            map.cluster = kept.cluster;
            if let Some(cluster) = &map.cluster {
                nodes.metrics.cluster_is(cluster);
            }
            // Whoever moved the listener expects the ports behind it to move as well.
            let same_listener = kept.listener == nodes.setup.listener.port();
            for node in kept.nodes {
                let upstream = HostPort { host: node.host, port: node.port };
                let kept_port = (same_listener && !nodes.setup.ports.is_fixed(node.id)).then_some(node.ours);
                nodes.add(&mut map, node.id, upstream, kept_port, true)?;
            }
            if let NodePorts::Listed(listed) = &nodes.setup.ports {
                for (id, node) in listed {
                    let Some(upstream) = &node.upstream else { continue };
                    map.nodes.remove(id);
                    nodes.add(&mut map, *id, upstream.clone(), None, true)?;
                    if let Some(entry) = map.nodes.get_mut(id) {
                        entry.pinned = true;
                    }
                }
            }
        }
        Ok((nodes, listeners))
    }

    /// Takes the cluster's nodes at the start, when a port that was written down and cannot be had is reason to stop.
    ///
    /// # Errors
    /// [`NodesError`] of the first node that has no port.
    pub fn learn(&self, cluster: Option<&str>, nodes: &[(i32, String, i32)]) -> Result<(), NodesError> {
        let mut map = self.map();
        self.same_cluster(&mut map, cluster);
        map.brokers = broker_ports(nodes);
        for (node, host, port) in nodes {
            self.place(&mut map, *node, host, *port, true)?;
        }
        Ok(())
    }

    /// Where a connection to the port of this node leads.
    #[must_use]
    pub fn route(&self, node: i32) -> Option<Route> {
        let map = self.map();
        let entry = map.nodes.get(&node)?;
        Some(Route { upstream: entry.upstream.clone(), _held: Arc::clone(&entry.held) })
    }

    /// Closes the ports of nodes that are gone for long and that nobody is connected to.
    pub fn sweep(&self) {
        self.sweep_at(Instant::now());
    }

    fn sweep_at(&self, now: Instant) {
        for (id, entry) in &mut self.map().nodes {
            let gone = entry.gone_since.is_some_and(|since| now.saturating_duration_since(since) >= GONE_AFTER);
            if gone && Arc::strong_count(&entry.held) == 1 && entry.open.take().is_some() {
                tracing::info!(node = id, port = entry.port, "the node is gone and its port is closed");
            }
        }
    }

    /// All nodes, by id.
    #[must_use]
    pub fn list(&self) -> Vec<NodeView> {
        let view = |(id, entry): (&i32, &Entry)| NodeView {
            id: *id,
            upstream: entry.upstream.clone(),
            port: entry.port,
            open: entry.open.is_some(),
            gone: entry.gone_since.is_some(),
        };
        self.map().nodes.iter().map(view).collect()
    }

    /// The cluster's id, once it is known.
    #[must_use]
    pub fn cluster(&self) -> Option<String> {
        self.map().cluster.clone()
    }

    /// A sentence when the upstream leads back to this process.
    #[must_use]
    pub fn ourselves(&self) -> Option<String> {
        self.map().ourselves.clone()
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nodes of another cluster are not ours.
    fn same_cluster(&self, map: &mut Map, cluster: Option<&str>) {
        let Some(cluster) = cluster.filter(|id| !id.is_empty()) else { return };
        match map.cluster.as_deref() {
            Some(known) if known == cluster => return,
            Some(known) => {
                self.noise.warn(|| {
                    tracing::warn!(
                        before = known,
                        now = crate::logging::escaped(cluster),
                        "the upstream is another cluster now; its nodes take the place of those known"
                    );
                });
                map.nodes.retain(|_, entry| entry.pinned);
            }
            None => {}
        }
        map.cluster = Some(cluster.to_owned());
        self.metrics.cluster_is(cluster);
        self.keep(map);
    }

    /// What was learnt of a node; its port is open when this returns.
    fn place(&self, map: &mut Map, node: i32, host: &str, port: i32, strict: bool) -> Result<Reach, NodesError> {
        let reach = |port: u16| Reach { host: Arc::clone(&self.setup.host), port };
        if let Some(entry) = map.nodes.get_mut(&node) {
            let same = entry.upstream.host == host && i32::from(entry.upstream.port) == port;
            if entry.open.is_some() && (entry.pinned || same) {
                entry.gone_since = None;
                let port = entry.port;
                map.ourselves = None;
                return Ok(reach(port));
            }
        }
        let upstream = u16::try_from(port).ok().filter(|port| *port != 0 && node >= 0);
        let upstream =
            upstream.and_then(|port| HostPort::parse(&HostPort { host: host.to_owned(), port }.to_string()).ok());
        let Some(upstream) = upstream.filter(|upstream| !upstream.is_wildcard()) else {
            return Err(NodesError::NoAddress { node, address: crate::logging::escaped(&format!("{host}:{port}")) });
        };
        if let Some(entry) = map.nodes.get_mut(&node) {
            entry.gone_since = None;
        }
        self.not_ourselves(map, node, &upstream)?;
        let port = match map.nodes.get_mut(&node) {
            Some(entry) => {
                let kept = entry.port;
                if entry.upstream != upstream && !entry.pinned {
                    let before = std::mem::replace(&mut entry.upstream, upstream.clone());
                    self.noise.warn(
                        || tracing::info!(node, %before, now = %upstream, "the node moved; new connections follow it"),
                    );
                }
                if entry.open.is_some() {
                    kept
                } else {
                    let (pinned, upstream) = (entry.pinned, entry.upstream.clone());
                    map.nodes.remove(&node);
                    let port = self.add(map, node, upstream, Some(kept), strict)?;
                    if let Some(entry) = map.nodes.get_mut(&node) {
                        entry.pinned = pinned;
                    }
                    port
                }
            }
            None => {
                let port = self.add(map, node, upstream.clone(), None, strict)?;
                tracing::info!(node, %upstream, port, "a node of the cluster; clients reach it at this port");
                port
            }
        };
        self.keep(map);
        Ok(reach(port))
    }

    /// An address of ours is no node's.
    fn not_ourselves(&self, map: &mut Map, node: i32, upstream: &HostPort) -> Result<(), NodesError> {
        let same_host = upstream.host.eq_ignore_ascii_case(&self.setup.host);
        let ours = upstream.port == self.setup.advertised_port
            || map.nodes.values().any(|entry| entry.open.is_some() && entry.port == upstream.port);
        if same_host && ours {
            let error = NodesError::Ourselves { node, address: upstream.to_string() };
            map.ourselves = Some(error.to_string());
            return Err(error);
        }
        map.ourselves = None;
        Ok(())
    }

    /// Opens a port for a node that has no entry. `kept`: the one that it had before.
    fn add(
        &self,
        map: &mut Map,
        node: i32,
        upstream: HostPort,
        kept: Option<u16>,
        strict: bool,
    ) -> Result<u16, NodesError> {
        if map.nodes.len() >= MAX_NODES {
            // Who is gone longest makes room.
            let gone =
                map.nodes.iter().filter(|(_, e)| e.open.is_none()).filter_map(|(id, e)| Some((e.gone_since?, *id)));
            let Some((_, oldest)) = gone.min() else { return Err(NodesError::TooMany { node }) };
            map.nodes.remove(&oldest);
        }
        map.brokers.insert(upstream.port);
        let (listener, port) = self.bind(map, node, kept, strict)?;
        let (open, closed) = oneshot::channel();
        // The receiver lives as long as the process.
        let _ = self.opened.send(Opened { node, listener, closed });
        let entry = Entry { upstream, pinned: false, port, open: Some(open), gone_since: None, held: Arc::default() };
        map.nodes.insert(node, entry);
        Ok(port)
    }

    fn bind(&self, map: &Map, node: i32, kept: Option<u16>, strict: bool) -> Result<(TcpListener, u16), NodesError> {
        let Setup { ports, listener, .. } = &self.setup;
        let wanted = ports.wanted(node, listener.port());
        let fixed = ports.is_fixed(node);
        if fixed && strict && wanted.is_none() {
            return Err(NodesError::Overflow { node });
        }
        let mut last = "no port is left".to_owned();
        if let Some(first) = kept.or(wanted) {
            match self.try_bind(map, node, first) {
                Ok(bound) => return Ok((bound, first)),
                Err(reason) if fixed && strict => {
                    return Err(NodesError::Taken {
                        node,
                        port: first,
                        key: "streamside.node.ports",
                        reason: reason.to_string(),
                    });
                }
                Err(reason) => last = reason.to_string(),
            }
        }
        let first = kept.or(wanted).unwrap_or(listener.port());
        for step in 1..=MAX_TRIES {
            // Ports above the wanted one, then those from the listener's on.
            let Some(port) = first.checked_add(step).or_else(|| listener.port().checked_add(step)) else { break };
            match self.try_bind(map, node, port) {
                Ok(bound) => {
                    tracing::warn!(
                        node,
                        wanted = wanted.map_or_else(|| "beyond 65535".to_owned(), |port| port.to_string()),
                        port,
                        "the port that would stand for the node cannot be opened ({last}); another one does, and is kept"
                    );
                    return Ok((bound, port));
                }
                Err(e) if is_taken(&e) => last = e.to_string(),
                // No file descriptors, no such address: the next port has the same fate.
                Err(e) => return Err(NodesError::None { node, reason: e.to_string() }),
            }
        }
        Err(NodesError::None { node, reason: last })
    }

    fn try_bind(&self, map: &Map, node: i32, port: u16) -> io::Result<TcpListener> {
        let taken = |what: String| Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        if let Some((other, _)) = map.nodes.iter().find(|(id, entry)| **id != node && entry.port == port) {
            return taken(format!("it stands for node {other}"));
        }
        if let Some((other, _)) = self.setup.ports.reserved().find(|(id, reserved)| *id != node && *reserved == port) {
            return taken(format!("it is kept for node {other}"));
        }
        // A broker on this machine that is down for a moment must find its port free.
        let theirs = |port: u16| {
            map.brokers.contains(&port)
                || map.nodes.values().any(|entry| entry.upstream.port == port)
                || self.setup.bootstrap.iter().any(|broker| broker.port == port)
        };
        if theirs(port) && !self.setup.ports.is_fixed(node) {
            return taken("brokers listen on it".to_owned());
        }
        let ip: IpAddr = self.setup.listener.ip();
        listener::bind_one(SocketAddr::new(ip, port))
    }

    /// Writes the map; a disk that refuses costs what a restart would gain, so it is told and that is all.
    fn keep(&self, map: &Map) {
        let node = |(id, entry): (&i32, &Entry)| KeptNode {
            id: *id,
            host: entry.upstream.host.clone(),
            port: entry.upstream.port,
            ours: entry.port,
        };
        let nodes = map.nodes.iter().map(node).collect();
        let file = NodeFile::new(self.setup.listener.port(), map.cluster.clone(), nodes);
        if let Err(e) = file.write(&self.setup.file) {
            self.noise.warn(
                || tracing::error!(error = %e, "the node map could not be kept; a restart may not find the nodes"),
            );
        }
    }
}

fn broker_ports(nodes: &[(i32, String, i32)]) -> BTreeSet<u16> {
    nodes.iter().take(MAX_NODES).filter_map(|(_, _, port)| u16::try_from(*port).ok()).collect()
}

fn is_taken(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}

impl Addresses for Nodes {
    fn reach(&self, cluster_id: Option<&str>, node_id: i32, host: &str, port: i32) -> Option<Reach> {
        let mut map = self.map();
        self.same_cluster(&mut map, cluster_id);
        match self.place(&mut map, node_id, host, port, false) {
            Ok(reach) => Some(reach),
            Err(e) => {
                drop(map);
                self.noise.warn(|| tracing::error!("{e}"));
                None
            }
        }
    }

    fn seen(&self, cluster_id: Option<&str>, nodes: &[(i32, String, i32)]) {
        let mut map = self.map();
        self.same_cluster(&mut map, cluster_id);
        map.brokers = broker_ports(nodes);
        for (id, entry) in &mut map.nodes {
            if entry.pinned || nodes.iter().any(|(named, ..)| named == id) {
                entry.gone_since = None;
            } else if entry.gone_since.is_none() {
                entry.gone_since = Some(Instant::now());
                tracing::info!(node = id, "the cluster no longer names the node");
            }
        }
    }
}

#[cfg(test)]
mod tests;
