//! Spec kip1071 §5.1, §5.3, §7.1.

use streamside_coordinator::group::{CurrentAssignment, MemberState, TargetMetadata};
use streamside_coordinator::{Compat, Durable};

use crate::lab::*;

#[test]
fn t26_a_heartbeat_renews_the_session_and_silence_ends_it() {
    let mut lab = Lab::new();
    lab.beat(&join("m1"));
    lab.beat(&join("m2"));
    for _ in 0..5 {
        assert_eq!(kinds(&lab.pass(40_000)), Vec::<String>::new());
        for m in ["m1", "m2"] {
            let epoch = lab.current(m).member_epoch;
            assert_eq!(lab.beat(&steady(m, epoch)).error_code, 0);
        }
    }
    lab.pass(20_000);
    lab.beat(&steady("m2", 3));
    // A refused heartbeat renews nothing.
    assert_eq!(lab.beat(&steady("m1", 77)).error_code, 110);
    assert_eq!(kinds(&lab.pass(24_999)), Vec::<String>::new());
    assert_eq!(kinds(&lab.pass(1)), ["22:m1-", "21:m1-", "19:m1-", "17"]);
    assert_eq!(lab.beat(&steady("m1", 3)).error_code, 25);
    assert_eq!(kinds(&lab.pass(45_000)), ["22:m2-", "21:m2-", "19:m2-", "17", "20"]);
    assert_eq!((lab.state(), lab.groups.next_deadline()), ("Empty", None));
}

#[test]
fn t26_members_that_fall_silent_together_are_fenced_one_epoch_each() {
    let mut lab = Lab::new();
    for i in 0..700 {
        lab.beat(&join(&format!("m{i:03}")));
    }
    assert_eq!((lab.groups.member_count(), lab.metadata().epoch), (700, 701));
    let fired = lab.pass(45_000);
    assert_eq!(fired.iter().filter(|r| matches!(r, Durable::Member { value: None, .. })).count(), 700);
    assert_eq!((lab.metadata().epoch, lab.state(), lab.groups.member_count()), (1401, "Empty", 0));
    let described = lab.groups.describe(&lab.config, "g").unwrap();
    assert_eq!(described.assignment_epoch, 1401);
}

/// `m` has been told to give up a1.
fn revoking() -> Lab {
    let mut lab = two_subtopologies();
    lab.place("m", stable(10, &[("a", &[0, 1])]));
    lab.retarget(11, &[("m", active(&[("a", &[0])]))]);
    assert_eq!(lab.beat(&steady("m", 10)).member_epoch, 10);
    assert_eq!(lab.current("m").state, MemberState::UnrevokedTasks);
    lab
}

#[test]
fn t27_the_time_for_giving_up_ends_with_the_giving_up() {
    let mut lab = revoking();
    assert_eq!(lab.groups.next_deadline(), Some(lab.now + 12_000));
    lab.pass(11_999);
    assert_eq!(lab.beat(&owning("m", 10, &[("a", &[0])])).member_epoch, 11);
    assert_eq!(kinds(&lab.pass(30_000)), Vec::<String>::new());
    assert!(lab.groups.is_member("g", "m"));
}

#[test]
fn t27_a_time_for_an_epoch_that_has_passed_does_nothing() {
    let mut lab = revoking();
    // The member is elsewhere by now without a heartbeat of ours.
    lab.inject(Durable::CurrentAssignment {
        group: "g".into(),
        member: "m".into(),
        value: Some(CurrentAssignment { member_epoch: 11, ..stable(11, &[("a", &[0])]) }),
    });
    assert_eq!(kinds(&lab.pass(12_000)), Vec::<String>::new());
    assert!(lab.groups.is_member("g", "m"));
}

#[test]
fn t28_a_member_that_does_not_give_up_in_time_is_fenced() {
    let mut lab = revoking();
    lab.pass(6_000);
    // Heartbeats do not help.
    assert_eq!(lab.beat(&steady("m", 10)).error_code, 0);
    assert_eq!(kinds(&lab.pass(5_999)), Vec::<String>::new());
    assert_eq!(kinds(&lab.pass(1)), ["22:m-", "21:m-", "19:m-", "17", "20"]);
}

#[test]
fn t51_an_initial_delay_waits_for_more_members() {
    let mut lab = Lab::with(&[("in", 2)]);
    lab.config.initial_rebalance_delay_ms = 1_000;
    let request = |m: &str| Request { topology: Some(topology(&[("0", &["in"])])), ..join(m) };
    let answer = lab.beat(&request("m1"));
    assert_eq!((answer.member_epoch, answer.active_tasks.clone(), statuses(&answer)), (1, Some(vec![]), vec![5]));
    assert_eq!(status_text(&answer), "Assignment delayed due to the configured initial rebalance delay.");
    assert_eq!((lab.metadata().epoch, lab.state()), (2, "Assigning"));
    // Later joins do not lengthen it.
    lab.pass(600);
    assert_eq!(statuses(&lab.beat(&request("m2"))), [5]);
    assert_eq!((lab.metadata().epoch, lab.groups.next_deadline()), (3, Some(lab.now + 400)));
    assert_eq!(kinds(&lab.pass(400)), ["21:m1", "21:m2", "20"]);
    let answer = lab.beat(&steady("m1", 1));
    assert_eq!((answer.member_epoch, statuses(&answer)), (3, vec![]));
}

#[test]
fn t52_an_empty_group_waits_again_and_an_abandoned_wait_does_nothing() {
    let mut lab = Lab::new();
    lab.beat(&join("m"));
    lab.beat(&steady("m", -1));
    lab.config.initial_rebalance_delay_ms = 1_000;
    let answer = lab.beat(&join("m"));
    assert_eq!((answer.member_epoch, statuses(&answer)), (3, vec![5]));
    lab.beat(&steady("m", -1));
    assert_eq!(kinds(&lab.pass(1_000)), Vec::<String>::new());
    assert_eq!((lab.state(), lab.groups.next_deadline()), ("Empty", None));
}

#[test]
fn t67_a_delete_ends_the_initial_delay() {
    let mut lab = Lab::new();
    lab.config.initial_rebalance_delay_ms = 1_000;
    lab.beat(&join("m"));
    assert_eq!(lab.delete("g"), Err(68));
    lab.beat(&steady("m", -1));
    assert!(lab.groups.next_deadline().is_some());
    lab.delete("g").unwrap();
    assert_eq!((lab.groups.next_deadline(), lab.groups.len()), (None, 0));
}

#[test]
fn d7_the_assignment_interval_stops_nobody_who_has_tasks() {
    for (compat, expected) in [(Compat::Streamside, vec![]), (Compat::Kafka, vec![5])] {
        let mut lab = two_subtopologies();
        lab.config.compat = compat;
        lab.config.assignment_interval_ms = 1_000;
        lab.place("m", stable(10, &[("a", &[0])]));
        lab.retarget(10, &[("m", active(&[("a", &[0])]))]);
        let value = Some(TargetMetadata { assignment_epoch: 10, timestamp: lab.now });
        lab.inject(Durable::TargetMetadata { group: "g".into(), value });
        // A newcomer has nothing yet and is told why.
        let answer = lab.beat(&join_two("n"));
        assert_eq!((answer.member_epoch, statuses(&answer)), (10, vec![5]));
        assert_eq!(status_text(&answer), "Assignment delayed due to the configured assignment interval.");
        assert_eq!(statuses(&lab.beat(&steady("m", 10))), expected);
        lab.now += 1_000;
        assert_eq!(statuses(&lab.beat(&steady("n", 10))), Vec::<i8>::new());
        assert!(kinds(&lab.records).contains(&"20".to_owned()));
    }
}

#[test]
fn t56_after_a_start_sessions_and_rebalance_times_run_in_full() {
    let mut lab = revoking();
    lab.place("other", stable(11, &[]));
    lab.now += 30_000;
    lab.restart();
    assert_eq!(lab.groups.next_deadline(), Some(lab.now + 12_000));
    assert_eq!(kinds(&lab.pass(12_000)), ["22:m-", "21:m-", "19:m-", "17"]);
    assert_eq!(kinds(&lab.pass(32_999)), Vec::<String>::new());
    assert_eq!(kinds(&lab.pass(1)), ["22:other-", "21:other-", "19:other-", "17", "20"]);
}
