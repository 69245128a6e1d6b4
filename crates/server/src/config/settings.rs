//! The typed settings that the rest of the server reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use streamside_coordinator::{Compat, Config as CoordinatorConfig, Limits, Membership, SettingBounds};

use super::address::{HostPort, Protocol};
use super::secured::TlsSettings;
use super::source::Effective;
use super::upstream::UpstreamSettings;

/// Everything configured, checked, with units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen (`listeners`); port 0 takes a free one.
    pub listener: HostPort,
    /// What to tell clients (`advertised.listeners`). Port 0: the one that was bound.
    pub advertised: HostPort,
    /// What the listener speaks below the Kafka protocol.
    pub protocol: Protocol,
    /// TLS of the listener; there when its protocol has it.
    pub tls: Option<TlsSettings>,
    /// `max.connections`.
    pub max_connections: usize,
    /// `max.connections.per.ip`.
    pub max_connections_per_ip: usize,
    /// `connections.max.idle.ms`; `None`: never.
    pub connections_max_idle: Option<Duration>,
    /// `socket.request.max.bytes`.
    pub request_max_bytes: usize,
    /// `streamside.frame.timeout.ms`.
    pub frame_timeout: Duration,
    /// `streamside.connect.timeout.ms`.
    pub connect_timeout: Duration,
    /// `streamside.shutdown.timeout.ms`.
    pub shutdown_timeout: Duration,
    /// `streamside.worker.threads`, resolved; at least 1.
    pub worker_threads: usize,
    /// Of streams groups.
    pub groups: GroupSettings,
    /// `offsets.retention.minutes`.
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval: Duration,
    /// `streamside.topics`.
    pub topics: BTreeMap<String, i32>,
    /// `streamside.compat`.
    pub compat: Compat,
    /// Of the plugin.
    pub plugin: PluginSettings,
    /// `streamside.description.max.bytes`.
    pub description_max_bytes: usize,
    /// `streamside.description.max.nodes`.
    pub description_max_nodes: usize,
    /// `streamside.description.max.name.bytes`.
    pub description_max_name_bytes: usize,
    /// `streamside.max.groups`.
    pub max_groups: usize,
    /// `streamside.upstream` and its neighbours; `None`: standing alone.
    pub upstream: Option<UpstreamSettings>,
    /// `streamside.data.dir`.
    pub data_dir: PathBuf,
    /// `streamside.cluster.name`; `None`: the cluster id.
    pub cluster_name: Option<String>,
    /// Of HTTP.
    pub http: HttpSettings,
    /// Of logs.
    pub log: LogSettings,
    /// `streamside.metrics.per.group`.
    pub metrics_per_group: bool,
    /// Every known key with its effective value and origin, in the table's order.
    pub effective: Vec<Effective>,
}

/// `group.streams.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct GroupSettings {
    pub session_timeout_ms: i32,
    pub heartbeat_interval_ms: i32,
    pub max_size: i32,
    pub initial_rebalance_delay_ms: i32,
    pub assignment_interval_ms: i32,
    pub num_standby_replicas: i32,
    pub num_warmup_replicas: i32,
    pub task_offset_interval_ms: i32,
    pub acceptable_recovery_lag: i64,
    pub assignor: String,
    pub rack_aware_assignment_tags: Vec<String>,
    /// What groups may set for themselves.
    pub bounds: SettingBounds,
}

/// Of the topology description plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSettings {
    /// `group.streams.topology.description.plugin.class`; `None`: the feature is off.
    pub class: Option<String>,
    /// `streamside.plugin.config.*`, the prefix taken off.
    pub config: BTreeMap<String, String>,
    /// `streamside.plugin.call.timeout.ms`.
    pub call_timeout: Duration,
    /// `streamside.plugin.max.in.flight`.
    pub max_in_flight: usize,
    /// `streamside.history.max.versions`, a group.
    pub history_max_versions: usize,
    /// `streamside.history.max.age.days`.
    pub history_max_age: Duration,
}

/// Of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// `streamside.http.listen`; `None`: off.
    pub listen: Option<HostPort>,
    /// `streamside.http.token.file`, resolved.
    pub token_file: PathBuf,
    /// `streamside.http.plaintext=accept`.
    pub plaintext: bool,
}

/// Shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LogFormat {
    Text,
    Json,
}

/// Of logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// `streamside.log.format`.
    pub format: LogFormat,
    /// `streamside.log.level`.
    pub level: String,
}

impl Settings {
    /// What the coordinator is given, the limit on groups being that of all shards together. `plugin` is the identity
    /// that the resolver gave to the plugin.
    pub fn coordinator_config(&self, plugin: Option<String>) -> CoordinatorConfig {
        let gone_after = self.upstream.as_ref().map(|upstream| upstream.gone_after);
        CoordinatorConfig {
            compat: self.compat,
            membership: if gone_after.is_some() { Membership::Broker } else { Membership::Own },
            gone_after_ms: gone_after.map_or(i64::MAX, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
            plugin,
            session_timeout_ms: self.groups.session_timeout_ms,
            heartbeat_interval_ms: self.groups.heartbeat_interval_ms,
            initial_rebalance_delay_ms: self.groups.initial_rebalance_delay_ms,
            assignment_interval_ms: self.groups.assignment_interval_ms,
            task_offset_interval_ms: self.groups.task_offset_interval_ms,
            acceptable_recovery_lag: self.groups.acceptable_recovery_lag,
            num_standby_replicas: self.groups.num_standby_replicas,
            assignor_name: self.groups.assignor.clone(),
            rack_aware_assignment_tags: self.groups.rack_aware_assignment_tags.clone(),
            setting_bounds: self.groups.bounds.clone(),
            topics: self.topics.clone(),
            limits: Limits {
                max_groups: self.max_groups,
                max_members: self.groups.max_size,
                description_max_bytes: self.description_max_bytes,
                description_max_nodes: self.description_max_nodes,
                description_max_name_bytes: self.description_max_name_bytes,
                ..Limits::default()
            },
        }
    }

    /// What the plugin's `configure` is given: every key as a broker would give it, each
    /// `streamside.plugin.config.X` once more as `X`. `data_dir` is the folder that was locked.
    pub fn plugin_config(&self, data_dir: &Path) -> streamside_plugin::Config {
        let mut all: streamside_plugin::Config =
            self.effective.iter().map(|e| (e.key.clone(), e.value.clone())).collect();
        all.insert("streamside.data.dir".to_owned(), data_dir.display().to_string());
        streamside_plugin::plugin_config(&all)
    }
}
