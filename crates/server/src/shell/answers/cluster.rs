//! ApiVersions, Metadata, FindCoordinator, DescribeCluster: one node that is its own coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::BytesMut;
use streamside_coordinator::group::is_topic_name;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use streamside_wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use streamside_wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use streamside_wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};

use super::{AnswerTo, Handled, Request, decode, served};
use crate::shell::context::{Context, Identity};

/// All operations of the cluster resource, and of a topic resource, where there is no authorizer.
const ALL_CLUSTER_OPERATIONS: i32 = 8096;
const ALL_TOPIC_OPERATIONS: i32 = 3576;
const NOT_ASKED: i32 = i32::MIN;
/// What a topic's id is when none is told.
const NO_TOPIC_ID: [u8; 16] = [0; 16];
/// Coordinator key types of FindCoordinator.
const KEY_TYPE_GROUP: i8 = 0;
const KEY_TYPE_TRANSACTION: i8 = 1;
const KEY_TYPE_SHARE: i8 = 2;
/// Endpoint types of DescribeCluster.
const ENDPOINT_BROKERS: i8 = 1;
const ENDPOINT_CONTROLLERS: i8 = 2;

fn rows() -> Vec<ApiVersion> {
    served()
        .into_iter()
        .map(|(api_key, min_version, max_version)| ApiVersion {
            api_key,
            min_version,
            max_version,
            ..Default::default()
        })
        .collect()
}

/// A version of ApiVersions above ours: error 35 in the form of version 0, which every client reads, and the
/// connection stays open.
pub(super) fn unsupported_api_versions(to: AnswerTo, output: &mut BytesMut) -> Handled {
    let (api_key, min_version, max_version) = (
        <ApiVersionsRequest as streamside_wire::Message<'_>>::API_KEY,
        *<ApiVersionsRequest as streamside_wire::Message<'_>>::VERSIONS.start(),
        *<ApiVersionsRequest as streamside_wire::Message<'_>>::VERSIONS.end(),
    );
    let body = ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION.0,
        api_keys: vec![ApiVersion { api_key, min_version, max_version, ..Default::default() }],
        ..Default::default()
    };
    match to.write_version(output, &body, 0) {
        Ok(()) => Handled::Done,
        Err(reason) => Handled::Close(reason),
    }
}

/// ApiVersions; version 5 carries whom the client believes to meet (KIP-1242).
pub(super) fn api_versions(context: &Arc<Context>, request: Request<'_>, output: &mut BytesMut) -> Handled {
    let body: ApiVersionsRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let to = request.answer_to();
    let refuse = |code: ErrorCode, output: &mut BytesMut| {
        to.done(output, &ApiVersionsResponse { error_code: code.0, ..Default::default() })
    };
    if request.version >= 3
        && !(is_software_name(&body.client_software_name) && is_software_name(&body.client_software_version))
    {
        return refuse(ErrorCode::INVALID_REQUEST, output);
    }
    if request.version >= 5 {
        match (body.cluster_id.as_deref(), body.node_id) {
            (None, -1) => {}
            (None, _) | (_, -1) => return refuse(ErrorCode::INVALID_REQUEST, output),
            (Some(cluster), node) => {
                if cluster != context.identity.cluster_id || node != context.identity.node_id {
                    return refuse(ErrorCode::REBOOTSTRAP_REQUIRED, output);
                }
            }
        }
    }
    let response = ApiVersionsResponse {
        api_keys: rows(),
        supported_features: supported_features(request.version),
        finalized_features_epoch: 1,
        finalized_features: vec![FinalizedFeatureKey {
            name: "streams.version".to_owned(),
            max_version_level: 1,
            min_version_level: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    to.done(output, &response)
}

/// A feature that may be off has the smallest level 0, which clients up to version 3 take for a mistake: Kafka spares
/// them.
fn supported_features(version: i16) -> Vec<SupportedFeatureKey> {
    if version < 4 {
        return Vec::new();
    }
    vec![SupportedFeatureKey {
        name: "streams.version".to_owned(),
        min_version: 0,
        max_version: 1,
        ..Default::default()
    }]
}

/// What Kafka takes for a client's software name and version: letters, digits, `.` and `-`, beginning and ending with
/// a letter or digit.
fn is_software_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    name.chars().all(inner)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Metadata: this node, and the topics that `streamside.topics` names. Topics that there are come before others when
/// names are asked, after them when ids are; a topic that is asked twice is told once.
pub(super) fn metadata(context: &Arc<Context>, request: Request<'_>, output: &mut BytesMut) -> Handled {
    let body: MetadataRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let to = request.answer_to();
    let identity = &context.identity;
    let operations = if body.include_topic_authorized_operations { ALL_TOPIC_OPERATIONS } else { NOT_ASKED };
    let known = |(name, partitions): (&String, &i32)| MetadataResponseTopic {
        name: Some(name.clone()),
        topic_id: topic_id(name),
        partitions: (0..*partitions).map(|partition| led_by(identity.node_id, partition)).collect(),
        topic_authorized_operations: operations,
        ..Default::default()
    };
    let topics = match body.topics {
        None => context.topics.iter().map(known).collect(),
        Some(asked) if asked.is_empty() && request.version == 0 => context.topics.iter().map(known).collect(),
        Some(asked) => {
            let ids: Vec<[u8; 16]> = distinct(asked.iter().map(|t| t.topic_id).filter(|id| *id != NO_TOPIC_ID));
            let names: Option<Vec<String>> = asked.iter().map(|t| t.name.clone()).collect();
            let refuse = |code, output: &mut BytesMut| to.done(output, &refused_metadata(&asked, code));
            match (request.version, names) {
                (..12, None) => return refuse(ErrorCode::INVALID_REQUEST, output),
                (..12, _) if !ids.is_empty() => return refuse(ErrorCode::INVALID_REQUEST, output),
                (12.., _) if !ids.is_empty() => {
                    let find = |id: &[u8; 16]| context.topics.iter().find(|(name, _)| topic_id(name) == *id).map(known);
                    let unknown = ids.iter().filter(|id| find(id).is_none()).map(|id| MetadataResponseTopic {
                        error_code: ErrorCode::UNKNOWN_TOPIC_ID.0,
                        name: None,
                        topic_id: *id,
                        ..Default::default()
                    });
                    unknown.chain(ids.iter().filter_map(find)).collect()
                }
                (_, None) => return refuse(ErrorCode::UNKNOWN_SERVER_ERROR, output),
                (_, Some(names)) => {
                    let names = distinct(names);
                    let found = names.iter().filter_map(|name| context.topics.get_key_value(name)).map(known);
                    let others = names.iter().filter(|name| !context.topics.contains_key(*name));
                    let others = others.map(|name| MetadataResponseTopic {
                        error_code: if is_topic_name(name) {
                            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0
                        } else {
                            ErrorCode::INVALID_TOPIC_EXCEPTION.0
                        },
                        name: Some(name.clone()),
                        topic_authorized_operations: operations,
                        ..Default::default()
                    });
                    found.chain(others).collect()
                }
            }
        }
    };
    let response = MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: identity.node_id,
            host: identity.host.clone(),
            port: i32::from(identity.port),
            ..Default::default()
        }],
        cluster_id: Some(identity.cluster_id.clone()),
        controller_id: identity.node_id,
        topics,
        cluster_authorized_operations: if body.include_cluster_authorized_operations {
            ALL_CLUSTER_OPERATIONS
        } else {
            NOT_ASKED
        },
        ..Default::default()
    };
    to.done(output, &response)
}

/// The answer to a request that Kafka fails as a whole: no broker, and every topic with the error.
fn refused_metadata(asked: &[MetadataRequestTopic], code: ErrorCode) -> MetadataResponse {
    let topics = asked.iter().map(|topic| MetadataResponseTopic {
        error_code: code.0,
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    });
    MetadataResponse { topics: topics.collect(), error_code: code.0, ..Default::default() }
}

fn led_by(node_id: i32, partition_index: i32) -> MetadataResponsePartition {
    MetadataResponsePartition {
        partition_index,
        leader_id: node_id,
        leader_epoch: 0,
        replica_nodes: vec![node_id],
        isr_nodes: vec![node_id],
        ..Default::default()
    }
}

/// Each once, in the order of the first.
fn distinct<T: Ord + Clone>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.into_iter().filter(|one| seen.insert(one.clone())).collect()
}

/// A topic's id: stable for its name, never all zeros (which means "none").
pub(super) fn topic_id(name: &str) -> [u8; 16] {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in name.bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    (hash | 1).to_be_bytes()
}

/// FindCoordinator: every group is here; transactions and share groups have no coordinator.
pub(super) fn find_coordinator(context: &Arc<Context>, request: Request<'_>, output: &mut BytesMut) -> Handled {
    let body: FindCoordinatorRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let version = request.version;
    let code = |key: &str| match body.key_type {
        KEY_TYPE_GROUP => ErrorCode::NONE,
        KEY_TYPE_TRANSACTION => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        KEY_TYPE_SHARE if version >= 6 && is_share_key(key) => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        _ => ErrorCode::INVALID_REQUEST,
    };
    let response = if version >= 4 {
        let coordinators = body.coordinator_keys.into_iter().map(|key| {
            let code = code(&key);
            let (node_id, host, port) = place(&context.identity, code == ErrorCode::NONE);
            // Kafka leaves the text empty, but for a type of keys that there is not.
            let unknown_type = !(KEY_TYPE_GROUP..=KEY_TYPE_SHARE).contains(&body.key_type);
            let error_message = Some(if unknown_type { default_text(code).to_owned() } else { String::new() });
            Coordinator { key, node_id, host, port, error_code: code.0, error_message, ..Default::default() }
        });
        FindCoordinatorResponse { coordinators: coordinators.collect(), ..Default::default() }
    } else {
        let code = code(&body.key);
        let (node_id, host, port) = place(&context.identity, code == ErrorCode::NONE);
        let error_message = (version >= 1).then(|| default_text(code).to_owned());
        FindCoordinatorResponse { error_code: code.0, error_message, node_id, host, port, ..Default::default() }
    };
    request.answer_to().done(output, &response)
}

/// Kafka's own text for a code.
fn default_text(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NONE => "NONE",
        ErrorCode::COORDINATOR_NOT_AVAILABLE => "The coordinator is not available.",
        _ => {
            "This most likely occurs because of a request being malformed by the client library or the message was sent \
             to an incompatible broker. See the broker logs for more details."
        }
    }
}

/// A share group's coordinator key: group, topic id, partition.
fn is_share_key(key: &str) -> bool {
    let mut parts = key.split(':');
    let (Some(group), Some(topic), Some(partition), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let in_base64 = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !group.trim().is_empty() && topic.len() == 22 && topic.bytes().all(in_base64) && partition.parse::<i32>().is_ok()
}

fn place(identity: &Identity, found: bool) -> (i32, String, i32) {
    if found { (identity.node_id, identity.host.clone(), i32::from(identity.port)) } else { (-1, String::new(), -1) }
}

/// DescribeCluster: this node; there is no controller endpoint to be asked for.
pub(super) fn describe_cluster(context: &Arc<Context>, request: Request<'_>, output: &mut BytesMut) -> Handled {
    let body: DescribeClusterRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let identity = &context.identity;
    let to = request.answer_to();
    let refuse = |code: ErrorCode, message: &str, output: &mut BytesMut| {
        let response = DescribeClusterResponse {
            error_code: code.0,
            error_message: Some(message.to_owned()),
            cluster_id: String::new(),
            ..Default::default()
        };
        to.done(output, &response)
    };
    match body.endpoint_type {
        ENDPOINT_BROKERS => {}
        ENDPOINT_CONTROLLERS => {
            return refuse(
                ErrorCode::MISMATCHED_ENDPOINT_TYPE,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
                output,
            );
        }
        other => {
            let text = format!("Unsupported endpoint type {other}");
            return refuse(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, &text, output);
        }
    }
    let response = DescribeClusterResponse {
        cluster_id: identity.cluster_id.clone(),
        controller_id: identity.node_id,
        brokers: vec![DescribeClusterBroker {
            broker_id: identity.node_id,
            host: identity.host.clone(),
            port: i32::from(identity.port),
            ..Default::default()
        }],
        cluster_authorized_operations: if body.include_cluster_authorized_operations {
            ALL_CLUSTER_OPERATIONS
        } else {
            NOT_ASKED
        },
        ..Default::default()
    };
    to.done(output, &response)
}

#[cfg(test)]
mod tests {
    use super::{is_software_name, topic_id};

    #[test]
    fn software_names_as_kafka_takes_them() {
        for good in ["apache-kafka-java", "4.4.0", "a", "conformance"] {
            assert!(is_software_name(good), "{good}");
        }
        for bad in ["", "-a", "a.", "a b", "ä"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }

    #[test]
    fn topic_ids_differ_and_are_never_zero() {
        assert_ne!(topic_id("a"), topic_id("b"));
        assert_eq!(topic_id("a"), topic_id("a"));
        assert_ne!(topic_id(""), [0; 16]);
    }
}
