//! Plugin calls under way. Volatile: after a restart nobody waits for them.

use smallvec::SmallVec;

use super::mark::{Handed, Mark};
use crate::input::{Millis, OpId};
use crate::record::GroupId;

/// How long a push without an outcome keeps its group from being asked. Far beyond every deadline: an outcome that
/// never comes must not silence a group for ever.
const OUTCOME_PATIENCE_MS: Millis = 600_000;

/// What a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    /// A push. `before`: the mark to go back to if the call is not made after all.
    Set { handed: Handed, before: Box<Mark> },
    /// A delete; `before` as above.
    Delete { purpose: Purpose, before: Box<Mark> },
}

/// Who asked for a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// DeleteGroups: the group is removed afterwards.
    Request,
    /// The cleanup cycle: the sweep removes the group later.
    Cleanup,
}

/// A call that was begun and has not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The group.
    pub group: GroupId,
    /// What it is for.
    pub kind: Kind,
    /// Order of calls.
    pub sequence: u64,
    /// The making of the group.
    pub incarnation: u64,
    /// When it was begun.
    pub begun: Millis,
    /// The deadline passed and the answer is out; only the late outcome is awaited (H3).
    pub replied: bool,
}

impl Operation {
    /// A push whose pusher still waits.
    #[must_use]
    pub fn is_push_under_way(&self, at: Millis) -> bool {
        !self.replied && matches!(self.kind, Kind::Set { .. }) && at < self.begun.saturating_add(OUTCOME_PATIENCE_MS)
    }
}

/// Calls of one group; more than one only while they queue in its lane.
pub type Lane = SmallVec<[OpId; 1]>;
