//! A push is judged in Kafka's order by what the broker says of the pusher.

use streamside_coordinator::Compat::{Kafka, Streamside};
use streamside_coordinator::{PluginFailure, Standing};

use crate::broker::READ;
use crate::world::{G, World};

#[test]
fn b_push_recent_member_needs_no_question() {
    let mut world = World::new(Streamside);
    world.start("m", G, "a");
    let connection = world.clients["m"].connection;
    assert_eq!(world.standing("m", G, connection), Standing::Member);
    assert_eq!(world.coordinator().watched().view(G).unwrap().described_at, None, "nobody was asked");
    // Another connection, three intervals, a failed heartbeat: then the broker is asked.
    for spoil in 0..3 {
        let mut world = World::new(Streamside);
        world.start("m", G, "a");
        let mut connection = world.clients["m"].connection;
        match spoil {
            0 => connection += 1,
            1 => world.pass(15_001),
            _ => {
                world.broker.heartbeat_trouble = Some(14);
                world.beat("m");
                world.broker.heartbeat_trouble = None;
            }
        }
        assert_eq!(world.standing("m", G, connection), Standing::Member);
        assert!(world.coordinator().watched().view(G).unwrap().described_at.is_some(), "{spoil}");
    }
}

#[test]
fn b_push_texts_are_the_brokers_and_kafkas() {
    let mut world = World::stored(Streamside);
    let text = |answer: (i16, Option<String>)| (answer.0, answer.1.unwrap_or_default());
    assert_eq!(text(world.push_as("x", "none", 9, 0, "a")), (69, "Group none not found.".to_owned()));
    world.broker.classic.push("c".to_owned());
    assert_eq!(text(world.push_as("x", "c", 9, 0, "a")), (69, "Group c is not a streams group.".to_owned()));
    assert_eq!(text(world.push_as("x", G, 9, 0, "a")), (25, format!("Member x is not a member of group {G}.")));
    let text_of_epoch = "Topology epoch 4 does not match the group's current topology epoch 0.".to_owned();
    assert_eq!(text(world.push_as("m", G, 9, 4, "a")), (42, text_of_epoch));
    assert_eq!(text(world.push_as(" ", G, 9, 0, "a")), (42, "MemberId can't be empty.".to_owned()));
    world.broker.rights &= !READ;
    assert_eq!(world.push_as("m", G, 9, 0, "a"), (30, None));
    assert_eq!(world.push_as("x", G, 9, 4, "a"), (30, None), "rights come first");
    for code in [30, 14, 15, 16] {
        world.broker.describe_trouble = Some(code);
        assert_eq!(world.push_as("m", G, 9, 0, "a").0, code);
    }
    world.broker.describe_trouble = Some(29);
    let (code, message) = text(world.push_as("m", G, 9, 0, "a"));
    assert_eq!((code, message.split(':').next()), (135, Some("not_verified")));
    assert_eq!(world.calls(), ["set g"], "none of them reached the plugin");
    assert_eq!(world.coordinator().word(G), "full");
}

#[test]
fn b_push_k26_answer_lost_after_success() {
    let mut world = World::stored(Streamside);
    // The connection broke before the answer; the client pushes the same bytes on a new one.
    let (code, message) = world.push_as("m", G, 77, 0, "a");
    assert_eq!((code, message), (0, None));
    assert_eq!(world.calls(), ["set g"], "no second write");
    assert_eq!(world.processes[0].plugin.len(), 1);
}

#[test]
fn b_push_unsolicited_of_any_member_is_taken() {
    for compat in [Streamside, Kafka] {
        let mut world = World::stored(compat);
        world.start_as("n", G, "b", crate::world::topology("in"), 0);
        assert_eq!(world.push("n").0, 0);
        assert_eq!(world.served(G).as_deref(), Some("b"));
    }
}

#[test]
fn b_push_refused_for_good_is_not_asked_again_until_the_group_is_another() {
    let mut world = World::new(Streamside);
    world.process().failing = Some(PluginFailure::Permanent { message: Some("no".to_owned()) });
    world.start("m", G, "a");
    world.round();
    assert_eq!(world.coordinator().word(G), "refused");
    world.assert_quiet(20);
    world.restart(true);
    world.assert_quiet(20);
    world.process().failing = None;
    world.leave("m");
    assert!(world.start("n", G, "a").asked, "it may be another group of this name");
    world.round();
    assert_eq!(world.served(G).as_deref(), Some("a"));
}

#[test]
fn b_push_under_way_while_the_group_goes_changes_nothing() {
    use streamside_coordinator::{Effect, Input};
    let mut world = World::stored(Streamside);
    world.client("m").description = "b".to_owned();
    let op = streamside_coordinator::OpId(world.number());
    let request = streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: G.to_owned(),
        member_id: "m".to_owned(),
        topology_description: crate::world::description("b"),
        ..Default::default()
    };
    let limits = world.coordinator().config().limits.clone();
    let payload = streamside_coordinator::description::PreparedPush::prepare(&request, &limits, Streamside);
    let input =
        Input::VerifiedPush { op, group: G, member: "m", topology_epoch: 0, payload, standing: Standing::Member };
    let (reply, calls) = world.play(input);
    assert!(reply.is_none() && matches!(calls[..], [Effect::PluginSet { .. }]));
    world.leave("m");
    world.delete_behind_our_back(G);
    world.pass(1);
    assert_eq!(world.served(G), None);
    let (reply, _) = world.play(Input::SetOutcome { op, result: Ok(()), late: false });
    let Some(streamside_coordinator::Reply::Push { error_code, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(error_code, 69);
    assert_eq!(world.coordinator().word(G), "uncertain");
    world.cleanup();
    assert!(world.is_blank(), "{:?}", world.sizes());
}
