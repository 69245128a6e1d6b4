//! What `description` may know of a group, by value. Standalone these come from `group`; beside a broker they will come
//! from what the broker answers.

use streamside_topology::Fingerprint;

/// A streams group at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// E: the group's current topology epoch; -1 without a topology.
    pub topology_epoch: i32,
    /// Of the assignment topology; unknown fits everything.
    pub fingerprint: Option<Fingerprint>,
    /// Which making of this group id this is.
    pub incarnation: u64,
    /// No members.
    pub empty: bool,
}

/// What a heartbeat's answer tells about solicitation (spec kip1331 §3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatFacts {
    /// The group after this heartbeat.
    pub group: GroupFacts,
    /// The request's member epoch was negative.
    pub leaving: bool,
    /// The answer's statuses contain STALE_TOPOLOGY.
    pub stale: bool,
    /// The answer's error code.
    pub error_code: i16,
    /// The request's version.
    pub version: i16,
}
