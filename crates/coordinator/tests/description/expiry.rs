//! Expiry and the cleanup cycle: spec kip1331 §§7.1-7.5.

use streamside_coordinator::{Compat, Config, PluginFailure, Sensor};

use crate::world::{BOTH, G, M, World, permanent, transient};

#[test]
fn k7_1_a_stored_abandoned_group_needs_a_cycle_and_then_a_sweep() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.sweep();
        assert!(world.exists(G));
        let call = world.cleanup().remove(0);
        world.outcome(&call, Ok(()));
        assert!(world.exists(G), "the cycle removes no group");
        world.sweep();
        assert!(!world.exists(G));
        assert!(world.journal.is_empty());
    }
}

#[test]
fn k7_1_cycle_runs_with_a_plugin_alone() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.restart_with(Config { plugin: None, compat, ..Config::default() });
        assert_eq!(world.cleanup(), []);
        assert_eq!(world.sensor(Sensor::CleanupEligible), 0);
    }
}

#[test]
fn k7_2_step_1_no_offsets_are_kept_standalone() {
    // So whether a group is swept depends on its members and its mark alone.
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.leave(G, M);
        world.sweep();
        assert!(!world.exists(G));
    }
}

#[test]
fn k7_2_step_2_group_with_members_stays() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.sweep();
        assert!(world.exists(G));
        assert_eq!(world.durable, 0);
    }
}

#[test]
fn k7_2_step_3_stored_and_uncertain_defer() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.sweep();
        assert!(world.exists(G));
        world.delete(G).call();
        assert_eq!(world.s(), -2);
        world.sweep();
        assert!(world.exists(G));
    }
}

#[test]
fn k7_2_step_4_without_plugin_nothing_defers() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.restart_with(Config { plugin: None, compat, ..Config::default() });
        world.sweep();
        assert!(!world.exists(G));
        assert!(world.journal.is_empty());
    }
}

#[test]
fn k7_2_step_5_eligible_as_soon_as_empty() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.leave(G, M);
        world.sweep();
        assert!(!world.exists(G));
    }
}

/// The single-flight flag and the cleanup-cycle sensor are over all shards and so the shell's.
#[test]
fn k7_3_step_1_and_2_cycle_of_a_shard_counts_no_cycle() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.cleanup();
        assert_eq!(world.sensor(Sensor::CleanupCycle), 0);
    }
}

#[test]
fn k7_3_step_3_and_4_empty_groups_with_something_stored_are_eligible() {
    for compat in BOTH {
        let mut world = World::new(compat);
        for (group, stored, leaves) in [("a", true, true), ("b", true, false), ("c", false, true)] {
            world.join(group, M);
            if stored {
                world.store(group, M, "x");
            }
            if leaves {
                world.leave(group, M);
            }
        }
        let calls = world.cleanup();
        assert_eq!(calls.len(), 1);
        assert_eq!((calls[0].group.as_str(), &calls[0].set), ("a", &None));
        let mut world = World::new(compat);
        assert_eq!(world.cleanup(), []);
        assert_eq!(world.sensor(Sensor::CleanupEligible), 0);
    }
}

#[test]
fn k7_3_step_5_eligible_groups_are_counted() {
    for compat in BOTH {
        let mut world = World::new(compat);
        for group in ["a", "b", "c"] {
            world.join(group, M);
            world.store(group, M, "x");
            world.leave(group, M);
        }
        world.cleanup();
        assert_eq!(world.sensor(Sensor::CleanupEligible), 3);
    }
}

#[test]
fn k7_3_step_6_marks_before_the_plugin_is_called() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.cleanup();
        assert_eq!(world.s(), -2);
        world.restart();
        assert_eq!(world.s(), -2);
    }
}

#[test]
fn k7_3_step_7_failure_is_retried_in_the_next_cycle() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", transient());
        world.leave(G, M);
        for failure in [transient(), permanent(), PluginFailure::Contract] {
            let call = world.cleanup().remove(0);
            world.outcome(&call, Err(failure));
            assert_eq!(world.s(), -2);
            assert_eq!(world.window(), Some(60_000), "kept");
            world.sweep();
            assert!(world.exists(G));
        }
        assert_eq!(world.sensor(Sensor::DeleteError), 3);
        let call = world.cleanup().remove(0);
        world.outcome(&call, Ok(()));
        assert_eq!(world.s(), -1);
    }
}

#[test]
fn k7_3_step_8_success_counts_and_ends_the_window() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", transient());
        world.leave(G, M);
        let call = world.cleanup().remove(0);
        world.outcome(&call, Ok(()));
        assert_eq!(world.sensor(Sensor::DeleteSuccess), 1);
        assert_eq!(world.window(), None);
    }
}

#[test]
fn k7_3_step_9_unwritten_finalize_is_done_again() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.cleanup();
        // Killed before the outcome was recorded.
        world.restart();
        let call = world.cleanup().remove(0);
        world.outcome(&call, Ok(()));
        assert_eq!(world.s(), -1);
    }
}

#[test]
fn k7_3_step_10_every_call_is_settled_by_an_outcome() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let call = world.cleanup().remove(0);
        world.outcome(&call, Err(transient()));
        assert_eq!((world.sizes()["operations"], world.sizes()["lanes"]), (0, 0));
    }
}

#[test]
fn k7_4_row_1_stored() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let call = world.cleanup().remove(0);
        world.outcome(&call, Ok(()));
        assert_eq!(world.s_and_f(), (-1, -1));
        world.sweep();
        assert!(!world.exists(G));
    }
}

#[test]
fn k7_4_row_2_refused_keeps_f_until_the_group_goes() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", permanent());
        world.leave(G, M);
        let call = world.cleanup().remove(0);
        world.outcome(&call, Ok(()));
        assert_eq!(world.s_and_f(), (-1, 0));
        world.sweep();
        assert!(!world.exists(G));
        assert!(world.journal.is_empty());
    }
}

#[test]
fn k7_4_row_3_revived_before_the_cycle_is_unchanged() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.join(G, M);
        assert_eq!(world.cleanup(), []);
        assert_eq!(world.s(), 0);
    }
}

#[test]
fn k7_4_row_4_revived_and_pushed_during_the_call() {
    // Kafka no longer knows what is stored and asks again.
    let mut world = World::abandoned(Compat::Kafka);
    let delete = world.cleanup().remove(0);
    world.join(G, M);
    world.store(G, M, "b");
    world.outcome(&delete, Ok(()));
    assert_eq!(world.s(), -2);
    assert!(world.beat(G, M).asked);

    // Ours knows the order of calls: the push came after the delete.
    let mut world = World::abandoned(Compat::Streamside);
    let delete = world.cleanup().remove(0);
    world.join(G, M);
    let push = world.push(G, M, "b").call();
    assert!(push.sequence > delete.sequence);
    world.outcome(&delete, Ok(()));
    assert_eq!(world.s(), -2);
    world.outcome(&push, Ok(()));
    assert_eq!(world.s(), 0);
    world.sweep();
    assert!(world.exists(G));
}

#[test]
fn k7_4_row_5_revived_afterwards_is_asked() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        let call = world.cleanup().remove(0);
        world.outcome(&call, Ok(()));
        assert!(world.join(G, M).asked);
    }
}

#[test]
fn k7_4_row_6_revived_afterwards_with_f_is_not_asked() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", permanent());
        world.leave(G, M);
        let call = world.cleanup().remove(0);
        world.outcome(&call, Ok(()));
        assert!(!world.join(G, M).asked);
    }
}

#[test]
fn k7_5_cycle_cut_off_by_a_stop_is_taken_up_by_the_next_start() {
    for compat in BOTH {
        let mut world = World::abandoned(compat);
        world.cleanup();
        world.restart();
        assert_eq!(world.s(), -2);
        assert_eq!(world.cleanup().len(), 1);
    }
}
