//! Settings that the rules depend on. Names are those of the configuration keys they come from.

/// Whose rules are played where Streamside and Kafka differ (`streamside.compat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Ours: differences H1–H12 and D1–D12 hold.
    Streamside,
    /// Kafka's, all differences off.
    Kafka,
}

/// Who owns the membership of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// We do: standalone. [`crate::Input::Heartbeat`] decides.
    #[default]
    Own,
    /// A broker does, and we watch what it answers ([`crate::watched`]).
    Broker,
}

/// Bounds on what clients may make us keep; each has a reason word or Kafka's own error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Groups in all shards together; the shell divides by the number of shards.
    pub max_groups: usize,
    /// Members in a group: `group.streams.max.size`, error 81.
    pub max_members: i32,
    /// Encoded bytes of a description: 135 `too_large`.
    pub description_max_bytes: usize,
    /// Nodes in a description: 135 `too_many_nodes`.
    pub description_max_nodes: usize,
    /// Bytes of a name in a description: 135 `name_too_long`.
    pub description_max_name_bytes: usize,
    /// Beside a broker: members of one group that are remembered. The broker bounds a group itself
    /// (`group.streams.max.size`); members beyond ours are served all the same, each by a question to the broker.
    pub watched_members: usize,
    /// Beside a broker: tasks of one member whose offsets are remembered.
    pub watched_tasks: usize,
    /// Beside a broker: bytes of a heartbeat's own topology that is kept as a coarse picture.
    pub watched_topology_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_groups: 100_000,
            max_members: i32::MAX,
            description_max_bytes: 1_048_576,
            description_max_nodes: 5_000,
            description_max_name_bytes: 32_767,
            watched_members: 10_000,
            watched_tasks: 10_000,
            watched_topology_bytes: 262_144,
        }
    }
}

/// What groups may set for themselves, both ends included (spec kip1071 §7.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingBounds {
    /// `group.streams.min.session.timeout.ms` and its max.
    pub session_timeout_ms: (i32, i32),
    /// `group.streams.min.heartbeat.interval.ms` and its max.
    pub heartbeat_interval_ms: (i32, i32),
    /// `group.streams.min.assignment.interval.ms` and its max.
    pub assignment_interval_ms: (i32, i32),
    /// `group.streams.max.standby.replicas`.
    pub max_standby_replicas: i32,
    /// `group.streams.max.warmup.replicas`.
    pub max_warmup_replicas: i32,
    /// `group.streams.min.task.offset.interval.ms`.
    pub min_task_offset_interval_ms: i32,
}

impl Default for SettingBounds {
    fn default() -> Self {
        Self {
            session_timeout_ms: (45_000, 60_000),
            heartbeat_interval_ms: (5_000, 15_000),
            assignment_interval_ms: (0, 15_000),
            max_standby_replicas: 2,
            max_warmup_replicas: 20,
            min_task_offset_interval_ms: 15_000,
        }
    }
}

/// Settings of one coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Config {
    pub compat: Compat,
    pub membership: Membership,
    /// Beside a broker: after so long without a sign of it a group counts as gone (`streamside.upstream.gone.after`).
    pub gone_after_ms: i64,
    /// Identity of the configured plugin; `None`: the feature is off.
    pub plugin: Option<String>,
    pub session_timeout_ms: i32,
    pub heartbeat_interval_ms: i32,
    pub initial_rebalance_delay_ms: i32,
    pub assignment_interval_ms: i32,
    pub task_offset_interval_ms: i32,
    pub acceptable_recovery_lag: i64,
    pub num_standby_replicas: i32,
    pub assignor_name: String,
    /// Client tags that members should have.
    pub rack_aware_assignment_tags: Vec<String>,
    pub setting_bounds: SettingBounds,
    /// Known topics and their partition counts; empty: no topic is known.
    pub topics: std::collections::BTreeMap<String, i32>,
    pub limits: Limits,
}

impl Config {
    /// Takes what may change while groups live from `other`: timers, limits, replicas. The rules, the membership, the
    /// plugin, the topics and the tags stay.
    pub fn retune(&mut self, other: &Self) {
        let Self { compat, membership, plugin, topics, rack_aware_assignment_tags, .. } = std::mem::take(self);
        *self = Self { compat, membership, plugin, topics, rack_aware_assignment_tags, ..other.clone() };
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            compat: Compat::Streamside,
            membership: Membership::Own,
            gone_after_ms: 8 * 24 * 3_600_000,
            plugin: Some("disk".to_owned()),
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            initial_rebalance_delay_ms: 3_000,
            assignment_interval_ms: 1_000,
            task_offset_interval_ms: 60_000,
            acceptable_recovery_lag: 10_000,
            num_standby_replicas: 0,
            assignor_name: "sticky".to_owned(),
            rack_aware_assignment_tags: Vec::new(),
            setting_bounds: SettingBounds::default(),
            topics: std::collections::BTreeMap::new(),
            limits: Limits::default(),
        }
    }
}
