//! DeleteGroups, expiry upstream, and deletes that the plugin is owed.

use streamside_coordinator::Compat::{Kafka, Streamside};
use streamside_coordinator::PluginFailure;

use crate::broker::DELETE;
use crate::world::{G, World};

fn transient() -> PluginFailure {
    PluginFailure::Transient { message: None, retry_after_ms: None }
}

#[test]
fn b_delete_plugin_first_then_the_broker() {
    for compat in [Streamside, Kafka] {
        let mut world = World::abandoned(compat);
        assert_eq!(world.delete(G), 0);
        assert_eq!(world.calls(), ["set g", "delete g"]);
        assert!(world.broker.groups.is_empty() && world.is_blank(), "{:?}", world.sizes());
        assert_eq!(world.delete(G), 69, "nothing is held, the broker alone answers");
        assert_eq!(world.calls().len(), 2);
    }
}

#[test]
fn b_delete_plugin_that_fails_leaves_the_group() {
    let mut world = World::abandoned(Streamside);
    world.process().failing = Some(transient());
    assert_eq!(world.delete(G), 134);
    assert!(world.broker.groups.contains_key(G), "the broker was not asked");
    world.process().failing = None;
    assert_eq!(world.delete(G), 0);
    assert!(world.is_blank());
}

#[test]
fn b_delete_refused_by_the_broker_leaves_the_copy() {
    let mut world = World::stored(Streamside);
    assert_eq!(world.delete(G), 68, "it has members");
    world.leave("m");
    world.broker.rights &= !DELETE;
    assert_eq!(world.delete(G), 30, "the caller may not");
    assert_eq!(world.calls(), ["set g"]);
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_delete_without_a_verdict_goes_to_the_broker_first() {
    for restart in [false, true] {
        let mut world = World::abandoned(Streamside);
        world.broker.describe_trouble = Some(16);
        assert_eq!(world.delete(G), 0);
        assert_eq!(world.calls(), ["set g"], "the plugin is owed a delete");
        world.broker.describe_trouble = None;
        world.process().failing = Some(transient());
        world.cleanup();
        if restart {
            world.restart(true);
        }
        world.process().failing = None;
        world.cleanup();
        assert_eq!(world.calls(), ["set g", "delete g", "delete g"], "until it succeeds");
        world.sweep();
        world.pass(25 * 3_600_000);
        world.sweep();
        assert!(world.is_blank(), "{:?}", world.sizes());
    }
}

#[test]
fn b_delete_owed_is_void_once_a_new_copy_is_over_it() {
    let mut world = World::abandoned(Streamside);
    world.broker.describe_trouble = Some(16);
    assert_eq!(world.delete(G), 0);
    world.broker.describe_trouble = None;
    world.start("n", G, "b");
    world.round();
    world.restart(true);
    world.cleanup();
    assert_eq!(world.served(G).as_deref(), Some("b"));
    assert_eq!(world.calls(), ["set g", "set g"]);
}

#[test]
fn b_delete_owed_is_carried_out_while_a_new_group_has_pushed_nothing() {
    let mut world = World::abandoned(Streamside);
    world.broker.describe_trouble = Some(16);
    assert_eq!(world.delete(G), 0);
    world.broker.describe_trouble = None;
    world.start_as("n", G, "b", crate::world::topology("in"), 0);
    world.round();
    world.cleanup();
    assert_eq!(world.calls(), ["set g", "delete g"]);
    assert!(world.processes[0].plugin.is_empty());
    assert_eq!(world.coordinator().word(G), "coarse");
    world.cleanup();
    assert_eq!(world.calls().len(), 2);
}

#[test]
fn b_delete_answer_that_comes_after_the_next_join() {
    let mut world = World::abandoned(Streamside);
    let asked_at = world.now;
    world.delete_behind_our_back(G);
    world.pass(3);
    assert!(world.start("n", G, "b").asked);
    world.push("n");
    // Now the answer of the delete arrives: it was about the group before.
    world.deleted(G, 0, asked_at);
    assert_eq!(world.served(G).as_deref(), Some("b"));
    world.assert_quiet(3);
    world.cleanup();
    assert_eq!(world.calls(), ["set g", "set g"]);

    let mut world = World::abandoned(Streamside);
    let asked_at = world.now;
    world.delete_behind_our_back(G);
    world.pass(3);
    world.start("n", G, "b");
    world.client("n").asked = false;
    world.deleted(G, 0, asked_at);
    assert_eq!(world.served(G), None, "the copy was of the group before");
    assert_eq!(world.push("n").0, 0);
    assert_eq!(world.served(G).as_deref(), Some("b"));
}

#[test]
fn b_delete_group_that_came_alive_meanwhile_is_asked_again() {
    let mut world = World::abandoned(Streamside);
    world.pass(1);
    let op = streamside_coordinator::OpId(world.number());
    let (reply, calls) = world.play(streamside_coordinator::Input::VerifiedDelete { op, group: G });
    assert!(reply.is_none() && calls.len() == 1);
    world.start("n", G, "a");
    let (reply, _) = world.play(streamside_coordinator::Input::DeleteOutcome { op, result: Ok(()), late: false });
    let Some(streamside_coordinator::Reply::Deleted { error_code, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(error_code, 68, "not the group that was to be deleted");
    for _ in 0..8 {
        world.round();
    }
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_expiry_k29_group_not_seen_for_too_long() {
    let mut world = World::abandoned(Streamside);
    let gone_after = world.coordinator().config().gone_after_ms;
    world.pass(gone_after - 1_000);
    world.cleanup();
    assert_eq!(world.calls(), ["set g"]);
    world.pass(1_001);
    world.cleanup();
    assert_eq!(world.calls(), ["set g", "delete g"]);
    assert!(world.is_blank(), "{:?}", world.sizes());
}

#[test]
fn b_expiry_seen_is_what_a_member_or_a_describe_tells() {
    let mut world = World::abandoned(Streamside);
    let gone_after = world.coordinator().config().gone_after_ms;
    world.pass(gone_after - 10);
    assert_eq!(world.served(G).as_deref(), Some("a"), "the broker still has it");
    world.pass(gone_after - 10);
    world.cleanup();
    assert_eq!(world.calls(), ["set g"]);
}

#[test]
fn b_expiry_after_a_long_stop_members_get_time_to_be_heard() {
    let mut world = World::stored(Streamside);
    let gone_after = world.coordinator().config().gone_after_ms;
    let member = world.clients["m"].clone();
    world.pass(gone_after * 2);
    world.broker.groups.get_mut(G).unwrap().members.insert("m".to_owned(), world.now);
    world.restart(true);
    world.cleanup();
    assert_eq!(world.calls(), ["set g"], "we have only just begun to listen");
    world.client("m").epoch = member.epoch;
    world.round();
    world.pass(3_600_000);
    world.cleanup();
    assert_eq!(world.calls(), ["set g"]);
    // A group that nobody speaks for does go.
    world.pass(gone_after);
    world.restart(true);
    world.pass(3_600_000);
    world.cleanup();
    assert_eq!(world.calls(), ["set g", "delete g"]);
}

#[test]
fn b_expiry_described_as_missing_is_sooner() {
    let mut world = World::abandoned(Streamside);
    world.delete_behind_our_back(G);
    world.pass(1);
    world.look(G);
    world.cleanup();
    assert_eq!(world.calls(), ["set g", "delete g"]);
    assert!(world.is_blank(), "{:?}", world.sizes());
}

#[test]
fn b_expiry_failed_cleanup_tries_again() {
    let mut world = World::abandoned(Streamside);
    let gone_after = world.coordinator().config().gone_after_ms;
    world.pass(gone_after);
    world.process().failing = Some(transient());
    world.cleanup();
    assert_eq!(world.coordinator().word(G), "uncertain");
    world.process().failing = None;
    world.cleanup();
    assert_eq!(world.calls(), ["set g", "delete g", "delete g"]);
    assert!(world.is_blank(), "{:?}", world.sizes());
}
