//! What a stream of connections tells that no single one does: a cluster without streams groups, clients that go past us.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use streamside_proxy::intercept::Connection;

use crate::metrics::Metrics;

/// Client addresses that are remembered; beyond it nothing new is learnt, and nobody is accused.
const MAX_CLIENTS: usize = 10_000;
/// A client that goes past us keeps its bootstrap connection until it is idle; a probe or a tool ends sooner.
const LIVED: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
struct Client {
    /// Its connections.
    open: usize,
    /// When it last used us for more than metadata.
    used: Option<Instant>,
    /// It was named in the log.
    named: bool,
}

/// Who used us for what, by client address.
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

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection came.
    pub fn opened(&self, client: IpAddr) {
        let mut clients = self.clients();
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&client) {
            clients.retain(|_, client| client.open > 0);
        }
        if clients.len() < MAX_CLIENTS || clients.contains_key(&client) {
            clients.entry(client).or_default().open += 1;
        }
    }

    /// This client uses us for more than metadata.
    pub fn used(&self, client: IpAddr, now: Instant) {
        if let Some(client) = self.clients().get_mut(&client) {
            client.used = Some(now);
        }
    }

    /// A connection ended that began at `began`. Whether it counts as that of a client who goes past us: it asked for
    /// metadata only and lived on, while nothing else of its address was open or used us since.
    pub fn closed(&self, client: IpAddr, only_metadata: bool, began: Instant, now: Instant) -> bool {
        let mut clients = self.clients();
        let Some(entry) = clients.get_mut(&client) else { return false };
        entry.open = entry.open.saturating_sub(1);
        if !only_metadata {
            entry.used = Some(now);
        }
        let idle_on = only_metadata && now.saturating_duration_since(began) >= LIVED;
        if !idle_on || entry.open > 0 || entry.used.is_some_and(|used| used >= began) {
            if entry.open == 0 && entry.used.is_none() && !entry.named {
                clients.remove(&client);
            }
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

/// Sees every connection.
#[derive(Debug)]
pub struct Observer {
    bypass: Bypass,
    began: Mutex<HashMap<u64, Instant>>,
    lacks_streams: AtomicBool,
}

impl Observer {
    /// Nobody has come yet.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { bypass: Bypass::new(metrics), began: Mutex::default(), lacks_streams: AtomicBool::new(false) }
    }

    fn began(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection came.
    pub fn opened(&self, connection: &Connection) {
        self.bypass.opened(connection.peer.ip());
        // Whoever comes to a node's port has the address from us.
        if connection.node.is_some() {
            self.heard(connection);
        }
        self.began().insert(connection.id, Instant::now());
    }

    /// A connection ended. `only_metadata`: it asked where things are and for nothing else.
    pub fn closed(&self, connection: &Connection, only_metadata: bool) {
        let now = Instant::now();
        let began = self.began().remove(&connection.id);
        self.bypass.closed(connection.peer.ip(), only_metadata, began.unwrap_or(now), now);
    }

    /// This connection is used for more than metadata.
    pub fn heard(&self, connection: &Connection) {
        self.bypass.used(connection.peer.ip(), Instant::now());
    }

    /// An upstream told what it serves; `streams`: streams groups are among it.
    pub fn upstream_serves(&self, streams: bool) {
        if !streams && !self.lacks_streams.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the upstream does not serve streams groups (StreamsGroupHeartbeat, Kafka 4.1 and newer, there to be switched on before 4.2): everything passes, no topology is asked for"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_asks_for_metadata_and_stays_is_counted() {
        let metrics = Arc::new(Metrics::new("beside", None, "c"));
        let bypass = Bypass::new(Arc::clone(&metrics));
        let client: IpAddr = "10.0.0.1".parse().unwrap();
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let came = |n| (0..n).for_each(|_| bypass.opened(client));

        came(1);
        assert!(!bypass.closed(client, true, began, after(1)), "a probe is short");
        came(3);
        assert!(!bypass.closed(client, true, began, after(30)), "it has other connections");
        assert!(!bypass.closed(client, true, began, after(30)));
        assert!(bypass.closed(client, true, began, after(30)), "the last of a client who was never seen otherwise");
        came(2);
        assert!(!bypass.closed(client, false, after(40), after(50)));
        assert!(!bypass.closed(client, true, after(40), after(70)), "a bootstrap connection beside one that was used");
        came(1);
        assert!(bypass.closed(client, true, after(80), after(200)), "what was used before it is another application's");
        came(2);
        bypass.used(client, after(210));
        assert!(
            !bypass.closed(client, false, after(205), after(300))
                && !bypass.closed(client, true, after(205), after(300))
        );
        metrics.upstream_up(true);
        assert!(metrics.text().contains("streamside_bypassed_connections_total 2\n"));
    }

    #[test]
    fn beyond_the_bound_nothing_is_learnt_of_new_clients() {
        let bypass = Bypass::new(Arc::new(Metrics::new("beside", None, "c")));
        let client = |n: usize| IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
        (0..=MAX_CLIENTS).for_each(|n| bypass.opened(client(n)));
        assert_eq!(bypass.clients().len(), MAX_CLIENTS);
        let began = Instant::now();
        let after = began + LIVED;
        assert!(!bypass.closed(client(MAX_CLIENTS), true, began, after), "nobody is accused whom we do not know");
        assert!(bypass.closed(client(0), true, began, after));
        // Who has gone makes room.
        bypass.opened(client(MAX_CLIENTS));
        assert!(bypass.closed(client(MAX_CLIENTS), true, began, after));
    }
}
