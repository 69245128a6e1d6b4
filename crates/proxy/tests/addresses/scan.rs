//! K16: answers that name upstream addresses wherever Kafka's schemas have room for one, scanned byte by byte.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use streamside_proxy::addresses::REWRITTEN;

use super::support::{Nodes, through, vectors};

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
