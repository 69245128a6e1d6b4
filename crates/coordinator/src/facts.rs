//! What `description` may know of a group, by value. Standalone these come from `group`; beside a broker they come from
//! what the broker answers (`watched`).

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
    /// The incarnation is a guess: it *may* be another making of the group. Members are asked once more, and a copy that
    /// fits in everything else stays served meanwhile (H12).
    pub guessed: bool,
    /// No members.
    pub empty: bool,
}

/// What is known of a pusher and its group when a push arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A member that may read its group.
    Member,
    /// The group is there, the member is not in it.
    NotMember,
    /// There is no such streams group; the broker's own text where it gave one.
    NoGroup {
        /// Kafka has one for a missing group and one for a group of another type.
        message: Option<String>,
    },
    /// The broker refused the question itself (30, 14, 15, 16); the pusher gets the same.
    Refused {
        /// Its code.
        error_code: i16,
        /// Its text.
        message: Option<String>,
    },
    /// Nobody could say; 135 `not_verified`.
    Unknown,
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
    /// Another making of the group began with this heartbeat: windows of the one before have ended (H11).
    pub begun: bool,
}
