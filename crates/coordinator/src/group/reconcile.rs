//! One member's next step from what it has to what it should have (spec kip1071 §6).

use std::collections::{BTreeMap, BTreeSet};

use super::owners::Owners;
use super::refusal::Refusal;
use super::tasks::{ActiveSet, AssignedTasks, CurrentAssignment, MemberState, TaskSet, Tasks, without_epochs};

/// Where a member is heading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// The epoch of the target.
    pub epoch: i32,
    /// The member's tasks in it.
    pub tasks: &'a Tasks,
}

/// Who the member is, for the question which tasks are still somebody else's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who<'a> {
    pub member: &'a str,
    pub process: &'a str,
}

/// The member's next state; `None`: unchanged.
///
/// `owned`: what the member says it has; `None`: it did not say. `owners`: who has what, before this heartbeat.
///
/// # Errors
/// A member in an unknown state must first say that it has nothing (spec kip1071 §1.5 R1).
pub(super) fn reconcile(
    who: Who<'_>,
    current: &CurrentAssignment,
    owned: Option<&Tasks>,
    target: Target<'_>,
    owners: &Owners,
) -> Result<Option<CurrentAssignment>, Refusal> {
    // Spec kip1071 §6.2.
    let epoch = match current.state {
        MemberState::Stable if current.member_epoch == target.epoch => return Ok(None),
        MemberState::Stable | MemberState::UnreleasedTasks => current.member_epoch,
        MemberState::UnrevokedTasks if not_released(owned, &current.pending) => return Ok(None),
        MemberState::UnrevokedTasks => current.member_epoch.saturating_add(1),
        MemberState::Unknown if owned.is_none_or(|o| !o.is_empty()) => return Err(Refusal::UnknownState),
        MemberState::Unknown => target.epoch,
    };
    let next = next(who, current, owned, target, owners, epoch);
    Ok((next != *current).then_some(next))
}

/// Whether the member may still have one of these tasks in the same role.
fn not_released(owned: Option<&Tasks>, tasks: &AssignedTasks) -> bool {
    let Some(owned) = owned else { return true };
    tasks.active.iter().any(|(id, epochs)| owned.active.get(id).is_some_and(|o| epochs.keys().any(|p| o.contains(p))))
        || overlap(&tasks.standby, &owned.standby)
        || overlap(&tasks.warmup, &owned.warmup)
}

/// One role's part of the way.
#[derive(Default)]
struct Difference {
    keep: TaskSet,
    revoke: TaskSet,
    grant: TaskSet,
    unreleased: bool,
}

fn difference(current: &TaskSet, target: &TaskSet, unreleased: impl Fn(&str, i32) -> bool) -> Difference {
    let mut d = Difference::default();
    for (id, partitions) in current {
        let wanted = target.get(id);
        for &p in partitions {
            let side = if wanted.is_some_and(|w| w.contains(&p)) { &mut d.keep } else { &mut d.revoke };
            side.entry(id.clone()).or_default().insert(p);
        }
    }
    for (id, partitions) in target {
        let had = current.get(id);
        for &p in partitions {
            if had.is_some_and(|h| h.contains(&p)) {
                continue;
            }
            if unreleased(id, p) {
                d.unreleased = true;
            } else {
                d.grant.entry(id.clone()).or_default().insert(p);
            }
        }
    }
    d
}

/// Spec kip1071 §6.3 and §6.4.
fn next(
    who: Who<'_>,
    current: &CurrentAssignment,
    owned: Option<&Tasks>,
    target: Target<'_>,
    owners: &Owners,
    epoch: i32,
) -> CurrentAssignment {
    let had_active = without_epochs(&current.assigned.active);
    let active = difference(&had_active, &target.tasks.active, |id, p| {
        owners.active.anyone(id, p)
            || owners.standby.other_on(id, p, who.process, who.member)
            || owners.warmup.other_on(id, p, who.process, who.member)
    });
    let mut standby = difference(&current.assigned.standby, &target.tasks.standby, |id, p| {
        owners.active.other_on(id, p, who.process, who.member)
            || owners.standby.on(id, p, who.process)
            || owners.warmup.other_on(id, p, who.process, who.member)
    });
    let mut warmup = difference(&current.assigned.warmup, &target.tasks.warmup, |id, p| {
        owners.active.on(id, p, who.process)
            || owners.standby.other_on(id, p, who.process, who.member)
            || owners.warmup.on(id, p, who.process)
    });

    // A task that is to become active stays in its old role until it really does.
    let rising_standby = take_common(&mut standby.revoke, &target.tasks.active);
    let rising_warmup = take_common(&mut warmup.revoke, &target.tasks.active);
    // Standby and warm-up change into each other at once, and an active task becomes a standby at once while the
    // member has yet to say that it no longer runs it.
    move_common(&mut standby.grant, &mut warmup.revoke, &mut standby.keep);
    move_common(&mut warmup.grant, &mut standby.revoke, &mut warmup.keep);
    let demoted = take_common(&mut standby.grant, &active.revoke);
    merge(&mut standby.keep, demoted);

    let revoke = AssignedTasks {
        active: epochs_of(&active.revoke, &current.assigned.active, target.epoch),
        standby: standby.revoke,
        warmup: warmup.revoke,
    };
    let keep_active = epochs_of(&active.keep, &current.assigned.active, target.epoch);

    if !revoke.is_empty() && not_released(owned, &revoke) {
        merge(&mut standby.keep, rising_standby);
        merge(&mut warmup.keep, rising_warmup);
        return CurrentAssignment {
            member_epoch: epoch,
            previous_member_epoch: current.member_epoch,
            state: MemberState::UnrevokedTasks,
            assigned: AssignedTasks { active: keep_active, standby: standby.keep, warmup: warmup.keep },
            pending: revoke,
        };
    }

    // What is granted as active now leaves its old role in the same step.
    merge(&mut standby.keep, without(rising_standby, &active.grant));
    merge(&mut warmup.keep, without(rising_warmup, &active.grant));
    merge(&mut standby.keep, standby.grant);
    merge(&mut warmup.keep, warmup.grant);
    let mut assigned = AssignedTasks { active: keep_active, standby: standby.keep, warmup: warmup.keep };
    for (id, partitions) in active.grant {
        assigned.active.entry(id).or_default().extend(partitions.into_iter().map(|p| (p, target.epoch)));
    }
    let waits = active.unreleased || standby.unreleased || warmup.unreleased;
    CurrentAssignment {
        member_epoch: target.epoch,
        previous_member_epoch: current.member_epoch,
        state: if waits { MemberState::UnreleasedTasks } else { MemberState::Stable },
        assigned,
        pending: AssignedTasks::default(),
    }
}

/// Gives tasks the epochs that they have in `known`.
fn epochs_of(tasks: &TaskSet, known: &ActiveSet, otherwise: i32) -> ActiveSet {
    let epoch = |id: &str, p: &i32| known.get(id).and_then(|epochs| epochs.get(p)).copied().unwrap_or(otherwise);
    tasks
        .iter()
        .map(|(id, partitions)| (id.clone(), partitions.iter().map(|p| (*p, epoch(id, p))).collect::<BTreeMap<_, _>>()))
        .collect()
}

fn overlap(a: &TaskSet, b: &TaskSet) -> bool {
    a.iter().any(|(id, partitions)| b.get(id).is_some_and(|other| !partitions.is_disjoint(other)))
}

fn merge(into: &mut TaskSet, from: TaskSet) {
    for (id, partitions) in from {
        into.entry(id).or_default().extend(partitions);
    }
}

fn without(mut tasks: TaskSet, other: &TaskSet) -> TaskSet {
    take_common(&mut tasks, other);
    tasks
}

/// Takes out of `tasks` what is also in `other`, and returns it.
fn take_common(tasks: &mut TaskSet, other: &TaskSet) -> TaskSet {
    let mut taken = TaskSet::new();
    tasks.retain(|id, partitions| {
        if let Some(other) = other.get(id) {
            let common: BTreeSet<i32> = partitions.intersection(other).copied().collect();
            if !common.is_empty() {
                partitions.retain(|p| !common.contains(p));
                taken.insert(id.clone(), common);
            }
        }
        !partitions.is_empty()
    });
    taken
}

/// Moves what is in both `grant` and `revoke` out of both, into `keep`.
fn move_common(grant: &mut TaskSet, revoke: &mut TaskSet, keep: &mut TaskSet) {
    let moved = take_common(grant, revoke);
    take_common(revoke, &moved);
    merge(keep, moved);
}
