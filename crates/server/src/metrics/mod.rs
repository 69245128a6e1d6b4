//! What is counted, and how is it told?
//!
//! | module | what it holds |
//! |---|---|
//! | [`meter`] | Kafka's rate and count |
//! | [`histogram`] | latencies on the hot path |
//! | [`process`] | memory, files and CPU time of this process |
//! | `expose` | the text of `/metrics` |
//!
//! ```
//! use std::sync::Arc;
//! use streamside::metrics::{Api, Metrics};
//!
//! let metrics = Arc::new(Metrics::new("standalone", None, "my-cluster"));
//! let began = metrics.start();
//! metrics.request(Api::StreamsGroupHeartbeat, began);
//! assert!(metrics.text().contains("streamside_request_seconds_count{api=\"StreamsGroupHeartbeat\",side=\"own\"} 1\n"));
//! ```

mod expose;
pub mod histogram;
pub mod meter;
pub mod process;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use streamside_coordinator::Sensor;

pub use expose::CONTENT_TYPE;
use histogram::Histograms;
use meter::Meter;

/// Requests by API; the numbers index the histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(usize)]
pub enum Api {
    ApiVersions,
    Metadata,
    FindCoordinator,
    DescribeCluster,
    ListGroups,
    DescribeGroups,
    DeleteGroups,
    StreamsGroupHeartbeat,
    StreamsGroupDescribe,
    StreamsGroupTopologyDescriptionUpdate,
    ListOffsets,
    OffsetFetch,
    DescribeConfigs,
    IncrementalAlterConfigs,
    ListConfigResources,
    Other,
}

impl Api {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::ApiVersions,
        Self::Metadata,
        Self::FindCoordinator,
        Self::DescribeCluster,
        Self::ListGroups,
        Self::DescribeGroups,
        Self::DeleteGroups,
        Self::StreamsGroupHeartbeat,
        Self::StreamsGroupDescribe,
        Self::StreamsGroupTopologyDescriptionUpdate,
        Self::ListOffsets,
        Self::OffsetFetch,
        Self::DescribeConfigs,
        Self::IncrementalAlterConfigs,
        Self::ListConfigResources,
        Self::Other,
    ];

    /// Kafka's name, the label.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApiVersions => "ApiVersions",
            Self::Metadata => "Metadata",
            Self::FindCoordinator => "FindCoordinator",
            Self::DescribeCluster => "DescribeCluster",
            Self::ListGroups => "ListGroups",
            Self::DescribeGroups => "DescribeGroups",
            Self::DeleteGroups => "DeleteGroups",
            Self::StreamsGroupHeartbeat => "StreamsGroupHeartbeat",
            Self::StreamsGroupDescribe => "StreamsGroupDescribe",
            Self::StreamsGroupTopologyDescriptionUpdate => "StreamsGroupTopologyDescriptionUpdate",
            Self::ListOffsets => "ListOffsets",
            Self::OffsetFetch => "OffsetFetch",
            Self::DescribeConfigs => "DescribeConfigs",
            Self::IncrementalAlterConfigs => "IncrementalAlterConfigs",
            Self::ListConfigResources => "ListConfigResources",
            Self::Other => "Other",
        }
    }

    /// By Kafka's key.
    pub fn of_key(key: i16) -> Self {
        match key {
            2 => Self::ListOffsets,
            3 => Self::Metadata,
            9 => Self::OffsetFetch,
            10 => Self::FindCoordinator,
            15 => Self::DescribeGroups,
            16 => Self::ListGroups,
            18 => Self::ApiVersions,
            32 => Self::DescribeConfigs,
            42 => Self::DeleteGroups,
            44 => Self::IncrementalAlterConfigs,
            60 => Self::DescribeCluster,
            74 => Self::ListConfigResources,
            88 => Self::StreamsGroupHeartbeat,
            89 => Self::StreamsGroupDescribe,
            93 => Self::StreamsGroupTopologyDescriptionUpdate,
            _ => Self::Other,
        }
    }
}

/// Plugin calls by operation; the numbers index the histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(usize)]
pub enum PluginOp {
    Set,
    Get,
    Delete,
    List,
    History,
    Health,
}

impl PluginOp {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Set, Self::Get, Self::Delete, Self::List, Self::History, Self::Health];

    /// The label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::List => "list",
            Self::History => "history",
            Self::Health => "health",
        }
    }
}

/// Kafka's eight meters in the order of their numbers, with their names.
const SENSORS: [(Sensor, &str); 8] = [
    (Sensor::SetSuccess, "set_success"),
    (Sensor::SetError, "set_error"),
    (Sensor::GetSuccess, "get_success"),
    (Sensor::GetError, "get_error"),
    (Sensor::DeleteSuccess, "delete_success"),
    (Sensor::DeleteError, "delete_error"),
    (Sensor::CleanupCycle, "cleanup_cycle"),
    (Sensor::CleanupEligible, "cleanup_eligible"),
];

/// Figures that are looked up when they are asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// `streamside_groups{description}`: status word and number of groups.
    pub groups: Vec<(&'static str, u64)>,
    /// Members of all groups.
    pub members: u64,
    /// Plugin calls under way.
    pub plugin_in_flight: u64,
    /// Plugin calls past their deadline that still run.
    pub plugin_hung: u64,
    /// Plugin calls that wait for their turn.
    pub plugin_waiting: u64,
    /// Damaged copies met since the start.
    pub plugin_corrupt_reads: u64,
    /// Bytes the plugin's store occupies.
    pub store_bytes: Option<u64>,
    /// Bytes that wait for the journal.
    pub journal_backlog_bytes: u64,
    /// Bytes of the journal's file.
    pub journal_bytes: Option<u64>,
    /// With `streamside.metrics.per.group`: group id, members, description status word.
    pub per_group: Vec<(String, u64, &'static str)>,
}

type GaugeSource = Arc<dyn Fn() -> Gauges + Send + Sync>;

/// Names and values that stay small because they come from our own code.
type Counts = BTreeMap<&'static str, u64>;

/// Everything that is counted. All methods may be called from any thread.
pub struct Metrics {
    began: Instant,
    mode: &'static str,
    plugin: String,
    cluster_id: Mutex<String>,
    cluster_name: Option<String>,
    sensors: Mutex<[Meter; SENSORS.len()]>,
    requests: Histograms<{ Api::ALL.len() }>,
    upstream_requests: Histograms<{ Api::ALL.len() }>,
    plugin_calls: Histograms<{ PluginOp::ALL.len() }>,
    commits: Histograms<1>,
    commit_records: AtomicU64,
    commit_failures: AtomicU64,
    connections: AtomicUsize,
    connections_opened: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    /// With a cluster behind us: 0 it cannot be reached, 1 it can.
    upstream_up: Mutex<Option<bool>>,
    bypassed: AtomicU64,
    topology_changes: AtomicU64,
    solicitations: AtomicU64,
    pushes: Mutex<Counts>,
    limits: Mutex<Counts>,
    certificates: Mutex<BTreeMap<&'static str, i64>>,
    gauges: Mutex<Option<GaugeSource>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("mode", &self.mode).field("cluster", &self.cluster()).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters are whole after every step; a panic elsewhere does not spoil them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// All at 0. `mode`, `plugin` and the cluster's id, or its name where it has one, are labels of `streamside_info`.
    pub fn new(mode: &'static str, plugin: Option<&str>, cluster_id: &str) -> Self {
        Self {
            began: Instant::now(),
            mode,
            plugin: plugin.unwrap_or("none").to_owned(),
            cluster_id: Mutex::new(cluster_id.to_owned()),
            cluster_name: None,
            sensors: Mutex::new(std::array::from_fn(|_| Meter::new(0))),
            requests: Histograms::new(),
            upstream_requests: Histograms::new(),
            plugin_calls: Histograms::new(),
            commits: Histograms::new(),
            commit_records: AtomicU64::new(0),
            commit_failures: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            connections_opened: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            upstream_up: Mutex::default(),
            bypassed: AtomicU64::new(0),
            topology_changes: AtomicU64::new(0),
            solicitations: AtomicU64::new(0),
            pushes: Mutex::default(),
            limits: Mutex::default(),
            certificates: Mutex::default(),
            gauges: Mutex::new(None),
        }
    }

    /// With a name for people in the place of the cluster's id.
    #[must_use]
    pub fn named(mut self, cluster_name: Option<String>) -> Self {
        self.cluster_name = cluster_name;
        self
    }

    /// The cluster behind us said who it is.
    pub fn cluster_is(&self, id: &str) {
        let mut known = locked(&self.cluster_id);
        if *known != id {
            id.clone_into(&mut known);
        }
    }

    /// The cluster's id.
    pub fn cluster_id(&self) -> String {
        locked(&self.cluster_id).clone()
    }

    /// The cluster's name for people, else its id.
    pub fn cluster(&self) -> String {
        self.cluster_name.clone().unwrap_or_else(|| self.cluster_id())
    }

    /// Where figures that are looked up come from.
    pub fn set_gauges(&self, source: impl Fn() -> Gauges + Send + Sync + 'static) {
        *locked(&self.gauges) = Some(Arc::new(source));
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records `value` on one of Kafka's sensors.
    pub fn record(&self, sensor: Sensor, value: u64) {
        self.record_at(sensor, value, self.now_ms());
    }

    fn record_at(&self, sensor: Sensor, value: u64, now_ms: u64) {
        if let Some(at) = SENSORS.iter().position(|(s, _)| *s == sensor)
            && let Some(meter) = locked(&self.sensors).get_mut(at)
        {
            meter.record(value, now_ms);
        }
    }

    /// A push was answered: `stored`, `unchanged`, a word for what was wrong with it, or a reason word.
    pub fn push_settled(&self, result: &'static str) {
        *locked(&self.pushes).entry(result).or_default() += 1;
    }

    /// A limit was met.
    pub fn limit_hit(&self, limit: &'static str) {
        *locked(&self.limits).entry(limit).or_default() += 1;
    }

    /// The certificate that is shown to this side is good until then, in seconds since 1970.
    pub fn certificate_ends(&self, side: &'static str, at: i64) {
        locked(&self.certificates).insert(side, at);
    }

    /// Side and end of each certificate of ours, in seconds since 1970.
    pub fn certificates(&self) -> Vec<(&'static str, i64)> {
        locked(&self.certificates).iter().map(|(side, at)| (*side, *at)).collect()
    }

    /// The accepted description of a group changed.
    pub fn topology_changed(&self) {
        self.topology_changes.fetch_add(1, Relaxed);
    }

    /// A member was asked for its description.
    pub fn solicited(&self) {
        self.solicitations.fetch_add(1, Relaxed);
    }

    /// A connection was taken.
    pub fn connection_opened(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.connections_opened.fetch_add(1, Relaxed);
    }

    /// A connection that was taken has ended.
    pub fn connection_closed(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    /// Connections at this moment.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// Whether the cluster behind us can be reached.
    pub fn upstream_up(&self, up: bool) {
        *locked(&self.upstream_up) = Some(up);
    }

    /// A connection ended that asked for metadata only, of a client that goes elsewhere with all else.
    pub fn connection_bypassed(&self) {
        self.bypassed.fetch_add(1, Relaxed);
    }

    /// Bytes of whole requests and answers, once a connection's turn.
    pub fn bytes(&self, read: u64, written: u64) {
        self.bytes_read.fetch_add(read, Relaxed);
        self.bytes_written.fetch_add(written, Relaxed);
    }

    /// The moment a request or a call begins.
    pub fn start(&self) -> Instant {
        Instant::now()
    }

    /// A request that began then has its answer.
    pub fn request(&self, api: Api, began: Instant) {
        self.requests.observe(api as usize, began.elapsed());
    }

    /// A question that went upstream then has its answer.
    pub fn upstream_request(&self, api: Api, began: Instant) {
        self.upstream_requests.observe(api as usize, began.elapsed());
    }

    /// A plugin call took so long.
    pub fn plugin_call(&self, op: PluginOp, took: Duration) {
        self.plugin_calls.observe(op as usize, took);
    }

    /// The journal committed so many records.
    pub fn journal_commit(&self, records: usize, took: Duration) {
        self.commits.observe(0, took);
        self.commit_records.fetch_add(records as u64, Relaxed);
    }

    /// A commit of the journal failed.
    pub fn journal_failed(&self) {
        self.commit_failures.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
