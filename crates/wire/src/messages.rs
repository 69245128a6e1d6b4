//! Requests and responses, one module an API. Fields stand in the order of the wire; each field's doc says in which
//! versions it is, and may be null.

pub mod api_versions;
pub mod consumer_group_describe;
pub mod delete_groups;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_quorum;
pub mod fetch;
pub mod find_coordinator;
pub mod incremental_alter_configs;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod metadata;
pub mod offset_fetch;
pub mod produce;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod share_acknowledge;
pub mod share_fetch;
pub mod share_group_describe;
pub mod streams_group_describe;
pub mod streams_group_heartbeat;
pub mod streams_group_topology_description_update;
pub mod topology_description;
