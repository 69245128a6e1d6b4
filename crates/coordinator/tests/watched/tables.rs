//! Nothing grows without a bound, and nothing stays.

use streamside_coordinator::Compat::{Kafka, Streamside};
use streamside_coordinator::{Config, Limits};

use crate::world::{G, World, config};

#[test]
fn b_tables_k24_an_hour_of_version_0_members() {
    let mut world = World::new(Streamside);
    for n in 0..1000 {
        world.start_as(&format!("m{n}"), &format!("g{n}"), "a", crate::world::topology("in"), 0);
    }
    let sizes = world.sizes();
    assert_eq!((sizes["watched groups"], sizes["watched members"], sizes["windows"]), (1000, 1000, 0));
    for _ in 0..12 {
        world.round();
        world.pass(30_000);
        world.sweep();
    }
    assert_eq!(world.sizes(), sizes);
    assert!(world.processes[0].journal.is_empty(), "nothing is held, nothing is kept");
}

#[test]
fn b_tables_k30_ten_thousand_groups_made_and_deleted() {
    let mut world = World::new(Streamside);
    for n in 0..10_000 {
        let (group, member) = (format!("g{n}"), format!("m{n}"));
        world.start(&member, &group, "a");
        // Every way to go: pushed and deleted, never pushed, behind our back, without a verdict.
        if n % 4 != 1 {
            world.push(&member);
        }
        world.leave(&member);
        match n % 4 {
            2 => world.delete_behind_our_back(&group),
            3 => {
                world.broker.describe_trouble = Some(15);
                assert_eq!(world.delete(&group), 0);
                world.broker.describe_trouble = None;
            }
            _ => assert_eq!(world.delete(&group), 0),
        }
    }
    let gone_after = world.coordinator().config().gone_after_ms;
    world.pass(gone_after);
    world.cleanup();
    world.sweep();
    assert!(world.is_blank(), "{:?}", world.sizes());
    assert!(world.processes[0].plugin.is_empty());
}

#[test]
fn b_tables_kafka_keeps_a_window_for_a_day() {
    let mut world = World::new(Kafka);
    world.start("m", G, "a");
    world.leave("m");
    assert_eq!(world.delete(G), 0);
    assert_eq!(world.sizes()["windows"], 1);
    world.pass(25 * 3_600_000);
    world.sweep();
    assert!(world.is_blank(), "{:?}", world.sizes());
}

#[test]
fn b_tables_bounds() {
    let limits = Limits { max_groups: 2, watched_members: 2, watched_tasks: 1, ..Limits::default() };
    let mut world = World::with(Config { limits, ..config(Streamside) });
    for n in 0..3 {
        assert_eq!(world.start(&format!("m{n}"), &format!("g{n}"), "a").asked, n < 2);
    }
    assert_eq!(world.limits_hit, ["groups"]);
    assert_eq!(world.sizes()["watched groups"], 2);
    world.start("x1", "g0", "a");
    world.start("x2", "g0", "a");
    assert_eq!(world.limits_hit, ["groups", "watched_members"]);
    assert_eq!(world.sizes()["watched members"], 3);
    assert_eq!(world.push("x2").0, 0, "a member beyond the bound is served by a question");

    let mut told = crate::world::request("g0", "m0", 1);
    let task = streamside_wire::messages::streams_group_heartbeat::TaskOffset::default();
    told.task_offsets = Some(vec![task.clone(), task]);
    let client = world.clients["m0"].clone();
    world.send(&told, &client);
    let reported = world.coordinator().watched().member("g0", "m0").unwrap().reported.clone().unwrap();
    assert_eq!(reported.offsets.len(), 1);

    let limits = Limits { watched_topology_bytes: 10, ..Limits::default() };
    let mut world = World::with(Config { limits, ..config(Streamside) });
    world.start("m", G, "a");
    assert!(world.coordinator().watched().coarse(G).is_none());
    world.look(G);
    assert!(world.coordinator().watched().coarse(G).is_none());
    assert_eq!(world.coordinator().word(G), "none");
}

#[test]
fn b_tables_members_that_fall_silent_go() {
    let mut world = World::stored(Streamside);
    world.start("n", G, "a");
    world.kill("n");
    for _ in 0..10 {
        world.round();
    }
    world.sweep();
    assert_eq!(world.sizes()["watched members"], 1);
    world.kill("m");
    world.pass(60_000);
    world.sweep();
    assert_eq!(world.sizes()["watched members"], 0);
    assert_eq!(world.sizes()["watched groups"], 1, "a copy is held");
}

#[test]
fn b_tables_other_modes_folder() {
    let mut world = World::stored(Streamside);
    let config = Config { membership: streamside_coordinator::Membership::Own, ..config(Streamside) };
    let now = streamside_coordinator::Now { at: world.now, jitter: 0 };
    let durables = || {
        let journal = &world.processes[0].journal;
        journal.iter().map(|(k, v)| streamside_coordinator::Durable::decode(k, v).unwrap()).collect::<Vec<_>>()
    };
    let own = streamside_coordinator::Coordinator::restore(config, now, durables());
    assert_eq!(own.each_group().count(), 0);
    // Marks alone, as an older folder has them.
    let marks = durables().into_iter().filter(|d| matches!(d, streamside_coordinator::Durable::Mark { .. }));
    let marks: Vec<_> = marks.collect();
    world.process().journal = marks.iter().map(|d| (d.key(), d.value().unwrap())).collect();
    world.restart(true);
    assert_eq!(world.served(G).as_deref(), Some("a"));
    world.round();
    world.round();
    assert_eq!(world.asks, 2, "nobody can tell whether it is the same group");
    assert_eq!(world.served(G).as_deref(), Some("a"));
    world.assert_quiet(3);
}

#[test]
fn b_tables_reload_keeps_what_the_broker_told() {
    let mut world = World::stored(Streamside);
    let connection = world.clients["m"].connection;
    world.beat("m");
    let described_at = world.coordinator().watched().view(G).unwrap().described_at;
    world.reload();
    assert_eq!(world.standing("m", G, connection), streamside_coordinator::Standing::Member);
    assert_eq!(world.coordinator().watched().view(G).unwrap().described_at, described_at, "the broker was not asked");
    world.assert_quiet(3);
    assert_eq!(world.served(G).as_deref(), Some("a"));
    // The commit that failed was a deletion's: the plugin is told all the same.
    world.leave("m");
    let journal = world.processes[0].journal.clone();
    world.delete_behind_our_back(G);
    world.pass(1);
    world.look(G);
    world.process().journal = journal;
    world.reload();
    world.cleanup();
    assert!(world.is_blank(), "{:?}", world.sizes());
    assert!(world.processes[0].plugin.is_empty());
}

#[test]
fn b_tables_any_answers_at_any_time() {
    use streamside_coordinator::Input;
    let mut dice = crate::dice::Dice::new(7);
    let limits = Limits { max_groups: 3, watched_members: 3, ..Limits::default() };
    let mut world = World::with(Config { limits, ..config(Streamside) });
    let start = world.now;
    let extremes = [i32::MIN, -2, -1, 0, 1, 2, 7, i32::MAX];
    for _ in 0..30_000 {
        let group = dice.pick(&["a", "b", "c", "d", ""]);
        let member = dice.pick(&["m", "n", "o", "p", ""]);
        let code = dice.pick(&[0, 0, 0, 14, 16, 25, 30, 69, 110, -1, i16::MIN]);
        let asked_at = dice.pick(&[i64::MIN, 0, world.now - 5, world.now, world.now + 5, i64::MAX]);
        match dice.below(4) {
            0 | 1 => {
                let mut request = crate::world::request(group, member, dice.pick(&extremes));
                request.topology = dice.chance(50).then(|| crate::world::topology_at(dice.pick(&extremes), "in"));
                let answer = streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatResponse {
                    error_code: code,
                    member_epoch: dice.pick(&extremes),
                    heartbeat_interval_ms: dice.pick(&extremes),
                    ..Default::default()
                };
                world.observe(&request, dice.pick(&[0, 1, i16::MAX]), &answer, 1);
            }
            2 => {
                let mut entry = world.broker.describe(start, group);
                entry.error_code = code;
                entry.group_epoch = dice.pick(&extremes);
                world.tell(&entry, asked_at, true);
            }
            _ => world.deleted(group, code, asked_at),
        }
        if dice.chance(2) {
            let standing = streamside_coordinator::Standing::Member;
            world.push_standing(member, group, dice.pick(&extremes), "a", standing);
        }
        if dice.chance(2) {
            world.now = dice.pick(&[start, start + 60_000, start + 1_000_000_000, i64::MAX / 4]);
            let (reply, _) = world.play(Input::Sweep);
            assert!(reply.is_some());
            world.cleanup();
        }
        let sizes = world.sizes();
        assert!(sizes["watched groups"] <= 3 && sizes["watched members"] <= 9, "{sizes:?}");
    }
}
