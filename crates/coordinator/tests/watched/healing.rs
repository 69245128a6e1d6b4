//! A group that changes where we do not look: the right description is served again within two heartbeat intervals, and
//! nobody is asked in vain.

use streamside_coordinator::Compat::{self, Kafka, Streamside};

use crate::world::{G, World, topology};

#[test]
fn b_healing_deleted_and_made_again_through_us() {
    let mut world = World::abandoned(Streamside);
    assert_eq!(world.delete(G), 0);
    assert_eq!(world.served(G), None);
    assert!(world.is_blank(), "{:?}", world.sizes());
    assert!(world.start("n", G, "b").asked, "at once");
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("b"));
    assert_eq!(world.calls(), ["set g", "delete g", "set g"]);
    assert_eq!(world.asks, 2);
    world.assert_quiet(3);
}

#[test]
fn b_healing_deleted_and_made_again_behind_our_back() {
    let mut world = World::abandoned(Streamside);
    world.delete_behind_our_back(G);
    // The same assignment topology, another graph: only the join can tell.
    assert!(world.start("n", G, "b").asked);
    assert_eq!(world.served(G).as_deref(), Some("a"), "the old copy stays served meanwhile (H12)");
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("b"));
    assert_eq!(world.asks, 2);
    world.assert_quiet(3);
}

#[test]
fn b_healing_made_again_while_a_describe_looks() {
    let mut world = World::abandoned(Streamside);
    world.delete_behind_our_back(G);
    world.pass(1);
    assert_eq!(world.served(G), None, "the broker has no such group");
    assert!(world.start("n", G, "b").asked);
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("b"));
    // The copy of before was owed a delete; the new one is over it.
    world.cleanup();
    assert_eq!(world.served(G).as_deref(), Some("b"));
    assert_eq!(world.calls(), ["set g", "set g"]);
}

#[test]
fn b_healing_lower_group_epoch_is_another_group() {
    let mut world = World::stored(Streamside);
    for n in 0..5 {
        world.start(&format!("x{n}"), G, "a");
    }
    world.round();
    // All of it goes and comes again where we do not look, under the same member ids.
    world.broker.groups.clear();
    let lone = world.clients["m"].clone();
    world.clients.retain(|id, _| id == "m");
    world.client("m").description = "b".to_owned();
    let mut join = crate::world::request(G, "m", 0);
    join.topology = Some(lone.topology.clone());
    world.broker.heartbeat(world.now, &join);
    world.client("m").epoch = 1;
    assert!(!world.beat("m").asked, "never from a heartbeat epoch alone");
    world.pass(1);
    assert_eq!(world.served(G).as_deref(), Some("a"), "a copy that fits stays served meanwhile");
    assert!(world.beat("m").asked, "the describe told a lower group epoch");
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("b"));
    world.assert_quiet(3);
}

#[test]
fn b_healing_entry_from_before_what_is_known_says_nothing() {
    let mut world = World::stored(Streamside);
    let asked_at = world.now;
    let old = world.broker.describe(world.now, G);
    world.pass(5);
    world.start("n", G, "a");
    // The answer arrives late: its group epoch is below the known one, but it was asked before.
    world.tell(&old, asked_at, false);
    world.assert_quiet(3);
}

#[test]
fn b_healing_changed_topology_at_the_same_epoch() {
    for compat in [Streamside, Kafka] {
        let mut world = World::abandoned(compat);
        world.delete_behind_our_back(G);
        let beat = world.start_as("n", G, "b", topology("other"), 1);
        let asked = compat == Streamside;
        assert_eq!(beat.asked, asked, "kafka knows epochs alone");
        assert_eq!(world.served(G).is_none(), asked, "a copy that does not fit is not shown");
        world.round();
        assert_eq!(world.served(G).as_deref(), Some(if asked { "b" } else { "a" }));
        world.assert_quiet(3);
    }
}

#[test]
fn b_healing_k20_coordinator_that_moves_inside_one_gateway_changes_nothing() {
    let mut world = World::stored(Streamside);
    for code in [16, 15, 14] {
        world.broker.heartbeat_trouble = Some(code);
        assert_eq!(world.beat("m").error, code);
    }
    world.broker.heartbeat_trouble = None;
    // The client finds the coordinator behind another connection.
    world.client("m").connection = 99;
    world.assert_quiet(4);
    assert_eq!(world.questions, 0);
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_healing_coordinator_that_moves_between_processes() {
    let mut world = World::stored(Streamside);
    world.move_to(1);
    assert_eq!(world.served(G), None);
    let beat = world.beat("m");
    assert!(beat.described && !beat.asked, "E is not known yet");
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("a"), "within two intervals");
    assert_eq!((world.questions, world.asks), (1, 2));
    world.assert_quiet(3);

    // Back again after a while: looked at once more, and nobody is asked in vain.
    for _ in 0..12 {
        world.round();
    }
    world.move_to(0);
    world.assert_quiet(3);
    assert_eq!(world.questions, 2);
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_healing_restart_with_the_data_folder() {
    for compat in [Streamside, Kafka] {
        let mut world = World::stored(compat);
        world.restart(true);
        assert_eq!(world.served(G).as_deref(), Some("a"), "before any heartbeat");
        world.restart(true);
        let beat = world.beat("m");
        assert!(beat.described && !beat.asked, "{compat:?}");
        world.assert_quiet(3);
        assert_eq!(world.questions, 1);
        assert_eq!(world.served(G).as_deref(), Some("a"));
    }
}

#[test]
fn b_healing_restart_with_the_folder_and_none_of_the_members() {
    for (others, asks) in [(0, 2), (1, 1)] {
        let mut world = World::stored(Streamside);
        world.start("stays", G, "a");
        world.round();
        // While we are down the group is deleted and made again, with the same assignment topology.
        if others == 0 {
            world.broker.groups.remove(G);
            world.clients.clear();
        } else {
            world.broker.groups.get_mut(G).unwrap().members.remove("m");
            world.clients.remove("m");
        }
        for n in 0..9 {
            let member = format!("n{n}");
            let mut join = crate::world::request(G, &member, 0);
            join.topology = Some(topology("in"));
            let epoch = world.broker.heartbeat(world.now, &join).member_epoch;
            let client =
                crate::world::Client { epoch, ..crate::world::Client::new(G, if others == 0 { "b" } else { "a" }) };
            world.clients.insert(member, client);
        }
        world.restart(true);
        world.round();
        world.round();
        assert_eq!(world.asks, asks, "who of the members is still there proves that it is the same group");
        assert_eq!(world.served(G).as_deref(), Some(if others == 0 { "b" } else { "a" }));
        world.assert_quiet(3);
    }
}

#[test]
fn b_healing_restart_with_the_folder_while_the_group_changed() {
    let mut world = World::stored(Streamside);
    world.leave("m");
    world.delete_behind_our_back(G);
    let mut join = crate::world::request(G, "n", 0);
    join.topology = Some(topology("other"));
    world.broker.heartbeat(world.now, &join);
    world.restart(true);
    // A steady member of a group with another topology.
    world.start_as("n", G, "b", topology("other"), 1);
    world.restart(true);
    world.client("n").epoch = 1;
    world.round();
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("b"));
}

#[test]
fn b_healing_restart_without_the_data_folder() {
    for compat in [Streamside, Kafka] {
        let mut world = World::stored(compat);
        world.restart(false);
        assert_eq!(world.served(G), None);
        world.round();
        world.round();
        assert_eq!(world.served(G).as_deref(), Some("a"), "{compat:?}");
        assert_eq!(world.asks, 2);
        world.assert_quiet(3);
    }
}

#[test]
fn b_healing_classic_group_takes_over_the_name() {
    let mut world = World::abandoned(Streamside);
    world.delete_behind_our_back(G);
    world.broker.classic.push(G.to_owned());
    world.pass(1);
    assert_eq!(world.describe(G), (0, None), "an entry with an error shows nothing");
    assert_eq!(world.coordinator().word(G), "uncertain", "a delete is owed");
    world.cleanup();
    assert_eq!(world.calls(), ["set g", "delete g"]);
    assert!(world.is_blank(), "{:?}", world.sizes());
    // And streams again.
    assert!(world.start("n", G, "b").asked);
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("b"));
}

#[test]
fn b_healing_k23_one_of_three_then_none_then_one() {
    let mut world = World::new(Streamside);
    let asked =
        |world: &mut World, members: &[&str]| members.iter().filter(|member| world.start(member, G, "a").asked).count();
    assert_eq!(asked(&mut world, &["m1", "m2", "m3"]), 1, "one of three that join at once");
    world.round();
    world.leave("m1");
    assert_eq!(asked(&mut world, &["m1b"]), 0, "a mere restart");
    world.round();
    for member in ["m1b", "m2", "m3"] {
        world.leave(member);
    }
    assert_eq!(world.delete(G), 0);
    assert_eq!(asked(&mut world, &["n1", "n2", "n3"]), 1, "deleted and made again");
}

#[test]
fn b_healing_same_bytes_again_cost_nothing() {
    let mut world = World::abandoned(Streamside);
    // The application stops and starts: it may be another group of this name.
    assert!(world.start("n", G, "a").asked);
    world.round();
    assert_eq!(world.calls(), ["set g"], "the plugin confirmed these bytes before (H4)");
    assert_eq!(world.served(G).as_deref(), Some("a"));
    world.assert_quiet(3);
}

#[test]
fn b_healing_kafka_knows_no_incarnations() {
    let mut world = World::abandoned(Kafka);
    assert!(!world.start("n", G, "b").asked);
    world.assert_quiet(3);
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_healing_group_out_of_sight_is_looked_at_again() {
    let mut world = World::stored(Streamside);
    let quiet = |compat: Compat| World::stored(compat).questions;
    assert_eq!(quiet(Streamside), 0);
    // Heartbeats went elsewhere for longer than a session.
    for _ in 0..10 {
        world.pass(5_000);
        let again = crate::world::request(G, "m", 1);
        world.broker.heartbeat(world.now, &again);
    }
    let beat = world.beat("m");
    assert!(beat.described && !beat.asked);
    world.assert_quiet(3);
    assert_eq!(world.questions, 1);
}
