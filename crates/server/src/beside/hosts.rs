//! Which member speaks from where: what a broker behind us shows as a member's host is our own address.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use streamside_proxy::intercept::Connection;

use crate::shell::answers::client_host;

use super::limits::{HOSTS, HOSTS_ID_BYTES, HOSTS_PER_CONNECTION};

/// Locks of the registry: enough that connections seldom meet.
const PARTS: usize = 16;

/// A member and the connection that it was last heard on.
struct Heard {
    host: Arc<str>,
    connection: u64,
}

/// What is registered for one connection.
struct OfConnection {
    host: Arc<str>,
    members: Vec<(Box<str>, Box<str>)>,
}

type Groups = HashMap<Box<str>, HashMap<Box<str>, Heard>>;

/// Client addresses of the members whose connection we hold. A connection's end takes them out; whatever finds no room
/// keeps the broker's view.
pub struct Hosts {
    groups: [Mutex<Groups>; PARTS],
    connections: [Mutex<HashMap<u64, OfConnection>>; PARTS],
    size: AtomicUsize,
    placing: RandomState,
}

impl Hosts {
    /// Nobody heard yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            groups: std::array::from_fn(|_| Mutex::default()),
            connections: std::array::from_fn(|_| Mutex::default()),
            size: AtomicUsize::new(0),
            placing: RandomState::new(),
        }
    }

    /// A member was heard on `connection`.
    pub fn heard(&self, connection: &Connection, group: &str, member: &str) {
        if group.len() + member.len() > HOSTS_ID_BYTES {
            return;
        }
        let mut groups = self.groups_of(group);
        let known = groups.get_mut(group).and_then(|members| members.get_mut(member));
        if known.as_ref().is_some_and(|heard| heard.connection == connection.id) {
            return;
        }
        let mut connections = self.of_connection(connection.id);
        let of_connection = connections
            .entry(connection.id)
            .or_insert_with(|| OfConnection { host: client_host(connection.peer.ip()).into(), members: Vec::new() });
        let listed = of_connection.members.iter().any(|(g, m)| &**g == group && &**m == member);
        if !listed && of_connection.members.len() >= HOSTS_PER_CONNECTION {
            return;
        }
        let heard = Heard { host: Arc::clone(&of_connection.host), connection: connection.id };
        match known {
            Some(known) => *known = heard,
            None if self.size.load(Ordering::Relaxed) >= HOSTS => return,
            None => {
                self.size.fetch_add(1, Ordering::Relaxed);
                groups.entry(group.into()).or_default().insert(member.into(), heard);
            }
        }
        if !listed {
            of_connection.members.push((group.into(), member.into()));
        }
    }

    /// Where a member speaks from, as Kafka writes it.
    #[must_use]
    pub fn host(&self, group: &str, member: &str) -> Option<Arc<str>> {
        self.groups_of(group).get(group)?.get(member).map(|heard| Arc::clone(&heard.host))
    }

    /// A connection ended.
    pub fn closed(&self, connection: u64) {
        let Some(of_connection) = self.of_connection(connection).remove(&connection) else { return };
        for (group, member) in of_connection.members {
            let mut groups = self.groups_of(&group);
            let Some(members) = groups.get_mut(&group) else { continue };
            // It may have moved to another connection meanwhile.
            if members.get(&member).is_some_and(|heard| heard.connection == connection) {
                members.remove(&member);
                self.size.fetch_sub(1, Ordering::Relaxed);
            }
            if members.is_empty() {
                groups.remove(&group);
            }
        }
    }

    /// How many members are registered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn groups_of(&self, group: &str) -> MutexGuard<'_, Groups> {
        let place = self.placing.hash_one(group) % PARTS as u64;
        locked(&self.groups[place as usize])
    }

    fn of_connection(&self, connection: u64) -> MutexGuard<'_, HashMap<u64, OfConnection>> {
        locked(&self.connections[(connection % PARTS as u64) as usize])
    }
}

impl Default for Hosts {
    fn default() -> Self {
        Self::new()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are whole after every step; a panic elsewhere does not spoil them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(id: u64, address: &str) -> Connection {
        Connection { id, peer: format!("{address}:1000").parse().unwrap(), node: Some(1) }
    }

    #[test]
    fn a_member_has_the_address_of_the_connection_it_was_last_heard_on() {
        let hosts = Hosts::new();
        hosts.heard(&connection(1, "192.0.2.1"), "g", "m");
        hosts.heard(&connection(1, "192.0.2.1"), "g", "m");
        assert_eq!(hosts.host("g", "m").as_deref(), Some("/192.0.2.1"));
        assert_eq!(hosts.host("g", "other"), None);
        hosts.heard(&connection(2, "192.0.2.2"), "g", "m");
        assert_eq!((hosts.host("g", "m").as_deref(), hosts.len()), (Some("/192.0.2.2"), 1));
        // The connection that it left takes nothing with it.
        hosts.closed(1);
        assert_eq!(hosts.host("g", "m").as_deref(), Some("/192.0.2.2"));
        hosts.closed(2);
        assert!(hosts.is_empty() && hosts.host("g", "m").is_none());
        assert!(hosts.groups.iter().all(|part| part.lock().unwrap().is_empty()));
    }

    #[test]
    fn a_connection_registers_so_many_members_and_no_more() {
        let hosts = Hosts::new();
        let one = connection(1, "192.0.2.1");
        for n in 0..HOSTS_PER_CONNECTION + 1 {
            hosts.heard(&one, "g", &n.to_string());
        }
        assert_eq!(hosts.len(), HOSTS_PER_CONNECTION);
        assert_eq!(hosts.host("g", &HOSTS_PER_CONNECTION.to_string()), None);
        hosts.closed(1);
        assert!(hosts.is_empty());
        hosts.heard(&connection(2, "192.0.2.1"), "g", "new");
        assert_eq!(hosts.len(), 1);
    }

    #[test]
    fn members_beyond_the_bound_over_all_connections_keep_the_brokers_view() {
        let hosts = Hosts::new();
        hosts.size.store(HOSTS, Ordering::Relaxed);
        hosts.heard(&connection(1, "192.0.2.1"), "g", "m");
        assert_eq!(hosts.host("g", "m"), None);
        hosts.size.store(0, Ordering::Relaxed);
        hosts.heard(&connection(1, "192.0.2.1"), "g", "m");
        assert_eq!(hosts.host("g", "m").as_deref(), Some("/192.0.2.1"));
    }

    #[test]
    fn ids_longer_than_the_bound_keep_the_brokers_view() {
        let hosts = Hosts::new();
        let longest = "m".repeat(HOSTS_ID_BYTES - 1);
        hosts.heard(&connection(1, "192.0.2.1"), "g", &longest);
        hosts.heard(&connection(1, "192.0.2.1"), "gg", &longest);
        assert_eq!((hosts.len(), hosts.host("g", &longest).is_some()), (1, true));
    }
}
