//! Spec kip1071 §6: from what members have to what they should have.

use streamside_coordinator::group::tasks::AssignedTasks;
use streamside_coordinator::group::{CurrentAssignment, MemberState};

use crate::lab::*;

fn lists(answer: &Response) -> Option<Vec<streamside_wire::messages::streams_group_heartbeat::TaskIds>> {
    assert_eq!(answer.active_tasks.is_some(), answer.standby_tasks.is_some());
    assert_eq!(answer.active_tasks.is_some(), answer.warmup_tasks.is_some());
    answer.active_tasks.clone()
}

#[test]
fn t18_a_third_member_gets_its_tasks_when_the_others_gave_them_up() {
    let mut lab = two_subtopologies();
    lab.place("m1", stable(10, &[("a", &[0, 1, 2]), ("b", &[0, 1])]));
    lab.place("m2", stable(10, &[("a", &[3, 4, 5]), ("b", &[2])]));
    lab.place("m3", CurrentAssignment::default());
    lab.retarget(
        11,
        &[
            ("m1", active(&[("a", &[0, 1]), ("b", &[0])])),
            ("m2", active(&[("a", &[2, 3]), ("b", &[2])])),
            ("m3", active(&[("a", &[4, 5]), ("b", &[1])])),
        ],
    );

    let answer = lab.beat(&join_two("m3"));
    assert_eq!((answer.member_epoch, lists(&answer)), (11, Some(vec![])));
    assert_eq!(lab.current("m3").state, MemberState::UnreleasedTasks);
    assert_eq!(lab.state(), "Reconciling");

    let answer = lab.beat(&steady("m1", 10));
    assert_eq!((answer.member_epoch, lists(&answer)), (10, Some(ids(&[("a", &[0, 1]), ("b", &[0])]))));
    let answer = lab.beat(&steady("m2", 10));
    assert_eq!((answer.member_epoch, lists(&answer)), (10, Some(ids(&[("a", &[3]), ("b", &[2])]))));
    assert_eq!(lab.current("m2").pending, assigned(10, &[("a", &[4, 5])]));

    // Nobody has given up anything yet.
    let answer = lab.beat(&steady("m3", 11));
    assert_eq!((answer.member_epoch, lists(&answer)), (11, None));

    let answer = lab.beat(&owning("m1", 10, &[("a", &[0, 1]), ("b", &[0])]));
    assert_eq!((answer.member_epoch, lists(&answer)), (11, None));
    assert_eq!(lab.current("m1").state, MemberState::Stable);

    let answer = lab.beat(&steady("m3", 11));
    assert_eq!(lists(&answer), Some(ids(&[("b", &[1])])));
    assert_eq!(lab.current("m3").state, MemberState::UnreleasedTasks);

    let answer = lab.beat(&owning("m2", 10, &[("a", &[3]), ("b", &[2])]));
    assert_eq!((answer.member_epoch, lists(&answer)), (11, Some(ids(&[("a", &[2, 3]), ("b", &[2])]))));
    let active = lab.current("m2").assigned.active;
    assert_eq!((active["a"][&2], active["a"][&3], active["b"][&2]), (11, 10, 10), "T25: kept tasks keep their epochs");

    let answer = lab.beat(&steady("m3", 11));
    assert_eq!(lists(&answer), Some(ids(&[("a", &[4, 5]), ("b", &[1])])));
    assert_eq!(lab.current("m3").state, MemberState::Stable);
    assert_eq!(lab.state(), "Stable");
}

/// `m` has a0 and b0 and must give up a1 for the target of epoch 11.
fn revoking() -> Lab {
    let mut lab = two_subtopologies();
    lab.place(
        "m",
        CurrentAssignment {
            state: MemberState::UnrevokedTasks,
            pending: assigned(10, &[("a", &[1])]),
            ..stable(10, &[("a", &[0]), ("b", &[0])])
        },
    );
    lab.retarget(11, &[("m", active(&[("a", &[0]), ("b", &[0])]))]);
    lab
}

#[test]
fn t19_a_member_that_has_not_given_up_stays_as_it_is() {
    let mut lab = revoking();
    for request in [steady("m", 10), owning("m", 10, &[("a", &[0, 1]), ("b", &[0])])] {
        let answer = lab.beat(&request);
        assert_eq!(answer.member_epoch, 10);
        assert_eq!(kinds(&lab.records), Vec::<String>::new());
    }
}

#[test]
fn t20_when_the_target_moved_on_more_may_have_to_be_given_up() {
    let mut lab = revoking();
    lab.retarget(12, &[("m", active(&[("a", &[0])]))]);
    let answer = lab.beat(&owning("m", 10, &[("a", &[0]), ("b", &[0])]));
    assert_eq!((answer.member_epoch, lists(&answer)), (11, Some(ids(&[("a", &[0])]))));
    let current = lab.current("m");
    assert_eq!((current.state, current.previous_member_epoch), (MemberState::UnrevokedTasks, 10));
    assert_eq!(current.pending, assigned(10, &[("b", &[0])]));
}

#[test]
fn t21_after_giving_up_a_member_goes_to_the_target_epoch() {
    let mut lab = revoking();
    let answer = lab.beat(&owning("m", 10, &[("a", &[0]), ("b", &[0])]));
    assert_eq!((answer.member_epoch, lab.current("m").state), (11, MemberState::Stable));
    assert_eq!(lab.current("m").pending, AssignedTasks::default());

    let mut lab = revoking();
    lab.place("other", stable(11, &[("b", &[5])]));
    lab.retarget(11, &[("m", active(&[("a", &[0]), ("b", &[0, 5])])), ("other", active(&[]))]);
    let answer = lab.beat(&owning("m", 10, &[("a", &[0]), ("b", &[0])]));
    assert_eq!((answer.member_epoch, lab.current("m").state), (11, MemberState::UnreleasedTasks));
}

#[test]
fn t22_a_request_that_already_proves_the_release_skips_the_wait() {
    let mut lab = two_subtopologies();
    lab.place("m", stable(10, &[("a", &[0, 1])]));
    lab.place("other", stable(11, &[("b", &[5])]));
    lab.retarget(11, &[("m", active(&[("a", &[0]), ("b", &[5])])), ("other", active(&[]))]);
    let answer = lab.beat(&owning("m", 10, &[("a", &[0])]));
    assert_eq!((answer.member_epoch, lab.current("m").state), (11, MemberState::UnreleasedTasks));
    assert_eq!(lists(&answer), Some(ids(&[("a", &[0])])));
}

#[test]
fn t23_a_waiting_member_may_have_to_give_up() {
    let mut lab = two_subtopologies();
    let waiting = CurrentAssignment { state: MemberState::UnreleasedTasks, ..stable(11, &[("a", &[0, 1])]) };
    lab.place("m", waiting);
    lab.retarget(12, &[("m", active(&[("a", &[0])]))]);
    let answer = lab.beat(&steady("m", 11));
    assert_eq!((answer.member_epoch, lab.current("m").state), (11, MemberState::UnrevokedTasks));
    assert_eq!(lab.current("m").pending, assigned(11, &[("a", &[1])]));
}

#[test]
fn t24_a_task_that_another_process_has_stays_unreleased_even_when_it_is_pending_there() {
    let mut lab = two_subtopologies();
    let giving_up = CurrentAssignment {
        state: MemberState::UnrevokedTasks,
        pending: assigned(10, &[("a", &[1])]),
        ..stable(10, &[("a", &[0])])
    };
    lab.place("other", giving_up);
    lab.place("m", stable(10, &[]));
    lab.retarget(11, &[("m", active(&[("a", &[1])])), ("other", active(&[("a", &[0])]))]);
    for _ in 0..2 {
        lab.beat(&Request { member_epoch: lab.current("m").member_epoch, ..steady("m", 0) });
        assert_eq!(lab.current("m").state, MemberState::UnreleasedTasks);
        assert_eq!(lab.current("m").assigned, AssignedTasks::default());
    }
    // A member that goes releases everything.
    lab.beat(&steady("other", -1));
    lab.retarget(11, &[]);
    let answer = lab.beat(&steady("m", 11));
    assert_eq!((lists(&answer), lab.current("m").state), (Some(ids(&[("a", &[1])])), MemberState::Stable));
}

#[test]
fn r1_a_member_in_an_unknown_state_must_come_with_nothing() {
    let mut lab = two_subtopologies();
    lab.place("m", CurrentAssignment { state: MemberState::Unknown, ..stable(10, &[("a", &[0])]) });
    lab.retarget(11, &[("m", active(&[("a", &[0])]))]);
    let text = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.";
    assert_eq!(refusal(&lab.beat(&steady("m", 10))), (110, text));
    assert_eq!(refusal(&lab.beat(&owning("m", 10, &[("a", &[0])]))), (110, text));
    let answer = lab.beat(&join_two("m"));
    assert_eq!((answer.member_epoch, lists(&answer)), (11, Some(ids(&[("a", &[0])]))));
}

#[test]
fn s6_3_a_renewed_wait_is_written_once() {
    let mut lab = two_subtopologies();
    lab.place("other", stable(11, &[("a", &[1])]));
    lab.place("m", CurrentAssignment { state: MemberState::UnreleasedTasks, ..stable(11, &[]) });
    lab.retarget(11, &[("m", active(&[("a", &[1])])), ("other", active(&[]))]);
    lab.beat(&steady("m", 11));
    assert_eq!((kinds(&lab.records), lab.current("m").previous_member_epoch), (vec!["22:m".to_owned()], 11));
    lab.beat(&steady("m", 11));
    assert_eq!(kinds(&lab.records), Vec::<String>::new());
}
