//! What is plugged in from outside: four APIs decided by a coordinator, addresses by a node map, hosts of members.
//! Wire types only; every method gets the connection that it is about.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use crate::gateway::Questions;
use crate::handler::BoxFuture;

/// A connection pair, by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Unique within the process.
    pub id: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// The upstream node that it leads to; `None`: a bootstrap connection.
    pub node: Option<i32>,
}

/// A streams heartbeat as the client sent it, beside the answer.
#[derive(Debug)]
pub struct Beat<'a> {
    /// The request, in the client's version.
    pub request: &'a StreamsGroupHeartbeatRequest<'a>,
    /// The client's version.
    pub version: i16,
    /// `ClientId` of the header; empty when null.
    pub client_id: &'a str,
    /// The highest version of API 88 that the upstream of this connection has.
    pub upstream_version: i16,
    /// When the request went on to the upstream.
    pub sent: Instant,
}

/// What an answered heartbeat leads to.
#[derive(Default)]
pub struct Observed {
    /// The answer was changed.
    pub changed: bool,
    /// A question of ours, asked behind this heartbeat on the same connection; the answer of the heartbeat does not wait.
    pub question: Option<Box<dyn FnOnce(Questions) -> BoxFuture<()> + Send>>,
}

/// Why an intercepted request gets no answer but a closed connection; the text is for the log.
pub type Refused = String;

/// Where the four APIs are decided. Requests come in the client's version and answers are given in the newest shape;
/// the gateway converts both.
pub trait Intercept: Send + Sync + 'static {
    /// A pair was opened.
    fn opened(&self, _connection: &Connection) {}

    /// A pair ended. `only_metadata`: it asked for versions, metadata, coordinators and nothing else.
    fn closed(&self, _connection: &Connection, _only_metadata: bool) {}

    /// A heartbeat was answered by the broker. `answer` is in version 1 shape: fields that an old broker lacks are filled
    /// in here (`TaskOffsetIntervalMs`, 0 where the broker said nothing; `AcceptableRecoveryLag`, -1 then, which is also
    /// what Kafka 4.4 says beside an error or to who leaves), and so is `TopologyDescriptionRequired`, which version 0
    /// clients never get.
    fn heartbeat(
        &self,
        connection: &Arc<Connection>,
        beat: &Beat<'_>,
        answer: &mut StreamsGroupHeartbeatResponse<'_>,
    ) -> Observed;

    /// A push: decided here. `wire_bytes`: length of the request as it came.
    fn push(
        &self,
        connection: &Arc<Connection>,
        client_id: &str,
        request: StreamsGroupTopologyDescriptionUpdateRequest,
        wire_bytes: usize,
        questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupTopologyDescriptionUpdateResponse, Refused>>;

    /// A describe, in the client's version.
    fn describe(
        &self,
        connection: &Arc<Connection>,
        client_id: &str,
        request: StreamsGroupDescribeRequest,
        version: i16,
        questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupDescribeResponse, Refused>>;

    /// A delete, in the client's version.
    fn delete(
        &self,
        connection: &Arc<Connection>,
        client_id: &str,
        request: DeleteGroupsRequest,
        version: i16,
        questions: Questions,
    ) -> BoxFuture<Result<DeleteGroupsResponse, Refused>>;

    /// A member of a group of any kind was heard on this connection (heartbeats of classic, consumer, share and streams
    /// groups): its address is the one that a describe shall show.
    fn member_heard(&self, connection: &Arc<Connection>, group: &str, member: &str);

    /// The client's own address for a member, as Kafka writes it (`/192.0.2.1`); `None`: leave the broker's.
    fn client_host(&self, group: &str, member: &str) -> Option<Arc<str>>;

    /// The upstream of this connection told which versions it serves: (key, lowest, highest), ascending. `streams`: API 88
    /// is among them.
    fn upstream_versions(&self, _connection: &Connection, _rows: &[(i16, i16, i16)], _streams: bool) {}
}

/// Where clients reach a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Host that clients are told.
    pub host: Arc<str>,
    /// Port that clients are told.
    pub port: u16,
}

/// The node map, seen from the proxy.
pub trait Addresses: Send + Sync + 'static {
    /// Where clients reach this upstream node. Its port is open when this returns. `None`: it cannot be made reachable;
    /// the log says why.
    fn reach(&self, cluster_id: Option<&str>, node_id: i32, host: &str, port: i32) -> Option<Reach>;

    /// A full list of the cluster's nodes was seen: others are gone.
    fn seen(&self, _cluster_id: Option<&str>, _nodes: &[(i32, String, i32)]) {}
}
