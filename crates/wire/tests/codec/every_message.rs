//! One list of all messages, and what must hold for each in each version.

use std::fmt::Debug;

use bytes::BytesMut;
use streamside_wire::messages::{
    api_versions, consumer_group_describe, delete_groups, describe_cluster, describe_configs, describe_groups,
    describe_quorum, fetch, find_coordinator, incremental_alter_configs, list_config_resources, list_groups,
    list_offsets, metadata, offset_fetch, produce, sasl_authenticate, sasl_handshake, share_acknowledge, share_fetch,
    share_group_describe, streams_group_describe, streams_group_heartbeat, streams_group_topology_description_update,
};
use streamside_wire::value::Value;
use streamside_wire::{DecodeError, EncodeError, Malformed, Message, Reader, Tree, Unencodable, Writer};

/// What the tests do with a message whose type only the list knows.
pub trait Codec: Sync {
    fn name(&self) -> &'static str;
    fn api_key(&self) -> i16;
    fn is_request(&self) -> bool;
    fn versions(&self) -> std::ops::RangeInclusive<i16>;
    /// Decodes, and hands what came of it to the encoder.
    fn decode(&self, bytes: &[u8], version: i16, heap: Option<usize>) -> Result<Decoded, DecodeError>;
    /// Decodes and drops the result.
    fn probe(&self, bytes: &[u8], version: i16, heap: Option<usize>) -> Result<(), DecodeError>;
    fn encode_default(&self, version: i16) -> Result<BytesMut, EncodeError>;
}

pub struct Decoded {
    pub tree: Tree,
    pub left: usize,
    pub encoded: Result<BytesMut, EncodeError>,
    pub is_default: bool,
}

fn reader(bytes: &[u8], heap: Option<usize>) -> Reader<'_> {
    match heap {
        Some(limit) => Reader::with_heap_limit(bytes, limit),
        None => Reader::new(bytes),
    }
}

fn encode<'a, M: Message<'a>>(message: &M, version: i16) -> Result<BytesMut, EncodeError> {
    let mut out = BytesMut::new();
    message.encode(&mut Writer::new(&mut out), version).map(|()| out)
}

macro_rules! codecs {
    ($($module:ident::{$request:ident, $response:ident})+ ; answers: $($answers:ident::$answer:ident)+) => {
        /// Every message of the crate.
        pub static ALL: &[&dyn Codec] = &[$(&$request, &$response,)+ $(&$answer),+];

        $(
            codecs!(@one $module::$request true);
            codecs!(@one $module::$response false);
        )+
        $(codecs!(@one $answers::$answer false);)+
    };
    (@one $module:ident::$name:ident $is_request:literal) => {
        struct $name;

        impl Codec for $name {
            fn name(&self) -> &'static str {
                stringify!($name)
            }

            fn api_key(&self) -> i16 {
                $module::$name::API_KEY
            }

            fn is_request(&self) -> bool {
                $is_request
            }

            fn versions(&self) -> std::ops::RangeInclusive<i16> {
                $module::$name::VERSIONS
            }

            fn decode(&self, bytes: &[u8], version: i16, heap: Option<usize>) -> Result<Decoded, DecodeError> {
                fn run<'a, M>(mut r: Reader<'a>, version: i16) -> Result<Decoded, DecodeError>
                where
                    M: Message<'a> + Value<'a> + Default + PartialEq + Debug,
                {
                    let message = M::decode(&mut r, version)?;
                    Ok(Decoded {
                        tree: message.tree(version),
                        left: r.remaining(),
                        encoded: encode(&message, version),
                        is_default: message == M::default(),
                    })
                }
                run::<$module::$name>(reader(bytes, heap), version)
            }

            fn probe(&self, bytes: &[u8], version: i16, heap: Option<usize>) -> Result<(), DecodeError> {
                $module::$name::decode(&mut reader(bytes, heap), version).map(drop)
            }

            fn encode_default(&self, version: i16) -> Result<BytesMut, EncodeError> {
                encode(&$module::$name::default(), version)
            }
        }
    };
}

codecs! {
    list_offsets::{ListOffsetsRequest, ListOffsetsResponse}
    metadata::{MetadataRequest, MetadataResponse}
    offset_fetch::{OffsetFetchRequest, OffsetFetchResponse}
    find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse}
    describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse}
    list_groups::{ListGroupsRequest, ListGroupsResponse}
    sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse}
    api_versions::{ApiVersionsRequest, ApiVersionsResponse}
    describe_configs::{DescribeConfigsRequest, DescribeConfigsResponse}
    sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse}
    delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse}
    incremental_alter_configs::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse}
    describe_cluster::{DescribeClusterRequest, DescribeClusterResponse}
    list_config_resources::{ListConfigResourcesRequest, ListConfigResourcesResponse}
    streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse}
    streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse}
    streams_group_topology_description_update::{
        StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse
    }
    ; answers:
    produce::ProduceResponse
    fetch::FetchResponse
    describe_quorum::DescribeQuorumResponse
    consumer_group_describe::ConsumerGroupDescribeResponse
    share_group_describe::ShareGroupDescribeResponse
    share_fetch::ShareFetchResponse
    share_acknowledge::ShareAcknowledgeResponse
}

/// The codec of an API's request or response.
pub fn find(api_key: i16, is_request: bool) -> &'static dyn Codec {
    *ALL.iter()
        .find(|codec| codec.api_key() == api_key && codec.is_request() == is_request)
        .unwrap_or_else(|| panic!("no codec for {api_key}"))
}

#[test]
fn defaults_come_back_in_every_version() {
    let mut count = 0;
    for codec in ALL {
        for version in codec.versions() {
            let what = format!("{} v{version}", codec.name());
            let bytes = codec.encode_default(version).unwrap_or_else(|e| panic!("{what}: {e}"));
            let decoded = codec.decode(&bytes, version, None).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(decoded.is_default && decoded.left == 0, "{what}");
            assert_eq!(decoded.encoded.unwrap(), bytes, "{what}");
            count += 1;
        }
    }
    assert_eq!(count, 208);
}

#[test]
fn unknown_versions_are_an_error_of_their_own() {
    for codec in ALL {
        let (first, last) = codec.versions().into_inner();
        for version in [first - 1, last + 1, i16::MIN, i16::MAX] {
            let api_key = codec.api_key();
            let error = codec.probe(&[0; 64], version, None).unwrap_err();
            assert_eq!(error.reason, Malformed::UnsupportedVersion { api_key, version }, "{}", codec.name());
            assert!(error.is_unsupported_version());
            let error = codec.encode_default(version).unwrap_err();
            assert_eq!(error.reason, Unencodable::UnsupportedVersion { api_key, version }, "{}", codec.name());
        }
    }
}

mod encoding {
    use streamside_wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
    use streamside_wire::messages::metadata::MetadataRequest;
    use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatResponse;
    use streamside_wire::{Tags, Unencodable};

    use super::encode;

    #[test]
    fn kip1331_1_1_a_field_that_matters_is_not_dropped() {
        let answer = StreamsGroupHeartbeatResponse { topology_description_required: true, ..Default::default() };
        let error = encode(&answer, 0).unwrap_err();
        assert_eq!(error.reason, Unencodable::NotInVersion(0));
        assert_eq!(error.field, "topology_description_required");
        assert!(encode(&answer, 1).is_ok());
        let answer = StreamsGroupHeartbeatResponse { acceptable_recovery_lag_legacy: 5, ..Default::default() };
        assert_eq!(encode(&answer, 1).unwrap_err().field, "acceptable_recovery_lag_legacy");
    }

    #[test]
    fn kip1331_1_1_an_ignorable_field_is_dropped() {
        let with = |error_message: Option<&str>| DeleteGroupsResponse {
            results: vec![DeletableGroupResult {
                error_message: error_message.map(str::to_owned),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(encode(&with(Some("why")), 2).unwrap(), encode(&with(None), 2).unwrap());
        assert_ne!(encode(&with(Some("why")), 3).unwrap(), encode(&with(None), 3).unwrap());
    }

    #[test]
    fn null_has_no_place_where_the_version_forbids_it() {
        let all = MetadataRequest { topics: None, ..Default::default() };
        let error = encode(&all, 0).unwrap_err();
        assert_eq!((error.reason, error.field), (Unencodable::Null, "topics"));
        assert_eq!(&encode(&all, 1).unwrap()[..], [0xff; 4]);
    }

    #[test]
    fn settled_4_1_a_string_has_at_most_32767_bytes() {
        let with = |length| DeleteGroupsRequest { groups_names: vec!["x".repeat(length)], ..Default::default() };
        for version in [0, 3] {
            assert!(encode(&with(32767), version).is_ok());
            let error = encode(&with(32768), version).unwrap_err();
            assert_eq!((error.reason, error.kind()), (Unencodable::StringTooLong(32768), "string_too_long"));
        }
    }

    #[test]
    fn tags_need_order_and_a_flexible_version() {
        let mut tags = Tags::default();
        tags.push(7, b"x");
        let mut request = DeleteGroupsRequest { tags, ..Default::default() };
        assert_eq!(&encode(&request, 2).unwrap()[..], [1, 1, 7, 1, b'x']);
        assert_eq!(encode(&request, 1).unwrap_err().reason, Unencodable::NotInVersion(1));
        request.tags.push(7, b"");
        assert_eq!(encode(&request, 2).unwrap_err().reason, Unencodable::TagOrder);
    }
}
