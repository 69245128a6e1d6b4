//! Describe: spec kip1331 §5.

use bytes::Bytes;
use streamside_coordinator::{Compat, Config, LogLine, PluginFailure, Sensor, batch};
use streamside_wire::messages::streams_group_describe::{DescribedGroup, DescriptionField};

use crate::world::{BOTH, G, M, World, encoded, transient};

const GET_FAILED: &str = "Topology description plugin getTopology failed for group g.";

#[test]
fn k5_1_step_4_empty_id_is_24_and_comes_first() {
    let ids = [G.to_owned(), String::new(), "x".to_owned(), String::new()];
    let split = batch::split_describe(&ids);
    assert_eq!(split.ids, [G, "x"]);
    let refused = DescribedGroup { error_code: 24, ..DescribedGroup::default() };
    assert_eq!(split.refused, [refused.clone(), refused.clone()]);
    let joined = batch::join_describe(Compat::Kafka, split.refused, vec![DescribedGroup::default()], false);
    assert_eq!(joined, [refused.clone(), refused.clone(), DescribedGroup::default()]);
    // Asked for directly, it is the same entry.
    assert_eq!(World::new(Compat::Kafka).describe("", true).0, refused);
}

#[test]
fn k5_1_step_5_request_order_with_repetitions() {
    let ids = ["b", "a", "b", "?"].map(str::to_owned);
    assert_eq!(batch::split_describe(&ids).ids, ["b", "a", "b", "?"]);
}

#[test]
fn k5_1_step_5_reads_what_is_committed() {
    for compat in BOTH {
        let mut world = World::new(compat);
        world.join(G, M);
        let position = streamside_coordinator::Volatile::Journalled { group: G.into(), position: 41 };
        world.coordinator.apply(streamside_coordinator::Record::Volatile(position));
        assert_eq!(world.coordinator.position(G), 41);
    }
}

#[test]
fn k5_1_step_6_unknown_group() {
    for compat in BOTH {
        let (entry, read) = World::new(compat).describe("x", true);
        assert_eq!(read, None);
        assert_eq!(
            entry,
            DescribedGroup {
                error_code: 69,
                error_message: Some("Group x not found.".to_owned()),
                group_id: "x".to_owned(),
                ..DescribedGroup::default()
            }
        );
    }
}

#[test]
fn k5_1_step_7_attach_splices_the_bytes() {
    let mut entry = DescribedGroup::default();
    batch::attach(&mut entry, 3, Some(encoded("a")));
    assert_eq!(entry.topology_description_status, 3);
    assert_eq!(entry.topology_description, Some(DescriptionField::Encoded(encoded("a"))));
}

#[test]
fn k5_2_row_1_flag_false() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        let (entry, read) = world.describe(G, false);
        assert_eq!((entry.error_code, entry.topology_description_status, read), (0, 0, None));
    }
}

#[test]
fn k5_2_row_2_entry_with_an_error() {
    for compat in BOTH {
        let (entry, read) = World::stored(compat).describe("x", true);
        assert_eq!((entry.error_code, entry.topology_description_status, read), (69, 0, None));
    }
}

#[test]
fn k5_2_row_3_no_plugin() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        world.restart_with(Config { plugin: None, compat, ..Config::default() });
        let (entry, read) = world.describe(G, true);
        assert_eq!((entry.topology_description_status, read), (1, None));
    }
}

#[test]
fn k5_2_row_4_no_topology() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        // As a log that was cut off after the group's record leaves it.
        world.journal.retain(|key, _| key[..2] != 23_u16.to_be_bytes());
        world.restart();
        let (entry, read) = world.describe(G, true);
        assert_eq!((entry.error_code, entry.topology_description_status, read), (0, 1, None));
    }
}

#[test]
fn k5_2_row_5_nothing_stored_at_the_epoch() {
    for compat in BOTH {
        // S = -1
        let mut world = World::joined(compat);
        assert_eq!(world.describe(G, true).0.topology_description_status, 1);
        assert_eq!(world.read(G), None);
        // S = -2
        let mut world = World::abandoned(compat);
        world.delete(G).call();
        assert_eq!(world.describe(G, true).0.topology_description_status, 1);
        assert_eq!(world.read(G), None);
    }
}

#[test]
fn k5_2_row_6_and_7_contract_violation_is_error() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        let logged = world.log.len();
        assert_eq!(world.status(Err(PluginFailure::Contract)), 2);
        assert_eq!(world.sensor(Sensor::GetError), 1);
        assert_eq!(world.log.len() - logged, usize::from(compat == Compat::Streamside), "H5 logs it");
        assert_eq!(world.s(), 0);
    }
}

#[test]
fn k5_2_row_8_synchronous_error_fails_the_batch_in_kafka() {
    let mut world = World::stored(Compat::Kafka);
    let read = world.read(G).unwrap();
    let (_, _, fatal) = world.got(read.token, Err(PluginFailure::Fatal));
    assert!(fatal);
    assert_eq!(world.sensor(Sensor::GetError), 0);
    let entry =
        |code, id: &str| DescribedGroup { error_code: code, group_id: id.to_owned(), ..DescribedGroup::default() };
    let named = DescribedGroup { group_state: "Stable".to_owned(), ..entry(0, G) };
    let joined = batch::join_describe(Compat::Kafka, vec![], vec![named.clone(), entry(69, "x")], true);
    assert_eq!(joined, [entry(-1, G), entry(-1, "x")]);
    // H7.
    let joined = batch::join_describe(Compat::Streamside, vec![], vec![named.clone()], true);
    assert_eq!(joined, [named]);
}

#[test]
fn k5_2_row_9_failed_future_is_error_and_logged() {
    let mut world = World::stored(Compat::Kafka);
    assert_eq!(world.status(Err(transient())), 2);
    assert!(world.logged(LogLine::Warn, GET_FAILED));
    assert_eq!(world.sensor(Sensor::GetError), 1);
    let mut world = World::stored(Compat::Streamside);
    assert_eq!(world.status(Err(transient())), 2);
    assert_eq!(world.logs_with(&[GET_FAILED, "operation=get", "reason=plugin_transient", "hash="]), 1);
    assert_eq!(world.s(), 0);
}

#[test]
fn k5_2_row_10_null_is_not_stored_and_counts_as_success() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        assert_eq!(world.status(Ok(None)), 1);
        assert_eq!((world.sensor(Sensor::GetSuccess), world.sensor(Sensor::GetError)), (1, 0));
    }
    let mut world = World::stored(Compat::Kafka);
    world.status(Ok(None));
    assert_eq!(world.s(), 0, "no repair in Kafka");
    assert!(!world.beat(G, M).asked);
}

#[test]
fn k5_2_row_11_description_is_available() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        let (entry, read) = world.describe(G, true);
        assert_eq!(entry.error_code, 0);
        let read = read.unwrap();
        assert_eq!((&*read.group, read.epoch), (G, 0));
        assert_eq!(world.got(read.token, Ok(Some(encoded("a")))), (3, Some(encoded("a")), false));
        assert_eq!(world.sensor(Sensor::GetSuccess), 1);
        assert_eq!((world.durable, world.volatile), (0, 0));
    }
}

#[test]
fn k5_2_row_11_while_certain_the_plugin_may_normalise() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        assert_eq!(world.status(Ok(Some(encoded("normalised")))), 3);
    }
}

#[test]
fn k5_2_row_12_what_does_not_decode() {
    for (compat, status) in [(Compat::Kafka, 2), (Compat::Streamside, 1)] {
        for bytes in [&b""[..], b"\xff\xff\xff\xff", b"\x01\x01\x00trailing"] {
            let mut world = World::stored(compat);
            assert_eq!(world.status(Ok(Some(Bytes::from_static(bytes)))), status);
            assert_eq!((world.sensor(Sensor::GetSuccess), world.sensor(Sensor::GetError)), (0, 1));
        }
        let mut world = World::stored(compat);
        let half = encoded("a").slice(..4);
        assert_eq!(world.status(Ok(Some(half))), status);
    }
}

#[test]
fn k5_2_one_groups_failure_leaves_the_others() {
    for compat in BOTH {
        let mut world = World::stored(compat);
        world.join("h", M);
        world.store("h", M, "h");
        let bad = world.read(G).unwrap();
        let good = world.read("h").unwrap();
        assert_eq!(world.got(bad.token, Err(transient())).0, 2);
        assert_eq!(world.got(good.token, Ok(Some(encoded("h")))).0, 3);
    }
}

#[test]
fn k5_4_version_0_never_touches_the_plugin() {
    // A version 0 request cannot carry the flag: it is described with the flag false.
    for compat in BOTH {
        let mut world = World::stored(compat);
        assert_eq!(world.describe(G, false).1, None);
        assert_eq!(world.sensor(Sensor::GetSuccess), 0);
    }
}

#[test]
fn k5_4_flag_false_in_version_1_is_not_requested() {
    for compat in BOTH {
        let (entry, _) = World::stored(compat).describe(G, false);
        assert_eq!((entry.topology_description_status, entry.topology_description), (0, None));
    }
}
