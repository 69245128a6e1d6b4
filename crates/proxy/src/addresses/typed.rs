//! Answers that are read whole: decoded, changed, encoded. Unknown tagged fields stay; what stands behind a body goes.

use std::collections::HashSet;

use bytes::BytesMut;
use streamside_wire::header::ResponseHeader;
use streamside_wire::messages::describe_cluster::DescribeClusterResponse;
use streamside_wire::messages::describe_quorum::DescribeQuorumResponse;
use streamside_wire::messages::find_coordinator::FindCoordinatorResponse;
use streamside_wire::messages::metadata::MetadataResponse;
use streamside_wire::{DecodeError, EncodeError, ErrorCode, Message, Reader, frame};

use crate::intercept::{Addresses, Reach};

/// Heap that a decoded answer may take for each of its bytes. The densest honest one, brokers with short names, takes six.
const HEAP_PER_BYTE: usize = 16;

/// And on top.
const HEAP_BASE: usize = 64 * 1024;

/// `endpoint_type` of DescribeCluster: the rows are controllers.
const CONTROLLERS: i8 = 2;

/// What a client is told about a coordinator that we cannot make reachable.
const UNREACHABLE: &str = "The coordinator cannot be reached through this address.";

/// Why an answer could not be rewritten; the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The upstream's bytes are not the answer that they should be.
    #[error("the upstream's answer to api {api_key} version {version} cannot be read: {source}")]
    Unreadable {
        /// API key.
        api_key: i16,
        /// Version of the request.
        version: i16,
        /// What is wrong.
        source: DecodeError,
    },
    /// The changed answer has no bytes.
    #[error("the answer to api {api_key} version {version} cannot be written: {source}")]
    Unwritable {
        /// API key.
        api_key: i16,
        /// Version of the request.
        version: i16,
        /// What is wrong.
        source: EncodeError,
    },
}

impl RewriteError {
    /// One word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            RewriteError::Unreadable { .. } => "unreadable",
            RewriteError::Unwritable { .. } => "unwritable",
        }
    }
}

/// A Metadata answer (the body of its frame) with the addresses at which clients reach the nodes, as a whole frame.
///
/// # Errors
/// [`RewriteError`].
pub fn metadata(body: &[u8], version: i16, addresses: &dyn Addresses) -> Result<BytesMut, RewriteError> {
    rewrite(body, 3, version, |answer: &mut MetadataResponse| {
        let cluster_id = answer.cluster_id.as_deref();
        if answer.error_code == 0 && !answer.brokers.is_empty() {
            let nodes: Vec<_> = answer.brokers.iter().map(|b| (b.node_id, b.host.clone(), b.port)).collect();
            addresses.seen(cluster_id, &nodes);
        }
        let mut dropped = HashSet::new();
        answer.brokers.retain_mut(|broker| {
            let kept = placed(addresses, cluster_id, broker.node_id, &mut broker.host, &mut broker.port);
            if !kept {
                dropped.insert(broker.node_id);
            }
            kept
        });
        if dropped.is_empty() {
            return;
        }
        if dropped.contains(&answer.controller_id) {
            answer.controller_id = -1;
        }
        for partition in answer.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            if dropped.contains(&partition.leader_id) {
                partition.leader_id = -1;
                partition.error_code = ErrorCode::LEADER_NOT_AVAILABLE.0;
            }
        }
    })
}

/// A DescribeCluster answer (the body of its frame) with the addresses at which clients reach the nodes, as a whole frame.
///
/// # Errors
/// [`RewriteError`].
pub fn describe_cluster(body: &[u8], version: i16, addresses: &dyn Addresses) -> Result<BytesMut, RewriteError> {
    rewrite(body, 60, version, |answer: &mut DescribeClusterResponse| {
        if answer.endpoint_type == CONTROLLERS {
            answer.brokers.clear();
            return;
        }
        let cluster_id = Some(answer.cluster_id.as_str());
        if answer.error_code == 0 && !answer.brokers.is_empty() {
            let nodes: Vec<_> = answer.brokers.iter().map(|b| (b.broker_id, b.host.clone(), b.port)).collect();
            addresses.seen(cluster_id, &nodes);
        }
        let controller = answer.controller_id;
        answer.brokers.retain_mut(|broker| {
            let kept = placed(addresses, cluster_id, broker.broker_id, &mut broker.host, &mut broker.port);
            if !kept && broker.broker_id == controller {
                answer.controller_id = -1;
            }
            kept
        });
    })
}

/// A FindCoordinator answer (the body of its frame) with the addresses at which clients reach the coordinators, as a whole
/// frame: one row per key as the broker gave it.
///
/// # Errors
/// [`RewriteError`].
pub fn find_coordinator(body: &[u8], version: i16, addresses: &dyn Addresses) -> Result<BytesMut, RewriteError> {
    rewrite(body, 10, version, |answer: &mut FindCoordinatorResponse| {
        let one = Row {
            node_id: &mut answer.node_id,
            host: &mut answer.host,
            port: &mut answer.port,
            error_code: &mut answer.error_code,
            error_message: &mut answer.error_message,
        };
        if version <= 3 {
            one.rewrite(addresses);
        }
        for row in &mut answer.coordinators {
            let row = Row {
                node_id: &mut row.node_id,
                host: &mut row.host,
                port: &mut row.port,
                error_code: &mut row.error_code,
                error_message: &mut row.error_message,
            };
            row.rewrite(addresses);
        }
    })
}

/// A DescribeQuorum answer (the body of its frame) without the controllers' listeners, as a whole frame.
///
/// # Errors
/// [`RewriteError`].
pub fn describe_quorum(body: &[u8], version: i16) -> Result<BytesMut, RewriteError> {
    rewrite(body, 55, version, |answer: &mut DescribeQuorumResponse| {
        for node in &mut answer.nodes {
            node.listeners.clear();
        }
    })
}

/// Puts the address for clients in place of the upstream's; false if there is none.
fn placed(
    addresses: &dyn Addresses,
    cluster_id: Option<&str>,
    node_id: i32,
    host: &mut String,
    port: &mut i32,
) -> bool {
    // An empty host is resolved to the client's own machine by some clients.
    if node_id < 0 || host.is_empty() {
        return false;
    }
    match addresses.reach(cluster_id, node_id, host, *port) {
        Some(Reach { host: ours, port: open }) => {
            ours.as_ref().clone_into(host);
            *port = i32::from(open);
            true
        }
        None => false,
    }
}

/// A coordinator, in whichever shape the version has.
struct Row<'a> {
    node_id: &'a mut i32,
    host: &'a mut String,
    port: &'a mut i32,
    error_code: &'a mut i16,
    error_message: &'a mut Option<String>,
}

impl Row<'_> {
    fn rewrite(self, addresses: &dyn Addresses) {
        if *self.error_code != 0 || *self.node_id < 0 || self.host.is_empty() {
            if !self.host.is_empty() {
                self.host.clear();
                *self.port = -1;
            }
        } else if !placed(addresses, None, *self.node_id, self.host, self.port) {
            *self.node_id = -1;
            self.host.clear();
            *self.port = -1;
            *self.error_code = ErrorCode::COORDINATOR_NOT_AVAILABLE.0;
            *self.error_message = Some(UNREACHABLE.to_owned());
        }
    }
}

fn rewrite<M>(body: &[u8], api_key: i16, version: i16, change: impl FnOnce(&mut M)) -> Result<BytesMut, RewriteError>
where
    M: for<'a> Message<'a>,
{
    let unreadable = |source| RewriteError::Unreadable { api_key, version, source };
    let limit = body.len().saturating_mul(HEAP_PER_BYTE).saturating_add(HEAP_BASE);
    let mut r = Reader::with_heap_limit(body, limit);
    let header = ResponseHeader::decode(&mut r, api_key, version).map_err(unreadable)?;
    let mut answer = M::decode(&mut r, version).map_err(unreadable)?;
    change(&mut answer);

    let mut frame = BytesMut::with_capacity(4 + body.len() + body.len() / 4);
    frame::encode_answer(&mut frame, &header, version, &answer).map_err(|source| RewriteError::Unwritable {
        api_key,
        version,
        source,
    })?;
    Ok(frame)
}
