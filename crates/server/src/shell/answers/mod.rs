//! From a request's bytes to the answer's bytes, by API key.
//!
//! | module | APIs |
//! |---|---|
//! | [`cluster`] | ApiVersions, Metadata, FindCoordinator, DescribeCluster |
//! | [`groups`] | StreamsGroupHeartbeat, StreamsGroupTopologyDescriptionUpdate, StreamsGroupDescribe, DeleteGroups, ListGroups, DescribeGroups |
//! | [`configs`] | DescribeConfigs, IncrementalAlterConfigs, ListConfigResources |
//! | [`offsets`] | ListOffsets, OffsetFetch: what the stock tool's plain describe needs |
//!
//! A request that Kafka answers by closing the connection (malformed, unknown API, unsupported version) comes back as
//! [`Handled::Close`] with the one line for the log.

pub mod cluster;
pub mod configs;
pub mod groups;
pub mod offsets;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;
use streamside_wire::frame;
use streamside_wire::header::{self, RequestHeader};
use streamside_wire::messages::api_versions::ApiVersionsRequest;
use streamside_wire::messages::delete_groups::DeleteGroupsRequest;
use streamside_wire::messages::describe_cluster::DescribeClusterRequest;
use streamside_wire::messages::describe_configs::DescribeConfigsRequest;
use streamside_wire::messages::describe_groups::DescribeGroupsRequest;
use streamside_wire::messages::find_coordinator::FindCoordinatorRequest;
use streamside_wire::messages::incremental_alter_configs::IncrementalAlterConfigsRequest;
use streamside_wire::messages::list_config_resources::ListConfigResourcesRequest;
use streamside_wire::messages::list_groups::ListGroupsRequest;
use streamside_wire::messages::list_offsets::ListOffsetsRequest;
use streamside_wire::messages::metadata::MetadataRequest;
use streamside_wire::messages::offset_fetch::OffsetFetchRequest;
use streamside_wire::messages::streams_group_describe::StreamsGroupDescribeRequest;
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatRequest;
use streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest;
use streamside_wire::{MAX_STRING_BYTES, Message, Reader};

use super::context::{Context, HeldBytes};
use super::limits::{DECODED_HEAP_CEILING, DECODED_HEAP_FACTOR, DECODED_HEAP_FLOOR};

/// An answer that takes time: the whole frame, or why the connection is closed instead.
pub type Pending = Pin<Box<dyn Future<Output = Result<BytesMut, String>> + Send>>;

/// What became of one request.
pub enum Handled {
    /// The answer's frame was appended to the output.
    Done,
    /// The answer's whole frame, or why the connection is closed instead.
    Ready(Result<BytesMut, String>),
    /// The answer comes later.
    Later(Pending),
    /// Close, and log this.
    Close(String),
}

/// The versions that this server serves of every API it has, ascending by key.
pub(super) fn served() -> [(i16, i16, i16); 15] {
    fn row<'a, M: Message<'a>>() -> (i16, i16, i16) {
        (M::API_KEY, *M::VERSIONS.start(), *M::VERSIONS.end())
    }
    [
        row::<ListOffsetsRequest>(),
        row::<MetadataRequest>(),
        row::<OffsetFetchRequest>(),
        row::<FindCoordinatorRequest>(),
        row::<DescribeGroupsRequest>(),
        row::<ListGroupsRequest>(),
        row::<ApiVersionsRequest>(),
        row::<DescribeConfigsRequest>(),
        row::<DeleteGroupsRequest>(),
        row::<IncrementalAlterConfigsRequest>(),
        row::<DescribeClusterRequest>(),
        row::<ListConfigResourcesRequest>(),
        row::<StreamsGroupHeartbeatRequest<'_>>(),
        row::<StreamsGroupDescribeRequest>(),
        row::<StreamsGroupTopologyDescriptionUpdateRequest>(),
    ]
}

/// A request with its header taken off.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub key: i16,
    pub version: i16,
    pub correlation_id: i32,
    pub body: &'a [u8],
}

impl Request<'_> {
    /// Where the answer to this request goes.
    pub fn answer_to(&self) -> AnswerTo {
        AnswerTo { key: self.key, version: self.version, correlation_id: self.correlation_id }
    }

    /// The log's words for a body that cannot be read.
    fn malformed(&self, reason: impl std::fmt::Display) -> String {
        format!(
            "malformed request: api {} ({}), version {}, {reason}",
            self.key,
            streamside_wire::api_key::name(self.key),
            self.version
        )
    }
}

/// What an answer needs of its request.
#[derive(Clone, Copy)]
pub(super) struct AnswerTo {
    key: i16,
    pub version: i16,
    correlation_id: i32,
}

impl AnswerTo {
    /// Appends the answer's whole frame.
    ///
    /// # Errors
    /// When the answer cannot be written in this version (Kafka closes the connection then): the output is as before.
    pub fn write<'a, M: Message<'a>>(&self, output: &mut BytesMut, body: &M) -> Result<(), String> {
        self.write_version(output, body, self.version)
    }

    /// The same, in a version of its own: ApiVersions refused with error 35 are answered in version 0.
    pub fn write_version<'a, M: Message<'a>>(
        &self,
        output: &mut BytesMut,
        body: &M,
        version: i16,
    ) -> Result<(), String> {
        frame::encode_response(output, self.correlation_id, version, body)
            .map_err(|e| format!("the answer to api {}, version {version} cannot be written: {e}", self.key))
    }

    /// The answer as a frame of its own.
    pub fn frame<'a, M: Message<'a>>(&self, body: &M) -> Result<BytesMut, String> {
        let mut output = BytesMut::new();
        self.write(&mut output, body)?;
        Ok(output)
    }

    /// The answer, appended at once.
    pub fn done<'a, M: Message<'a>>(&self, output: &mut BytesMut, body: &M) -> Handled {
        match self.write(output, body) {
            Ok(()) => Handled::Done,
            Err(reason) => Handled::Close(reason),
        }
    }
}

/// Answers one request: `bytes` are header and body without the length.
pub(super) fn handle(context: &Arc<Context>, bytes: &[u8], client_host: &str, output: &mut BytesMut) -> Handled {
    let peek = match header::peek(bytes) {
        Ok(peek) => peek,
        Err(e) => return Handled::Close(format!("malformed request header: {e}")),
    };
    let (key, version) = (peek.api_key, peek.api_version);
    let Some((_, min, max)) = served().into_iter().find(|row| row.0 == key) else {
        return Handled::Close(format!(
            "api {key} ({}) version {version} is not served here; standalone Streamside serves streams groups only",
            streamside_wire::api_key::name(key)
        ));
    };
    let supported = (min..=max).contains(&version);
    if !supported && key != ApiVersionsRequest::API_KEY {
        return Handled::Close(format!(
            "api {key} ({}) version {version} is not supported; {min} to {max} are",
            streamside_wire::api_key::name(key)
        ));
    }
    if !supported {
        let to = AnswerTo { key, version, correlation_id: peek.correlation_id };
        return cluster::unsupported_api_versions(to, output);
    }
    let mut reader = Reader::with_heap_limit(bytes, heap_limit(bytes.len()));
    let header = match RequestHeader::decode(&mut reader) {
        Ok(header) => header,
        Err(e) => return Handled::Close(format!("malformed request header: api {key}, version {version}, {e}")),
    };
    let request = Request { key, version, correlation_id: header.correlation_id, body: reader.rest() };
    let client_id = header.client_id.as_deref().unwrap_or_default();
    match key {
        StreamsGroupHeartbeatRequest::API_KEY => groups::heartbeat(context, request, client_id, client_host, output),
        StreamsGroupTopologyDescriptionUpdateRequest::API_KEY => groups::push(context, request),
        StreamsGroupDescribeRequest::API_KEY => groups::describe(context, request),
        DeleteGroupsRequest::API_KEY => groups::delete(context, request),
        ListGroupsRequest::API_KEY => groups::list(context, request),
        DescribeGroupsRequest::API_KEY => groups::describe_classic(context, request),
        ApiVersionsRequest::API_KEY => cluster::api_versions(context, request, output),
        MetadataRequest::API_KEY => cluster::metadata(context, request, output),
        FindCoordinatorRequest::API_KEY => cluster::find_coordinator(context, request, output),
        DescribeClusterRequest::API_KEY => cluster::describe_cluster(context, request, output),
        DescribeConfigsRequest::API_KEY => configs::describe(context, request),
        IncrementalAlterConfigsRequest::API_KEY => configs::alter(context, request),
        ListConfigResourcesRequest::API_KEY => configs::list(context, request),
        ListOffsetsRequest::API_KEY => offsets::list_offsets(context, request, output),
        OffsetFetchRequest::API_KEY => offsets::offset_fetch(context, request, output),
        _ => Handled::Close(format!("api {key} has no handler")),
    }
}

/// Answers one large request, `frame` with its length, on a thread of its own, when its turn comes.
pub(super) fn handle_large(context: &Arc<Context>, frame: Vec<u8>, client_host: &str) -> Pending {
    let held = HeldBytes::new(&context.partial_bytes, frame.len());
    let (context, client_host) = (Arc::clone(context), client_host.to_owned());
    Box::pin(async move {
        let Ok(turn) = Arc::clone(&context.large).acquire_owned().await else { return Err("shutting down".to_owned()) };
        let work = tokio::task::spawn_blocking(move || {
            let mut output = BytesMut::new();
            let handled = handle(&context, frame.get(4..).unwrap_or_default(), &client_host, &mut output);
            drop((frame, held, turn));
            (handled, output)
        });
        match work.await {
            Ok((Handled::Done, output)) => Ok(output),
            Ok((Handled::Ready(answer), _)) => answer,
            Ok((Handled::Later(pending), _)) => pending.await,
            Ok((Handled::Close(reason), _)) => Err(reason),
            Err(_) => Err(DEFECT.to_owned()),
        }
    })
}

/// What the log says of a connection whose request panicked.
pub(crate) const DEFECT: &str = "a request met a defect of ours; see the log";

/// A text as it fits into an answer: an id or a name that it repeats may be as long as a text may be.
pub(crate) fn fitting(mut text: String) -> String {
    if text.len() > MAX_STRING_BYTES {
        text.truncate(text.floor_char_boundary(MAX_STRING_BYTES - '…'.len_utf8()));
        text.push('…');
    }
    text
}

fn heap_limit(wire_bytes: usize) -> usize {
    let ceiling = DECODED_HEAP_CEILING.max(wire_bytes.saturating_mul(2));
    wire_bytes.saturating_mul(DECODED_HEAP_FACTOR).clamp(DECODED_HEAP_FLOOR, ceiling)
}

/// Decodes a body; bytes after its end are ignored, as Kafka ignores them.
pub(super) fn decode<'a, M: Message<'a>>(request: &Request<'a>) -> Result<M, String> {
    let mut reader = Reader::with_heap_limit(request.body, heap_limit(request.body.len()));
    M::decode(&mut reader, request.version).map_err(|e| request.malformed(e))
}

/// A client's address as Kafka shows it: `/127.0.0.1`, IPv6 with all eight groups.
#[must_use]
pub fn client_host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => format!("/{v4}"),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => format!("/{v4}"),
            None => {
                let groups: Vec<String> = v6.segments().iter().map(|s| format!("{s:x}")).collect();
                format!("/{}", groups.join(":"))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::client_host;

    #[test]
    fn hosts_look_as_javas_do() {
        assert_eq!(client_host("127.0.0.1".parse().unwrap()), "/127.0.0.1");
        assert_eq!(client_host("::1".parse().unwrap()), "/0:0:0:0:0:0:0:1");
        assert_eq!(client_host("::ffff:10.0.0.7".parse().unwrap()), "/10.0.0.7");
    }
}
