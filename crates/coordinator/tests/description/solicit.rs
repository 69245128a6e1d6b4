//! Solicitation: spec kip1331 §§3.1-3.3.

use streamside_coordinator::description::Window;
use streamside_coordinator::description::backoff::delay;
use streamside_coordinator::{Compat, Config, LogLine, Now};

use crate::world::{BOTH, G, M, World, description, join_request, permanent, request, transient};

const LINE: &str = "[GroupId g] Requested topology description push at topology epoch 0.";

#[test]
fn k3_1_first_join_can_ask_and_asks_at_the_epoch_it_brings() {
    for compat in BOTH {
        let mut world = World::new(compat);
        let beat = world.heartbeat(&join_request(G, M, 7), 1);
        assert_eq!((beat.error, beat.asked), (0, true));
        assert_eq!(world.coordinator.descriptions().window(G).unwrap().epoch, 7);
    }
}

#[test]
fn k3_1_without_plugin_nothing_is_scheduled() {
    let mut world = World::with(Config { plugin: None, ..Config::default() });
    world.join(G, M);
    assert_eq!(world.sizes()["windows"], 0);
    assert!(world.log.is_empty());
}

#[test]
fn k3_2_row_1_no_plugin_is_quiet() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        world.restart_with(Config { plugin: None, compat, ..Config::default() });
        assert_eq!(world.s(), 0);
        assert!(!world.join(G, "m2").asked);
        assert_eq!(world.window(), None);
    }
}

#[test]
fn k3_2_row_2_version_0_is_quiet_and_arms_nothing() {
    for compat in BOTH {
        let mut world = World::new(compat);
        assert!(!world.heartbeat(&join_request(G, M, 0), 0).asked);
        assert_eq!(world.window(), None);
        assert!(world.beat(G, M).asked);
    }
}

#[test]
fn k3_2_row_3_leaving_member_is_not_asked() {
    for compat in BOTH {
        let mut world = World::new(compat);
        world.heartbeat(&join_request(G, M, 0), 0);
        world.heartbeat(&join_request(G, "m2", 0), 0);
        let static_join = |member| {
            let mut request = join_request(G, member, 0);
            request.instance_id = Some("i".into());
            request
        };
        world.heartbeat(&static_join("m3"), 0);
        let mut away = request(G, "m3", -2);
        away.instance_id = Some("i".into());
        assert_eq!(world.heartbeat(&away, 1), crate::world::Beat { asked: false, ..quiet() });
        assert_eq!(world.leave(G, "m2"), quiet());
        assert_eq!(world.window(), None);
    }
}

fn quiet() -> crate::world::Beat {
    crate::world::Beat { asked: false, error: 0, message: None, statuses: Vec::new() }
}

#[test]
fn k3_2_row_4_error_is_quiet() {
    for compat in BOTH {
        let mut world = World::new(compat);
        world.heartbeat(&join_request(G, M, 0), 0);
        let fenced = world.heartbeat(&request(G, M, 99), 1);
        assert_eq!((fenced.error, fenced.asked), (110, false));
        assert_eq!(world.window(), None);
        assert_eq!((world.durable, world.volatile), (0, 0), "a failed heartbeat leaves no trace");
    }
}

#[test]
fn k3_2_row_5_no_topology_epoch_is_quiet() {
    for compat in BOTH {
        let mut world = World::new(compat);
        assert!(!world.heartbeat(&join_request(G, M, -1), 1).asked);
        assert_eq!(world.window(), None);
    }
}

#[test]
fn k3_2_row_6_stored_epoch_is_quiet() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        assert!(!world.beat(G, M).asked);
        assert!(!world.join(G, "m2").asked);
        assert_eq!(world.window(), None);
    }
}

#[test]
fn k3_2_row_6_uncertain_counts_as_not_stored() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", transient());
        assert_eq!(world.s(), -2);
        world.pass(world.window().unwrap());
        assert!(world.beat(G, M).asked);
    }
}

#[test]
fn k3_2_row_7_refused_epoch_is_quiet_for_ever() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", permanent());
        assert_eq!(world.window(), None);
        assert!(!world.beat(G, M).asked);
        world.restart();
        world.pass(44_000);
        assert!(!world.beat(G, M).asked);
        assert!(!world.join(G, "m2").asked);
    }
}

#[test]
fn k3_2_row_8_stale_member_is_not_asked() {
    for compat in BOTH {
        let mut world = World::new(compat);
        world.heartbeat(&join_request(G, M, 5), 0);
        let stale = world.heartbeat(&join_request(G, "m2", 4), 1);
        assert!(stale.statuses.contains(&0), "{stale:?}");
        assert!(!stale.asked);
        assert_eq!(world.window(), None);
    }
}

#[test]
fn k3_2_row_8_other_statuses_do_not_suppress() {
    for compat in BOTH {
        let mut world = World::new(compat);
        let beat = world.join(G, M);
        assert!(beat.statuses.contains(&1), "missing source topics: {beat:?}");
        assert!(beat.asked);
    }
}

#[test]
fn k3_2_row_9_running_window_is_quiet() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.pass(4_000);
        assert!(!world.beat(G, M).asked);
        assert!(!world.join(G, "m2").asked);
        world.pass(25_999);
        assert!(!world.beat(G, M).asked);
        world.pass(1);
        assert!(world.beat(G, M).asked);
    }
}

#[test]
fn k3_2_row_10_asks_arms_and_logs() {
    for compat in BOTH {
        let mut world = World::new(compat);
        world.heartbeat(&join_request(G, M, 0), 0);
        assert!(world.log.is_empty());
        assert!(world.beat(G, M).asked, "a later heartbeat qualifies as a join does");
        assert_eq!(world.window(), Some(30_000));
        assert_eq!(world.log, [LogLine::Info(LINE.to_owned())]);
    }
}

#[test]
fn k3_2_any_member_is_asked_one_a_window() {
    for compat in BOTH {
        let mut world = World::new(compat);
        assert!(world.join(G, M).asked);
        assert!(!world.join(G, "m2").asked);
        assert!(!world.join(G, "m3").asked);
        world.pass(30_000);
        assert!(world.beat(G, "m3").asked);
        assert!(!world.beat(G, M).asked);
    }
}

#[test]
fn k3_3_delays() {
    let none = u32::MAX / 2 + 1;
    let bases = [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600];
    for (n, base) in (0..).zip(bases) {
        assert_eq!(delay(n, none), base * 1000, "attempt {n}");
        assert_eq!(delay(n, 0), base * 800, "attempt {n}, lowest");
        let highest = delay(n, u32::MAX);
        assert_eq!(highest, if n >= 7 { 3_600_000 } else { base * 1200 - 1 }, "attempt {n}, highest");
    }
    assert_eq!(delay(u32::MAX, u32::MAX), 3_600_000);
}

fn at(at: i64) -> Now {
    Now { at, jitter: u32::MAX / 2 + 1 }
}

fn armed(epoch: i32, now: Now) -> Window {
    Window::armed(None, epoch, M.into(), now)
}

#[test]
fn k3_3_is_active() {
    let window = armed(3, at(0));
    assert!(window.is_active(3, 29_999));
    assert!(!window.is_active(3, 30_000));
    assert!(!window.is_active(4, 0));
}

#[test]
fn k3_3_arm_if_not_active() {
    let first = armed(3, at(0));
    assert_eq!((first.arms, first.until), (1, 30_000));
    let second = Window::armed(Some(&first), 3, M.into(), at(50_000));
    assert_eq!((second.arms, second.until), (2, 110_000));
    let other_epoch = Window::armed(Some(&second), 4, M.into(), at(50_000));
    assert_eq!((other_epoch.arms, other_epoch.until), (1, 80_000));
}

#[test]
fn k3_3_arm_or_extend() {
    let first = armed(3, at(0));
    assert_eq!(Window::extended(Some(&first), 2, at(1), None), None, "an entry of a newer epoch stays");
    let extended = Window::extended(Some(&first), 3, at(10_000), None).unwrap();
    assert_eq!((extended.arms, extended.until), (2, 70_000), "even while active");
    let newer = Window::extended(Some(&first), 4, at(10_000), None).unwrap();
    assert_eq!((newer.epoch, newer.arms, newer.until), (4, 1, 40_000));
    let fresh = Window::extended(None, 0, at(0), None).unwrap();
    assert_eq!((fresh.arms, fresh.until), (1, 30_000));
}

#[test]
fn k3_3_clear_is_for_its_epoch() {
    for compat in BOTH {
        // An outcome at the window's epoch ends it; a rejected push does not.
        let mut world = World::joined(compat);
        world.store(G, M, "a");
        assert_eq!(world.window(), None);
    }
}

#[test]
fn k3_3_clear_group_is_unconditional() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let call = world.push(G, M, "a").call();
        world.leave(G, M);
        let delete = world.delete(G).call();
        assert_eq!(world.outcome(&delete, Ok(())).code(), 0);
        assert_eq!(world.window(), None);
        assert_eq!(world.outcome(&call, Ok(())).code(), 69);
    }
}

#[test]
fn k3_3_two_heartbeats_at_once_ask_once() {
    for compat in BOTH {
        let mut world = World::new(compat);
        let asked = [M, "m2"].map(|member| world.join(G, member).asked);
        assert_eq!(asked, [true, false]);
    }
}

#[test]
fn k3_3_unanswered_asking_grows_the_chain() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = world.window().unwrap();
            waits.push(wait / 1000);
            // Members stay alive meanwhile.
            let mut left = wait;
            while left > 0 {
                let step = left.min(40_000);
                world.pass(step);
                left -= step;
                assert_eq!(world.beat(G, M).asked, left == 0);
            }
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
    }
}

#[test]
fn k3_3_transient_failure_doubles_the_window() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.pass(5_000);
        world.fail(G, M, "a", transient());
        assert_eq!(world.window(), Some(60_000));
    }
}

#[test]
fn k3_3_success_and_refusal_end_the_window() {
    for compat in BOTH {
        for result in [Ok(()), Err(permanent())] {
            let mut world = World::joined(compat);
            let call = world.push(G, M, "a").call();
            world.outcome(&call, result);
            assert_eq!(world.window(), None);
        }
    }
}

#[test]
fn k3_3_rejected_push_leaves_the_window() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.pass(1_000);
        assert_eq!(world.push(G, "nobody", "a").code(), 25);
        assert_eq!(world.push_raw(G, M, 1, description("a")).code(), 42);
        let mut odd = description("a");
        odd.subtopologies[0].nodes[0].node_type = 9;
        assert_eq!(world.push_raw(G, M, 0, odd).code(), 42);
        assert_eq!((world.durable, world.volatile), (0, 0));
        assert_eq!(world.window(), Some(29_000));
    }
}

#[test]
fn k3_3_other_epoch_replaces_the_entry() {
    let old = armed(0, at(0));
    assert!(!old.is_active(1, 1));
    let new = Window::armed(Some(&old), 1, M.into(), at(1));
    assert_eq!((new.epoch, new.arms, new.until), (1, 1, 30_001));
}

#[test]
fn k3_3_late_callback_of_an_old_epoch_changes_nothing() {
    let newer = armed(5, at(0));
    assert_eq!(Window::extended(Some(&newer), 4, at(1), None), None);
}

#[test]
fn k3_3_restart_forgets_windows() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        assert!(!world.beat(G, M).asked);
        world.restart();
        assert!(world.beat(G, M).asked);
        assert_eq!(world.window(), Some(30_000));
    }
}

#[test]
fn k3_3_window_of_an_unpushed_group_outlives_it_in_kafka() {
    let mut world = World::joined(Compat::Kafka);
    world.leave(G, M);
    assert_eq!(world.delete(G).code(), 0);
    assert!(!world.join(G, M).asked);
    world.pass(30_000);
    assert!(world.beat(G, M).asked);
    assert_eq!(world.window(), Some(60_000), "the chain goes on");
}

#[test]
fn k3_3_expiry_after_a_plugin_delete_ends_the_window() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.fail(G, M, "a", transient());
        world.leave(G, M);
        let calls = world.cleanup();
        assert!(world.window().is_some());
        world.outcome(&calls[0], Ok(()));
        assert_eq!(world.window(), None);
    }
}
