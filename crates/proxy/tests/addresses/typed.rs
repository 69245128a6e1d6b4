//! Answers that are read whole.

use std::sync::Arc;

use streamside_proxy::addresses::{answer_for, highest_version};
use streamside_proxy::intercept::Addresses;
use streamside_wire::messages::describe_cluster::{DescribeClusterBroker, DescribeClusterResponse};
use streamside_wire::messages::describe_quorum::{DescribeQuorumResponse, Listener, Node};
use streamside_wire::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};
use streamside_wire::messages::metadata::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use streamside_wire::{Message, Tags};

use super::support::{Nodes, OURS, body, port_of, read, through};

fn unknown() -> Tags {
    let mut tags = Tags::default();
    tags.push(9000, b"kept");
    tags
}

fn cluster(version: i16) -> MetadataResponse {
    let broker = |node_id| MetadataResponseBroker {
        node_id,
        host: format!("b{node_id}.upstream.test"),
        port: 9092,
        tags: if version >= 9 { unknown() } else { Tags::default() },
        ..Default::default()
    };
    let partition = |partition_index, leader_id| MetadataResponsePartition {
        partition_index,
        leader_id,
        replica_nodes: vec![1, 2],
        isr_nodes: vec![1, 2],
        ..Default::default()
    };
    MetadataResponse {
        brokers: vec![broker(1), broker(2)],
        cluster_id: (version >= 2).then(|| "the-cluster".to_owned()),
        controller_id: if version >= 1 { 2 } else { -1 },
        topics: vec![MetadataResponseTopic {
            name: Some("orders".to_owned()),
            partitions: vec![partition(0, 1), partition(1, 2)],
            ..Default::default()
        }],
        tags: if version >= 9 { unknown() } else { Tags::default() },
        ..Default::default()
    }
}

#[test]
fn metadata_names_our_addresses_and_nothing_else_changes() {
    for version in MetadataResponse::VERSIONS {
        let nodes = Nodes::without(&[]);
        let mut expected = cluster(version);
        let rewritten: MetadataResponse =
            read(&through(3, version, &body(&expected, version), &nodes).unwrap(), version);
        for broker in &mut expected.brokers {
            broker.host = OURS.to_owned();
            broker.port = i32::from(port_of(broker.node_id));
        }
        assert_eq!(rewritten, expected, "v{version}");

        let id = (version >= 2).then(|| "the-cluster".to_owned());
        let row = |n| (n, format!("b{n}.upstream.test"), 9092);
        assert_eq!(*nodes.seen.lock().unwrap(), [(id.clone(), vec![row(1), row(2)])]);
        assert_eq!(nodes.asked(), [row(1), row(2)].map(|(n, host, port)| (id.clone(), n, host, port)));
    }
}

#[test]
fn metadata_leaves_out_a_node_that_cannot_be_reached_as_kafka_does_without_a_listener() {
    for version in MetadataResponse::VERSIONS {
        let answer = through(3, version, &body(&cluster(version), version), &Nodes::without(&[2])).unwrap();
        let rewritten: MetadataResponse = read(&answer, version);
        assert_eq!(rewritten.brokers.len(), 1);
        assert_eq!(rewritten.controller_id, -1);
        let [here, gone] = &rewritten.topics[0].partitions[..] else { panic!("two partitions") };
        assert_eq!((here.leader_id, here.error_code), (1, 0));
        assert_eq!((gone.leader_id, gone.error_code, &gone.replica_nodes[..]), (-1, 5, &[1, 2][..]));
    }
}

#[test]
fn metadata_with_an_error_or_without_brokers_says_nothing_of_the_nodes() {
    let nodes = Nodes::without(&[]);
    let refused = MetadataResponse { error_code: 129, ..cluster(13) };
    through(3, 13, &body(&refused, 13), &nodes).unwrap();
    through(3, 13, &body(&MetadataResponse { brokers: vec![], ..cluster(13) }, 13), &nodes).unwrap();
    assert!(nodes.seen.lock().unwrap().is_empty());
}

/// What each version says of one coordinator.
fn coordinator(version: i16, key: &str, node_id: i32, host: &str, error_code: i16) -> FindCoordinatorResponse {
    let (host, port) = (host.to_owned(), if host.is_empty() { -1 } else { 9092 });
    let error_message = (version >= 1 && error_code != 0).then(|| "why".to_owned());
    if version <= 3 {
        let error_message = if version == 0 { Some(String::new()) } else { error_message };
        return FindCoordinatorResponse { node_id, host, port, error_code, error_message, ..Default::default() };
    }
    let key = key.to_owned();
    let row = Coordinator { key, node_id, host, port, error_code, error_message, tags: unknown() };
    FindCoordinatorResponse { coordinators: vec![row], tags: unknown(), ..Default::default() }
}

/// Node, host, port, error code.
fn only(answer: &FindCoordinatorResponse, version: i16) -> (i32, &str, i32, i16) {
    if version <= 3 {
        return (answer.node_id, &answer.host, answer.port, answer.error_code);
    }
    let [row] = &answer.coordinators[..] else { panic!("one row") };
    (row.node_id, &row.host, row.port, row.error_code)
}

#[test]
fn k18_a_coordinator_becomes_reachable_from_its_answer_alone() {
    for version in FindCoordinatorResponse::VERSIONS {
        let nodes = Nodes::without(&[]);
        let upstream = coordinator(version, "g", 3, "b3.upstream.test", 0);
        let answer = through(10, version, &body(&upstream, version), &nodes).unwrap();
        let rewritten: FindCoordinatorResponse = read(&answer, version);
        assert_eq!(only(&rewritten, version), (3, OURS, i32::from(port_of(3)), 0), "v{version}");
        assert_eq!(rewritten.tags, upstream.tags);
        assert_eq!(nodes.asked(), [(None, 3, "b3.upstream.test".to_owned(), 9092)]);
        assert!(nodes.seen.lock().unwrap().is_empty());
    }
}

#[test]
fn k19_an_errored_coordinator_is_relayed_and_teaches_nothing() {
    for version in FindCoordinatorResponse::VERSIONS {
        let nodes = Nodes::without(&[]);
        let upstream = body(&coordinator(version, "g", -1, "", 15), version);
        assert_eq!(through(10, version, &upstream, &nodes).unwrap(), upstream, "v{version}");

        // Kafka names no node beside an error; one that does must not be believed, nor passed on.
        let upstream = body(&coordinator(version, "g", 3, "b3.upstream.test", 15), version);
        let rewritten: FindCoordinatorResponse = read(&through(10, version, &upstream, &nodes).unwrap(), version);
        assert_eq!(only(&rewritten, version), (3, "", -1, 15));
        assert!(nodes.asked().is_empty());
    }
}

#[test]
fn k17_as_many_rows_as_the_broker_gave() {
    let row = |key: &str, node_id| coordinator(6, key, node_id, "b.upstream.test", 0).coordinators.remove(0);
    let upstream =
        FindCoordinatorResponse { coordinators: vec![row("g1", 1), row("g2", 2), row("g1", 1)], ..Default::default() };
    let answer = through(10, 6, &body(&upstream, 6), &Nodes::without(&[2])).unwrap();
    let rewritten: FindCoordinatorResponse = read(&answer, 6);
    let rows: Vec<_> = rewritten.coordinators.iter().map(|c| (&c.key[..], c.node_id, c.port, c.error_code)).collect();
    assert_eq!(rows, [("g1", 1, 20001, 0), ("g2", -1, -1, 15), ("g1", 1, 20001, 0)]);
}

#[test]
fn a_coordinator_that_cannot_be_reached_is_not_available() {
    for version in FindCoordinatorResponse::VERSIONS {
        let upstream = body(&coordinator(version, "g", 3, "b3.upstream.test", 0), version);
        let answer = through(10, version, &upstream, &Nodes::without(&[3])).unwrap();
        assert_eq!(only(&read(&answer, version), version), (-1, "", -1, 15), "v{version}");
    }
}

fn described(version: i16) -> DescribeClusterResponse {
    let broker = |broker_id, is_fenced| DescribeClusterBroker {
        broker_id,
        host: format!("b{broker_id}.upstream.test"),
        port: 9092,
        is_fenced: is_fenced && version >= 2,
        ..Default::default()
    };
    DescribeClusterResponse {
        cluster_id: "the-cluster".to_owned(),
        controller_id: 1,
        brokers: vec![broker(1, false), broker(2, true)],
        tags: unknown(),
        ..Default::default()
    }
}

#[test]
fn describe_cluster_names_our_addresses() {
    for version in DescribeClusterResponse::VERSIONS {
        let nodes = Nodes::without(&[]);
        let mut expected = described(version);
        let answer = through(60, version, &body(&expected, version), &nodes).unwrap();
        for broker in &mut expected.brokers {
            broker.host = OURS.to_owned();
            broker.port = i32::from(port_of(broker.broker_id));
        }
        assert_eq!(read::<DescribeClusterResponse>(&answer, version), expected);
        let row = |n| (n, format!("b{n}.upstream.test"), 9092);
        assert_eq!(*nodes.seen.lock().unwrap(), [(Some("the-cluster".to_owned()), vec![row(1), row(2)])]);

        let answer = through(60, version, &body(&described(version), version), &Nodes::without(&[1])).unwrap();
        let rewritten: DescribeClusterResponse = read(&answer, version);
        assert_eq!((rewritten.brokers.len(), rewritten.controller_id), (1, -1));
    }
}

#[test]
fn controllers_are_not_shown() {
    let nodes = Nodes::without(&[]);
    for version in 1..=2 {
        let upstream = DescribeClusterResponse { endpoint_type: 2, ..described(version) };
        let rewritten: DescribeClusterResponse =
            read(&through(60, version, &body(&upstream, version), &nodes).unwrap(), version);
        assert_eq!((rewritten.brokers.len(), rewritten.endpoint_type), (0, 2));
    }
    let listener =
        Listener { name: "CONTROLLER".into(), host: "c.upstream.test".into(), port: 9093, ..Default::default() };
    let upstream = DescribeQuorumResponse {
        nodes: vec![Node { node_id: 4, listeners: vec![listener], tags: unknown() }],
        tags: unknown(),
        ..Default::default()
    };
    let rewritten: DescribeQuorumResponse = read(&through(55, 2, &body(&upstream, 2), &nodes).unwrap(), 2);
    let expected =
        DescribeQuorumResponse { nodes: vec![Node { node_id: 4, tags: unknown(), ..Default::default() }], ..upstream };
    assert_eq!(rewritten, expected);
    assert!(nodes.asked().is_empty() && nodes.seen.lock().unwrap().is_empty());
}

#[test]
fn what_was_not_offered_or_is_not_for_clients_ends_the_connection() {
    let addresses: Arc<dyn Addresses> = Nodes::without(&[]);
    for api_key in [0, 1, 3, 10, 55, 60, 78, 79] {
        let highest = highest_version(api_key).unwrap();
        assert!(answer_for(api_key, highest, &addresses).is_ok());
        for version in [highest + 1, -1, i16::MAX, i16::MIN] {
            assert!(answer_for(api_key, version, &addresses).is_err(), "{api_key} v{version}");
        }
    }
    for api_key in [52, 53, 54, 58, 59, 82] {
        assert!(answer_for(api_key, 0, &addresses).is_err(), "{api_key}");
    }
    assert!(answer_for(10007, 300, &addresses).unwrap().is_none());
    assert_eq!(highest_version(18), None);
}
