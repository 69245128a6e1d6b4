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

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// Written with `STREAMSIDE_SNAPSHOT=write cargo test -p streamside-coordinator`, then read.
    const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/member_states.txt");

    fn set(partitions: &[i32]) -> TaskSet {
        if partitions.is_empty() {
            TaskSet::new()
        } else {
            TaskSet::from([("s".into(), partitions.iter().copied().collect())])
        }
    }

    fn tasks(partitions: &[i32]) -> Tasks {
        Tasks { active: set(partitions), ..Tasks::default() }
    }

    fn granted(partitions: &[i32]) -> AssignedTasks {
        AssignedTasks { active: epochs_of(&set(partitions), &ActiveSet::new(), 5), ..AssignedTasks::default() }
    }

    /// The member has tasks 0 and 1 at epoch 5, one more to give up when it is UNREVOKED, and goes to epoch 8.
    fn table() -> String {
        let states = [
            ("stable", MemberState::Stable, 5),
            ("stable, at target", MemberState::Stable, 8),
            ("unrevoked", MemberState::UnrevokedTasks, 5),
            ("unreleased", MemberState::UnreleasedTasks, 5),
            ("unreleased, at target", MemberState::UnreleasedTasks, 8),
            ("unknown", MemberState::Unknown, 5),
        ];
        let targets: [(&str, &[i32]); 5] = [
            ("same tasks", &[0, 1]),
            ("one less", &[0]),
            ("one more, free", &[0, 1, 3]),
            ("one more, taken", &[0, 1, 4]),
            ("one less, one more", &[0, 3]),
        ];
        let owned: [(&str, Option<&[i32]>); 4] =
            [("not told", None), ("still all", Some(&[0, 1, 2])), ("given up", Some(&[0])), ("nothing", Some(&[]))];
        let mut owners = Owners::default();
        let theirs = CurrentAssignment { assigned: granted(&[4]), ..CurrentAssignment::default() };
        owners.add(&"other".into(), &"q".into(), &theirs);
        let mut text = String::new();
        let mut line = |columns: [&str; 6]| {
            let [a, b, c, d, e, f] = columns;
            let _ = writeln!(text, "{}", format!("{a:22} {b:19} {c:10} {d:12} {e:6} {f}").trim_end());
        };
        line(["state", "target", "owned", "next state", "epoch", "tasks / to give up"]);
        for (name, state, epoch) in states {
            let pending = if state == MemberState::UnrevokedTasks { granted(&[2]) } else { AssignedTasks::default() };
            let current = CurrentAssignment {
                member_epoch: epoch,
                previous_member_epoch: epoch - 1,
                state,
                assigned: granted(&[0, 1]),
                pending,
            };
            for (target_name, target) in targets {
                for (owned_name, owned) in owned {
                    let who = Who { member: "m", process: "p" };
                    let target = Target { epoch: 8, tasks: &tasks(target) };
                    let next = reconcile(who, &current, owned.map(tasks).as_ref(), target, &owners);
                    let list = |t: &AssignedTasks| {
                        format!("{:?}", t.active.get("s").into_iter().flat_map(|e| e.keys()).collect::<Vec<_>>())
                    };
                    let (to, epoch, has) = match &next {
                        Err(refusal) => (format!("error {}", refusal.code().0), String::new(), String::new()),
                        Ok(None) => ("unchanged".to_owned(), String::new(), String::new()),
                        Ok(Some(next)) => (
                            format!("{:?}", next.state).replace("Tasks", "").to_lowercase(),
                            next.member_epoch.to_string(),
                            format!("{} / {}", list(&next.assigned), list(&next.pending)),
                        ),
                    };
                    line([name, target_name, owned_name, &to, &epoch, &has]);
                }
            }
        }
        text
    }

    #[test]
    fn s2_3_the_member_states_change_as_the_table_says() {
        let table = table();
        if std::env::var_os("STREAMSIDE_SNAPSHOT").is_some_and(|v| v == "write") {
            std::fs::write(SNAPSHOT, &table).unwrap();
        }
        let stored = std::fs::read_to_string(SNAPSHOT).unwrap();
        assert!(stored == table, "tests/snapshots/member_states.txt differs; now it is:\n{table}");
    }

    /// Spec kip1071 §6.4, 4.4: a task that changes its role within the member.
    #[test]
    fn s6_4_roles_change_in_place() {
        let who = Who { member: "m", process: "p" };
        let none = Owners::default();
        let of =
            |assigned: AssignedTasks| CurrentAssignment { member_epoch: 5, assigned, ..CurrentAssignment::default() };
        let step = |current: &CurrentAssignment, owned: Option<&Tasks>, tasks: &Tasks| {
            let mut owners = Owners::default();
            owners.add(&"m".into(), &"p".into(), current);
            reconcile(who, current, owned, Target { epoch: 6, tasks }, &owners).unwrap().unwrap()
        };
        let standby = || AssignedTasks { standby: set(&[0]), ..AssignedTasks::default() };

        // Active to standby: a standby at once, active until it says otherwise.
        let demoted = step(&of(granted(&[0])), None, &Tasks { standby: set(&[0]), ..Tasks::default() });
        assert_eq!((demoted.state, demoted.member_epoch), (MemberState::UnrevokedTasks, 5));
        assert_eq!((&demoted.assigned, &demoted.pending), (&standby(), &granted(&[0])));
        let target = Tasks { standby: set(&[0]), ..Tasks::default() };
        let done = step(&demoted, Some(&target), &target);
        assert_eq!((done.state, done.member_epoch, &done.assigned), (MemberState::Stable, 6, &standby()));

        // Standby to active: in one step, without an acknowledgement.
        let promoted = step(&of(standby()), None, &tasks(&[0]));
        assert_eq!((promoted.state, promoted.member_epoch), (MemberState::Stable, 6));
        assert_eq!(promoted.assigned.active["s"], BTreeMap::from([(0, 6)]));
        assert!(promoted.assigned.standby.is_empty());

        // It stays a standby while something else must be given up, and while another process runs it.
        let both = AssignedTasks { standby: set(&[0]), ..granted(&[1]) };
        let waiting = step(&of(both), None, &tasks(&[0]));
        assert_eq!((waiting.state, &waiting.assigned), (MemberState::UnrevokedTasks, &standby()));
        let mut owners = Owners::default();
        owners.add(&"other".into(), &"q".into(), &of(granted(&[0])));
        let target = Target { epoch: 6, tasks: &tasks(&[0]) };
        let waiting = reconcile(who, &of(standby()), None, target, &owners).unwrap().unwrap();
        assert_eq!((waiting.state, &waiting.assigned), (MemberState::UnreleasedTasks, &standby()));

        // Standby to warm-up.
        let target = Tasks { warmup: set(&[0]), ..Tasks::default() };
        let next = reconcile(who, &of(standby()), None, Target { epoch: 6, tasks: &target }, &none).unwrap().unwrap();
        assert_eq!((next.state, next.member_epoch), (MemberState::Stable, 6));
        assert_eq!((next.assigned.warmup, next.assigned.standby), (set(&[0]), TaskSet::new()));
    }
}
