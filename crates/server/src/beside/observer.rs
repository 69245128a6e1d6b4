//! What a stream of connections tells that no single one does: a cluster without streams groups, clients that go past us.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use streamside_proxy::gateway::Questions;
use streamside_proxy::handler::BoxFuture;
use streamside_proxy::intercept::{Beat, Connection, Intercept, Observed, Refused};
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatResponse;
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use crate::metrics::Metrics;

/// Client addresses that are remembered; beyond it nothing new is learnt, and nobody is accused.
const MAX_CLIENTS: usize = 10_000;
/// A client that goes past us keeps its bootstrap connection until it is idle; a probe or a tool ends sooner.
const LIVED: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
struct Client {
    /// It used us for more than metadata.
    used: bool,
    /// It was named in the log.
    named: bool,
}

/// Who used us for what.
#[derive(Debug)]
pub struct Bypass {
    clients: Mutex<HashMap<IpAddr, Client>>,
    metrics: Arc<Metrics>,
}

impl Bypass {
    /// Nobody has come yet.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { clients: Mutex::default(), metrics }
    }

    /// This client uses us for more than metadata.
    pub fn used(&self, client: IpAddr) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() < MAX_CLIENTS || clients.contains_key(&client) {
            clients.entry(client).or_default().used = true;
        }
    }

    /// A connection of this client ended after `lived`, having asked for metadata only. Whether it counts as bypassed.
    pub fn only_metadata(&self, client: IpAddr, lived: Duration) -> bool {
        if lived < LIVED {
            return false;
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&client) {
            return false;
        }
        let entry = clients.entry(client).or_default();
        if entry.used {
            return false;
        }
        let named = std::mem::replace(&mut entry.named, true);
        drop(clients);
        self.metrics.connection_bypassed();
        if !named {
            tracing::warn!(
                client = %client,
                "a client asked for metadata here and went elsewhere with all else, so its groups are not seen: it reaches the brokers at addresses that are not ours; with streamside.addresses=advertised let the broker advertise our address, else let the client use our address alone as bootstrap.servers"
            );
        }
        true
    }
}

/// Stands before the interceptor and sees every connection.
pub struct Observer<I> {
    inner: Arc<I>,
    bypass: Bypass,
    began: Mutex<HashMap<u64, Instant>>,
    lacks_streams: AtomicBool,
}

impl<I> Observer<I> {
    /// Before `inner`.
    pub fn new(inner: Arc<I>, metrics: Arc<Metrics>) -> Self {
        Self { inner, bypass: Bypass::new(metrics), began: Mutex::default(), lacks_streams: AtomicBool::new(false) }
    }

    fn heard(&self, connection: &Connection) {
        self.bypass.used(connection.peer.ip());
    }
}

impl<I: Intercept> Intercept for Observer<I> {
    fn opened(&self, connection: &Connection) {
        // Whoever comes to a node's port has the address from us.
        if connection.node.is_some() {
            self.heard(connection);
        }
        self.began.lock().unwrap_or_else(PoisonError::into_inner).insert(connection.id, Instant::now());
        self.inner.opened(connection);
    }

    fn closed(&self, connection: &Connection, only_metadata: bool) {
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection.id);
        if only_metadata {
            self.bypass.only_metadata(connection.peer.ip(), began.map_or(Duration::ZERO, |at| at.elapsed()));
        } else {
            self.heard(connection);
        }
        self.inner.closed(connection, only_metadata);
    }

    fn heartbeat(
        &self,
        connection: &Arc<Connection>,
        beat: &Beat<'_>,
        answer: &mut StreamsGroupHeartbeatResponse<'_>,
    ) -> Observed {
        self.inner.heartbeat(connection, beat, answer)
    }

    fn push(
        &self,
        connection: &Arc<Connection>,
        client_id: &str,
        request: StreamsGroupTopologyDescriptionUpdateRequest,
        wire_bytes: usize,
        questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupTopologyDescriptionUpdateResponse, Refused>> {
        self.inner.push(connection, client_id, request, wire_bytes, questions)
    }

    fn describe(
        &self,
        connection: &Arc<Connection>,
        client_id: &str,
        request: StreamsGroupDescribeRequest,
        version: i16,
        questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupDescribeResponse, Refused>> {
        self.inner.describe(connection, client_id, request, version, questions)
    }

    fn delete(
        &self,
        connection: &Arc<Connection>,
        client_id: &str,
        request: DeleteGroupsRequest,
        version: i16,
        questions: Questions,
    ) -> BoxFuture<Result<DeleteGroupsResponse, Refused>> {
        self.inner.delete(connection, client_id, request, version, questions)
    }

    fn member_heard(&self, connection: &Arc<Connection>, group: &str, member: &str) {
        self.heard(connection);
        self.inner.member_heard(connection, group, member);
    }

    fn client_host(&self, group: &str, member: &str) -> Option<Arc<str>> {
        self.inner.client_host(group, member)
    }

    fn upstream_versions(&self, connection: &Connection, rows: &[(i16, i16, i16)], streams: bool) {
        if !streams && !self.lacks_streams.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the upstream does not serve streams groups (StreamsGroupHeartbeat, Kafka 4.1 and newer, there to be switched on before 4.2): everything passes, no topology is asked for"
            );
        }
        self.inner.upstream_versions(connection, rows, streams);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_asks_for_metadata_and_stays_is_counted() {
        let metrics = Arc::new(Metrics::new("beside", None, "c"));
        let bypass = Bypass::new(Arc::clone(&metrics));
        let [probe, passing, user]: [IpAddr; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|a| a.parse().unwrap());
        assert!(!bypass.only_metadata(probe, Duration::from_secs(1)), "a probe is short");
        assert!(bypass.only_metadata(passing, LIVED) && bypass.only_metadata(passing, LIVED));
        bypass.used(user);
        assert!(!bypass.only_metadata(user, LIVED), "its bootstrap connection");
        metrics.upstream_up(true);
        assert!(metrics.text().contains("streamside_bypassed_connections_total 2\n"));
    }
}
