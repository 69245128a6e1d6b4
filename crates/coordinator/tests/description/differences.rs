//! Where Streamside differs from Kafka: H1-H12 of docs/differences.md, as far as they concern one shard.

use bytes::Bytes;
use streamside_coordinator::{Compat, Config, Coordinator, Input, Limits, Now, PluginFailure, Reply, Sensor};

use crate::world::{Answer, G, M, Step, World, description, encoded, permanent, transient};

fn ours(world: fn(Compat) -> World) -> World {
    world(Compat::Streamside)
}

/// Reads that find nothing.
fn lose(world: &mut World) -> i8 {
    world.status(Ok(None))
}

#[test]
fn h1_lost_copy_is_unmarked_and_asked_for_at_once() {
    for lost in [None, Some(Bytes::from_static(b"\xff"))] {
        let mut world = ours(World::stored);
        assert!(!world.beat(G, M).asked);
        assert_eq!(world.status(Ok(lost)), 1);
        assert_eq!(world.read(G), None);
        assert_eq!(world.logs_with(&["group=g", "lost"]), 1);
        assert!(world.beat(G, M).asked);
        assert_eq!(world.window(), Some(30_000));
        // The plugin may hold other things: a delete still calls it.
        world.leave(G, M);
        assert!(matches!(world.delete(G), Step::Called(_)));
    }
}

#[test]
fn h1_later_asks_follow_a_chain_that_a_push_does_not_reset() {
    let mut world = ours(World::stored);
    let mut waits = Vec::new();
    for round in 0..4 {
        assert_eq!(lose(&mut world), 1);
        let wait = world.window().unwrap();
        waits.push(wait);
        if round > 0 {
            assert!(!world.beat(G, M).asked, "round {round}");
        }
        world.pass(wait);
        assert!(world.beat(G, M).asked, "round {round}");
        world.store(G, M, "a");
    }
    assert_eq!(waits, [0, 30_000, 60_000, 120_000]);
}

#[test]
fn h1_a_good_read_resets_the_chain() {
    let mut world = ours(World::stored);
    lose(&mut world);
    assert!(world.beat(G, M).asked);
    world.store(G, M, "a");
    assert_eq!(world.status(Ok(Some(encoded("a")))), 3);
    assert_eq!(world.window(), None);
    lose(&mut world);
    assert!(world.beat(G, M).asked);
}

#[test]
fn h1_other_read_failures_change_nothing() {
    let failures = [transient(), permanent(), PluginFailure::Contract, PluginFailure::TimedOut];
    for failure in failures.into_iter().chain([PluginFailure::Busy, PluginFailure::Crashed, PluginFailure::Fatal]) {
        let mut world = ours(World::stored);
        assert_eq!(world.status(Err(failure)), 2);
        assert_eq!((world.durable, world.s()), (0, 0));
        assert!(!world.beat(G, M).asked);
    }
}

#[test]
fn h1_lost_read_of_an_older_mark_changes_nothing() {
    let mut world = ours(World::stored);
    let read = world.read(G).unwrap();
    world.store(G, M, "b");
    assert_eq!(world.got(read.token, Ok(None)).0, 1);
    assert_eq!(world.s(), 0);
}

#[test]
fn h1_lost_copy_is_pushed_again_with_a_call() {
    let mut world = ours(World::stored);
    lose(&mut world);
    assert!(matches!(world.push(G, M, "a"), Step::Called(_)));
}

fn listed(world: &mut World, entries: &[(&str, i32)]) {
    let entries = entries.iter().map(|(group, epoch)| ((*group).into(), *epoch)).collect();
    let (reply, _) = world.play(Input::PluginListed { entries });
    assert!(matches!(reply, Some(Reply::Done)));
}

#[test]
fn h1_what_the_plugin_does_not_list_is_unmarked() {
    for (entries, stays) in [(vec![(G, 0)], true), (vec![(G, 1), ("h", 0)], false), (vec![], false)] {
        let mut world = ours(World::stored);
        world.restart();
        listed(&mut world, &entries);
        assert_eq!(world.read(G).is_some(), stays);
        assert_eq!(world.beat(G, M).asked, !stays);
    }
    // What this instance confirmed itself is newer than the list.
    let mut world = ours(World::stored);
    listed(&mut world, &[]);
    assert_eq!(world.s(), 0);
    let mut world = World::stored(Compat::Kafka);
    world.restart();
    listed(&mut world, &[]);
    assert_eq!(world.s(), 0);
}

#[test]
fn h2_same_bytes_are_refused_again_at_once() {
    let mut world = ours(World::joined);
    let first = world.fail(G, M, "a", permanent());
    assert_eq!(world.push(G, M, "a").answer(), first);
    world.restart();
    assert_eq!(world.push(G, M, "a").answer(), first);
    assert_eq!(world.sensor(Sensor::SetError), 1);
    assert!(matches!(world.push(G, M, "b"), Step::Called(_)), "other bytes are tried");
}

#[test]
fn h2_refusal_ends_with_plugin_limits_and_incarnation() {
    let refused = || {
        let mut world = ours(World::joined);
        world.fail(G, M, "a", permanent());
        world.restart();
        assert!(!world.beat(G, M).asked);
        world
    };
    let mut world = refused();
    world.restart_with(Config { plugin: Some("other".to_owned()), ..Config::default() });
    assert!(world.beat(G, M).asked);
    let mut world = refused();
    let config = Config::default();
    let limits = Limits { description_max_nodes: 9, ..config.limits.clone() };
    world.restart_with(Config { limits, ..config });
    assert!(world.beat(G, M).asked);
    assert!(matches!(world.push(G, M, "a"), Step::Called(_)));
    let mut world = refused();
    world.leave(G, M);
    let call = world.delete(G).call();
    world.outcome(&call, Ok(()));
    assert!(world.join(G, M).asked);
}

#[test]
fn h2_retry_forgets_refusal_and_window() {
    let mut world = ours(World::joined);
    world.fail(G, M, "a", permanent());
    let (reply, _) = world.play(Input::Retry { group: G });
    assert!(matches!(reply, Some(Reply::Done)));
    assert_eq!(world.s_and_f(), (-2, -1));
    assert!(world.beat(G, M).asked);
    assert!(!world.beat(G, M).asked);
    world.play(Input::Retry { group: G });
    assert!(world.beat(G, M).asked);
}

#[test]
fn h3_timed_out_set_is_transient() {
    let mut world = ours(World::joined);
    let call = world.push(G, M, "a").call();
    let answer = world.outcome(&call, Err(PluginFailure::TimedOut)).answer();
    assert_eq!((answer.code, answer.reason), (135, Some("plugin_timeout")));
    assert!(answer.message.unwrap().starts_with("plugin_timeout"));
    assert_eq!((world.window(), world.s()), (Some(60_000), -2));
    assert_eq!(world.sensor(Sensor::SetError), 1);
}

#[test]
fn h3_timed_out_call_keeps_its_lane_busy() {
    let mut world = ours(World::joined);
    let call = world.push(G, M, "a").call();
    world.outcome(&call, Err(PluginFailure::TimedOut));
    let answer = world.push(G, M, "b").answer();
    assert_eq!((answer.code, answer.reason), (135, Some("plugin_busy")));
    assert!(answer.message.unwrap().starts_with("plugin_busy"));
    assert_eq!(world.durable, 0);
    world.late(&call, Err(PluginFailure::Crashed));
    assert!(matches!(world.push(G, M, "b"), Step::Called(_)), "free again");
}

#[test]
fn h3_late_success_that_is_the_newest_counts() {
    let mut world = ours(World::joined);
    let call = world.push(G, M, "a").call();
    world.outcome(&call, Err(PluginFailure::TimedOut));
    world.late(&call, Ok(()));
    assert_eq!(world.s(), 0);
    assert!(!world.beat(G, M).asked);
    assert_eq!(world.window(), None);
    assert_eq!(world.sizes()["operations"], 0);
}

#[test]
fn h3_late_refusal_counts_and_late_failure_does_not() {
    let mut world = ours(World::joined);
    let call = world.push(G, M, "a").call();
    world.outcome(&call, Err(PluginFailure::TimedOut));
    world.late(&call, Err(permanent()));
    assert_eq!(world.s_and_f(), (-2, 0));
    assert_eq!(world.window(), None);

    let mut world = ours(World::joined);
    let call = world.push(G, M, "a").call();
    world.outcome(&call, Err(PluginFailure::TimedOut));
    world.late(&call, Err(transient()));
    assert_eq!(world.window(), Some(60_000), "extended once");
}

#[test]
fn h3_late_outcome_after_delete_or_remake_is_ignored() {
    let mut world = ours(World::joined);
    let push = world.push(G, M, "a").call();
    world.outcome(&push, Err(PluginFailure::TimedOut));
    world.leave(G, M);
    let delete = world.delete(G).call();
    assert_eq!(world.outcome(&delete, Ok(())).code(), 0);
    world.late(&push, Ok(()));
    assert!(!world.exists(G));
    assert!(world.journal.is_empty());

    let mut world = ours(World::joined);
    let push = world.push(G, M, "a").call();
    world.outcome(&push, Err(PluginFailure::TimedOut));
    world.leave(G, M);
    let delete = world.delete(G).call();
    world.outcome(&delete, Ok(()));
    world.join(G, M);
    world.late(&push, Ok(()));
    assert_eq!((world.s(), world.durable), (-1, 0));
    world.late(&push, Ok(()));
}

#[test]
fn h3_older_success_during_a_newer_set_is_the_copy_to_serve() {
    let mut world = ours(World::joined);
    let older = world.push(G, M, "a").call();
    let newer = world.push(G, M, "b").call();
    assert_eq!(world.outcome(&older, Ok(())).code(), 0);
    assert_eq!(world.s(), -2);
    assert_eq!(world.status(Ok(Some(encoded("a")))), 3);
    world.outcome(&newer, Ok(()));
    assert_eq!(world.s(), 0);
    // The other way round the older one comes too late.
    let older = world.push(G, M, "c").call();
    let newer = world.push(G, M, "d").call();
    world.outcome(&newer, Ok(()));
    world.outcome(&older, Ok(()));
    let served = world.coordinator.mark(G).unwrap().served.unwrap();
    assert_eq!(served.hash, streamside_topology::hash_of_encoded(&encoded("d")));
}

#[test]
fn h3_call_that_was_not_made_leaves_the_mark_of_before() {
    let mut world = ours(World::stored);
    let before = world.coordinator.mark(G).cloned();
    let answer = world.fail(G, M, "b", PluginFailure::Busy);
    assert_eq!((answer.code, answer.reason), (135, Some("plugin_busy")));
    assert_eq!(world.coordinator.mark(G).cloned(), before);
    assert_eq!(world.sensor(Sensor::SetError), 0, "nothing was called");

    world.leave(G, M);
    let call = world.delete(G).call();
    assert_eq!(world.outcome(&call, Err(PluginFailure::Busy)).code(), 134);
    assert_eq!(world.coordinator.mark(G).cloned(), before);
    assert_eq!(world.status(Ok(Some(encoded("a")))), 3);
}

#[test]
fn h3_call_that_was_not_made_keeps_what_older_calls_came_to() {
    let mut world = ours(World::joined);
    let older = world.push(G, M, "a").call();
    let newer = world.push(G, M, "b").call();
    world.outcome(&older, Ok(()));
    world.outcome(&newer, Err(PluginFailure::Busy));
    assert_eq!(world.s(), 0);
    assert_eq!(world.status(Ok(Some(encoded("a")))), 3);
}

#[test]
fn h3_timed_out_delete_is_134_and_a_late_success_finalizes() {
    let mut world = ours(World::abandoned);
    let call = world.delete(G).call();
    assert_eq!(world.outcome(&call, Err(PluginFailure::TimedOut)).code(), 134);
    assert_eq!(world.s(), -2);
    assert_eq!(world.cleanup(), [], "its lane is taken");
    world.late(&call, Ok(()));
    assert!(world.exists(G), "the caller was told that it stays");
    assert_eq!(world.s(), -1);
    assert_eq!(world.delete(G).code(), 0, "without a call");
}

#[test]
fn h3_late_delete_after_a_newer_push_is_ignored() {
    let mut world = ours(World::abandoned);
    let delete = world.delete(G).call();
    world.join(G, M);
    let push = world.push(G, M, "b").call();
    world.outcome(&push, Ok(()));
    assert_eq!(world.outcome(&delete, Ok(())).code(), 68);
    assert_eq!(world.s(), 0);
    assert_eq!(world.status(Ok(Some(encoded("b")))), 3);
}

#[test]
fn h3_older_of_two_deletes_spares_a_group_that_was_pushed_between_them() {
    let mut world = ours(World::abandoned);
    let first = world.delete(G).call();
    world.join(G, M);
    let push = world.push(G, M, "b").call();
    world.leave(G, M);
    let second = world.delete(G).call();
    // The push's call comes after the first delete's: removing the group now would leave its copy behind.
    assert_eq!(world.outcome(&first, Ok(())).code(), 68);
    world.outcome(&push, Ok(()));
    assert_eq!(world.s(), -2);
    assert_eq!(world.outcome(&second, Ok(())).code(), 0);
    assert!(world.journal.is_empty());
}

#[test]
fn h3_sequences_grow_over_remakes_and_restarts() {
    let mut world = ours(World::joined);
    let mut last = 0;
    for _ in 0..3 {
        let set = world.push(G, M, "a").call();
        assert!(set.sequence > last);
        world.outcome(&set, Ok(()));
        world.leave(G, M);
        let delete = world.delete(G).call();
        assert!(delete.sequence > set.sequence);
        last = delete.sequence;
        world.outcome(&delete, Ok(()));
        world.pass(1);
        world.restart();
        world.join(G, M);
    }
}

#[test]
fn h3_crashed_plugin_is_transient() {
    let mut world = ours(World::joined);
    let answer = world.fail(G, M, "a", PluginFailure::Crashed);
    assert_eq!((answer.code, answer.reason), (135, Some("plugin_crashed")));
    assert_eq!(world.window(), Some(60_000));
}

#[test]
fn h3_wish_of_the_plugin_extends_the_window() {
    let mut world = ours(World::joined);
    let wish = |ms| PluginFailure::Transient { message: None, retry_after_ms: Some(ms) };
    world.fail(G, M, "a", wish(300_000));
    assert_eq!(world.window(), Some(300_000));
    world.fail(G, M, "a", wish(u64::MAX));
    assert_eq!(world.window(), Some(3_600_000), "no longer than the cap");
}

#[test]
fn h4_confirmed_bytes_cost_no_call() {
    let mut world = ours(World::stored);
    let answer = world.push(G, M, "a").answer();
    assert_eq!(answer, Answer { code: 0, message: None, reason: None });
    assert_eq!((world.durable, world.s()), (0, 0));
    assert!(matches!(world.push(G, M, "b"), Step::Called(_)), "other bytes are set");
}

#[test]
fn h4_another_plugin_instance_has_confirmed_nothing() {
    let mut world = ours(World::stored);
    world.restart();
    assert!(matches!(world.push(G, M, "a"), Step::Called(_)));
}

#[test]
fn h4_older_copy_stays_served_while_and_after_a_newer_one_is_set() {
    let mut world = ours(World::stored);
    let call = world.push(G, M, "b").call();
    assert_eq!(world.status(Ok(Some(encoded("a")))), 3, "the old one");
    assert_eq!(world.status(Ok(Some(encoded("b")))), 3, "or the one being set");
    assert_eq!(world.status(Ok(Some(encoded("c")))), 1, "nothing else");
    assert_eq!(world.status(Ok(None)), 1);
    assert_eq!(world.s(), -2);
    for failure in [transient(), permanent()] {
        world.outcome(&call, Err(failure));
        assert_eq!(world.status(Ok(Some(encoded("a")))), 3);
    }
    world.restart();
    assert_eq!(world.status(Ok(Some(encoded("a")))), 3);
}

#[test]
fn h4_delete_hides_both() {
    let mut world = ours(World::abandoned);
    world.delete(G).call();
    assert_eq!(world.read(G), None);
}

#[test]
fn h4_read_that_outlives_the_set_is_served() {
    let mut world = ours(World::stored);
    let call = world.push(G, M, "b").call();
    let read = world.read(G).unwrap();
    world.outcome(&call, Ok(()));
    assert_eq!(world.got(read.token, Ok(Some(encoded("a")))).0, 3);
    assert_eq!(world.got(read.token, Ok(Some(encoded("b")))).0, 3);
    assert_eq!(world.got(read.token, Ok(Some(encoded("c")))).0, 1);
}

#[test]
fn h5_each_plugin_failure_is_one_line() {
    let mut world = ours(World::joined);
    let hash: String =
        streamside_topology::hash_of_encoded(&encoded("a")).0.iter().map(|b| format!("{b:02x}")).collect();
    let hash = format!("hash={hash}");
    for (failure, reason) in [
        (transient(), "reason=plugin_transient"),
        (PluginFailure::Crashed, "reason=plugin_crashed"),
        (PluginFailure::Busy, "reason=plugin_busy"),
        (PluginFailure::Contract, "reason=plugin_contract"),
    ] {
        world.fail(G, M, "a", failure);
        assert_eq!(world.logs_with(&["group=g", "operation=set", reason, &hash]), 1, "{reason}");
    }
    world.leave(G, M);
    let call = world.delete(G).call();
    world.outcome(&call, Err(transient()));
    assert_eq!(world.logs_with(&["group=g", "operation=delete", "reason=plugin_transient"]), 1);
    // Kafka logs none of these.
    let mut world = World::joined(Compat::Kafka);
    world.fail(G, M, "a", transient());
    assert_eq!(world.logs_with(&["operation="]), 0);
}

#[test]
fn h5_client_text_stays_on_one_line() {
    let mut world = World::new(Compat::Streamside);
    let group = "evil\nINFO all is well\u{1b}[31m";
    world.join(group, M);
    world.fail(group, M, "a", transient());
    assert!(world.log.len() >= 2);
    assert_eq!(world.logs_with(&["\n"]) + world.logs_with(&["\u{1b}"]), 0);
}

#[test]
fn h6_another_member_is_asked_after_two_intervals() {
    let mut world = ours(World::joined);
    for member in ["m2", "m3", "m4"] {
        assert!(!world.join(G, member).asked);
    }
    world.pass(9_999);
    assert!(!world.beat(G, "m2").asked);
    world.pass(1);
    assert!(!world.beat(G, M).asked, "each once");
    assert!(!world.beat_in(G, "m2", 0).asked, "version 1 alone");
    assert!(world.beat(G, "m2").asked);
    assert_eq!(world.window(), Some(20_000), "the window is as it was");
    assert!(!world.beat(G, "m3").asked, "not both at once");
    world.pass(10_000);
    assert!(world.beat(G, "m3").asked);
    world.pass(9_999);
    assert!(!world.beat(G, "m4").asked, "three a window");
    world.pass(1);
    assert!(world.beat(G, "m4").asked, "the next window");
    assert_eq!(world.window(), Some(60_000));
    assert_eq!(world.logs_with(&["Requested topology description push"]), 4);
}

#[test]
fn h6_nobody_is_asked_while_a_push_is_under_way() {
    let mut world = ours(World::joined);
    world.join(G, "m2");
    let call = world.push(G, M, "a").call();
    world.pass(40_000);
    assert!(!world.beat(G, "m2").asked, "not even after the window");
    world.outcome(&call, Err(transient()));
    assert!(!world.beat(G, "m2").asked, "the window was extended");
    world.pass(10_000);
    assert!(!world.beat(G, "m2").asked, "a push arrived: Kafka's back-off");
    world.pass(50_000);
    assert!(world.beat(G, "m2").asked);
}

#[test]
fn h6_outcome_that_never_comes_does_not_silence_a_group() {
    let mut world = ours(World::joined);
    world.push(G, M, "a").call();
    world.pass(599_999);
    assert!(!world.beat(G, M).asked);
    world.pass(1);
    assert!(world.beat(G, M).asked);
}

#[test]
fn h6_kafka_waits_out_the_window() {
    let mut world = World::joined(Compat::Kafka);
    world.join(G, "m2");
    world.pass(29_999);
    assert!(!world.beat(G, "m2").asked);
}

#[test]
fn h7_a_broken_group_does_not_break_others() {
    let mut world = ours(World::stored);
    world.join("h", M);
    world.journal.retain(|key, _| !(key[..2] == 23_u16.to_be_bytes() && key.ends_with(b"h")));
    world.restart();
    assert_eq!(world.describe(G, true).0.error_code, 0);
    assert!(world.read(G).is_some());
}

fn limited(change: fn(&mut Limits)) -> World {
    let mut config = Config::default();
    change(&mut config.limits);
    let mut world = World::with(config);
    world.join(G, M);
    world
}

#[test]
fn h8_limits_on_a_description_below_at_and_above() {
    let bytes = encoded("a").len();
    type Set = fn(&mut Limits, usize);
    let limits: [(&str, usize, Set); 3] = [
        ("too_large", bytes, |limits, n| limits.description_max_bytes = n),
        ("too_many_nodes", 1, |limits, n| limits.description_max_nodes = n),
        ("name_too_long", 2, |limits, n| limits.description_max_name_bytes = n),
    ];
    for (word, at, set) in limits {
        for (limit, refused) in [(at + 1, false), (at, false), (at - 1, true)] {
            let mut config = Config::default();
            set(&mut config.limits, limit);
            let mut world = World::with(config);
            world.join(G, M);
            match world.push(G, M, "a") {
                Step::Called(_) => assert!(!refused, "{word} {limit}"),
                Step::Answered(answer) => {
                    assert!(refused, "{word} {limit}");
                    assert_eq!((answer.code, answer.reason), (135, Some(word)));
                    assert!(answer.message.unwrap().starts_with(word));
                    assert_eq!(world.limits_hit, [word]);
                }
                Step::Nothing => panic!("no answer"),
            }
        }
    }
}

#[test]
fn h8_verdict_is_kept_until_the_limit_changes() {
    let mut world = limited(|limits| limits.description_max_nodes = 0);
    assert_eq!(world.push(G, M, "a").code(), 135);
    assert_eq!(world.s_and_f(), (-1, 0));
    world.restart();
    assert!(!world.beat(G, M).asked);
    world.restart_with(Config::default());
    assert!(world.beat(G, M).asked);
    // Nothing reached the plugin, so a delete does not either.
    world.leave(G, M);
    assert_eq!(world.delete(G).code(), 0);
}

#[test]
fn h8_stored_copy_outlives_a_push_over_the_limit() {
    let mut world = limited(|limits| limits.description_max_nodes = 1);
    world.store(G, M, "a");
    let mut large = description("a");
    large.subtopologies.push(large.subtopologies[0].clone());
    assert_eq!(world.push_raw(G, M, 0, large).code(), 135);
    assert_eq!(world.status(Ok(Some(encoded("a")))), 3);
    // And when it is lost, it is asked for in spite of the verdict on the other bytes.
    lose(&mut world);
    assert!(world.beat(G, M).asked);
}

#[test]
fn h8_kafka_has_no_limits() {
    let mut config = Config { compat: Compat::Kafka, ..Config::default() };
    config.limits.description_max_nodes = 0;
    let mut world = World::with(config);
    world.join(G, M);
    assert!(matches!(world.push(G, M, "a"), Step::Called(_)));
}

#[test]
fn h11_window_ends_with_its_group() {
    let mut world = ours(World::joined);
    world.leave(G, M);
    assert_eq!(world.delete(G).code(), 0);
    assert_eq!(world.window(), None);
    assert!(world.join(G, M).asked);
    world.leave(G, M);
    world.sweep();
    assert!(!world.exists(G));
    assert_eq!(world.window(), None);
}

#[test]
fn h12_another_making_of_the_group_is_asked_once_and_costs_nothing() {
    use streamside_coordinator::{GroupFacts, HeartbeatFacts};
    let world = {
        let mut world = World::stored(Compat::Streamside);
        world.beat(G, M);
        world
    };
    let descriptions = world.coordinator.descriptions();
    let facts = |incarnation| HeartbeatFacts {
        group: GroupFacts { topology_epoch: 0, fingerprint: None, incarnation, guessed: false, empty: false },
        leaving: false,
        stale: false,
        error_code: 0,
        version: 1,
        begun: false,
    };
    let served = world.coordinator.mark(G).unwrap().served.unwrap();
    let now = Now { at: world.now, jitter: 0 };
    let config = world.config();
    assert!(descriptions.solicit(config, now, G, M, 5_000, &facts(served.incarnation)).is_none());
    assert!(descriptions.solicit(config, now, G, M, 5_000, &facts(served.incarnation + 1)).is_some());
}

#[test]
fn k30_groups_made_and_deleted_leave_every_table_as_it_was() {
    let mut world = World::new(Compat::Streamside);
    let empty = world.sizes();
    for i in 0..10_000 {
        let group = format!("group-{i}");
        world.join(&group, M);
        match i % 4 {
            0 => world.store(&group, M, "a"),
            1 => drop(world.fail(&group, M, "a", transient())),
            2 => drop(world.fail(&group, M, "a", permanent())),
            _ => {}
        }
        world.leave(&group, M);
        if i % 2 == 0 {
            match world.delete(&group) {
                Step::Called(call) => assert_eq!(world.outcome(&call, Ok(())).code(), 0),
                step => assert_eq!(step.code(), 0),
            }
        }
    }
    for call in world.cleanup() {
        world.outcome(&call, Ok(()));
    }
    world.sweep();
    assert_eq!(world.sizes(), empty);
    assert!(world.journal.is_empty());
}

#[test]
fn k30_in_kafkas_rules_windows_of_gone_groups_end_a_day_later() {
    let mut world = World::joined(Compat::Kafka);
    world.leave(G, M);
    world.sweep();
    assert!(!world.exists(G));
    assert!(world.window().is_some());
    world.pass(30_000 + 24 * 3_600_000 - 1);
    world.sweep();
    assert!(world.window().is_some());
    world.pass(1);
    world.sweep();
    assert_eq!(world.window(), None);
}

#[test]
fn changes_of_the_accepted_description_are_told() {
    let mut world = ours(World::stored);
    assert_eq!(world.changed, [G]);
    world.push(G, M, "a");
    world.store(G, M, "b");
    assert_eq!(world.changed, [G, G]);
}

#[test]
fn statistics_follow_the_marks() {
    let mut world = World::new(Compat::Streamside);
    for (group, failure) in [("full", None), ("refused", Some(permanent())), ("uncertain", Some(transient()))] {
        world.join(group, M);
        let call = world.push(group, M, "a").call();
        world.outcome(&call, failure.map_or(Ok(()), Err));
    }
    world.join("none", M);
    world.join("none", "m2");
    let stats = world.coordinator.stats();
    assert_eq!((stats.full, stats.refused, stats.uncertain, stats.none, stats.members), (1, 1, 1, 1, 5));
    assert_eq!(Coordinator::new(Config::default()).stats(), streamside_coordinator::coordinator::Stats::default());
}
