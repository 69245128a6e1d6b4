//! API 93 (kip1331 §1.6).

use super::topology_description::TopologyDescription;

message! {
    /// A member pushes its group's description.
    StreamsGroupTopologyDescriptionUpdateRequest: key 93, versions 0..=0, flexible 0.. {
        group_id: String [0..],
        member_id: String [0..],
        topology_epoch: i32 [0..],
        topology_description: TopologyDescription [0..],
    }
}

message! {
    /// Whether the description was kept.
    StreamsGroupTopologyDescriptionUpdateResponse: key 93, versions 0..=0, flexible 0.. {
        throttle_time_ms: i32 [0..],
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = None,
    }
}
