//! Static members: spec kip1071 §2.6.

use std::borrow::Cow;

use streamside_coordinator::group::MemberState;

use crate::lab::*;

fn joining(member: &str, instance: &str) -> Request {
    let request = Request { process_id: Some(Cow::Borrowed("p")), ..join_two(member) };
    with_instance(request, instance)
}

/// `m1` is instance `i`, has a0 and a1, and all is stable.
fn settled() -> Lab {
    let mut lab = two_subtopologies();
    lab.beat(&joining("m1", "i"));
    let epoch = lab.metadata().epoch;
    lab.retarget(epoch, &[("m1", active(&[("a", &[0, 1])]))]);
    let mut current = stable(epoch, &[("a", &[0, 1])]);
    current.state = MemberState::Stable;
    lab.inject(streamside_coordinator::Durable::CurrentAssignment {
        group: "g".into(),
        member: "m1".into(),
        value: Some(current),
    });
    assert_eq!(lab.state(), "Stable");
    lab
}

/// The same after `m1` left for a while.
fn away() -> Lab {
    let mut lab = settled();
    let answer = lab.beat(&with_instance(steady("m1", -2), "i"));
    assert_eq!((answer.error_code, answer.member_epoch, answer.status), (0, -2, Some(vec![])));
    lab
}

#[test]
fn t73_an_instance_belongs_to_one_member() {
    let mut lab = settled();
    let text =
        "Static member m2 with instance id i cannot join the group because the instance id is owned by m1 member.";
    assert_eq!(refusal(&lab.beat(&joining("m2", "i"))), (111, text));
    let text = "Static member m2 with instance id i was fenced by member m1.";
    assert_eq!(refusal(&lab.beat(&with_instance(steady("m2", 1_000), "i"))), (82, text));
    assert_eq!(refusal(&lab.beat(&with_instance(steady("m2", -1), "i"))), (82, text));
    assert_eq!(refusal(&lab.beat(&with_instance(steady("m1", 1), "x"))), (25, "Instance id x is unknown."));
    assert_eq!(refusal(&lab.beat(&with_instance(steady("m1", -2), "x"))), (25, "Instance id x is unknown."));
}

#[test]
fn d12_a_fenced_static_member_may_join_again() {
    let mut lab = settled();
    assert_eq!(lab.beat(&with_instance(steady("m1", 99), "i")).error_code, 110);
    let answer = lab.beat(&joining("m1", "i"));
    assert_eq!((answer.error_code, answer.active_tasks), (0, Some(ids(&[("a", &[0, 1])]))));
    lab.config.compat = streamside_coordinator::Compat::Kafka;
    assert_eq!(lab.beat(&joining("m1", "i")).error_code, 111);
}

#[test]
fn t74_a_leave_for_a_while_keeps_the_tasks() {
    let mut lab = settled();
    let epoch = lab.metadata().epoch;
    for _ in 0..2 {
        lab.beat(&with_instance(steady("m1", -2), "i"));
        assert_eq!(kinds(&lab.records), ["22:m1"]);
        let current = lab.current("m1");
        assert_eq!((current.member_epoch, current.assigned), (-2, assigned(0, &[("a", &[0, 1])])));
    }
    assert_eq!((lab.metadata().epoch, lab.state()), (epoch, "Reconciling"));
    assert!(lab.facts.as_ref().unwrap().leaving && !lab.facts.as_ref().unwrap().group.empty);
}

#[test]
fn t75_who_comes_back_has_its_tasks_at_once() {
    for member in ["m2", "m1"] {
        let mut lab = away();
        let epoch = lab.metadata().epoch;
        let answer = lab.beat(&joining(member, "i"));
        assert_eq!((answer.member_epoch, answer.active_tasks), (epoch, Some(ids(&[("a", &[0, 1])]))));
        let new = |kind: u8| format!("{kind}:{member}");
        let expected = ["22:m1-", "21:m1-", "19:m1-", &new(19), &new(21), &new(22), &new(22)];
        assert_eq!(kinds(&lab.records), expected);
        assert_eq!((lab.metadata().epoch, lab.state(), lab.groups.member_count()), (epoch, "Stable", 1));
        assert_eq!(lab.groups.is_member("g", "m1"), member == "m1");
        let described = lab.groups.describe(&lab.config, "g").unwrap().members.remove(0);
        assert_eq!(described.target_assignment.active_tasks, ids(&[("a", &[0, 1])]));
        // The session of the id before is over, that of the new one runs.
        lab.pass(44_999);
        assert_eq!(lab.groups.member_count(), 1);
        lab.pass(1);
        assert_eq!(lab.groups.member_count(), 0);
    }
    let mut lab = away();
    lab.beat(&joining("m2", "i"));
    let text = "Static member m1 with instance id i was fenced by member m2.";
    assert_eq!(refusal(&lab.beat(&with_instance(steady("m1", 2), "i"))), (82, text));
}

#[test]
fn t76_another_process_or_rack_calls_for_a_new_target() {
    let other_process = Request { process_id: Some(Cow::Borrowed("q")), ..joining("m2", "i") };
    let other_rack = Request { rack_id: Some(Cow::Borrowed("r")), ..joining("m2", "i") };
    for request in [other_process, other_rack] {
        let mut lab = away();
        let epoch = lab.metadata().epoch;
        assert_eq!(lab.beat(&request).error_code, 0);
        assert_eq!(lab.metadata().epoch, epoch + 1);
    }
    // Where it answers queries does not matter for a static member's tasks.
    let mut lab = away();
    let epoch = lab.metadata().epoch;
    let endpoint = streamside_wire::messages::streams_group_heartbeat::Endpoint::default();
    lab.beat(&Request { user_endpoint: Some(endpoint), ..joining("m2", "i") });
    assert_eq!(lab.metadata().epoch, epoch);
}

#[test]
fn t77_who_stays_away_is_fenced() {
    let mut lab = away();
    lab.pass(44_999);
    assert!(lab.groups.is_member("g", "m1"));
    assert_eq!(kinds(&lab.pass(1)), ["22:m1-", "21:m1-", "19:m1-", "17", "20"]);
    let answer = lab.beat(&joining("m2", "i"));
    assert_eq!(answer.error_code, 0);
}

#[test]
fn t78_the_tasks_of_a_member_that_is_away_go_to_nobody() {
    let mut lab = settled();
    let epoch = lab.metadata().epoch;
    lab.place("d", stable(epoch, &[("b", &[0])]));
    lab.retarget(epoch, &[("d", active(&[("b", &[0])]))]);
    assert_eq!(lab.state(), "Stable");
    lab.beat(&with_instance(steady("m1", -2), "i"));
    let answer = lab.beat(&steady("d", epoch));
    assert_eq!((answer.member_epoch, answer.active_tasks), (epoch, None));
    assert_eq!(kinds(&lab.records), Vec::<String>::new());
    // Even a target that names them gives none until the session is over.
    lab.retarget(epoch + 1, &[("d", active(&[("a", &[0]), ("b", &[0])])), ("m1", active(&[]))]);
    let answer = lab.beat(&steady("d", epoch));
    assert_eq!((answer.member_epoch, answer.active_tasks), (epoch + 1, None));
    assert_eq!(lab.current("d").state, MemberState::UnreleasedTasks);
}

#[test]
fn t79_who_is_away_keeps_its_place_in_a_full_group() {
    let mut lab = away();
    lab.config.limits.max_members = 1;
    assert_eq!(lab.beat(&join_two("d")).error_code, 81);
    assert_eq!(lab.beat(&joining("m2", "i")).error_code, 0);
}

#[test]
fn s2_6_a_member_that_changes_its_instance_gives_the_old_one_back() {
    let mut lab = settled();
    assert_eq!(lab.beat(&joining("m1", "j")).error_code, 0);
    assert_eq!(lab.beat(&joining("m2", "i")).error_code, 0);
    let described = lab.groups.describe(&lab.config, "g").unwrap();
    let instances: Vec<_> = described.members.iter().map(|m| m.instance_id.as_deref()).collect();
    assert_eq!(instances, [Some("j"), Some("i")]);
}
