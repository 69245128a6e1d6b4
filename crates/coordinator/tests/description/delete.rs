//! DeleteGroups: spec kip1331 §6.

use streamside_coordinator::{Compat, Config, Durable, PluginFailure, Sensor, batch};

use crate::world::{Answer, BOTH, G, M, Step, World, permanent, transient};

const DELETE_FAILED: &str = "Topology description plugin failed to delete the topology.";

fn answer(code: i16, message: Option<&str>) -> Answer {
    Answer { code, message: message.map(str::to_owned), reason: None }
}

#[test]
fn k6_1_step_1_ids_are_deduplicated() {
    let ids = ["b", "a", "b", "", "a", ""].map(str::to_owned);
    assert_eq!(batch::split_delete(&ids), ["b", "a", ""]);
}

#[test]
fn k6_1_step_3_empty_id_ends_at_69() {
    for compat in BOTH {
        assert_eq!(World::new(compat).delete("").answer(), answer(69, None));
    }
}

#[test]
fn k6_1_step_4_ids_are_independent() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.join("h", M);
        let call = world.delete(G).call();
        assert_eq!(world.delete("h").code(), 68);
        assert_eq!(world.delete("x").code(), 69);
        assert_eq!(world.outcome(&call, Ok(())).code(), 0);
    }
}

#[test]
fn k6_1_step_6_only_what_may_be_stored_needs_the_plugin() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.leave(G, M);
        assert_eq!(world.delete(G).answer(), answer(0, None));
        assert_eq!(world.sensor(Sensor::DeleteSuccess), 0);
    }
}

#[test]
fn k6_1_step_7_group_with_members_is_left_alone() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        assert_eq!(world.delete(G).answer(), answer(68, None));
        assert_eq!((world.durable, world.s()), (0, 0));
    }
}

#[test]
fn k6_1_step_8_plugin_failure_is_134_and_keeps_the_group() {
    for compat in BOTH {
        for failure in [transient(), permanent(), PluginFailure::Contract] {
            let mut world = World::abandoned(compat);
            let call = world.delete(G).call();
            assert_eq!(world.outcome(&call, Err(failure)).answer(), answer(134, Some(DELETE_FAILED)));
            assert!(world.exists(G));
            assert_eq!(world.s(), -2);
            assert_eq!(world.sensor(Sensor::DeleteError), 1);
            // Retry is safe.
            let call = world.delete(G).call();
            assert_eq!(world.outcome(&call, Ok(())).code(), 0);
            assert!(!world.exists(G));
        }
    }
}

#[test]
fn k6_1_step_8_synchronous_error_is_minus_1() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let call = world.delete(G).call();
        assert_eq!(world.outcome(&call, Err(PluginFailure::Fatal)).answer(), answer(-1, None));
        assert!(world.exists(G));
        assert_eq!(world.s(), -2);
        assert_eq!((world.sensor(Sensor::DeleteError), world.sensor(Sensor::DeleteSuccess)), (0, 0));
        assert_eq!(world.logs_with(&["operation=delete"]), 1);
    }
}

#[test]
fn k6_1_step_9_window_is_kept_on_failure_and_ended_on_success() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", transient());
        world.leave(G, M);
        let call = world.delete(G).call();
        world.outcome(&call, Err(transient()));
        assert_eq!(world.window(), Some(60_000));
        let call = world.delete(G).call();
        world.outcome(&call, Ok(()));
        assert_eq!(world.window(), None);
        assert_eq!(world.sensor(Sensor::DeleteSuccess), 1);
    }
}

#[test]
fn k6_1_step_10_plugin_is_called_after_the_mark_is_durable() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.delete(G).call();
        world.restart();
        assert_eq!(world.s(), -2, "killed during the call: delete again");
        assert!(matches!(world.delete(G), Step::Called(_)));
    }
}

#[test]
fn k6_1_step_11_group_that_got_a_member_meanwhile_stays() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let call = world.delete(G).call();
        world.join(G, "m2");
        assert_eq!(world.outcome(&call, Ok(())).answer(), answer(68, None));
        assert_eq!(world.s(), -1);
        assert!(world.beat(G, "m2").asked || world.window().is_some(), "asked anew");
    }
}

#[test]
fn k6_1_step_11_group_that_is_gone_meanwhile_is_69() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let calls = [world.delete(G).call(), world.delete(G).call()];
        assert_eq!(world.outcome(&calls[0], Ok(())).code(), 0);
        assert_eq!(world.outcome(&calls[1], Ok(())).answer(), answer(69, None));
        assert_eq!(world.sizes()["marks"], 0);
    }
}

#[test]
fn k6_2_code_134_by_version() {
    for version in 0..=2 {
        let result = batch::delete_result(version, G, 134, Some(DELETE_FAILED.to_owned()));
        assert_eq!((result.error_code, result.error_message), (-1, None), "version {version}");
    }
    let result = batch::delete_result(3, G, 134, Some(DELETE_FAILED.to_owned()));
    assert_eq!((result.error_code, result.error_message.as_deref()), (134, Some(DELETE_FAILED)));
}

#[test]
fn k6_2_other_codes_are_unchanged() {
    for version in 0..=3 {
        for code in [0, 68, 69, -1, 14] {
            assert_eq!(batch::delete_result(version, G, code, None).error_code, code);
        }
    }
}

#[test]
fn k6_3_delete_leaves_nothing() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let call = world.delete(G).call();
        world.outcome(&call, Ok(()));
        assert!(world.journal.is_empty(), "{:?}", world.journal.keys());
        world.restart();
        assert!(!world.exists(G));
        assert!(world.join(G, M).asked, "made again, it is asked at once");
        assert_eq!(world.s_and_f(), (-1, -1));
    }
}

#[test]
fn k6_4_without_plugin_a_stored_group_is_deleted() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.restart_with(Config { plugin: None, compat, ..Config::default() });
        assert_eq!(world.delete(G).code(), 0);
        assert!(world.journal.is_empty());
    }
}

#[test]
fn k6_4_half_pushed_group_calls_the_plugin() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.push(G, M, "a").call();
        world.leave(G, M);
        world.restart();
        assert!(matches!(world.delete(G), Step::Called(_)));
    }
}

#[test]
fn k6_4_refused_group_calls_the_plugin() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", permanent());
        world.leave(G, M);
        assert!(matches!(world.delete(G), Step::Called(_)));
    }
}

#[test]
fn k6_4_unpushed_group_does_not_call_the_plugin() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.leave(G, M);
        assert_eq!(world.delete(G).code(), 0);
    }
}

#[test]
fn k6_4_join_during_the_call_is_asked_again() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let call = world.delete(G).call();
        world.pass(1);
        world.heartbeat(&crate::world::join_request(G, "m2", 0), 0);
        assert_eq!(world.outcome(&call, Ok(())).code(), 68);
        assert!(world.beat(G, "m2").asked);
    }
}

#[test]
fn k6_4_plugin_that_hangs_answers_nobody_in_kafka() {
    let mut world = World::abandoned(Compat::Kafka);
    let call = world.delete(G).call();
    world.pass(3_600_000);
    assert!(world.exists(G));
    assert_eq!(world.outcome(&call, Ok(())).code(), 0);
}

#[test]
fn k6_1_marks_and_tombstones_are_one_decision() {
    let mut world = World::abandoned(Compat::Streamside);
    let call = world.delete(G).call();
    let before: Vec<_> = world.journal.keys().cloned().collect();
    world.outcome(&call, Ok(()));
    assert_eq!(world.durable, before.len(), "each key is removed, the mark's too");
    for key in before {
        let kind = u16::from_be_bytes([key[0], key[1]]);
        assert!(kind == 1024 || (17..=23).contains(&kind), "{kind}");
        assert!(Durable::decode(&key, &[]).is_err(), "a tombstone is the absence of a value");
    }
}
