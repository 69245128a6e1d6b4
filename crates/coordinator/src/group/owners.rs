//! Who has which task now: from every member's assigned and pending tasks (spec kip1071 §2.1).

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::tasks::{CurrentAssignment, SubtopologyId};
use crate::record::MemberId;

/// A member that has a task, and its process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    process: Arc<str>,
    member: MemberId,
}

/// Who has the tasks of one role.
#[derive(Debug, Default)]
pub(super) struct RoleOwners(HashMap<SubtopologyId, HashMap<i32, SmallVec<[Owner; 1]>>>);

impl RoleOwners {
    fn of(&self, subtopology: &str, partition: i32) -> &[Owner] {
        self.0.get(subtopology).and_then(|p| p.get(&partition)).map_or(&[], |o| o.as_slice())
    }

    /// Somebody has it.
    pub(super) fn anyone(&self, subtopology: &str, partition: i32) -> bool {
        !self.of(subtopology, partition).is_empty()
    }

    /// Somebody in this process has it.
    pub(super) fn on(&self, subtopology: &str, partition: i32, process: &str) -> bool {
        self.of(subtopology, partition).iter().any(|o| o.process.as_ref() == process)
    }

    /// Somebody else in this process has it.
    pub(super) fn other_on(&self, subtopology: &str, partition: i32, process: &str, member: &str) -> bool {
        self.of(subtopology, partition).iter().any(|o| o.process.as_ref() == process && o.member.as_ref() != member)
    }

    fn add(&mut self, subtopology: &SubtopologyId, partition: i32, owner: &Owner) {
        let owners = self.0.entry(subtopology.clone()).or_default().entry(partition).or_default();
        if !owners.contains(owner) {
            owners.push(owner.clone());
        }
    }

    fn remove(&mut self, subtopology: &str, partition: i32, member: &str) {
        let Some(partitions) = self.0.get_mut(subtopology) else { return };
        if let Some(owners) = partitions.get_mut(&partition) {
            owners.retain(|o| o.member.as_ref() != member);
            if owners.is_empty() {
                partitions.remove(&partition);
            }
        }
        if partitions.is_empty() {
            self.0.remove(subtopology);
        }
    }
}

/// Who has which task.
#[derive(Debug, Default)]
pub(super) struct Owners {
    pub(super) active: RoleOwners,
    pub(super) standby: RoleOwners,
    pub(super) warmup: RoleOwners,
}

impl Owners {
    /// A member now has these.
    pub(super) fn add(&mut self, member: &MemberId, process: &Arc<str>, current: &CurrentAssignment) {
        let owner = Owner { process: process.clone(), member: member.clone() };
        for tasks in [&current.assigned, &current.pending] {
            tasks.active.iter().for_each(|(id, epochs)| epochs.keys().for_each(|p| self.active.add(id, *p, &owner)));
            tasks.standby.iter().for_each(|(id, parts)| parts.iter().for_each(|p| self.standby.add(id, *p, &owner)));
            tasks.warmup.iter().for_each(|(id, parts)| parts.iter().for_each(|p| self.warmup.add(id, *p, &owner)));
        }
    }

    /// A member no longer has these.
    pub(super) fn remove(&mut self, member: &str, current: &CurrentAssignment) {
        for tasks in [&current.assigned, &current.pending] {
            tasks.active.iter().for_each(|(id, epochs)| epochs.keys().for_each(|p| self.active.remove(id, *p, member)));
            tasks.standby.iter().for_each(|(id, parts)| parts.iter().for_each(|p| self.standby.remove(id, *p, member)));
            tasks.warmup.iter().for_each(|(id, parts)| parts.iter().for_each(|p| self.warmup.remove(id, *p, member)));
        }
    }
}
