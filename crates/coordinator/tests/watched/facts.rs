//! What answers tell, and what they do not.

use streamside_coordinator::Compat::{Kafka, Streamside};
use streamside_wire::messages::streams_group_heartbeat::TaskOffset;

use crate::world::{G, World, request, topology_at};

#[test]
fn b_epoch_k22_the_join_that_brings_it_is_asked_at_it() {
    let mut world = World::new(Streamside);
    assert!(world.start_as("m", G, "a", topology_at(1, "in"), 1).asked);
    let line = format!("[GroupId {G}] Requested topology description push at topology epoch 1.");
    assert!(world.log.contains(&streamside_coordinator::LogLine::Info(line)));
    assert_eq!(world.push("m").0, 0);
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_epoch_a_stale_join_tells_nothing() {
    let mut world = World::new(Streamside);
    world.start_as("m", G, "a", topology_at(3, "in"), 1);
    world.round();
    assert!(!world.start_as("old", G, "old", topology_at(2, "in"), 1).asked);
    assert_eq!(world.coordinator().watched().view(G).unwrap().topology_epoch, Some(3));
    world.assert_quiet(3);
}

#[test]
fn b_epoch_neither_join_nor_describe_tells_it() {
    let mut world = World::stored(Streamside);
    world.restart(false);
    world.broker.hides_topology = true;
    world.assert_quiet(4);
    assert_eq!(world.questions, 1, "it is not asked for again and again");
    assert_eq!(world.push("m").1.unwrap().split(':').next(), Some("not_verified"));
    // A join does.
    assert!(world.start("n", G, "a").asked);
}

#[test]
fn b_epoch_kept_over_a_restart_where_describes_lack_it() {
    let mut world = World::stored(Streamside);
    world.broker.hides_topology = true;
    world.restart(true);
    world.assert_quiet(4);
    world.broker.hides_topology = false;
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_silence_k21_loading_moved_and_forbidden_change_nothing() {
    let mut world = World::stored(Streamside);
    let before = format!("{:?}", world.coordinator().watched().view(G));
    for code in [14, 15, 16, 30, 29, -1, 35] {
        world.broker.describe_trouble = Some(code);
        assert_eq!(world.describe(G), (0, None));
    }
    assert_eq!(format!("{:?}", world.coordinator().watched().view(G)), before);
    world.broker.describe_trouble = None;
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_question_is_repeated_ever_more_slowly() {
    let mut world = World::stored(Streamside);
    world.restart(false);
    world.broker.describe_trouble = Some(14);
    let mut at = Vec::new();
    for n in 0..130 {
        let before = world.questions;
        world.round();
        if world.questions > before {
            at.push(n);
        }
    }
    assert_eq!(at, [0, 1, 3, 7, 15, 31, 63, 123], "5 s, doubled, up to 300 s");
    world.broker.describe_trouble = None;
    for _ in 0..60 {
        world.round();
    }
    assert_eq!(world.served(G).as_deref(), Some("a"));
    assert_eq!(world.asks, 2);
}

#[test]
fn b_quiet_k25_leaving_members_are_not_asked() {
    let mut world = World::new(Streamside);
    world.start("m", G, "a");
    world.client("m").willing = false;
    world.start("n", G, "a");
    world.pass(3_600_000);
    for epoch in [-1, -2] {
        let client = world.clients["n"].clone();
        let beat = world.send(&request(G, "n", epoch), &client);
        assert!(!beat.asked && !beat.described);
    }
}

#[test]
fn b_quiet_without_a_plugin_nothing_is_asked() {
    let config = streamside_coordinator::Config { plugin: None, ..crate::world::config(Streamside) };
    let mut world = World::with(config);
    assert!(!world.start("m", G, "a").asked);
    world.restart(true);
    world.assert_quiet(2);
    assert_eq!((world.asks, world.questions), (0, 0));
    assert_eq!(world.describe(G), (1, None));
    assert_eq!(world.coordinator().word(G), "coarse", "the heartbeat's own topology is known all the same");
}

#[test]
fn b_quiet_version_0_members_are_coarse_and_nobody_is_asked() {
    let mut world = World::new(Streamside);
    world.start_as("m", G, "a", crate::world::topology("in"), 0);
    world.round();
    assert_eq!((world.asks, world.questions), (0, 0));
    assert_eq!(world.describe(G), (1, None), "the wire says NOT_STORED");
    let watched = world.coordinator().watched();
    assert!(watched.only_version_0(G));
    assert_eq!(watched.coarse(G).unwrap().subtopologies[0].source_topics, ["in"]);
    assert_eq!(world.coordinator().stats().coarse, 1);
    world.start("n", G, "a");
    assert!(!world.coordinator().watched().only_version_0(G));
}

#[test]
fn b_member_k34_fenced_member_that_joins_again_is_the_same() {
    let mut world = World::stored(Streamside);
    let mut told = request(G, "m", 1);
    told.task_offsets = Some(vec![TaskOffset { subtopology_id: "0".into(), offset: 7, ..TaskOffset::default() }]);
    let client = world.clients["m"].clone();
    world.send(&told, &client);
    assert_eq!(world.coordinator().watched().task_reports(G)[0].offset, Some(7));
    world.broker.heartbeat_trouble = Some(110);
    assert_eq!(world.beat("m").error, 110);
    world.broker.heartbeat_trouble = None;
    assert_eq!(world.clients["m"].epoch, 0);
    assert!(!world.beat("m").asked, "the same member of the same group");
    assert_eq!(world.coordinator().watched().members(G).count(), 1);
    assert!(world.coordinator().watched().task_reports(G).is_empty(), "a join clears what was reported");
    world.assert_quiet(3);
}

#[test]
fn b_member_offsets_belong_to_process_and_task_and_the_newest_wins() {
    let mut world = World::stored(Streamside);
    world.start("n", G, "a");
    let task =
        |partition, offset| TaskOffset { subtopology_id: "0".into(), partition, offset, ..TaskOffset::default() };
    let send = |world: &mut World, member: &str, offsets, ends| {
        let mut told = request(G, member, 2);
        (told.task_offsets, told.task_end_offsets) = (offsets, ends);
        let client = world.clients[member].clone();
        world.pass(10);
        world.send(&told, &client);
    };
    send(&mut world, "m", Some(vec![task(0, 5), task(1, 6)]), Some(vec![task(0, 4)]));
    send(&mut world, "n", Some(vec![task(0, 50)]), None);
    let told = |world: &World| {
        let reports = world.coordinator().watched().task_reports(G);
        reports.into_iter().map(|r| (r.process.to_string(), r.partition, r.offset, r.end)).collect::<Vec<_>>()
    };
    let (pm, pn) = ("p-m".to_owned(), "p-n".to_owned());
    assert_eq!(
        told(&world),
        [(pm.clone(), 0, Some(5), Some(4)), (pm.clone(), 1, Some(6), None), (pn.clone(), 0, Some(50), None)]
    );
    // Null says unchanged, empty says nothing left.
    send(&mut world, "m", None, Some(vec![]));
    assert_eq!(told(&world)[0], (pm, 0, Some(5), None));
    send(&mut world, "m", Some(vec![]), None);
    assert_eq!(told(&world), [(pn, 0, Some(50), None)]);
}

#[test]
fn b_member_session_that_ended_makes_a_join_another_group() {
    let mut world = World::stored(Streamside);
    world.kill("m");
    world.pass(20_000);
    assert!(!world.start("n", G, "a").asked, "a live member is known: it may only be slow");
    let mut world = World::stored(Streamside);
    world.kill("m");
    world.pass(50_000);
    assert!(world.start("n", G, "a").asked, "nobody lives who could have kept the group");
}

#[test]
fn b_member_heartbeat_that_says_gone_is_looked_into() {
    let mut world = World::stored(Streamside);
    world.broker.groups.clear();
    let beat = world.beat("m");
    assert_eq!((beat.error, beat.described), (69, true));
    assert_eq!(world.coordinator().word(G), "uncertain", "the describe said 69 too");
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("a"));
    assert_eq!(world.asks, 2);
}

#[test]
fn b_describe_needs_the_topology_that_the_mark_is_for() {
    for compat in [Streamside, Kafka] {
        let mut world = World::stored(compat);
        world.broker.hides_topology = true;
        assert_eq!(world.describe(G), (1, None), "without a topology NOT_STORED");
        world.broker.hides_topology = false;
        world.broker.groups.get_mut(G).unwrap().topology.epoch = 1;
        assert_eq!(world.describe(G), (1, None), "another epoch");
    }
    let mut world = World::stored(Streamside);
    let entry = world.broker.describe(world.now, G);
    let now = world.now;
    assert_eq!(world.tell(&entry, now, false), (0, None), "not requested");
    assert_eq!(world.tell(&entry, now, true).0, 3);
}
