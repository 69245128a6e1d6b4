//! Spec kip1071 §11: the journal and what a start makes of it.

use streamside_coordinator::Durable;
use streamside_coordinator::group::{CurrentAssignment, MemberMetadata, MemberState, StoredTopology, TargetMetadata};
use streamside_wire::messages::streams_group_heartbeat::{Endpoint, KeyValue};

use crate::lab::*;

/// Two members, one on its way.
fn busy() -> Lab {
    let mut lab = two_subtopologies();
    lab.place("m1", stable(10, &[("a", &[0, 1])]));
    lab.beat(&Request {
        user_endpoint: Some(Endpoint { host: "h".into(), port: 1, ..Endpoint::default() }),
        client_tags: Some(vec![KeyValue { key: "k".into(), value: "v".into(), ..KeyValue::default() }]),
        ..with_instance(join_two("m2"), "i")
    });
    let mut m2 = lab.current("m2").assigned.tasks();
    m2.active.entry("a".into()).or_default().insert(1);
    lab.retarget(12, &[("m1", active(&[("a", &[0])])), ("m2", m2)]);
    lab.beat(&steady("m1", 10));
    lab
}

#[test]
fn t56_members_go_on_after_a_start() {
    let mut lab = busy();
    let before = lab.groups.describe(&lab.config, "g");
    let facts = lab.groups.facts("g");
    lab.restart();
    assert_eq!(lab.groups.facts("g"), facts);
    assert_eq!(lab.groups.member_count(), 2);
    // Which topics there are is looked at again with the first heartbeat; until then the topology is as it came.
    let after = lab.groups.describe(&lab.config, "g");
    assert_eq!(after.map(|g| (g.members, g.group_epoch)), before.map(|g| (g.members, g.group_epoch)));
    let answer = lab.beat(&owning("m1", 10, &[("a", &[0])]));
    assert_eq!((answer.error_code, answer.member_epoch), (0, 12));
    assert_eq!(kinds(&lab.records), ["22:m1"], "topics that did not change bump nothing");
    let epoch = lab.current("m2").member_epoch;
    assert!(!lab.current("m2").assigned.tasks().active["a"].contains(&1));
    let answer = lab.beat(&with_instance(steady("m2", epoch), "i"));
    assert_eq!((answer.error_code, answer.member_epoch), (0, 12));
    assert!(answer.active_tasks.unwrap()[0].partitions.contains(&1));
}

#[test]
fn t54_t55_records_may_come_in_any_order() {
    let lab = busy();
    let expected = lab.groups.describe(&lab.config, "g");
    // What a compacted journal still holds, from the newest to the oldest.
    let mut seen = std::collections::BTreeSet::new();
    let latest: Vec<Durable> = lab
        .journal
        .iter()
        .rev()
        .filter(|r| {
            let key = kinds(std::slice::from_ref(r)).remove(0);
            seen.insert(key.trim_end_matches('-').to_owned())
        })
        .cloned()
        .collect();
    for turned in [false, true] {
        let mut again = busy();
        again.journal = latest.clone();
        if turned {
            again.journal.reverse();
        }
        again.restart();
        let described = again.groups.describe(&again.config, "g");
        assert_eq!(described.map(|g| g.members), expected.clone().map(|g| g.members), "turned: {turned}");
        assert_eq!(again.groups.facts("g"), lab.groups.facts("g"));
        assert_eq!(again.state(), lab.state());
    }
}

#[test]
fn t54_tombstones_of_unknown_things_are_ignored() {
    let mut lab = Lab::new();
    let tombstones = [
        Durable::CurrentAssignment { group: "g".into(), member: "m".into(), value: None },
        Durable::TargetMember { group: "g".into(), member: "m".into(), value: None },
        Durable::TargetMetadata { group: "g".into(), value: None },
        Durable::Member { group: "g".into(), member: "m".into(), value: None },
        Durable::Group { group: "g".into(), value: None },
        Durable::Topology { group: "g".into(), value: None },
    ];
    for record in tombstones.clone() {
        lab.inject(record);
    }
    assert!(lab.groups.is_empty());
    // In a group that is there, but lacks the member.
    lab.inject(Durable::Group { group: "g".into(), value: Some(Default::default()) });
    for record in tombstones.into_iter().take(4) {
        lab.inject(record);
    }
    assert_eq!((lab.groups.len(), lab.groups.member_count(), lab.state()), (1, 0, "Empty"));
}

#[test]
fn t54_a_group_tombstone_takes_what_is_left_with_it() {
    let mut lab = busy();
    lab.inject(Durable::Group { group: "g".into(), value: None });
    assert_eq!((lab.groups.len(), lab.groups.member_count(), lab.groups.next_deadline()), (0, 0, None));
    // Left-over records of a member make a group that a join repairs.
    lab.inject(Durable::CurrentAssignment { group: "g".into(), member: "m".into(), value: Some(stable(3, &[])) });
    assert_eq!((lab.groups.len(), lab.state()), (1, "NotReady"));
    assert_eq!(lab.groups.describe(&lab.config, "g").unwrap().topology.unwrap().epoch, -1);
    assert_eq!(lab.beat(&join_two("m")).error_code, 0);
}

#[test]
fn t54_a_member_without_a_current_assignment_is_at_no_epoch() {
    let mut lab = busy();
    lab.inject(Durable::CurrentAssignment { group: "g".into(), member: "m1".into(), value: None });
    assert_eq!(lab.beat(&steady("m1", 10)).error_code, 110);
    assert_eq!(lab.beat(&join_two("m1")).error_code, 0);
}

#[test]
fn s11_1_values_survive_the_journals_encoding() {
    fn same<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
        let bytes = postcard::to_stdvec(value).unwrap();
        assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
    }
    let lab = busy();
    for record in &lab.journal {
        match record {
            Durable::Group { value: Some(value), .. } => same(value),
            Durable::Member { value: Some(value), .. } => same::<MemberMetadata>(value),
            Durable::TargetMetadata { value: Some(value), .. } => same::<TargetMetadata>(value),
            Durable::TargetMember { value: Some(value), .. } => same(value),
            Durable::CurrentAssignment { value: Some(value), .. } => same::<CurrentAssignment>(value),
            Durable::Topology { value: Some(value), .. } => same::<StoredTopology>(value),
            _ => {}
        }
    }
    let written = postcard::to_stdvec(&42_i8).unwrap();
    assert_eq!(postcard::from_bytes::<MemberState>(&written).unwrap(), MemberState::Unknown);
}

#[test]
fn s1_1_6_the_position_of_a_group_outlives_it() {
    let mut lab = Lab::new();
    lab.beat(&join("m"));
    lab.groups.journalled("g", 7);
    assert_eq!((lab.groups.position("g"), lab.groups.position("x")), (7, 0));
    lab.beat(&steady("m", -1));
    lab.groups.journalled("g", 8);
    lab.delete("g").unwrap();
    lab.groups.journalled("g", 9);
    assert_eq!((lab.groups.position("g"), lab.groups.position("x")), (9, 9));
}
