//! Changes of a group that live as long as the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tasks::SubtopologyId;
use super::topics::Configured;
use crate::input::Millis;
use crate::record::{GroupId, MemberId};

/// Offsets that a member reported, by task.
pub type TaskOffsets = BTreeMap<(SubtopologyId, i32), i64>;

/// A volatile change of a group or a member. Changes of what is not there are ignored.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum GroupChange {
    /// A good heartbeat: the member's session ends at `until`, unless there is another.
    Seen { group: GroupId, member: MemberId, until: Millis },
    /// The member must have given up tasks before `until`, or is fenced if it is still at `epoch`; `None`: no more.
    Revoking { group: GroupId, member: MemberId, until: Option<(Millis, i32)> },
    /// A timer of the member went off too early and goes off again when its earliest deadline has come.
    Rearmed { group: GroupId, member: MemberId },
    /// The group waits for more members until then, before a first assignment (spec kip1071 §5.3).
    Delayed { group: GroupId, until: Option<Millis> },
    /// The first member that asked for a shutdown of the whole application.
    ShutdownRequested { group: GroupId, member: MemberId },
    /// The endpoint information changed (spec kip1071 §8).
    EndpointEpoch { group: GroupId, epoch: i32 },
    /// Offsets that the member reported; `None`: unchanged.
    Offsets {
        group: GroupId,
        member: MemberId,
        offsets: Option<Arc<TaskOffsets>>,
        end_offsets: Option<Arc<TaskOffsets>>,
    },
    /// What the known topics make of the group's topology.
    Configured { group: GroupId, configured: Arc<Configured> },
}

impl GroupChange {
    /// Whether it holds what a heartbeat told or found out, rather than a time or a number.
    #[must_use]
    pub fn is_told(&self) -> bool {
        matches!(self, Self::ShutdownRequested { .. } | Self::Offsets { .. } | Self::Configured { .. })
    }
}
