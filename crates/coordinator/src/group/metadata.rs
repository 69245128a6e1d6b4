//! What is known about a group and about a member, apart from tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A group's epochs and what they were derived from (kind 17).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMetadata {
    /// The group epoch; 1 before the first join is counted (spec kip1071 §2.5).
    pub epoch: i32,
    /// Hash of the partition counts of the topics that the topology needs (spec kip1071 §4.1).
    pub metadata_hash: i64,
    /// The topology epoch whose topics are there and fit together, else -1.
    pub validated_topology_epoch: i32,
    /// The assignment settings used at the last bump.
    pub last_assignment_configs: BTreeMap<String, String>,
    /// Which making of this group id this is; no two makings share one.
    pub incarnation: u64,
}

impl Default for GroupMetadata {
    fn default() -> Self {
        Self {
            epoch: 1,
            metadata_hash: 0,
            validated_topology_epoch: -1,
            last_assignment_configs: BTreeMap::new(),
            incarnation: 0,
        }
    }
}

/// For which epoch the target assignment is (kind 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMetadata {
    /// The group epoch that the target was computed for.
    pub assignment_epoch: i32,
    /// When it was computed, in ms since the Unix epoch; 0: unknown.
    pub timestamp: i64,
}

impl Default for TargetMetadata {
    fn default() -> Self {
        Self { assignment_epoch: 1, timestamp: 0 }
    }
}

/// Where a member answers interactive queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct UserEndpoint {
    pub host: String,
    pub port: u16,
}

/// What a member said about itself (kind 19).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberMetadata {
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// Rack, if any.
    pub rack_id: Option<Arc<str>>,
    /// From the request header.
    pub client_id: Arc<str>,
    /// As Kafka shows it: `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// How long it may take to give up tasks; -1: not told.
    pub rebalance_timeout_ms: i32,
    /// Epoch of the topology that it brought; -1: none.
    pub topology_epoch: i32,
    /// Which process it runs in; empty: not told.
    pub process_id: Arc<str>,
    /// Where it answers interactive queries.
    pub user_endpoint: Option<UserEndpoint>,
    /// `client.tag.*`, by key.
    pub client_tags: BTreeMap<String, String>,
}

impl Default for MemberMetadata {
    fn default() -> Self {
        let empty: Arc<str> = Arc::from("");
        Self {
            instance_id: None,
            rack_id: None,
            client_id: empty.clone(),
            client_host: empty.clone(),
            rebalance_timeout_ms: -1,
            topology_epoch: -1,
            process_id: empty,
            user_endpoint: None,
            client_tags: BTreeMap::new(),
        }
    }
}
