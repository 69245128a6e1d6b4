//! A push up to its plugin call: spec kip1331 §§4.1-4.2.

use streamside_coordinator::{Compat, Config};
use streamside_wire::messages::topology_description::{GlobalStore, Node, Subtopology, TopologyDescription};

use crate::world::{Answer, BOTH, G, M, World, description, encoded, transient};

fn rejected(code: i16, message: &str) -> Answer {
    Answer { code, message: Some(message.to_owned()), reason: None }
}

#[test]
fn k4_1_step_4_no_plugin_comes_before_everything() {
    for compat in BOTH {
        let mut world = World::with(Config { plugin: None, compat, ..Config::default() });
        let text = "The broker has no streams group topology description plugin configured.";
        for (group, member) in [("", ""), ("nobody", " "), (G, M)] {
            assert_eq!(world.push(group, member, "a").answer(), rejected(35, text));
        }
    }
}

#[test]
fn k4_1_step_5_blank_member() {
    for compat in BOTH {
        let mut world = World::new(compat);
        for member in ["", " ", "\t\u{1}\n"] {
            assert_eq!(world.push("", member, "a").answer(), rejected(42, "MemberId can't be empty."));
        }
        // U+00A0 is no blank to Java's trim.
        assert_eq!(world.push(G, "\u{a0}", "a").code(), 69);
    }
}

#[test]
fn k4_1_step_6_blank_group() {
    for compat in BOTH {
        let mut world = World::new(compat);
        for group in ["", "  "] {
            assert_eq!(world.push(group, M, "a").answer(), rejected(42, "GroupId can't be empty."));
        }
    }
}

#[test]
fn k4_1_step_8_unknown_group() {
    for compat in BOTH {
        let mut world = World::new(compat);
        assert_eq!(world.push(G, M, "a").answer(), rejected(69, "Group g not found."));
    }
}

#[test]
fn k4_1_step_10_unknown_member_comes_before_epoch_and_payload() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let mut malformed = description("a");
        malformed.subtopologies[0].nodes[0].node_type = 0;
        let text = "Member nobody is not a member of group g.";
        assert_eq!(world.push_raw(G, "nobody", 3, malformed).answer(), rejected(25, text));
    }
}

#[test]
fn k4_1_step_11_epoch_comes_before_payload() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let mut malformed = description("a");
        malformed.subtopologies[0].nodes[0].node_type = 0;
        for epoch in [-1, 1, i32::MAX] {
            let text = format!("Topology epoch {epoch} does not match the group's current topology epoch 0.");
            assert_eq!(world.push_raw(G, M, epoch, malformed.clone()).answer(), rejected(42, &text));
        }
    }
}

#[test]
fn k4_1_step_12_payload_is_refused_without_a_trace() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let mut malformed = description("a");
        malformed.subtopologies[0].nodes[0].node_type = 99;
        assert_eq!(world.push_raw(G, M, 0, malformed).answer(), rejected(42, "Unknown topology node type: 99"));
        assert_eq!((world.durable, world.volatile, world.s()), (0, 0, -1));
        assert_eq!(world.settled, ["invalid"]);
    }
}

#[test]
fn k4_1_step_13_uncertain_is_durable_before_the_plugin_is_called() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let call = world.push(G, M, "a").call();
        assert_eq!(world.durable, 1);
        assert_eq!(world.s(), -2);
        // Killed here: the mark says that the plugin may hold something.
        world.restart();
        assert_eq!(world.s(), -2);
        assert_eq!(call.set, Some((0, encoded("a"))));
    }
}

#[test]
fn k4_1_step_13_group_gone_before_the_mark_never_reaches_the_plugin() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        world.leave(G, M);
        assert_eq!(world.delete(G).code(), 0);
        assert_eq!(world.push(G, M, "a").code(), 69);
    }
}

#[test]
fn k4_1_step_14_plugin_is_given_group_epoch_and_description() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let call = world.push(G, M, "a").call();
        assert_eq!((call.group.as_str(), call.set), (G, Some((0, encoded("a")))));
    }
}

#[test]
fn k4_1_step_15_answer_waits_for_the_outcome() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let call = world.push(G, M, "a").call();
        let answer = world.outcome(&call, Ok(())).answer();
        assert_eq!(answer, Answer { code: 0, message: None, reason: None });
        assert_eq!(world.durable, 1);
        world.restart();
        assert_eq!(world.s(), 0);
    }
}

#[test]
fn k4_1_unsolicited_push_of_any_member_is_taken() {
    for compat in BOTH {
        let mut world = World::new(compat);
        world.heartbeat(&crate::world::join_request(G, "old", 0), 0);
        world.store(G, "old", "a");
        let mut join = crate::world::join_request(G, "static", 0);
        join.instance_id = Some("i".into());
        world.heartbeat(&join, 1);
        let mut away = crate::world::request(G, "static", -2);
        away.instance_id = Some("i".into());
        assert_eq!(world.heartbeat(&away, 1).error, 0);
        world.store(G, "static", "b");
        assert_eq!(world.s(), 0);
    }
}

// §4.2, through the whole push: what reaches the plugin.

fn pushed(description: TopologyDescription) -> TopologyDescription {
    let mut world = World::joined(Compat::Streamside);
    let (_, bytes) = world.push_raw(G, M, 0, description).call().set.unwrap();
    streamside_topology::Description::decode(&bytes).unwrap().to_wire()
}

fn refused(description: TopologyDescription) -> Option<String> {
    let mut world = World::joined(Compat::Streamside);
    let answer = world.push_raw(G, M, 0, description).answer();
    assert_eq!(answer.code, 42);
    answer.message
}

fn all_fields(node_type: i8) -> Node {
    Node {
        name: "n".to_owned(),
        node_type,
        source_topics: vec!["in".to_owned()],
        sink_topic: Some("out".to_owned()),
        stores: vec!["st".to_owned()],
        successors: vec!["x".to_owned()],
        ..Node::default()
    }
}

fn of(nodes: Vec<Node>, global_stores: Vec<GlobalStore>) -> TopologyDescription {
    let subtopology = Subtopology { subtopology_id: "0".to_owned(), nodes, ..Subtopology::default() };
    TopologyDescription { subtopologies: vec![subtopology], global_stores, ..TopologyDescription::default() }
}

fn only_node(description: TopologyDescription) -> Node {
    description.subtopologies[0].nodes[0].clone()
}

#[test]
fn k4_2_source_keeps_topics_and_successors() {
    let node = only_node(pushed(of(vec![all_fields(1)], vec![])));
    assert_eq!(node, Node { sink_topic: None, stores: vec![], ..all_fields(1) });
}

#[test]
fn k4_2_processor_keeps_stores_and_successors() {
    let node = only_node(pushed(of(vec![all_fields(2)], vec![])));
    assert_eq!(node, Node { sink_topic: None, source_topics: vec![], ..all_fields(2) });
}

#[test]
fn k4_2_sink_keeps_topic_and_successors() {
    let node = only_node(pushed(of(vec![all_fields(3)], vec![])));
    assert_eq!(node, Node { source_topics: vec![], stores: vec![], ..all_fields(3) });
}

#[test]
fn k4_2_dynamic_sink_has_no_topic() {
    let sink = Node { sink_topic: None, ..all_fields(3) };
    assert_eq!(only_node(pushed(of(vec![sink], vec![]))).sink_topic, None);
}

#[test]
fn k4_2_unknown_node_type_is_refused() {
    for node_type in [0, 4, 99, -1] {
        let message = refused(of(vec![all_fields(node_type)], vec![])).unwrap();
        assert_eq!(message, format!("Unknown topology node type: {node_type}"));
    }
}

#[test]
fn k4_2_global_store_is_a_source_and_a_processor() {
    let store = |source, processor| {
        let (source, processor) = (all_fields(source), all_fields(processor));
        of(vec![], vec![GlobalStore { source, processor, ..GlobalStore::default() }])
    };
    let pair = "Global store must be composed of a source and a processor node.";
    for (source, processor) in [(2, 2), (3, 2), (1, 1), (1, 3), (2, 1)] {
        assert_eq!(refused(store(source, processor)).unwrap(), pair);
    }
    assert_eq!(refused(store(8, 9)).unwrap(), "Unknown topology node type: 8");
    assert_eq!(refused(store(2, 9)).unwrap(), "Unknown topology node type: 9");
    assert_eq!(pushed(store(1, 2)).global_stores.len(), 1);
}

#[test]
fn k4_2_duplicates_in_lists_are_dropped() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let source = Node { source_topics: list(&["b", "a", "b"]), successors: list(&["y", "y", "x"]), ..all_fields(1) };
    let node = only_node(pushed(of(vec![source], vec![])));
    assert_eq!((node.source_topics, node.successors), (list(&["b", "a"]), list(&["y", "x"])));
}

#[test]
fn k4_2_order_is_kept() {
    let named = |name: &str| Node { name: name.to_owned(), ..all_fields(2) };
    let description = pushed(of(vec![named("z"), named("a"), named("m")], vec![]));
    let names: Vec<_> = description.subtopologies[0].nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["z", "a", "m"]);
}

#[test]
fn k4_2_odd_graphs_are_taken_unchanged() {
    let node = |name: &str, to: &str| Node {
        name: name.to_owned(),
        node_type: 2,
        successors: vec![to.to_owned()],
        ..Node::default()
    };
    let mut odd = of(vec![node("a", "b"), node("b", "a"), node("a", "nowhere"), node("", "")], vec![]);
    odd.subtopologies.push(odd.subtopologies[0].clone());
    assert_eq!(pushed(odd.clone()), odd);
    assert_eq!(pushed(TopologyDescription::default()), TopologyDescription::default());
}

#[test]
fn k4_2_first_refusal_wins() {
    let bad_store = GlobalStore { source: all_fields(7), processor: all_fields(2), ..GlobalStore::default() };
    let description = of(vec![all_fields(1), all_fields(50), all_fields(51)], vec![bad_store]);
    assert_eq!(refused(description).unwrap(), "Unknown topology node type: 50");
}

// §4.3's windows after rejections are in solicit; here: nothing that was refused is remembered.

#[test]
fn k4_1_rejections_are_counted_by_kind() {
    let mut world = World::joined(Compat::Streamside);
    world.push(G, "nobody", "a");
    world.push("none", M, "a");
    world.push_raw(G, M, 1, description("a"));
    world.fail(G, M, "a", transient());
    world.store(G, M, "a");
    world.push(G, M, "a");
    let expected = ["unknown_member", "group_not_found", "invalid", "plugin_transient", "stored", "unchanged"];
    assert_eq!(world.settled, expected);
}
