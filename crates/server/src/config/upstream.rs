//! What stands behind us: the keys `streamside.upstream` and its neighbours.

use std::collections::BTreeMap;
use std::time::Duration;

use super::address::HostPort;
use super::secured::UpstreamSecurity;
pub use streamside_proxy::gateway::Mode;

/// Most bootstrap addresses that are read.
const MAX_BOOTSTRAP: usize = 100;
/// Most nodes that `streamside.node.ports` may name.
const MAX_NODES: usize = 1000;

/// The cluster behind us, and how we stand before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// `streamside.upstream`: at least one address.
    pub bootstrap: Vec<HostPort>,
    /// `streamside.upstream.{security.protocol,ssl.*,sasl.*}`.
    pub security: UpstreamSecurity,
    /// `streamside.mode`.
    pub mode: Mode,
    /// `streamside.addresses`.
    pub addresses: Addressing,
    /// `streamside.node.ports`.
    pub node_ports: NodePorts,
    /// `streamside.upstream.push`.
    pub push: PushMode,
    /// `streamside.upstream.gone.after`: a group that is neither seen nor known upstream for so long is gone.
    pub gone_after: Duration,
    /// `streamside.upstream.client.host=restore`: describe answers show the client's own address.
    pub restore_client_host: bool,
    /// `streamside.describe.hidden.topics=redact` (H9).
    pub redact_hidden_topics: bool,
}

/// What clients are told about nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// A port of ours for each node.
    Gateway,
    /// What the one broker behind us says, which is our address.
    Advertised,
}

/// Who answers a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushMode {
    /// Passed on as well once the upstream itself asks for descriptions, else ours alone.
    Auto,
    /// We do.
    Own,
    /// We do, and it is passed on.
    Tee,
    /// Nobody is asked; groups are watched and recorded.
    Off,
}

/// Which port stands for which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePorts {
    /// The bootstrap listener's port + 1 + node id.
    AfterListener,
    /// So much + node id.
    Base(u16),
    /// As listed; of others as after the listener.
    Listed(BTreeMap<i32, NodePort>),
}

/// The port of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePort {
    /// Where clients reach it.
    pub port: u16,
    /// Where we reach it; `None`: where the cluster says.
    pub upstream: Option<HostPort>,
}

/// `HOST:PORT,…`; empty means none. The error says what is wrong, as a phrase.
pub fn bootstrap(text: &str) -> Result<Vec<HostPort>, String> {
    let mut list = Vec::new();
    for item in items(text) {
        let address = HostPort::parse(item).map_err(|problem| format!("{item}: {problem}"))?;
        if address.is_wildcard() || address.port == 0 {
            return Err(format!("{item}: nobody can be reached there"));
        }
        if !list.contains(&address) {
            list.push(address);
        }
    }
    if list.len() > MAX_BOOTSTRAP {
        return Err(format!("more than {MAX_BOOTSTRAP} addresses"));
    }
    Ok(list)
}

impl NodePorts {
    /// Empty, `BASE+id`, or `ID:PORT,ID:PORT=HOST:PORT,…`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::AfterListener);
        }
        if let Some(base) = text.strip_suffix("+id") {
            let base = port(base.trim_end())?;
            return Ok(Self::Base(base));
        }
        let mut listed: BTreeMap<i32, NodePort> = BTreeMap::new();
        for item in items(text) {
            let (left, upstream) = match item.split_once('=') {
                Some((left, right)) => (left, Some(bootstrap(right)?.pop().ok_or(format!("{item}: no address"))?)),
                None => (item, None),
            };
            let (id, number) = left.split_once(':').ok_or_else(|| format!("{item}: no port"))?;
            let id = id.trim().parse::<i32>().ok().filter(|id| *id >= 0);
            let id = id.ok_or_else(|| format!("{item}: {left:?} does not begin with a node id"))?;
            let number = port(number.trim())?;
            if let Some((other, _)) = listed.iter().find(|(_, node)| node.port == number) {
                return Err(format!("nodes {other} and {id} have the same port {number}"));
            }
            if listed.insert(id, NodePort { port: number, upstream }).is_some() {
                return Err(format!("node {id} is named twice"));
            }
        }
        if listed.len() > MAX_NODES {
            return Err(format!("more than {MAX_NODES} nodes"));
        }
        Ok(Self::Listed(listed))
    }

    /// The port that a node should have; `None`: there is no such port.
    #[must_use]
    pub fn wanted(&self, node: i32, listener: u16) -> Option<u16> {
        let after = |base: u16, add: i64| u16::try_from(i64::from(base) + add + i64::from(node)).ok();
        match self {
            Self::AfterListener => after(listener, 1),
            Self::Base(base) => after(*base, 0),
            Self::Listed(listed) => listed.get(&node).map_or_else(|| after(listener, 1), |node| Some(node.port)),
        }
    }

    /// Whether somebody wrote this node's port down, so that no other will do.
    #[must_use]
    pub fn is_fixed(&self, node: i32) -> bool {
        match self {
            Self::AfterListener => false,
            Self::Base(_) => true,
            Self::Listed(listed) => listed.contains_key(&node),
        }
    }

    /// Ports that are kept for nodes by name.
    pub fn reserved(&self) -> impl Iterator<Item = (i32, u16)> + '_ {
        let listed = match self {
            Self::Listed(listed) => Some(listed),
            _ => None,
        };
        listed.into_iter().flatten().map(|(id, node)| (*id, node.port))
    }
}

/// `90s`, `15m`, `12h`, `8d`, `500ms`; a bare number is milliseconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let milliseconds = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("{unit:?} is not one of ms, s, m, h, d")),
    };
    let all = number.parse::<u64>().ok().and_then(|n| n.checked_mul(milliseconds));
    let all = all.filter(|all| (1..=100 * 365 * 86_400_000).contains(all));
    all.map(Duration::from_millis).ok_or_else(|| "not a time from 1ms to 36500d".to_owned())
}

fn port(text: &str) -> Result<u16, String> {
    let number = text.parse::<u16>().ok().filter(|port| *port != 0 && text.bytes().all(|b| b.is_ascii_digit()));
    number.ok_or_else(|| format!("{text:?} is not a port from 1 to 65535"))
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_lists_are_read_and_what_leads_nowhere_is_refused() {
        let list = bootstrap("a:1, [::1]:9092,a:1,").unwrap();
        assert_eq!(list.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "[::1]:9092"]);
        assert!(bootstrap("").unwrap().is_empty());
        for bad in ["a", "0.0.0.0:1", ":1", "a:0", "a:1,b"] {
            assert!(bootstrap(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn node_ports_come_from_the_listener_a_base_or_a_list() {
        let plain = NodePorts::parse("").unwrap();
        assert_eq!((plain.wanted(0, 19092), plain.wanted(3, 19092)), (Some(19093), Some(19096)));
        assert_eq!((plain.wanted(i32::MAX, 1), plain.wanted(7, 65_530), plain.is_fixed(1)), (None, None, false));
        let base = NodePorts::parse("20000+id").unwrap();
        assert_eq!(
            (base.wanted(1, 5), base.wanted(45_535, 5), base.wanted(45_536, 5)),
            (Some(20001), Some(65535), None)
        );
        assert!(base.is_fixed(9));
        let listed = NodePorts::parse("1:19093, 2:19094=kafka-2.example:9092").unwrap();
        assert_eq!((listed.wanted(1, 5), listed.wanted(3, 5)), (Some(19093), Some(9)));
        assert_eq!((listed.is_fixed(1), listed.is_fixed(3)), (true, false));
        let NodePorts::Listed(map) = &listed else { unreachable!() };
        assert_eq!(map[&2].upstream.as_ref().map(ToString::to_string).as_deref(), Some("kafka-2.example:9092"));
        assert_eq!(listed.reserved().collect::<Vec<_>>(), [(1, 19093), (2, 19094)]);
    }

    #[test]
    fn wrong_node_ports_say_what_is_wrong() {
        for (text, part) in [
            ("0+id", "not a port"),
            ("65536+id", "not a port"),
            ("x+id", "not a port"),
            ("19093", "no port"),
            ("a:19093", "node id"),
            ("-1:19093", "node id"),
            ("1:0", "not a port"),
            ("1:19093,2:19093", "nodes 1 and 2 have the same port 19093"),
            ("1:19093,1:19094", "named twice"),
            ("1:19093=", "no address"),
            ("1:19093=kafka", "no port"),
        ] {
            let problem = NodePorts::parse(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [("8d", 691_200), ("12h", 43_200), ("15m", 900), ("90s", 90), ("2000ms", 2), ("1000", 1)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "d", "1w", "0s", "-1s", "1.5h", "99999999999999999999d", "36501d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
