//! Tasks of a group: a subtopology and a partition each, in one of three roles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use streamside_wire::messages::streams_group_heartbeat::TaskIds;

/// A subtopology id, shared.
pub type SubtopologyId = Arc<str>;

/// Tasks of one role: partitions by subtopology. No subtopology is kept without a partition.
pub type TaskSet = BTreeMap<SubtopologyId, BTreeSet<i32>>;

/// Active tasks with the assignment epoch in which each was granted (spec kip1071 §2.5).
pub type ActiveSet = BTreeMap<SubtopologyId, BTreeMap<i32, i32>>;

/// Tasks in the three roles: what a member should have, or says it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Tasks {
    pub active: TaskSet,
    pub standby: TaskSet,
    pub warmup: TaskSet,
}

impl Tasks {
    /// No task in any role.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.active.is_empty() && self.standby.is_empty() && self.warmup.is_empty()
    }
}

/// Tasks that a member was given; active ones carry their epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct AssignedTasks {
    pub active: ActiveSet,
    pub standby: TaskSet,
    pub warmup: TaskSet,
}

impl AssignedTasks {
    /// No task in any role.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.active.is_empty() && self.standby.is_empty() && self.warmup.is_empty()
    }

    /// The same tasks without the epochs.
    #[must_use]
    pub fn tasks(&self) -> Tasks {
        Tasks { active: without_epochs(&self.active), standby: self.standby.clone(), warmup: self.warmup.clone() }
    }

    /// The same tasks with every active one granted in `epoch`.
    #[must_use]
    pub fn with_epoch(&self, epoch: i32) -> Self {
        let mut same = self.clone();
        for epochs in same.active.values_mut().flat_map(BTreeMap::values_mut) {
            *epochs = epoch;
        }
        same
    }

    /// Whether these are the tasks of `other`, epochs aside.
    #[must_use]
    pub fn same_tasks(&self, other: &Tasks) -> bool {
        self.standby == other.standby
            && self.warmup == other.warmup
            && self.active.len() == other.active.len()
            && self.active.iter().zip(&other.active).all(|((a, epochs), (b, partitions))| {
                a == b && epochs.len() == partitions.len() && epochs.keys().eq(partitions)
            })
    }
}

/// The state of a member (spec kip1071 §2.3). The numbers are Kafka's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "i8", into = "i8")]
#[repr(i8)]
pub enum MemberState {
    /// Has what it should have at its epoch.
    #[default]
    Stable = 1,
    /// Has been told to give up tasks and has not said that it did.
    UnrevokedTasks = 2,
    /// Waits for tasks that others still have.
    UnreleasedTasks = 3,
    /// Written by somebody who knows more states than we do.
    Unknown = 127,
}

impl From<i8> for MemberState {
    fn from(number: i8) -> Self {
        match number {
            1 => Self::Stable,
            2 => Self::UnrevokedTasks,
            3 => Self::UnreleasedTasks,
            _ => Self::Unknown,
        }
    }
}

impl From<MemberState> for i8 {
    fn from(state: MemberState) -> Self {
        state as Self
    }
}

/// What a member has (kind 22).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentAssignment {
    /// The member's epoch; -2 while a static member is away.
    pub member_epoch: i32,
    /// The epoch before the last write.
    pub previous_member_epoch: i32,
    /// Where the member is on its way to the target.
    pub state: MemberState,
    /// What it has.
    pub assigned: AssignedTasks,
    /// What it must give up and has not yet given up.
    pub pending: AssignedTasks,
}

/// `active` without its epochs.
#[must_use]
pub fn without_epochs(active: &ActiveSet) -> TaskSet {
    active.iter().map(|(id, epochs)| (id.clone(), epochs.keys().copied().collect())).collect()
}

/// As on the wire: sorted by subtopology and partition.
#[must_use]
pub fn to_wire(tasks: &TaskSet) -> Vec<TaskIds> {
    tasks
        .iter()
        .map(|(id, partitions)| TaskIds {
            subtopology_id: id.as_ref().to_owned(),
            partitions: partitions.iter().copied().collect(),
            ..TaskIds::default()
        })
        .collect()
}

/// As on the wire: sorted by subtopology and partition, epochs left out.
#[must_use]
pub fn active_to_wire(active: &ActiveSet) -> Vec<TaskIds> {
    active
        .iter()
        .map(|(id, epochs)| TaskIds {
            subtopology_id: id.as_ref().to_owned(),
            partitions: epochs.keys().copied().collect(),
            ..TaskIds::default()
        })
        .collect()
}
