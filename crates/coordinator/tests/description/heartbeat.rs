//! What decides a group's topology epoch and membership: spec kip1331 §3.4. The whole heartbeat is kip1071's.

use streamside_coordinator::{Compat, Config};
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest as Request, TaskIds, TopicInfo};

use crate::world::{BOTH, G, M, World, join_request, request};

/// Code and text of a first heartbeat with one thing changed; nothing may be left behind.
fn refused(compat: Compat, change: impl FnOnce(&mut Request<'_>)) -> (i16, String) {
    let mut world = World::new(compat);
    let mut request = join_request(G, M, 0);
    change(&mut request);
    let beat = world.heartbeat(&request, 1);
    assert_eq!((world.durable, world.volatile, world.exists(G)), (0, 0, false));
    (beat.error, beat.message.unwrap_or_default())
}

fn is(code: i16, text: &str) -> (i16, String) {
    (code, text.to_owned())
}

fn tasks(subtopology: &str, partitions: &[i32]) -> Option<Vec<TaskIds>> {
    let task =
        TaskIds { subtopology_id: subtopology.to_owned(), partitions: partitions.to_vec(), ..TaskIds::default() };
    Some(vec![task])
}

fn set_sources(request: &mut Request<'_>, names: &[&str]) {
    let topology = request.topology.as_mut().unwrap();
    topology.subtopologies[0].source_topics = names.iter().map(|name| (*name).to_owned()).collect();
}

#[test]
fn k3_4_internal_and_invalid_topics_are_130() {
    for compat in BOTH {
        let answer = refused(compat, |request| set_sources(request, &["__consumer_offsets"]));
        let text = "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.";
        assert_eq!(answer, is(130, text));
        let answer = refused(compat, |request| set_sources(request, &["a b"]));
        assert_eq!(answer, is(130, "Topic names a b are not valid topic names."));
    }
}

#[test]
fn k3_4_source_patterns_are_42() {
    for compat in BOTH {
        let answer = refused(compat, |request| {
            request.topology.as_mut().unwrap().subtopologies[0].source_topic_regex = vec!["x.*".to_owned()];
        });
        assert_eq!(answer, is(42, "Regular expressions for source topics are not supported yet."));
    }
}

#[test]
fn k3_4_blank_ids_are_42() {
    for compat in BOTH {
        assert_eq!(refused(compat, |r| r.member_id = " ".into()), is(42, "MemberId can't be empty."));
        assert_eq!(refused(compat, |r| r.instance_id = Some("".into())), is(42, "InstanceId can't be empty."));
        assert_eq!(refused(compat, |r| r.rack_id = Some(" ".into())), is(42, "RackId can't be empty."));
        let beat = World::new(compat).heartbeat(&join_request(" ", M, 0), 1);
        assert_eq!((beat.error, beat.message.as_deref()), (42, Some("GroupId can't be empty.")));
    }
}

#[test]
fn k3_4_join_needs_a_rebalance_timeout() {
    for compat in BOTH {
        let answer = refused(compat, |request| request.rebalance_timeout_ms = -1);
        assert_eq!(answer, is(42, "RebalanceTimeoutMs must be provided in first request."));
    }
}

#[test]
fn k3_4_join_needs_empty_task_lists() {
    for compat in BOTH {
        let text = |name: &str| is(42, &format!("{name} must be empty when (re-)joining."));
        assert_eq!(refused(compat, |r| r.active_tasks = tasks("0", &[0])), text("ActiveTasks"));
        assert_eq!(refused(compat, |r| r.standby_tasks = tasks("0", &[0])), text("StandbyTasks"));
        assert_eq!(refused(compat, |r| r.warmup_tasks = tasks("0", &[0])), text("WarmupTasks"));
    }
}

#[test]
fn k3_4_join_needs_a_topology() {
    for compat in BOTH {
        let answer = refused(compat, |request| request.topology = None);
        assert_eq!(answer, is(42, "Topology must be non-null when (re-)joining."));
    }
}

#[test]
fn k3_4_changelog_partitions_are_undefined() {
    for compat in BOTH {
        let answer = refused(compat, |request| {
            let topic = TopicInfo { name: "c".to_owned(), partitions: 3, ..TopicInfo::default() };
            request.topology.as_mut().unwrap().subtopologies[0].state_changelog_topics = vec![topic];
        });
        let text = "Changelog topic c must have an undefined partition count, but it is set to 3.";
        assert_eq!(answer, is(130, text));
    }
}

#[test]
fn k3_4_leave_for_a_while_needs_an_instance() {
    for compat in BOTH {
        let beat = World::joined(compat).heartbeat(&request(G, M, -2), 1);
        assert_eq!((beat.error, beat.message.as_deref()), (42, Some("InstanceId can't be null.")));
    }
}

#[test]
fn k3_4_epochs_below_minus_2_are_42() {
    for compat in BOTH {
        let beat = World::joined(compat).heartbeat(&request(G, M, -3), 1);
        let text = "MemberEpoch is -3, but must be greater than or equal to -2.";
        assert_eq!((beat.error, beat.message.as_deref()), (42, Some(text)));
    }
}

#[test]
fn k3_4_task_lists_come_together() {
    for compat in BOTH {
        let mut beat = request(G, M, 2);
        beat.active_tasks = Some(Vec::new());
        let answer = World::joined(compat).heartbeat(&beat, 1);
        let text = "If one task-type is non-null, all must be non-null.";
        assert_eq!((answer.error, answer.message.as_deref()), (42, Some(text)));
    }
}

#[test]
fn k3_4_topology_is_for_a_join_alone() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let mut beat = request(G, M, 2);
        beat.topology = join_request(G, M, 0).topology;
        let answer = world.heartbeat(&beat, 1);
        let text = "Topology can only be provided when (re-)joining.";
        assert_eq!((answer.error, answer.message.as_deref()), (42, Some(text)));
    }
}

#[test]
fn k3_4_join_creates_the_group() {
    for compat in BOTH {
        let mut world = World::new(compat);
        assert_eq!(world.join(G, M).error, 0);
        assert!(world.exists(G));
    }
}

#[test]
fn k3_4_later_heartbeat_of_an_unknown_group() {
    let beat = World::new(Compat::Kafka).heartbeat(&request(G, M, 1), 1);
    assert_eq!((beat.error, beat.message.as_deref()), (69, Some("Streams group g not found.")));
    // D11: 69 would end the client's thread.
    assert_eq!(World::new(Compat::Streamside).heartbeat(&request(G, M, 1), 1).error, 25);
}

#[test]
fn k3_4_full_group_takes_nobody_new() {
    for compat in BOTH {
        let mut config = Config { compat, ..Config::default() };
        config.limits.max_members = 1;
        let mut world = World::with(config);
        assert_eq!(world.join(G, M).error, 0);
        let beat = world.join(G, "m2");
        let text = "The streams group has reached its maximum capacity of 1 members.";
        assert_eq!((beat.error, beat.message.as_deref(), beat.asked), (81, Some(text), false));
        assert_eq!(world.join(G, M).error, 0);
    }
}

#[test]
fn k3_4_unknown_member_is_25() {
    for compat in BOTH {
        let beat = World::joined(compat).heartbeat(&request(G, "nobody", 2), 1);
        let text = "Member nobody is not a member of group g.";
        assert_eq!((beat.error, beat.message.as_deref()), (25, Some(text)));
    }
}

#[test]
fn k3_4_instance_belongs_to_one_member() {
    for compat in BOTH {
        let mut world = World::new(compat);
        let mut join = join_request(G, M, 0);
        join.instance_id = Some("i".into());
        assert_eq!(world.heartbeat(&join, 1).error, 0);
        join.member_id = "m2".into();
        assert_eq!(world.heartbeat(&join, 1).error, 111);
        let mut beat = request(G, "m2", 2);
        beat.instance_id = Some("i".into());
        assert_eq!(world.heartbeat(&beat, 1).error, 82);
        beat.instance_id = Some("other".into());
        assert_eq!(world.heartbeat(&beat, 1).error, 25);
    }
}

#[test]
fn k3_4_other_member_epoch_is_110() {
    for compat in BOTH {
        let beat = World::joined(compat).heartbeat(&request(G, M, 7), 1);
        assert_eq!((beat.error, beat.asked), (110, false));
    }
}

#[test]
fn k3_4_first_topology_gives_the_epoch() {
    for compat in BOTH {
        let mut world = World::new(compat);
        world.heartbeat(&join_request(G, M, 4), 1);
        assert_eq!(world.describe(G, false).0.topology.unwrap().epoch, 4);
        assert_eq!(world.push_raw(G, M, 3, crate::world::description("a")).code(), 42);
    }
}

#[test]
fn k3_4_older_topology_is_stale_and_leaves_the_epoch() {
    for compat in BOTH {
        let mut world = World::new(compat);
        world.heartbeat(&join_request(G, M, 4), 1);
        let beat = world.heartbeat(&join_request(G, "m2", 3), 1);
        assert_eq!(beat.error, 0);
        assert!(beat.statuses.contains(&0));
        assert!(world.beat(G, "m2").statuses.contains(&0), "on every heartbeat");
        assert_eq!(world.describe(G, false).0.topology.unwrap().epoch, 4);
    }
}

#[test]
fn k3_4_other_topology_is_refused() {
    for compat in BOTH {
        let mut world = World::joined(compat);
        let mut same_epoch = join_request(G, "m2", 0);
        set_sources(&mut same_epoch, &["elsewhere"]);
        for request in [same_epoch, join_request(G, "m3", 1)] {
            let beat = world.heartbeat(&request, 1);
            let text = "Topology updates are not supported yet.";
            assert_eq!((beat.error, beat.message.as_deref()), (42, Some(text)));
        }
    }
}

#[test]
fn k3_4_same_topology_changes_nothing() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        assert_eq!(world.join(G, "m2").error, 0);
        assert_eq!(world.describe(G, false).0.topology.unwrap().epoch, 0);
        assert_eq!(world.s(), 0);
    }
}

#[test]
fn k3_4_owned_tasks_must_exist() {
    for compat in BOTH {
        let mut config = Config { compat, initial_rebalance_delay_ms: 0, ..Config::default() };
        config.topics.insert("in".to_owned(), 2);
        let mut world = World::with(config);
        world.join(G, M);
        let owning = |subtopology, partitions: &[i32]| {
            let mut beat = request(G, M, 2);
            beat.active_tasks = tasks(subtopology, partitions);
            beat.standby_tasks = Some(Vec::new());
            beat.warmup_tasks = Some(Vec::new());
            beat
        };
        let beat = world.heartbeat(&owning("9", &[0]), 1);
        let text = "Subtopology 9 does not exist in the topology.";
        assert_eq!((beat.error, beat.message.as_deref()), (42, Some(text)));
        let beat = world.heartbeat(&owning("0", &[2]), 1);
        let text = "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2";
        assert_eq!((beat.error, beat.message.as_deref()), (42, Some(text)));
    }
}

#[test]
fn k3_4_topology_outlives_the_members() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        world.leave(G, M);
        assert_eq!(world.describe(G, false).0.topology.unwrap().epoch, 0);
        assert_eq!(world.s(), 0);
        assert!(!world.join(G, "m2").asked);
    }
}
