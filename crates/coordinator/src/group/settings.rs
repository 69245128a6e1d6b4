//! Settings that a single group has of its own (spec kip1071 §7.2): which there are, what they may be, what they amount
//! to. They stand beside the group: they may be there before it, and stay when it is deleted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::incremental_alter_configs::AlterableConfig;
use thiserror::Error;

use super::{Groups, Records};
use crate::config::{Config, SettingBounds};
use crate::record::{Durable, Record};

/// Operations of an alter.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Bytes of one value: the clients' own limit is five tags of twenty characters.
const MAX_VALUE_BYTES: usize = 1_024;
/// Characters of a client's own text in an error message.
const QUOTED_CHARS: usize = 200;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    /// 32 bits, at least so much.
    Int {
        least: i32,
    },
    /// 64 bits, at least so much.
    Long {
        least: i64,
    },
    Boolean,
    Text,
    List,
}

/// A setting that a group may have of its own, in the order in which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Setting {
    SessionTimeout,
    HeartbeatInterval,
    NumStandbyReplicas,
    InitialRebalanceDelay,
    AssignmentInterval,
    RackAwareAssignmentTags,
    AssignorName,
    TaskOffsetInterval,
    NumWarmupReplicas,
    AcceptableRecoveryLag,
    AssignorOffload,
}

impl Setting {
    /// All.
    pub const ALL: [Self; 11] = [
        Self::SessionTimeout,
        Self::HeartbeatInterval,
        Self::NumStandbyReplicas,
        Self::InitialRebalanceDelay,
        Self::AssignmentInterval,
        Self::RackAwareAssignmentTags,
        Self::AssignorName,
        Self::TaskOffsetInterval,
        Self::NumWarmupReplicas,
        Self::AcceptableRecoveryLag,
        Self::AssignorOffload,
    ];

    /// The setting of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionTimeout => "streams.session.timeout.ms",
            Self::HeartbeatInterval => "streams.heartbeat.interval.ms",
            Self::NumStandbyReplicas => "streams.num.standby.replicas",
            Self::InitialRebalanceDelay => "streams.initial.rebalance.delay.ms",
            Self::AssignmentInterval => "streams.assignment.interval.ms",
            Self::RackAwareAssignmentTags => "streams.rack.aware.assignment.tags",
            Self::AssignorName => "streams.assignor.name",
            Self::TaskOffsetInterval => "streams.task.offset.interval.ms",
            Self::NumWarmupReplicas => "streams.num.warmup.replicas",
            Self::AcceptableRecoveryLag => "streams.acceptable.recovery.lag",
            Self::AssignorOffload => "streams.assignor.offload.enable",
        }
    }

    /// The key that holds for groups without one of their own.
    #[must_use]
    pub fn broker_key(self) -> &'static str {
        match self {
            Self::SessionTimeout => "group.streams.session.timeout.ms",
            Self::HeartbeatInterval => "group.streams.heartbeat.interval.ms",
            Self::NumStandbyReplicas => "group.streams.num.standby.replicas",
            Self::InitialRebalanceDelay => "group.streams.initial.rebalance.delay.ms",
            Self::AssignmentInterval => "group.streams.assignment.interval.ms",
            Self::RackAwareAssignmentTags => "group.streams.rack.aware.assignment.tags",
            // Its first entry.
            Self::AssignorName => "group.streams.assignors",
            Self::TaskOffsetInterval => "group.streams.task.offset.interval.ms",
            Self::NumWarmupReplicas => "group.streams.num.warmup.replicas",
            Self::AcceptableRecoveryLag => "group.streams.acceptable.recovery.lag",
            Self::AssignorOffload => "group.streams.assignor.offload.enable",
        }
    }

    /// What its values are.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::SessionTimeout | Self::HeartbeatInterval | Self::TaskOffsetInterval => Kind::Int { least: 1 },
            Self::NumStandbyReplicas
            | Self::InitialRebalanceDelay
            | Self::AssignmentInterval
            | Self::NumWarmupReplicas => Kind::Int { least: 0 },
            Self::AcceptableRecoveryLag => Kind::Long { least: 0 },
            Self::RackAwareAssignmentTags => Kind::List,
            Self::AssignorName => Kind::Text,
            Self::AssignorOffload => Kind::Boolean,
        }
    }

    /// Kafka shows these only for groups that have them.
    #[must_use]
    pub fn is_internal(self) -> bool {
        matches!(
            self,
            Self::TaskOffsetInterval | Self::NumWarmupReplicas | Self::AcceptableRecoveryLag | Self::AssignorOffload
        )
    }

    /// One sentence.
    #[must_use]
    pub fn doc(self) -> &'static str {
        match self {
            Self::SessionTimeout => "A member that is silent for so long is removed.",
            Self::HeartbeatInterval => "How often members are told to send heartbeats.",
            Self::NumStandbyReplicas => "Standby tasks for each stateful task.",
            Self::InitialRebalanceDelay => {
                "Wait for more members before the first assignment of an empty group, in milliseconds."
            }
            Self::AssignmentInterval => "Least time between two assignments.",
            Self::RackAwareAssignmentTags => {
                "Client tags that members should have, for spreading standby tasks over them."
            }
            Self::AssignorName => "Which assignor places the tasks; one of group.streams.assignors.",
            Self::TaskOffsetInterval => "How often members are told to report task offsets.",
            Self::NumWarmupReplicas => "Warm-up tasks at one time.",
            Self::AcceptableRecoveryLag => "Lag up to which a task counts as caught up.",
            Self::AssignorOffload => "Taken for compatibility and without effect.",
        }
    }

    /// The value as it is kept: a number without signs and zeros in front, a list without blanks.
    fn normalised(self, raw: &str) -> Result<String, SettingRefusal> {
        let invalid = |why| SettingRefusal::Invalid { name: self.name(), value: quoted(raw), why };
        let trimmed = java_trim(raw);
        match self.kind() {
            Kind::Int { least } => match trimmed.parse::<i32>() {
                Err(_) => Err(invalid("Not a number of type INT".to_owned())),
                Ok(n) if n < least => Err(invalid(format!("Value must be at least {least}"))),
                Ok(n) => Ok(n.to_string()),
            },
            Kind::Long { least } => match trimmed.parse::<i64>() {
                Err(_) => Err(invalid("Not a number of type LONG".to_owned())),
                Ok(n) if n < least => Err(invalid(format!("Value must be at least {least}"))),
                Ok(n) => Ok(n.to_string()),
            },
            Kind::Boolean => {
                let word = trimmed.to_ascii_lowercase();
                match word.as_str() {
                    "true" | "false" => Ok(word),
                    _ => Err(invalid("Expected value to be either true or false".to_owned())),
                }
            }
            Kind::Text => Ok(raw.to_owned()),
            Kind::List => {
                let tags = list(trimmed);
                if tags.iter().any(|tag| tag.is_empty()) {
                    return Err(SettingRefusal::EmptyTag(self.name()));
                }
                let mut seen = HashSet::with_capacity(tags.len());
                if !tags.iter().all(|tag| seen.insert(*tag)) {
                    return Err(SettingRefusal::DoubleTag(self.name()));
                }
                let text = tags.join(",");
                if text.len() > MAX_VALUE_BYTES {
                    return Err(invalid(format!("at most {MAX_VALUE_BYTES} bytes are kept")));
                }
                Ok(text)
            }
        }
    }

    /// A normalised value against what this broker allows.
    fn check(self, value: &str, config: &Config) -> Result<(), SettingRefusal> {
        let name = self.name();
        let bounds = &config.setting_bounds;
        let number = value.parse::<i32>().unwrap_or_default();
        let range = |(least, most): (i32, i32)| {
            let fits = (least..=most).contains(&number);
            if fits { Ok(()) } else { Err(SettingRefusal::OutOfRange { name, least, most }) }
        };
        let at_most = |most| if number <= most { Ok(()) } else { Err(SettingRefusal::TooMuch { name, most }) };
        match self {
            Self::SessionTimeout => range(bounds.session_timeout_ms),
            Self::HeartbeatInterval => range(bounds.heartbeat_interval_ms),
            Self::AssignmentInterval => range(bounds.assignment_interval_ms),
            Self::NumStandbyReplicas => at_most(bounds.max_standby_replicas),
            Self::NumWarmupReplicas => at_most(bounds.max_warmup_replicas),
            Self::TaskOffsetInterval => {
                let least = bounds.min_task_offset_interval_ms;
                if number >= least { Ok(()) } else { Err(SettingRefusal::TooLittle { name, least }) }
            }
            Self::AssignorName if value != config.assignor_name => {
                Err(SettingRefusal::NoAssignor { name, value: quoted(value), known: config.assignor_name.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// What Java's `trim` leaves.
fn java_trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// A comma list as Kafka splits it: blanks around the commas do not count, no text is no entry.
fn list(text: &str) -> Vec<&str> {
    if text.is_empty() { Vec::new() } else { text.split(',').map(java_trim).collect() }
}

/// A client's text for a message, which must fit into a string of the protocol.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Why an alter is refused. Texts are Kafka's where Kafka has one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum SettingRefusal {
    #[error("Default group resources are not allowed.")]
    NoGroup,
    #[error("Error due to duplicate config keys")]
    Double,
    #[error("Null value not supported for : {0}")]
    Null(String),
    #[error("Unknown config operation {0}")]
    Operation(i8),
    #[error("Can't {word} to key {name} because its type is not LIST.")]
    NotList { word: &'static str, name: String },
    #[error("Unknown group config name: {0}")]
    Unknown(String),
    #[error("Invalid value {value} for configuration {name}: {why}")]
    Invalid { name: &'static str, value: String, why: String },
    #[error("Configuration '{0}' values must not be empty.")]
    EmptyTag(&'static str),
    #[error("{0} must not contain duplicate tag keys.")]
    DoubleTag(&'static str),
    #[error("{name} must be in the range {least} to {most} inclusive.")]
    OutOfRange { name: &'static str, least: i32, most: i32 },
    #[error("{name} must be less than or equal to {most}")]
    TooMuch { name: &'static str, most: i32 },
    #[error("{name} must be greater than or equal to {least}")]
    TooLittle { name: &'static str, least: i32 },
    #[error("{name} '{value}' is not a registered task assignor. Registered assignors are: [{known}].")]
    NoAssignor { name: &'static str, value: String, known: String },
    #[error("streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms")]
    SessionWithinHeartbeat,
    #[error("too many groups have settings of their own; streamside.max.groups is the limit")]
    TooManyGroups,
}

impl SettingRefusal {
    /// The answer's error.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoGroup | Self::Double | Self::Null(_) | Self::Operation(_) => ErrorCode::INVALID_REQUEST,
            Self::TooManyGroups => ErrorCode::POLICY_VIOLATION,
            _ => ErrorCode::INVALID_CONFIG,
        }
    }

    /// The answer's text.
    #[must_use]
    pub fn client_message(&self) -> String {
        self.to_string()
    }

    /// Which limit was met, if it was one.
    #[must_use]
    pub fn limit(&self) -> Option<&'static str> {
        matches!(self, Self::TooManyGroups).then_some("group_settings")
    }

    /// A word for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.code().name()
    }
}

/// The settings that one group has of its own: normalised text by name (kind 1025).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct GroupSettings {
    told: BTreeMap<String, String>,
    values: Values,
}

/// The same, ready for use. Names and values of a release that knows more are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Values {
    session_timeout_ms: Option<i32>,
    heartbeat_interval_ms: Option<i32>,
    num_standby_replicas: Option<i32>,
    initial_rebalance_delay_ms: Option<i32>,
    assignment_interval_ms: Option<i32>,
    task_offset_interval_ms: Option<i32>,
    acceptable_recovery_lag: Option<i64>,
    tags: Option<Vec<String>>,
}

impl From<BTreeMap<String, String>> for GroupSettings {
    fn from(told: BTreeMap<String, String>) -> Self {
        let get = |setting: Setting| told.get(setting.name());
        let int = |setting| get(setting).and_then(|text| text.parse::<i32>().ok());
        let values = Values {
            session_timeout_ms: int(Setting::SessionTimeout),
            heartbeat_interval_ms: int(Setting::HeartbeatInterval),
            num_standby_replicas: int(Setting::NumStandbyReplicas),
            initial_rebalance_delay_ms: int(Setting::InitialRebalanceDelay),
            assignment_interval_ms: int(Setting::AssignmentInterval),
            task_offset_interval_ms: int(Setting::TaskOffsetInterval),
            acceptable_recovery_lag: get(Setting::AcceptableRecoveryLag).and_then(|text| text.parse().ok()),
            tags: get(Setting::RackAwareAssignmentTags).map(|t| list(t).into_iter().map(str::to_owned).collect()),
        };
        Self { told, values }
    }
}

impl From<GroupSettings> for BTreeMap<String, String> {
    fn from(settings: GroupSettings) -> Self {
        settings.told
    }
}

impl GroupSettings {
    /// The group's own value.
    #[must_use]
    pub fn get(&self, setting: Setting) -> Option<&str> {
        self.told.get(setting.name()).map(String::as_str)
    }
}

/// What holds for one group: its own settings within what the broker allows now, else the broker's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effective<'a> {
    config: &'a Config,
    own: Option<&'a Values>,
}

impl<'a> Effective<'a> {
    pub(super) fn new(config: &'a Config, own: Option<&'a GroupSettings>) -> Self {
        Self { config, own: own.map(|settings| &settings.values) }
    }

    fn bounds(&self) -> &'a SettingBounds {
        &self.config.setting_bounds
    }

    pub(super) fn session_timeout_ms(&self) -> i32 {
        let own = self.own.and_then(|own| own.session_timeout_ms);
        own.map_or(self.config.session_timeout_ms, |ms| capped(ms, self.bounds().session_timeout_ms))
    }

    pub(super) fn heartbeat_interval_ms(&self) -> i32 {
        let own = self.own.and_then(|own| own.heartbeat_interval_ms);
        own.map_or(self.config.heartbeat_interval_ms, |ms| capped(ms, self.bounds().heartbeat_interval_ms))
    }

    pub(super) fn num_standby_replicas(&self) -> i32 {
        let own = self.own.and_then(|own| own.num_standby_replicas);
        own.map_or(self.config.num_standby_replicas, |n| n.min(self.bounds().max_standby_replicas))
    }

    pub(super) fn initial_rebalance_delay_ms(&self) -> i32 {
        let own = self.own.and_then(|own| own.initial_rebalance_delay_ms);
        own.unwrap_or(self.config.initial_rebalance_delay_ms)
    }

    pub(super) fn assignment_interval_ms(&self) -> i32 {
        let own = self.own.and_then(|own| own.assignment_interval_ms);
        own.map_or(self.config.assignment_interval_ms, |ms| capped(ms, self.bounds().assignment_interval_ms))
    }

    pub(super) fn task_offset_interval_ms(&self) -> i32 {
        let own = self.own.and_then(|own| own.task_offset_interval_ms);
        own.map_or(self.config.task_offset_interval_ms, |ms| ms.max(self.bounds().min_task_offset_interval_ms))
    }

    pub(super) fn acceptable_recovery_lag(&self) -> i64 {
        self.own.and_then(|own| own.acceptable_recovery_lag).unwrap_or(self.config.acceptable_recovery_lag)
    }

    /// There is one assignor; a name that is no longer known means the broker's (spec kip1071 §7.2).
    pub(super) fn assignor_name(&self) -> &'a str {
        &self.config.assignor_name
    }

    /// Tags that members should have, in the order in which they were given.
    pub(super) fn tags(&self) -> &'a [String] {
        self.own.and_then(|own| own.tags.as_deref()).unwrap_or(&self.config.rack_aware_assignment_tags)
    }
}

/// A group's session timeout where `usual` holds for others.
pub(super) fn session_timeout_ms(own: Option<&GroupSettings>, usual: i32, bounds: (i32, i32)) -> i32 {
    own.and_then(|own| own.values.session_timeout_ms).map_or(usual, |ms| capped(ms, bounds))
}

/// Within bounds that may have changed since; the upper one wins if they cross.
fn capped(value: i32, (least, most): (i32, i32)) -> i32 {
    value.max(least).min(most)
}

/// The text of status 6 for a member without some of the tags (spec kip1071 §3.3).
pub(super) fn missing_tags(wanted: &[String], tags: &BTreeMap<String, String>) -> Option<String> {
    let missing: Vec<&str> = wanted.iter().map(String::as_str).filter(|tag| !tags.contains_key(*tag)).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "Missing required client tags for rack-aware standby assignment: [{}]. Configure them via \
             'client.tag.<tagKey>' in your Streams config.",
            missing.join(", ")
        )
    })
}

impl Groups {
    /// The settings that a group has of its own.
    #[must_use]
    pub fn settings(&self, group: &str) -> Option<&Arc<GroupSettings>> {
        self.settings.get(group)
    }

    /// Decides on changes of one group's settings: all or none. With `validate_only` no record comes of it.
    ///
    /// # Errors
    /// Why not.
    pub fn decide_alter(
        &self,
        config: &Config,
        group: &str,
        changes: &[AlterableConfig],
        validate_only: bool,
    ) -> Result<Records, SettingRefusal> {
        if group.is_empty() {
            return Err(SettingRefusal::NoGroup);
        }
        check_form(changes)?;
        let known = self.settings.get(group);
        let mut told = known.map(|settings| settings.told.clone()).unwrap_or_default();
        let mut set = Vec::new();
        for change in changes {
            match (change.config_operation, &change.value) {
                (SET, Some(value)) => {
                    let unknown = || SettingRefusal::Unknown(quoted(&change.name));
                    set.push((Setting::named(&change.name).ok_or_else(unknown)?, value));
                }
                // Of an unknown name too.
                _ => drop(told.remove(&change.name)),
            }
        }
        for (setting, value) in &set {
            told.insert(setting.name().to_owned(), setting.normalised(value)?);
        }
        let is_set = |setting: Setting| set.iter().any(|(s, _)| *s == setting);
        for setting in Setting::ALL.into_iter().filter(|s| is_set(*s)) {
            setting.check(told.get(setting.name()).map_or("", String::as_str), config)?;
        }
        let new = GroupSettings::from(told);
        let timing = [Setting::SessionTimeout, Setting::HeartbeatInterval];
        let touched = changes.iter().any(|change| timing.iter().any(|setting| setting.name() == change.name));
        let effective = Effective::new(config, Some(&new));
        if touched && effective.session_timeout_ms() <= effective.heartbeat_interval_ms() {
            return Err(SettingRefusal::SessionWithinHeartbeat);
        }
        if known.is_none() && !new.told.is_empty() && self.settings.len() >= config.limits.max_groups {
            return Err(SettingRefusal::TooManyGroups);
        }
        let unchanged = known.map_or(new.told.is_empty(), |known| known.told == new.told);
        if validate_only || unchanged {
            return Ok(Records::new());
        }
        let id = self.settings.get_key_value(group).map(|(id, _)| id.clone());
        let group = id.or_else(|| self.group_id(group)).unwrap_or_else(|| Arc::from(group));
        let value = (!new.told.is_empty()).then(|| Arc::new(new));
        Ok([Record::Durable(Durable::Settings { group, value })].into_iter().collect())
    }

    /// Takes over what a group has of its own.
    pub(super) fn apply_settings(&mut self, group: &Arc<str>, settings: Option<&Arc<GroupSettings>>) {
        match settings {
            Some(settings) => drop(self.settings.insert(group.clone(), settings.clone())),
            None => drop(self.settings.remove(group)),
        }
        if let Some(group) = self.groups.get_mut(group) {
            group.streams_mut().settings = settings.cloned();
        }
    }
}

/// What needs no knowledge of names and values.
fn check_form(changes: &[AlterableConfig]) -> Result<(), SettingRefusal> {
    let mut names = HashSet::with_capacity(changes.len());
    if !changes.iter().all(|change| names.insert(change.name.as_str())) {
        return Err(SettingRefusal::Double);
    }
    let nulls = changes.iter().filter(|c| c.config_operation != DELETE && c.value.is_none());
    let nulls: Vec<&str> = nulls.map(|c| c.name.as_str()).collect();
    if !nulls.is_empty() {
        return Err(SettingRefusal::Null(quoted(&nulls.join(","))));
    }
    for change in changes {
        let not_list = |word| SettingRefusal::NotList { word, name: quoted(&change.name) };
        match change.config_operation {
            SET | DELETE => {}
            APPEND => return Err(not_list("APPEND")),
            SUBTRACT => return Err(not_list("SUBTRACT")),
            other => return Err(SettingRefusal::Operation(other)),
        }
    }
    Ok(())
}
