//! Where a server listens: `host:port`, as in `bootstrap.servers`.

use std::fmt;
use std::str::FromStr;

use crate::error::shown;
use crate::options::OptionsError;

/// Most addresses that a bootstrap list may hold.
const MAX_BOOTSTRAP: usize = 100;

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// Name or address; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// Reads a comma-separated list, as in `--bootstrap-server`.
    ///
    /// # Errors
    /// An empty list, one with more than 100 entries, or an entry that is no `host:port`.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, OptionsError> {
        let list: Vec<Self> = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .take(MAX_BOOTSTRAP + 1)
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        match list.len() {
            0 => Err(bad("no address is given; write host:port")),
            n if n > MAX_BOOTSTRAP => Err(bad("more than 100 addresses are given")),
            _ => Ok(list),
        }
    }
}

fn bad(reason: impl Into<String>) -> OptionsError {
    OptionsError { key: "bootstrap.servers".to_owned(), reason: reason.into() }
}

impl FromStr for Address {
    type Err = OptionsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || bad(format!("`{}` is not of the form host:port", shown(text)));
        // Kafka also takes PROTOCOL://host:port here.
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (host, port) = rest.rsplit_once(':').ok_or_else(refused)?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(refused)?,
            None if host.contains(':') => return Err(refused()),
            None => host,
        };
        let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(refused)?;
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control() || "/@".contains(c)) {
            return Err(refused());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A host that a broker advertised is hostile text like any other.
        let host = shown(&self.host);
        if self.host.contains(':') { write!(f, "[{host}]:{}", self.port) } else { write!(f, "{host}:{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        let list = Address::parse_list("a:1, [::1]:9092,,SSL://b.example:65535").expect("a good list");
        let shown: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a:1", "[::1]:9092", "b.example:65535"]);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in
            ["", ",", "host", "host:", "host:0", "host:65536", ":1", "::1:9092", "[::1:9092", "a b:1", "http://u@h/:1"]
        {
            assert!(Address::parse_list(text).is_err(), "{text}");
        }
        assert!(Address::parse_list(&"h:1,".repeat(101)).is_err());
    }
}
