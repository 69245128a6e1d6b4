//! What the coordinator answers: records, effects, a reply.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use streamside_wire::messages::streams_group_describe::DescribedGroup;
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatResponse;

use crate::description::ReadToken;
use crate::group::GroupSettings;
use crate::input::OpId;
use crate::record::{GroupId, Record};

/// The outcome of one `decide`.
///
/// The caller appends the durable records to the journal as one atomic group, applies all records in order under the
/// same lock, carries out `now` at once, and `after_durable` as well as `reply` once the journal holds everything that
/// the group has been given so far.
#[derive(Debug, Default)]
pub struct Decision<'a> {
    /// State changes, in order.
    pub records: SmallVec<[Record; 2]>,
    /// Carried out at once.
    pub now: Vec<Effect>,
    /// Carried out once the records are durable.
    pub after_durable: Vec<Effect>,
    /// Sent once everything that it may have read is durable. Absent while an operation goes on.
    pub reply: Option<Reply<'a>>,
}

/// The answer to one input.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Reply<'a> {
    /// To [`crate::Input::Heartbeat`].
    Heartbeat(StreamsGroupHeartbeatResponse<'a>),
    /// To a push: the whole body (throttle time aside).
    Push { op: OpId, error_code: i16, error_message: Option<String>, reason: Option<&'static str> },
    /// To [`crate::Input::Describe`].
    Described { entry: Box<DescribedGroup>, read: Option<Read> },
    /// To [`crate::Input::GetOutcome`]: `TopologyDescriptionStatus`, and the encoded description when it is AVAILABLE (3).
    /// `fatal`: the plugin is broken beyond this call, and under `Compat::Kafka` the whole batch answers -1.
    Attached { status: i8, description: Option<Bytes>, fatal: bool },
    /// To one id of a DeleteGroups, in v3 form; see `batch` for older versions.
    Deleted { op: OpId, error_code: i16, error_message: Option<String> },
    /// To [`crate::Input::Alter`].
    Altered { error_code: i16, error_message: Option<String> },
    /// To [`crate::Input::Beat`]. `ask`: set `TopologyDescriptionRequired` in the answer. `describe`: send a describe of
    /// ours for this group behind the heartbeat on the same connection, and tell its entry by
    /// [`crate::Input::BrokerDescribed`].
    Beat { ask: bool, describe: bool },
    /// To [`crate::Input::BrokerDescribed`]: the entry's `TopologyDescriptionStatus`, unless there is a read, whose outcome
    /// ([`crate::Input::GetOutcome`]) then gives it.
    Entry { status: i8, read: Option<Read> },
    /// To [`crate::Input::Settings`]; `None`: none of its own.
    Settings(Option<Arc<GroupSettings>>),
    /// To [`crate::Input::List`].
    Listed(Vec<ListedGroup>),
    /// To the inputs that answer nothing.
    Done,
}

/// A plugin read that a described entry needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The group, as stored.
    pub group: GroupId,
    /// E of the entry, and S.
    pub epoch: i32,
    /// Returned in [`crate::Input::GetOutcome`]: which state of the mark the read belongs to.
    pub token: ReadToken,
}

/// A row of ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Group id.
    pub group: GroupId,
    /// Wire name of the state, as `NotReady`.
    pub state: &'static str,
}

/// Something to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Effect {
    /// Call the plugin's set. Mutations of one group go into its lane in the order of their sequences, which is the order
    /// of the decisions. The outcome comes back as [`crate::Input::SetOutcome`]. `sequence` grows per group over
    /// all its mutations.
    PluginSet { op: OpId, group: GroupId, epoch: i32, description: Bytes, sequence: u64 },
    /// Call the plugin's delete; the outcome comes back as [`crate::Input::DeleteOutcome`].
    PluginDelete { op: OpId, group: GroupId, sequence: u64 },
    /// Record a value on one of the sixteen sensors' eight meters (spec kip1331 §10.1).
    Record(Sensor, u64),
    /// One log line.
    Log(LogLine),
    /// A push settled: metric `streamside_pushes_total{result}`.
    PushSettled(&'static str),
    /// A limit was met: metric `streamside_limit_hits_total{limit}`.
    LimitHit(&'static str),
    /// The accepted description of a group changed: metric `streamside_topology_changes_total`.
    TopologyChanged(GroupId),
}

/// Kafka's eight meters, each with a rate and a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Sensor {
    SetSuccess,
    SetError,
    GetSuccess,
    GetError,
    DeleteSuccess,
    DeleteError,
    CleanupCycle,
    CleanupEligible,
}

/// A log line with its level; texts that operators search for are Kafka's word for word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// INFO.
    Info(String),
    /// WARN.
    Warn(String),
    /// ERROR.
    Error(String),
}
