//! The sticky assignor: spec kip1071 §5.5.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use streamside_coordinator::Compat;
use streamside_coordinator::group::Tasks;
use streamside_coordinator::group::assign::{AssignError, Assignor, Input, InputMember};
use streamside_coordinator::group::change::TaskOffsets;
use streamside_coordinator::group::sticky::Sticky;
use streamside_coordinator::group::tasks::AssignedTasks;
use streamside_coordinator::group::topics::ConfiguredSubtopology;

use crate::lab::*;

/// A member: id, process, active and standby tasks of subtopology `0`, reported offsets.
#[derive(Clone, Debug, Default)]
struct Who {
    id: Arc<str>,
    process: String,
    assigned: AssignedTasks,
    offsets: TaskOffsets,
}

fn who(id: &str, process: &str, active: &[i32], standby: &[i32]) -> Who {
    let mut all = assigned(1, &[("0", active)]);
    if active.is_empty() {
        all.active.clear();
    }
    if !standby.is_empty() {
        all.standby = set(&[("0", standby)]);
    }
    Who { id: id.into(), process: process.into(), assigned: all, offsets: TaskOffsets::new() }
}

fn assign(members: &[Who], tasks: &[(&str, i32)], standbys: i32) -> Result<BTreeMap<Arc<str>, Tasks>, AssignError> {
    assign_as(Compat::Streamside, members, tasks, standbys)
}

fn assign_as(
    ties: Compat,
    members: &[Who],
    tasks: &[(&str, i32)],
    standbys: i32,
) -> Result<BTreeMap<Arc<str>, Tasks>, AssignError> {
    let subtopologies: BTreeMap<Arc<str>, _> = tasks
        .iter()
        .map(|(id, tasks)| {
            ((*id).into(), ConfiguredSubtopology { tasks: *tasks, stateful: true, ..Default::default() })
        })
        .collect();
    let mut members: Vec<_> = members
        .iter()
        .map(|m| InputMember { id: &m.id, process: &m.process, assigned: &m.assigned, offsets: Some(&m.offsets) })
        .collect();
    if ties == Compat::Streamside {
        members.sort_by_key(|m| m.id);
    }
    Sticky.assign(&Input { members, subtopologies: &subtopologies, standbys, ties })
}

/// Partitions of subtopology `0` per member.
fn actives(result: &BTreeMap<Arc<str>, Tasks>) -> BTreeMap<&str, Vec<i32>> {
    result.iter().map(|(m, t)| (m.as_ref(), t.active.get("0").into_iter().flatten().copied().collect())).collect()
}

fn standbys(result: &BTreeMap<Arc<str>, Tasks>) -> BTreeMap<&str, Vec<i32>> {
    result.iter().map(|(m, t)| (m.as_ref(), t.standby.get("0").into_iter().flatten().copied().collect())).collect()
}

#[test]
fn t42_each_process_gets_one_task() {
    let members = [who("a", "p1", &[], &[]), who("b", "p2", &[], &[]), who("c", "p3", &[], &[])];
    let result = assign(&members, &[("0", 3)], 0).unwrap();
    assert_eq!(actives(&result), BTreeMap::from([("a", vec![0]), ("b", vec![1]), ("c", vec![2])]));
}

#[test]
fn t43_tasks_stay_where_they_are() {
    let members = [who("a", "p1", &[0], &[]), who("b", "p2", &[1], &[])];
    let result = assign(&members, &[("0", 3)], 0).unwrap();
    let actives = actives(&result);
    assert!(actives["a"].contains(&0) && actives["b"].contains(&1));
    assert_eq!(actives["a"].len() + actives["b"].len(), 3);
}

#[test]
fn t44_a_new_process_takes_what_is_too_much() {
    let members = [who("a", "p1", &[0, 2], &[]), who("b", "p2", &[1], &[]), who("c", "p3", &[], &[])];
    let result = assign(&members, &[("0", 3)], 0).unwrap();
    assert_eq!(actives(&result), BTreeMap::from([("a", vec![0]), ("b", vec![1]), ("c", vec![2])]));
}

#[test]
fn t45_a_process_counts_by_its_members() {
    let members = [who("a", "p1", &[], &[]), who("b", "p2", &[], &[]), who("c", "p2", &[], &[])];
    let result = assign(&members, &[("0", 3)], 0).unwrap();
    assert!(actives(&result).values().all(|tasks| tasks.len() == 1));
}

#[test]
fn t46_who_has_a_standby_becomes_active() {
    let members = [who("a", "p1", &[0], &[]), who("b", "p2", &[], &[1])];
    let result = assign(&members, &[("0", 2)], 0).unwrap();
    assert_eq!(actives(&result), BTreeMap::from([("a", vec![0]), ("b", vec![1])]));
}

#[test]
fn t47_two_processes_share_tasks_and_standbys() {
    let members = [who("a", "p1", &[], &[]), who("b", "p2", &[], &[])];
    let result = assign(&members, &[("0", 2), ("1", 2)], 1).unwrap();
    for tasks in result.values() {
        for id in ["0", "1"] {
            assert_eq!((tasks.active[id].len(), tasks.standby[id].len()), (1, 1));
            assert!(tasks.active[id].is_disjoint(&tasks.standby[id]));
        }
    }
}

#[test]
fn t48_more_standbys_than_processes_are_no_error() {
    let members = [who("a", "p1", &[], &[]), who("b", "p2", &[], &[]), who("c", "p2", &[], &[])];
    let result = assign(&members, &[("0", 3)], 5).unwrap();
    let total: usize = standbys(&result).values().map(Vec::len).sum();
    assert_eq!(total, 3, "one each, on the other process");
}

#[test]
fn t49_a_standby_stays_with_a_process_that_does_not_have_the_task() {
    let members = [
        who("m1", "p1", &[], &[2]),
        who("m2", "p2", &[0], &[2]),
        who("m3", "p3", &[1], &[]),
        who("m4", "p4", &[], &[]),
    ];
    let result = assign(&members, &[("0", 3)], 1).unwrap();
    let actives = actives(&result);
    assert_eq!((&actives["m1"], &actives["m2"], &actives["m3"]), (&vec![2], &vec![0], &vec![1]));
    assert!(standbys(&result)["m2"].contains(&2));
}

#[test]
fn t50_after_a_cold_start_tasks_go_where_their_state_is() {
    let mut members = [who("a", "p1", &[], &[]), who("b", "p2", &[], &[]), who("c", "p3", &[], &[])];
    members[0].offsets = TaskOffsets::from([(("0".into(), 2), 5), (("0".into(), 1), 1)]);
    members[1].offsets = TaskOffsets::from([(("0".into(), 0), 5)]);
    members[2].offsets = TaskOffsets::from([(("0".into(), 1), 9), (("9".into(), 0), 9)]);
    let result = assign(&members, &[("0", 3)], 0).unwrap();
    assert_eq!(actives(&result), BTreeMap::from([("a", vec![2]), ("b", vec![0]), ("c", vec![1])]));
}

#[test]
fn s5_5_without_members_only_nothing_can_be_assigned() {
    assert_eq!(assign(&[], &[("0", 1)], 0), Err(AssignError));
    assert_eq!(assign(&[], &[], 0), Ok(BTreeMap::new()));
}

/// Number of its process, active and standby tasks, offsets.
type Drawn = (u8, Vec<i32>, Vec<i32>, Vec<(i32, i64)>);

fn member() -> impl Strategy<Value = Drawn> {
    let tasks = || proptest::collection::vec(0..8_i32, 0..5);
    (0..4_u8, tasks(), tasks(), proptest::collection::vec((0..8_i32, 0..50_i64), 0..4))
}

proptest! {
    /// The invariants of spec kip1071 §5.5.
    #[test]
    fn s5_5_every_task_is_active_once_and_no_process_has_it_twice(
        members in proptest::collection::vec(member(), 1..7),
        tasks in 0..8_i32,
        replicas in 0..4_i32,
    ) {
        let members: Vec<Who> = members
            .into_iter()
            .enumerate()
            .map(|(i, (process, active, standby, offsets))| Who {
                offsets: offsets.into_iter().map(|(p, offset)| (("0".into(), p), offset)).collect(),
                ..who(&format!("m{i}"), &format!("p{process}"), &active, &standby)
            })
            .collect();
        let result = assign(&members, &[("0", tasks), ("1", 2)], replicas).unwrap();
        prop_assert_eq!(&result, &assign(&members, &[("0", tasks), ("1", 2)], replicas).unwrap());
        let processes: std::collections::BTreeSet<_> = members.iter().map(|m| m.process.as_str()).collect();
        for (id, count) in [("0", tasks), ("1", 2)] {
            for p in 0..count {
                let has = |role: fn(&Tasks) -> &streamside_coordinator::group::tasks::TaskSet| -> Vec<&str> {
                    let owners = members.iter().filter(|m| role(&result[&m.id]).get(id).is_some_and(|t| t.contains(&p)));
                    owners.map(|m| m.process.as_str()).collect()
                };
                let (active, standby) = (has(|t| &t.active), has(|t| &t.standby));
                prop_assert_eq!(active.len(), 1);
                let all: std::collections::BTreeSet<_> = active.iter().chain(&standby).collect();
                prop_assert_eq!(all.len(), 1 + standby.len());
                prop_assert_eq!(standby.len(), processes.len().saturating_sub(1).min(usize::try_from(replicas).unwrap()));
            }
        }
    }
}

#[test]
fn d8_between_equals_kafkas_queues_decide() {
    // As a broker assigned them: the first member had everything.
    let all = &[0, 1, 2, 3, 4, 5];
    let threads = [
        who("m20", "P1", &[], &[]),
        who("m21", "P1", &[], &[]),
        who("m16", "p-m16", all, &[]),
        who("m14", "P1", &[], &[]),
    ];
    let result = assign_as(Compat::Kafka, &threads, &[("0", 6)], 0).unwrap();
    let expected = [("m14", vec![2]), ("m16", vec![0, 1]), ("m20", vec![4]), ("m21", vec![3, 5])];
    assert_eq!(actives(&result), BTreeMap::from(expected));
    let ours = assign(&threads, &[("0", 6)], 0).unwrap();
    let expected = [("m14", vec![2, 5]), ("m16", vec![0, 1]), ("m20", vec![3]), ("m21", vec![4])];
    assert_eq!(actives(&ours), BTreeMap::from(expected));
}
