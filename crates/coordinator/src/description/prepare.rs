//! The payload of a push: conversion, canonical bytes, hash and its first refusal, all before the lock is taken.

use bytes::Bytes;
use streamside_topology::{Description, DescriptionHash};
use streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest;

use super::mark::Bounds;
use super::reason::Reason;
use crate::config::{Compat, Limits};

/// Why a payload cannot go to the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PayloadRefusal {
    /// 42 with the text of spec kip1331 §4.2.
    Malformed(String),
    /// 135 with a reason word (H8).
    OverLimit { reason: Reason, message: String },
}

/// The payload of a push, converted, encoded and hashed before the lock is taken. Its first refusal, if any, is inside
/// and applied at step 12 (spec kip1331 §4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedPush {
    pub(crate) encoded: Bytes,
    /// Absent when the payload is malformed.
    pub(crate) hash: Option<DescriptionHash>,
    pub(crate) refusal: Option<PayloadRefusal>,
}

impl PreparedPush {
    /// Converts the description of a push. Needs no lock; linear in the description's size.
    #[must_use]
    pub fn prepare(request: &StreamsGroupTopologyDescriptionUpdateRequest, limits: &Limits, compat: Compat) -> Self {
        let description = match Description::from_wire(&request.topology_description) {
            Ok(description) => description,
            Err(error) => {
                let refusal = PayloadRefusal::Malformed(error.client_message().to_string());
                return Self { encoded: Bytes::new(), hash: None, refusal: Some(refusal) };
            }
        };
        let encoded = description.encode();
        let hash = streamside_topology::hash_of_encoded(&encoded);
        let refusal = match compat {
            Compat::Kafka => None,
            Compat::Streamside => over_limit(&description, encoded.len(), limits),
        };
        // What is over a limit never reaches a plugin: only its hash is kept.
        let encoded = if refusal.is_some() { Bytes::new() } else { encoded };
        Self { encoded, hash: Some(hash), refusal }
    }

    /// The payload of a push that is not even read: its `wire_bytes` are far beyond the limit on an encoded
    /// description. No verdict is kept, since its hash is not known.
    #[must_use]
    pub fn oversized(wire_bytes: usize, limits: &Limits) -> Self {
        let bounds = Bounds::from(limits);
        let refusal = Some(over(Reason::TooLarge, "bytes", wire_bytes as u64, bounds.bytes));
        Self { encoded: Bytes::new(), hash: None, refusal }
    }

    /// The bytes that a plugin would be given; empty when the payload was refused.
    #[must_use]
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }
}

fn over_limit(description: &Description, bytes: usize, limits: &Limits) -> Option<PayloadRefusal> {
    let bounds = Bounds::from(limits);
    let nodes = description.node_count() as u64;
    let name_bytes = description.longest_name() as u64;
    let bytes = bytes as u64;
    let (reason, what, found, allowed) = if bytes > bounds.bytes {
        (Reason::TooLarge, "bytes", bytes, bounds.bytes)
    } else if nodes > bounds.nodes {
        (Reason::TooManyNodes, "nodes", nodes, bounds.nodes)
    } else if name_bytes > bounds.name_bytes {
        (Reason::NameTooLong, "bytes in a name", name_bytes, bounds.name_bytes)
    } else {
        return None;
    };
    Some(over(reason, what, found, allowed))
}

fn over(reason: Reason, what: &str, found: u64, allowed: u64) -> PayloadRefusal {
    let message =
        format!("{}: The topology description has {found} {what}; at most {allowed} are accepted.", reason.word());
    PayloadRefusal::OverLimit { reason, message }
}
