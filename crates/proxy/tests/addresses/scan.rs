//! K16: answers that name upstream addresses wherever Kafka's schemas have room for one, scanned byte by byte.

use std::collections::BTreeSet;

use bytes::BytesMut;
use serde_json::Value as Json;
use streamside_proxy::addresses::REWRITTEN;
use streamside_wire::Message;
use streamside_wire::messages::describe_cluster::{DescribeClusterBroker, DescribeClusterResponse};
use streamside_wire::messages::describe_quorum::{DescribeQuorumResponse, Listener, Node};
use streamside_wire::messages::fetch::FetchResponse;
use streamside_wire::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};
use streamside_wire::messages::metadata::{MetadataResponse, MetadataResponseBroker};
use streamside_wire::messages::produce::ProduceResponse;
use streamside_wire::messages::share_acknowledge::ShareAcknowledgeResponse;
use streamside_wire::messages::share_fetch::ShareFetchResponse;

use super::answers::Leaders;
use super::support::{Nodes, body, through, vectors};

/// Every field of the rewritten answers whose name says that it has to do with an address.
const FIELDS: &[&str] = &[
    "0 NodeEndpoints.Host",
    "0 NodeEndpoints.Port",
    "1 NodeEndpoints.Host",
    "1 NodeEndpoints.Port",
    "3 Brokers.Host",
    "3 Brokers.Port",
    "10 Coordinators.Host",
    "10 Coordinators.Port",
    "10 Host",
    "10 Port",
    "55 Nodes.Listeners.Host",
    "55 Nodes.Listeners.Name",
    "55 Nodes.Listeners.Port",
    "60 Brokers.Host",
    "60 Brokers.Port",
    "60 EndpointType",
    "78 NodeEndpoints.Host",
    "78 NodeEndpoints.Port",
    "79 NodeEndpoints.Host",
    "79 NodeEndpoints.Port",
];

/// Calls `visit` with the path and value of each leaf.
fn leaves(json: &Json, path: &str, visit: &mut impl FnMut(&str, &Json)) {
    match json {
        Json::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(value, &path, visit);
            }
        }
        Json::Array(elements) => elements.iter().for_each(|element| leaves(element, path, visit)),
        leaf => visit(path, leaf),
    }
}

#[test]
fn k16_no_recorded_host_of_a_node_is_left_in_any_byte() {
    let (mut fields, mut scanned) = (BTreeSet::new(), 0);
    for vector in vectors() {
        let key = vector.api_key;
        if !REWRITTEN.iter().any(|(rewritten, _)| *rewritten == key) {
            continue;
        }
        let mut hosts = Vec::new();
        leaves(&vector.json, "", &mut |path, leaf| {
            let named = |word: &str| path.to_lowercase().split('.').any(|name| name.starts_with(word));
            if ["host", "port", "endpoint", "listeners", "nodeendpoints"].iter().any(|word| named(word))
                && !path.ends_with("NodeId")
                && !path.ends_with("Rack")
                && !path.contains("_tags")
            {
                fields.insert(format!("{key} {path}"));
                // These stand in no other field.
                if path.ends_with("Host") && leaf.as_str().is_some_and(|host| host.starts_with("host-")) {
                    hosts.push(leaf.as_str().unwrap().to_owned());
                }
            }
        });
        let out = through(key, vector.version, &vector.body, &Nodes::without(&[])).unwrap_or_else(|line| {
            panic!("{}: {line}", vector.name);
        });
        for host in &hosts {
            let found = out.windows(host.len()).any(|bytes| bytes == host.as_bytes());
            assert!(!found, "{host} is left in {}", vector.name);
            scanned += 1;
        }
    }
    assert_eq!(fields.iter().map(String::as_str).collect::<Vec<_>>(), {
        let mut sorted = FIELDS.to_vec();
        sorted.sort_unstable();
        sorted
    });
    assert!(scanned > 100, "{scanned} hosts");
}

/// No host, and no port as the four bytes or, for controllers, two that it takes.
fn assert_clean(what: &str, bytes: &[u8]) {
    let host = b"secret.upstream.test";
    assert!(!bytes.windows(host.len()).any(|part| part == host), "{what}: host");
    assert!(!bytes.windows(2).any(|part| part == PORT.to_be_bytes()), "{what}: port");
}

const HOST: &str = "b1.secret.upstream.test";
const PORT: u16 = 0xba23;

fn leaders_of<M: Leaders + Default>() {
    for version in M::WITH {
        let mut answer = M::default();
        for node_id in 1..=30 {
            answer.push(node_id, HOST, i32::from(PORT), Some("rack"));
            let upstream = body(&answer, version);
            let out = through(M::KEY, version, &upstream, &Nodes::without(&[])).unwrap();
            assert_eq!(out.len(), upstream.len());
            assert_clean(&format!("{} v{version}", M::KEY), &out);
        }
    }
}

#[test]
fn k16_neither_host_nor_port_is_left_wherever_a_schema_has_room_for_one() {
    leaders_of::<ProduceResponse>();
    leaders_of::<FetchResponse>();
    leaders_of::<ShareFetchResponse>();
    leaders_of::<ShareAcknowledgeResponse>();

    for nodes in [Nodes::without(&[]), Nodes::without(&[1])] {
        let clean = |key: i16, version: i16, upstream: BytesMut| {
            assert_clean(&format!("{key} v{version}"), &through(key, version, &upstream, &nodes).unwrap());
        };
        let (host, port) = (HOST.to_owned(), i32::from(PORT));
        for version in MetadataResponse::VERSIONS {
            let broker = MetadataResponseBroker { node_id: 1, host: host.clone(), port, ..Default::default() };
            let answer = MetadataResponse { brokers: vec![broker.clone(), broker], ..Default::default() };
            clean(3, version, body(&answer, version));
        }
        for version in FindCoordinatorResponse::VERSIONS {
            for error_code in [0, 15] {
                let answer = if version <= 3 {
                    FindCoordinatorResponse { node_id: 1, host: host.clone(), port, error_code, ..Default::default() }
                } else {
                    let row = Coordinator { node_id: 1, host: host.clone(), port, error_code, ..Default::default() };
                    FindCoordinatorResponse { coordinators: vec![row], ..Default::default() }
                };
                clean(10, version, body(&answer, version));
            }
        }
        for version in DescribeClusterResponse::VERSIONS {
            for endpoint_type in if version >= 1 { 1..=2 } else { 1..=1 } {
                let broker = DescribeClusterBroker { broker_id: 1, host: host.clone(), port, ..Default::default() };
                let answer = DescribeClusterResponse { endpoint_type, brokers: vec![broker], ..Default::default() };
                clean(60, version, body(&answer, version));
            }
        }
        let listener = Listener { name: "C".to_owned(), host, port: PORT, ..Default::default() };
        let node = Node { node_id: 1, listeners: vec![listener], ..Default::default() };
        clean(55, 2, body(&DescribeQuorumResponse { nodes: vec![node], ..Default::default() }, 2));
    }
}
