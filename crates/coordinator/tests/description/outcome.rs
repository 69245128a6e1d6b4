//! What a plugin call comes to, and the uncertain mark: spec kip1331 §§4.3-4.5.

use streamside_coordinator::description::Mark;
use streamside_coordinator::description::mark::Handed;
use streamside_coordinator::{Compat, Coordinator, Input, OpId, PluginFailure, Reply, Sensor};
use streamside_topology::DescriptionHash;

use crate::world::{Answer, BOTH, G, M, Step, World, permanent, transient};

fn failed(message: Option<&str>, reason: &'static str) -> Answer {
    Answer { code: 135, message: message.map(str::to_owned), reason: Some(reason) }
}

fn handed(epoch: i32, sequence: u64) -> Handed {
    Handed { epoch, hash: DescriptionHash([7; 32]), fingerprint: None, incarnation: 0, sequence }
}

#[test]
fn k4_3_row_1_success() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let call = world.push(G, M, "a").call();
        assert_eq!(world.s(), -2);
        assert_eq!(world.outcome(&call, Ok(())).answer(), Answer { code: 0, message: None, reason: None });
        assert_eq!(world.s_and_f(), (0, -1));
        assert_eq!(world.window(), None);
        assert_eq!((world.sensor(Sensor::SetSuccess), world.sensor(Sensor::SetError)), (1, 0));
    }
}

#[test]
fn k4_3_row_2_permanent_failure() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        assert_eq!(world.fail(G, M, "a", permanent()), failed(Some("never"), "plugin_permanent"));
        assert_eq!(world.s_and_f(), (-2, 0));
        assert_eq!(world.window(), None);
        assert_eq!((world.sensor(Sensor::SetSuccess), world.sensor(Sensor::SetError)), (0, 1));
        world.restart();
        assert_eq!(world.s_and_f(), (-2, 0));
    }
}

#[test]
fn k4_3_row_2_permanent_failure_without_a_message() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let failure = PluginFailure::Permanent { message: None };
        assert_eq!(world.fail(G, M, "a", failure), failed(None, "plugin_permanent"));
    }
}

#[test]
fn k4_3_row_3_and_4_contract_violation_is_permanent_with_the_fixed_text() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let answer = world.fail(G, M, "a", PluginFailure::Contract);
        assert_eq!(answer, failed(Some("Topology description plugin failed."), "plugin_contract"));
        assert_eq!(world.s_and_f(), (-2, 0));
        assert_eq!(world.window(), None);
        assert_eq!(world.sensor(Sensor::SetError), 1);
    }
}

#[test]
fn k4_3_row_5_transient_failure() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        assert_eq!(world.fail(G, M, "a", transient()), failed(Some("not now"), "plugin_transient"));
        assert_eq!(world.durable, 0, "no outcome record");
        assert_eq!(world.s_and_f(), (-2, -1));
        assert_eq!(world.window(), Some(60_000));
        assert_eq!(world.sensor(Sensor::SetError), 1);
    }
}

#[test]
fn k4_3_row_6_wrapper_without_a_cause_is_transient_with_the_plugins_text() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let text = "Plugin failure (no cause).";
        let failure = PluginFailure::Transient { message: Some(text.to_owned()), retry_after_ms: None };
        assert_eq!(world.fail(G, M, "a", failure), failed(Some(text), "plugin_transient"));
    }
}

#[test]
fn k4_3_row_7_synchronous_error_changes_nothing() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.pass(1_000);
        let answer = world.fail(G, M, "a", PluginFailure::Fatal);
        assert_eq!(answer, Answer { code: -1, message: None, reason: Some("plugin_crashed") });
        assert_eq!(world.s_and_f(), (-2, -1));
        assert_eq!(world.window(), Some(29_000), "untouched");
        assert_eq!((world.sensor(Sensor::SetSuccess), world.sensor(Sensor::SetError)), (0, 0));
        assert_eq!(world.logs_with(&["operation=set"]), 1);
    }
}

#[test]
fn k4_3_row_8_call_without_end_answers_nobody() {
    let mut world = World::joined(Compat::Kafka);
    world.push(G, M, "a").call();
    world.pass(30_000);
    assert_eq!(world.s(), -2);
    assert!(world.beat(G, M).asked, "heartbeats go on");
}

#[test]
fn k4_3_stored_epoch_after_success_by_what_it_is_then() {
    let call = handed(3, 9);
    let nothing = Mark::default();
    assert_eq!(nothing.set_succeeded(Compat::Kafka, call).stored_epoch(), -2, "a delete raced");
    let uncertain = Mark { uncertain: true, ..Mark::default() };
    assert_eq!(uncertain.set_succeeded(Compat::Kafka, call).stored_epoch(), 3);
    let stored = |epoch| Mark { served: Some(handed(epoch, 1)), ..Mark::default() };
    assert_eq!(stored(2).set_succeeded(Compat::Kafka, call).stored_epoch(), 3);
    assert_eq!(stored(4).set_succeeded(Compat::Kafka, call).stored_epoch(), 4, "never regresses");
}

#[test]
fn k4_3_outcome_for_a_group_that_is_gone() {
    for compat in BOTH {
        for result in [Ok(()), Err(permanent()), Err(transient()), Err(PluginFailure::TimedOut)] {
            let mut world = World::joined(compat);
            let call = world.push(G, M, "a").call();
            world.leave(G, M);
            let delete = world.delete(G).call();
            world.outcome(&delete, Ok(()));
            let answer = world.outcome(&call, result).answer();
            assert_eq!((answer.code, answer.message.as_deref()), (69, Some("Group g not found.")));
            assert_eq!((world.window(), world.sizes()["marks"]), (None, 0));
        }
    }
}

/// A failed commit makes the shard forget calls under way; what they left behind is uncertain, as journalled. Routing
/// errors of Kafka's cannot arise: there is one coordinator.
#[test]
fn k4_3_outcome_that_cannot_be_recorded_is_store_failed_and_stays_uncertain() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let call = world.push(G, M, "a").call();
        world.restart();
        let answer = world.outcome(&call, Ok(())).answer();
        assert_eq!((answer.code, answer.reason), (135, Some("store_failed")));
        assert!(answer.message.unwrap().starts_with("store_failed"));
        assert_eq!(world.s(), -2);
        world.late(&call, Ok(()));
    }
}

#[test]
fn k4_3_reload_keeps_windows() {
    let mut world = World::joined(Compat::Streamside);
    let config = world.config().clone();
    let durables: Vec<_> =
        world.journal.iter().map(|(key, value)| streamside_coordinator::Durable::decode(key, value).unwrap()).collect();
    let now = streamside_coordinator::Now { at: world.now, jitter: 0 };
    let old = std::mem::replace(&mut world.coordinator, Coordinator::new(config.clone()));
    world.coordinator = old.reloaded(config, now, durables);
    assert_eq!(world.window(), Some(30_000));
    assert!(!world.beat(G, M).asked);
}

#[test]
fn k4_4_mark_for_a_push_needs_the_group_alone() {
    for compat in BOTH {
        // From S = -1, -2 and E alike, members or not.
        let mut world = World::joined(compat);
        world.push(G, M, "a").call();
        assert_eq!(world.s(), -2);
        world.push(G, M, "b").call();
        assert_eq!(world.s(), -2);
        let mut world = World::stored(compat);
        world.push(G, M, "b").call();
        assert_eq!(world.s(), -2);
    }
}

#[test]
fn k4_4_mark_for_a_delete_needs_an_empty_group_with_something_stored() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        assert_eq!(world.delete(G).code(), 68);
        assert_eq!(world.s(), 0, "not empty: untouched");
        world.leave(G, M);
        world.delete(G).call();
        assert_eq!(world.s(), -2);

        let mut world = World::joined(compat);
        world.leave(G, M);
        assert_eq!(world.delete(G).code(), 0, "S = -1: no call");
        assert_eq!(world.delete(G).code(), 69);
    }
}

#[test]
fn k4_4_mark_again_keeps_it() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.delete(G).call();
        world.delete(G).call();
        assert_eq!(world.s(), -2);
    }
}

#[test]
fn k4_4_several_marks_are_one_decision() {
    for compat in BOTH {
        let mut world = World::new(compat);
        for group in ["g1", "g2", "g3"] {
            world.join(group, M);
            world.store(group, M, "a");
            world.leave(group, M);
        }
        let calls = world.cleanup();
        assert_eq!((world.durable, calls.len()), (3, 3));
        let mut sequences: Vec<_> = calls.iter().map(|call| call.sequence).collect();
        sequences.sort_unstable();
        sequences.dedup();
        assert_eq!(sequences.len(), 3);
    }
}

#[test]
fn k4_4_finalize_uncertain_becomes_nothing() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let calls = world.cleanup();
        world.outcome(&calls[0], Ok(()));
        assert_eq!(world.s(), -1);
        assert_eq!(world.sizes()["marks"], 0);
    }
}

#[test]
fn k4_4_finalize_nothing_stays_nothing() {
    for compat in BOTH {
        let nothing = Mark::default();
        assert_eq!(nothing.delete_succeeded(compat, 0), nothing);
    }
}

#[test]
fn k4_4_finalize_after_a_push_that_finished_meanwhile_is_uncertain_in_kafka() {
    let stored = Mark { served: Some(handed(0, 9)), ..Mark::default() };
    assert_eq!(stored.delete_succeeded(Compat::Kafka, 8).stored_epoch(), -2);
    // Ours: calls run in order, so the copy is newer than the delete.
    assert_eq!(stored.delete_succeeded(Compat::Streamside, 8), stored);
}

#[test]
fn k4_4_reads_of_uncertain() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", transient());
        // Solicited like -1, deleted like E; a describe serves S = E alone.
        world.pass(60_000);
        assert!(world.beat(G, M).asked);
        world.leave(G, M);
        world.delete(G).call();
        assert_eq!(world.read(G), None);
    }
}

#[test]
fn k4_5_row_1_pushes_at_once_are_all_called() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.join(G, "m2");
        let calls = [world.push(G, M, "a").call(), world.push(G, "m2", "a").call()];
        assert!(calls[0].sequence < calls[1].sequence);
        for call in &calls {
            assert_eq!(world.outcome(call, Ok(())).code(), 0);
        }
        assert_eq!(world.s(), 0);
    }
}

#[test]
fn k4_5_row_2_push_of_what_is_stored_makes_it_uncertain_in_kafka() {
    let mut world = World::stored(Compat::Kafka);
    let call = world.push(G, M, "a").call();
    assert_eq!(world.s(), -2);
    assert_eq!(world.read(G), None);
    assert!(world.beat(G, M).asked);
    assert_eq!(world.outcome(&call, Ok(())).code(), 0);
    assert_eq!(world.s(), 0);
}

#[test]
fn k4_5_row_3_permanent_failure_after_success_hides_the_copy_in_kafka() {
    let mut world = World::stored(Compat::Kafka);
    world.fail(G, M, "b", permanent());
    assert_eq!(world.s_and_f(), (-2, 0));
    assert_eq!(world.read(G), None);
    assert!(!world.beat(G, M).asked);
}

#[test]
fn k4_5_row_4_success_after_permanent_failure_is_served() {
    let mut world = World::joined(Compat::Kafka);
    world.fail(G, M, "a", permanent());
    world.store(G, M, "a");
    assert_eq!(world.s_and_f(), (0, 0));
    assert!(world.read(G).is_some());

    let mut world = World::joined(Compat::Streamside);
    world.fail(G, M, "a", permanent());
    world.store(G, M, "b");
    assert_eq!(world.s(), 0);
    assert!(world.read(G).is_some());
}

#[test]
fn k4_5_row_5_push_completes_after_its_member_left() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let call = world.push(G, M, "a").call();
        world.leave(G, M);
        assert_eq!(world.outcome(&call, Ok(())).code(), 0);
        assert_eq!(world.s(), 0);
    }
}

#[test]
fn k4_5_row_6_cleanup_during_a_push() {
    // The delete's outcome first, then the push's: Kafka no longer knows what is stored.
    let mut world = World::joined(Compat::Kafka);
    let push = world.push(G, M, "a").call();
    world.leave(G, M);
    let delete = world.cleanup().remove(0);
    world.outcome(&delete, Ok(()));
    assert_eq!(world.s(), -1);
    assert_eq!(world.outcome(&push, Ok(())).code(), 0);
    assert_eq!(world.s(), -2);

    // Ours: the lane is taken, so the group waits for the next cycle.
    let mut world = World::joined(Compat::Streamside);
    let push = world.push(G, M, "a").call();
    world.leave(G, M);
    assert_eq!(world.cleanup(), []);
    assert_eq!(world.outcome(&push, Ok(())).code(), 0);
    assert_eq!(world.cleanup().len(), 1);
}

#[test]
fn k4_5_row_7_delete_during_a_push() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let push = world.push(G, M, "a").call();
        world.leave(G, M);
        let delete = world.delete(G).call();
        assert_eq!(world.outcome(&delete, Ok(())).code(), 0);
        assert_eq!(world.outcome(&push, Ok(())).code(), 69);
    }
}

#[test]
fn k4_5_row_8_group_made_again_before_the_outcome() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let push = world.push(G, M, "a").call();
        world.leave(G, M);
        let delete = world.delete(G).call();
        world.outcome(&delete, Ok(()));
        world.join(G, M);
        assert_eq!(world.outcome(&push, Ok(())).code(), 0);
        // Ours knows that the call came before the delete.
        assert_eq!(world.s(), if compat == Compat::Kafka { -2 } else { -1 });
    }
}

#[test]
fn k4_5_row_9_restart_between_mark_and_outcome() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.push(G, M, "a").call();
        world.restart();
        assert_eq!(world.s(), -2);
        assert!(world.beat(G, M).asked);
        world.store(G, M, "a");
        assert_eq!(world.s(), 0);
    }
}

#[test]
fn k4_3_unknown_operation_of_a_delete_is_134() {
    let mut world = World::abandoned(Compat::Streamside);
    let call = world.delete(G).call();
    world.restart();
    assert_eq!(world.outcome(&call, Ok(())).code(), 134);
    let (reply, _) = world.play(Input::DeleteOutcome { op: OpId(77), result: Ok(()), late: true });
    assert!(matches!(reply, Some(Reply::Done)));
    assert!(matches!(world.delete(G), Step::Called(_)), "retry is safe");
}
