//! What may be asked of the coordinator, or told to it.

use bytes::Bytes;
use streamside_wire::messages::incremental_alter_configs::AlterableConfig;
use streamside_wire::messages::streams_group_describe::DescribedGroup;
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

use crate::description::{PreparedPush, ReadToken};
use crate::facts::Standing;
use crate::record::GroupId;

/// Milliseconds since the Unix epoch, never running backwards within one process.
pub type Millis = i64;

/// Time and chance, as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The present time.
    pub at: Millis,
    /// A fresh random number for this call; the only source of jitter.
    pub jitter: u32,
}

/// Ties the steps of one operation that spans several decisions. Unique within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u64);

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub struct ClientContext<'a> {
    /// `ClientId` of the request header; empty when null.
    pub client_id: &'a str,
    /// As Kafka shows it in a describe: `/127.0.0.1`.
    pub client_host: &'a str,
}

/// Why a plugin call did not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PluginFailure {
    /// The plugin will never accept this; the message goes to the pushing client as it is.
    Permanent { message: Option<String> },
    /// The plugin may accept it later; the message goes to the pushing client as it is.
    Transient { message: Option<String>, retry_after_ms: Option<u64> },
    /// A store of ours could not; transient for the pushing client, whose text begins with the reason word.
    Store {
        /// A bound of the store is met; else its disk or file failed.
        full: bool,
        /// The whole text, reason word included.
        message: String,
    },
    /// The call broke the contract (Kafka: it threw, or gave no future).
    Contract,
    /// The plugin reported that it is broken beyond this call (Kafka: a synchronous `Error`).
    Fatal,
    /// No result within the deadline; the call may still be running (H3).
    TimedOut,
    /// Not called: the lane of its group or the limit in flight is taken (H3).
    Busy,
    /// The plugin's process or thread ended during the call.
    Crashed,
}

/// One thing to decide on. Requests over several groups arrive split by group (see [`crate::batch`]).
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Input<'a> {
    /// StreamsGroupHeartbeat, any member epoch. Decided in one step, answered by [`crate::Reply::Heartbeat`].
    Heartbeat { request: &'a StreamsGroupHeartbeatRequest<'a>, version: i16, client: ClientContext<'a> },
    /// StreamsGroupTopologyDescriptionUpdate; payload already converted, its refusal (if any) inside.
    Push { op: OpId, group: &'a str, member: &'a str, topology_epoch: i32, payload: PreparedPush },
    /// What became of [`crate::Effect::PluginSet`]. `late`: the reply went out before (deadline), H3.
    SetOutcome { op: OpId, result: Result<(), PluginFailure>, late: bool },
    /// One entry of StreamsGroupDescribe. Answered by [`crate::Reply::Described`], which may ask for a read.
    Describe { group: &'a str, include_description: bool },
    /// What became of the read that a described entry asked for; answered by [`crate::Reply::Attached`].
    GetOutcome { group: &'a str, epoch: i32, token: ReadToken, result: Result<Option<Bytes>, PluginFailure> },
    /// One id of DeleteGroups. Answered by [`crate::Reply::Deleted`], at once or after [`Input::DeleteOutcome`].
    Delete { op: OpId, group: &'a str },
    /// What became of [`crate::Effect::PluginDelete`], whoever asked for it.
    DeleteOutcome { op: OpId, result: Result<(), PluginFailure>, late: bool },
    /// One group of IncrementalAlterConfigs, which need not be there. Answered by [`crate::Reply::Altered`].
    Alter { group: &'a str, changes: &'a [AlterableConfig], validate_only: bool },
    /// The settings that a group has of its own; answered by [`crate::Reply::Settings`].
    Settings { group: &'a str },
    /// All streams groups; answered by [`crate::Reply::Listed`].
    List,
    /// Timers: sessions, rebalance time-outs, delays. Call it when `Coordinator::next_deadline` has passed.
    Tick,
    /// The offset-expiration sweep of this shard (spec kip1331 §7.2).
    Sweep,
    /// One cleanup cycle of this shard (spec kip1331 §7.3): yields `Effect::PluginDelete` for each eligible group,
    /// settled by [`Input::DeleteOutcome`]. The single-flight flag over all shards is the caller's, and so is the
    /// cleanup-cycle sensor, which counts cycles and not shards. Operations are numbered from `first_op` on, one for each
    /// group without members at most.
    CleanupCycle { first_op: OpId },
    /// Everything that the plugin lists, for the groups of this shard: copies that it lacks are unmarked (H1).
    /// `hash` is absent where the plugin cannot tell it.
    PluginListed { entries: Vec<(GroupId, i32)> },
    /// An operator's `retry`: a refusal and a back-off of this group are forgotten (H2).
    Retry { group: &'a str },
    /// Beside a broker: a heartbeat that the broker answered, told before the answer goes on to the client. `request` and
    /// `version` as the client sent them, `answer` as the broker gave it (any error code, leaves included),
    /// `connection` as unique in this process. Answered by [`crate::Reply::Beat`]. Nothing of it is worth waiting for: its
    /// durable records may be written behind the answer, and when it cannot be decided the answer goes on as it is.
    Beat {
        request: &'a StreamsGroupHeartbeatRequest<'a>,
        version: i16,
        answer: &'a StreamsGroupHeartbeatResponse<'a>,
        connection: u64,
    },
    /// Beside a broker: one entry of any describe that the broker answered, a client's or ours, with or without an
    /// error. `asked_at`: when the question went to the broker, by the clock of [`Now`]; what was learnt since is newer
    /// than the entry. `include_description`: the entry is for a client that asked for descriptions. Answered by
    /// [`crate::Reply::Entry`].
    BrokerDescribed { entry: &'a DescribedGroup, asked_at: Millis, include_description: bool },
    /// Beside a broker: a push whose pusher's standing is known, from [`crate::Coordinator::is_recent_member`], else from a
    /// describe that was told by [`Input::BrokerDescribed`] just before ([`crate::watched::standing`]). Answered and settled
    /// as [`Input::Push`] is.
    VerifiedPush {
        op: OpId,
        group: &'a str,
        member: &'a str,
        topology_epoch: i32,
        payload: PreparedPush,
        standing: Standing,
    },
    /// Beside a broker: one id of a DeleteGroups for a group that we hold something for
    /// ([`crate::Coordinator::may_hold`]), after a describe of ours said [`crate::watched::DeleteVerdict::PluginFirst`]. Answered by
    /// [`crate::Reply::Deleted`], at once or after [`Input::DeleteOutcome`]: code 0 says that the broker may be asked now,
    /// any other code is the client's answer and the broker is not asked.
    VerifiedDelete { op: OpId, group: &'a str },
    /// Beside a broker: its answer to one id of a DeleteGroups, whoever asked and whatever was held, any error code.
    /// `asked_at` as in [`Input::BrokerDescribed`]. Answered by [`crate::Reply::Done`].
    BrokerDeleted { group: &'a str, error_code: i16, asked_at: Millis },
}
