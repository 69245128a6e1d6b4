//! Requests and responses, one module an API. Fields stand in the order of the wire.

pub mod delete_groups;
pub mod streams_group_describe;
pub mod streams_group_heartbeat;
pub mod streams_group_topology_description_update;
pub mod topology_description;
