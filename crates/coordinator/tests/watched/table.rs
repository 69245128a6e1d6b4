//! What each event makes of what is known of a group, printed and compared with the checked-in table.
//! `STREAMSIDE_WRITE_SNAPSHOTS=1 cargo test` writes it anew.

use std::fmt::Write;

use streamside_coordinator::Compat::Streamside;

use crate::world::{G, World, request, topology};

/// What is known in a word.
fn name(world: &World) -> String {
    let coordinator = world.coordinator();
    let Some(view) = coordinator.watched().view(G) else { return "unknown".to_owned() };
    let live = coordinator.watched().facts(coordinator.config(), world.now, G).is_some_and(|facts| !facts.empty);
    let seen = match (view.gone, view.verified, view.lost) {
        (true, ..) => "gone",
        (_, true, _) => "certain",
        (_, false, true) => "lost",
        (_, false, false) => "uncertain",
    };
    let stored = match coordinator.mark(G).map(|mark| mark.word()) {
        Some("full") => ", stored",
        Some(_) if view.owed => ", delete owed",
        Some(_) => ", perhaps stored",
        None => "",
    };
    format!("{seen}, {}{stored}", if live { "live" } else { "silent" })
}

type Make = (&'static str, fn() -> World);

const STATES: [Make; 8] = [
    ("unknown to us, live at the broker", || {
        let mut world = World::stored(Streamside);
        world.restart(false);
        world
    }),
    ("members, nothing stored", || {
        let mut world = World::new(Streamside);
        world.start("m", G, "a");
        world
    }),
    ("members, stored", || World::stored(Streamside)),
    ("left by all, stored", || World::abandoned(Streamside)),
    ("out of sight, stored", || {
        let mut world = World::stored(Streamside);
        elsewhere(&mut world);
        world
    }),
    ("just restarted, stored", || {
        let mut world = World::stored(Streamside);
        world.restart(true);
        world
    }),
    ("gone, delete owed", || {
        let mut world = World::abandoned(Streamside);
        world.delete_behind_our_back(G);
        world.pass(1);
        world.look(G);
        world
    }),
    ("gone and made again elsewhere, delete owed", || {
        let mut world = World::abandoned(Streamside);
        world.delete_behind_our_back(G);
        world.pass(1);
        world.look(G);
        let mut join = request(G, "m", 0);
        join.topology = Some(topology("in"));
        world.broker.heartbeat(world.now, &join);
        world
    }),
];

/// The member's heartbeats go elsewhere for longer than a session.
fn elsewhere(world: &mut World) {
    for _ in 0..10 {
        world.pass(5_000);
        world.broker.heartbeat(world.now, &request(G, "m", 1));
    }
}

fn joins(world: &mut World, member: &str) {
    world.start(member, G, "a");
}

fn beats(world: &mut World, member: &str, code: Option<i16>) {
    world.broker.heartbeat_trouble = code;
    let known = world.clients.get(member).cloned();
    let client = known.unwrap_or_else(|| crate::world::Client::new(G, "a"));
    world.send(&request(G, member, 1), &client);
}

type Event = (&'static str, fn(&mut World));

const EVENTS: [Event; 14] = [
    ("a new member joins", |world| joins(world, "new")),
    ("a known member joins again", |world| joins(world, "m")),
    ("a known member is well", |world| beats(world, "m", None)),
    ("a stranger is well", |world| {
        let mut join = request(G, "stranger", 0);
        join.topology = Some(topology("in"));
        world.broker.heartbeat(world.now, &join);
        beats(world, "stranger", None);
    }),
    ("a member leaves", |world| {
        let client = crate::world::Client::new(G, "a");
        world.send(&request(G, "m", -1), &client);
    }),
    ("a member is fenced", |world| beats(world, "m", Some(110))),
    ("a member is not known", |world| beats(world, "m", Some(25))),
    ("the coordinator moved", |world| beats(world, "m", Some(16))),
    ("described", |world| {
        world.look(G);
    }),
    ("described with strangers alone", |world| {
        world.broker.groups.remove(G);
        for member in ["x", "y"] {
            let mut join = request(G, member, 0);
            join.topology = Some(topology("in"));
            world.broker.heartbeat(world.now, &join);
        }
        world.look(G);
    }),
    ("described at a lower group epoch", |world| {
        let mut entry = world.broker.describe(world.now, G);
        entry.group_epoch = 0;
        let now = world.now;
        world.tell(&entry, now, false);
    }),
    ("described as missing", |world| {
        world.broker.groups.remove(G);
        world.look(G);
    }),
    ("described as loading", |world| {
        world.broker.describe_trouble = Some(14);
        world.look(G);
    }),
    ("deleted", |world| {
        let now = world.now;
        world.broker.groups.remove(G);
        world.deleted(G, 0, now);
    }),
];

fn table() -> String {
    let mut text = String::from("What is known of a group, and what an event makes of it.\n");
    for (state, make) in STATES {
        writeln!(text, "\n{state}: {}", name(&make())).unwrap();
        for (event, act) in EVENTS {
            let mut world = make();
            // At the broker a group that was never there is made by whoever joins.
            let incarnation = |world: &World| world.coordinator().watched().view(G).map(|view| view.incarnation);
            let before = (incarnation(&world), world.asks, world.questions);
            world.pass(1);
            act(&mut world);
            let after = (incarnation(&world), world.asks, world.questions);
            let mut notes = String::new();
            if before.0.is_some() && after.0.is_some() && before.0 != after.0 {
                notes.push_str("; another group");
            }
            if after.2 > before.2 {
                notes.push_str("; asks the broker");
            }
            if after.1 > before.1 {
                notes.push_str("; asks the member");
            }
            writeln!(text, "    {event:<34} {}{notes}", name(&world)).unwrap();
        }
    }
    text
}

#[test]
fn b_healing_transitions_are_those_of_the_snapshot() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/watched.txt");
    let table = table();
    if std::env::var_os("STREAMSIDE_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(table, kept, "the table changed; see {path}");
}
