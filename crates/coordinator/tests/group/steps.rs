//! Joining, staying, leaving: spec kip1071 §1.5, §2.4–§2.7.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use streamside_coordinator::Durable;
use streamside_coordinator::group::assign::{AssignError, Assignor, Input};
use streamside_coordinator::group::{Groups, Tasks};
use streamside_wire::messages::streams_group_heartbeat::TaskOffset;

use crate::lab::*;

#[test]
fn t3_d11_an_unknown_group_asks_the_member_to_join_again() {
    let request = steady("m", 100);
    assert_eq!(refusal(&Lab::new().beat(&request)), (25, "Member m is not a member of group g."));
    assert_eq!(refusal(&Lab::new().kafka().beat(&request)), (69, "Streams group g not found."));
}

#[test]
fn g5_leaving_an_unknown_group_is_69() {
    for request in [steady("m", -1), with_instance(steady("m", -2), "i")] {
        assert_eq!(refusal(&Lab::new().beat(&request)), (69, "Group g not found."));
        assert_eq!(refusal(&Lab::new().kafka().beat(&request)), (69, "Group g not found."));
    }
}

#[test]
fn t4_an_unknown_member_is_25() {
    let mut lab = Lab::new();
    lab.beat(&join("m"));
    for epoch in [100, -1] {
        assert_eq!(refusal(&lab.beat(&steady("x", epoch))), (25, "Member x is not a member of group g."));
    }
}

#[test]
fn t5_the_first_join_writes_its_records_in_order() {
    let mut lab = Lab::with(&[("foo", 6), ("bar", 3)]);
    let mut request = join("m");
    request.topology = Some(topology(&[("a", &["foo"]), ("b", &["bar"])]));
    let answer = lab.beat(&request);
    assert_eq!(answer.member_epoch, 2);
    assert_eq!(kinds(&lab.records), ["19:m", "23", "17", "21:m", "20", "22:m"]);
    let metadata = lab.metadata();
    assert_eq!((metadata.epoch, metadata.validated_topology_epoch), (2, 0));
    assert_ne!(metadata.metadata_hash, 0);
    assert_ne!(metadata.incarnation, 0);
    let facts = lab.facts.clone().unwrap();
    assert_eq!((facts.group.topology_epoch, facts.group.empty, facts.leaving), (0, false, false));
    assert_eq!(facts.group.fingerprint, Some(stored(&topology(&[("a", &["foo"]), ("b", &["bar"])])).fingerprint));
    assert_eq!(facts.group, lab.groups.facts("g").unwrap());
}

#[test]
fn t6_member_epochs_are_checked() {
    let mut lab = two_subtopologies();
    lab.retarget(100, &[("m", active(&[("a", &[1, 2, 3])]))]);
    lab.place("m", stable(100, &[("a", &[1, 2, 3])]));
    let text = |relation: &str, received| {
        format!(
            "The streams group member has a {relation} member epoch ({received}) than the one known by the group \
             coordinator (100). The member must abandon all its partitions and rejoin."
        )
    };
    assert_eq!(refusal(&lab.beat(&steady("m", 200))), (110, text("greater", 200).as_str()));
    assert_eq!(refusal(&lab.beat(&steady("m", 50))), (110, text("smaller", 50).as_str()));
    assert_eq!(refusal(&lab.beat(&steady("m", 99))), (110, text("smaller", 99).as_str()));
    assert_eq!(refusal(&lab.beat(&owning("m", 99, &[("a", &[1, 4])]))), (110, text("smaller", 99).as_str()));
    let answer = lab.beat(&owning("m", 99, &[("a", &[1, 2])]));
    assert_eq!((answer.error_code, answer.member_epoch), (0, 100));
    // D9: the answer with the grant was lost, so it comes again.
    assert_eq!(answer.active_tasks, Some(ids(&[("a", &[1, 2, 3])])));
}

#[test]
fn d9_tasks_are_told_again_to_who_owns_others() {
    for (kafka, told) in [(false, Some(ids(&[("a", &[0, 1])]))), (true, None)] {
        let mut lab = two_subtopologies();
        lab.retarget(10, &[("m", active(&[("a", &[0, 1])]))]);
        lab.place("m", stable(10, &[("a", &[0, 1])]));
        if kafka {
            lab.config.compat = streamside_coordinator::Compat::Kafka;
        }
        assert_eq!(lab.beat(&owning("m", 10, &[("a", &[0])])).active_tasks, told);
        assert_eq!(lab.beat(&owning("m", 10, &[("a", &[0, 1])])).active_tasks, None);
        assert_eq!(lab.beat(&steady("m", 10)).active_tasks, None);
    }
}

#[test]
fn t7_owned_tasks_must_exist() {
    let mut lab = two_subtopologies();
    lab.retarget(10, &[("m", active(&[("a", &[0])]))]);
    lab.place("m", stable(10, &[("a", &[0])]));
    let answer = lab.beat(&owning("m", 10, &[("z", &[0])]));
    assert_eq!(refusal(&answer), (42, "Subtopology z does not exist in the topology."));
    for p in [6, -1] {
        let text = format!("Task {p} for subtopology a is invalid. Number of tasks for this subtopology: 6");
        assert_eq!(refusal(&lab.beat(&owning("m", 10, &[("a", &[0, p])]))), (42, text.as_str()));
    }
}

#[test]
fn t8_a_known_member_may_join_again() {
    let mut lab = two_subtopologies();
    lab.retarget(100, &[("m", active(&[("a", &[1, 2])]))]);
    lab.place("m", stable(100, &[("a", &[1, 2])]));
    let answer = lab.beat(&join_two("m"));
    assert_eq!((answer.error_code, answer.member_epoch), (0, 100));
    assert_eq!(answer.active_tasks, Some(ids(&[("a", &[1, 2])])));
    assert_eq!((answer.standby_tasks, answer.warmup_tasks), (Some(vec![]), Some(vec![])));
    assert_eq!(kinds(&lab.records), Vec::<String>::new());
}

#[test]
fn t9_a_full_group_takes_nobody_new() {
    let mut lab = Lab::new();
    lab.config.limits.max_members = 1;
    lab.beat(&join("m1"));
    let text = "The streams group has reached its maximum capacity of 1 members.";
    assert_eq!(refusal(&lab.beat(&join("m2"))), (81, text));
    assert_eq!(lab.beat(&join("m1")).error_code, 0);
}

#[test]
fn h8_groups_are_bounded() {
    let mut lab = Lab::new();
    lab.config.limits.max_groups = 1;
    lab.beat(&join("m"));
    let other = Request { group_id: Cow::Borrowed("h"), ..join("m") };
    assert_eq!(lab.beat(&other).error_code, 14);
    assert_eq!(lab.groups.len(), 1);
    lab.beat(&steady("m", -1));
    lab.delete("g").unwrap();
    assert_eq!(lab.beat(&other).error_code, 0);
}

#[test]
fn t10_t11_a_heartbeat_without_news_answers_without_tasks() {
    let mut lab = Lab::new();
    let first = lab.beat(&join("m"));
    assert_eq!(first.active_tasks, Some(vec![]));
    let answer = lab.beat(&steady("m", 2));
    assert_eq!(answer.member_epoch, 2);
    assert_eq!((answer.active_tasks, answer.standby_tasks, answer.warmup_tasks), (None, None, None));
    assert_eq!(answer.status, Some(vec![]));
    assert_eq!(kinds(&lab.records), Vec::<String>::new());
    assert_eq!(lab.beat(&steady("m", -1)).status, Some(vec![]));
}

#[test]
fn t12_a_leave_removes_the_member_and_advances_the_group_epoch() {
    let mut lab = Lab::new();
    lab.beat(&join("m1"));
    lab.beat(&join("m2"));
    let answer = lab.beat(&steady("m1", -1));
    assert_eq!((answer.error_code, answer.member_id.as_ref(), answer.member_epoch), (0, "m1", -1));
    assert_eq!((answer.heartbeat_interval_ms, answer.acceptable_recovery_lag), (0, -1));
    assert_eq!(kinds(&lab.records), ["22:m1-", "21:m1-", "19:m1-", "17"]);
    assert_eq!(lab.metadata().epoch, 4);
    assert_eq!(lab.state(), "Assigning");
    assert!(!lab.groups.is_member("g", "m1") && lab.groups.is_member("g", "m2"));
    let facts = lab.facts.clone().unwrap();
    assert!(facts.leaving && !facts.group.empty);
}

#[test]
fn s2_7_with_the_last_member_the_assignment_epoch_advances_too() {
    let mut lab = Lab::new();
    lab.beat(&join("m"));
    // Whatever epoch the member last had.
    lab.beat(&Request { member_epoch: -1, ..steady("m", 77) });
    assert_eq!(kinds(&lab.records), ["22:m-", "21:m-", "19:m-", "17", "20"]);
    let described = lab.groups.describe(&lab.config, "g").unwrap();
    assert_eq!((described.group_epoch, described.assignment_epoch), (3, 3));
    assert_eq!((described.group_state.as_str(), described.members.len()), ("Empty", 0));
    assert!(lab.facts.as_ref().unwrap().group.empty);
    assert_eq!(lab.groups.facts("g"), lab.facts.clone().map(|f| f.group));
    assert_eq!(lab.groups.empty_groups().count(), 1);
    assert_eq!((lab.groups.member_count(), lab.groups.next_deadline()), (0, None));
}

#[test]
fn t13_a_new_process_id_calls_for_a_new_target() {
    let mut lab = Lab::new();
    lab.beat(&join("m"));
    let request = Request { process_id: Some(Cow::Borrowed("other")), ..steady("m", 2) };
    let answer = lab.beat(&request);
    assert_eq!(answer.member_epoch, 3);
    assert_eq!(kinds(&lab.records), ["19:m", "17", "20", "22:m"]);
}

#[test]
fn d3_an_address_that_changes_moves_no_tasks() {
    for (kafka, epoch, records) in [(false, 2, vec!["19:m"]), (true, 3, vec!["19:m", "17", "20", "22:m"])] {
        let mut lab = if kafka { Lab::new().kafka() } else { Lab::new() };
        lab.beat(&join("m"));
        lab.client_host = "/10.0.0.9";
        assert_eq!(lab.beat(&steady("m", 2)).member_epoch, epoch);
        assert_eq!(kinds(&lab.records), records);
        let described = lab.groups.describe(&lab.config, "g").unwrap();
        assert_eq!(described.members[0].client_host, "/10.0.0.9");
    }
}

#[test]
fn t14_a_shutdown_request_reaches_everybody_and_writes_nothing() {
    let mut lab = Lab::new();
    lab.beat(&join("m1"));
    lab.beat(&join("m2"));
    lab.beat(&steady("m1", 2));
    let text = "Streams group member m1 encountered a fatal error and requested a shutdown for the entire application.";
    let answer = lab.beat(&Request { shutdown_application: true, ..steady("m1", 3) });
    assert_eq!((statuses(&answer), status_text(&answer)), (vec![4], text));
    assert_eq!(kinds(&lab.records), Vec::<String>::new());
    // The first one counts.
    let answer = lab.beat(&Request { shutdown_application: true, ..steady("m2", 3) });
    assert_eq!(status_text(&answer), text);
}

#[test]
fn t15_a_leaver_may_ask_for_the_shutdown() {
    let mut lab = Lab::new();
    lab.beat(&join("m1"));
    lab.beat(&join("m2"));
    let answer = lab.beat(&Request { shutdown_application: true, ..steady("m1", -1) });
    assert_eq!(answer.status, Some(vec![]));
    assert_eq!(statuses(&lab.beat(&steady("m2", 3))), [4]);
    // An empty group forgets it.
    lab.beat(&steady("m2", -1));
    assert_eq!(statuses(&lab.beat(&join("m3"))), Vec::<i8>::new());
}

/// Never finds a way.
#[derive(Debug)]
struct Helpless;

impl Assignor for Helpless {
    fn assign(&self, _: &Input<'_>) -> Result<BTreeMap<Arc<str>, Tasks>, AssignError> {
        Err(AssignError)
    }
}

#[test]
fn t16_an_assignor_that_fails_changes_nothing_and_ends_no_client() {
    let mut lab = Lab::with(&[("in", 2)]);
    lab.groups = Groups::with_assignor(&lab.config, Arc::new(Helpless));
    let request = Request { topology: Some(topology(&[("0", &["in"])])), ..join("m") };
    assert_eq!(lab.beat(&request).error_code, 14);
    assert!(lab.groups.is_empty());
}

#[test]
fn t17_a_fenced_member_joins_again() {
    let mut lab = Lab::new();
    lab.beat(&join("m"));
    assert_eq!(lab.beat(&steady("m", 3)).error_code, 110);
    assert_eq!(lab.beat(&join("m")).member_epoch, 2);
}

#[test]
fn s1_3_an_absent_field_is_unchanged_but_a_join_clears_the_endpoint() {
    let mut lab = Lab::new();
    let request = Request {
        rack_id: Some(Cow::Borrowed("r")),
        user_endpoint: Some(streamside_wire::messages::streams_group_heartbeat::Endpoint {
            host: "h".into(),
            port: 65_535,
            ..Default::default()
        }),
        ..join("m")
    };
    lab.beat(&request);
    lab.beat(&steady("m", 2));
    let member = |lab: &Lab| lab.groups.describe(&lab.config, "g").unwrap().members[0].clone();
    assert_eq!(member(&lab).user_endpoint.map(|e| (e.host, e.port)), Some(("h".to_owned(), 65_535)));
    lab.beat(&join("m"));
    assert_eq!((member(&lab).rack_id.as_deref(), member(&lab).user_endpoint), (Some("r"), None));
}

#[test]
fn t72_task_offsets_are_kept_in_memory_and_named_once() {
    let offset =
        |partition, offset| TaskOffset { subtopology_id: "a".into(), partition, offset, ..TaskOffset::default() };
    let mut lab = Lab::new();
    lab.beat(&join("m"));
    let double = Request { task_offsets: Some(vec![offset(1, 5), offset(1, 6)]), ..steady("m", 2) };
    let text = "Task offsets contain a duplicate entry for subtopology a and partition 1.";
    assert_eq!(refusal(&lab.beat(&double)), (42, text));
    let told = Request {
        task_offsets: Some(vec![offset(1, 6), offset(0, 5)]),
        task_end_offsets: Some(vec![offset(0, 9)]),
        ..steady("m", 2)
    };
    lab.beat(&told);
    assert_eq!(kinds(&lab.records), Vec::<String>::new());
    // Each list is unchanged when absent, and replaced as a whole.
    lab.beat(&Request { task_end_offsets: Some(vec![]), ..steady("m", 2) });
    let member = lab.groups.describe(&lab.config, "g").unwrap().members.remove(0);
    assert_eq!(member.task_offsets, [offset(0, 5), offset(1, 6)]);
    assert_eq!(member.task_end_offsets, []);
}

#[test]
fn s3_1_an_absent_topology_of_an_odd_group_asks_the_member_to_join_again() {
    let mut lab = Lab::new();
    lab.place("m", stable(5, &[]));
    lab.inject(Durable::Group { group: "g".into(), value: Some(Default::default()) });
    assert_eq!(lab.beat(&steady("m", 5)).error_code, 25);
    assert_eq!(lab.beat(&join("m")).error_code, 0);
}
