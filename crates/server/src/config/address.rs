//! `HOST:PORT` and `PROTOCOL://HOST:PORT`, IPv6 in brackets.

use std::fmt;
use std::net::IpAddr;

/// A host as written and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port; 0 asks for a free one.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl HostPort {
    /// Parses `HOST:PORT`. The error says what is wrong, as a phrase.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or("the bracket of the IPv6 address is not closed")?;
            let address: std::net::Ipv6Addr =
                host.parse().map_err(|_| format!("{host:?} in brackets is not an IPv6 address"))?;
            let port = rest.strip_prefix(':').ok_or("no port after the IPv6 address")?;
            (address.to_string(), port)
        } else {
            let (host, port) = text.rsplit_once(':').ok_or("no port")?;
            if host.contains(':') {
                return Err("an IPv6 address stands in brackets, as [::1]:9092".to_owned());
            }
            (host.to_owned(), port)
        };
        let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let port = port
            .parse::<u16>()
            .ok()
            .filter(|_| digits)
            .ok_or_else(|| format!("{port:?} is not a port from 0 to 65535"))?;
        let fits = host.len() <= 255
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':'));
        if !fits {
            return Err(format!("{host:?} is not a host name or an address"));
        }
        Ok(Self { host, port })
    }

    /// Whether this means all addresses: empty, `0.0.0.0`, `::`, or the like.
    pub fn is_wildcard(&self) -> bool {
        self.host.is_empty()
            || match self.host.parse::<IpAddr>() {
                Ok(IpAddr::V6(v6)) => v6.is_unspecified() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_unspecified()),
                Ok(IpAddr::V4(v4)) => v4.is_unspecified(),
                Err(_) => self.host == "0",
            }
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(v6)) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
            Ok(IpAddr::V4(v4)) => v4.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// The host to bind: an empty one is the IPv4 wildcard.
    pub fn bind_host(&self) -> &str {
        if self.host.is_empty() { "0.0.0.0" } else { &self.host }
    }
}

/// What a listener speaks below the Kafka protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Nothing.
    Plaintext,
    /// TLS.
    Ssl,
    /// A login.
    SaslPlaintext,
    /// TLS and a login.
    SaslSsl,
}

impl Protocol {
    const ALL: [Self; 4] = [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl];

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// By Kafka's name, in any case.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Whether it has TLS.
    pub fn encrypted(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// Whether clients log in.
    pub fn with_login(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// Parses the one listener of `listeners` or `advertised.listeners`.
pub fn parse_listener(text: &str) -> Result<(Protocol, HostPort), String> {
    let mut parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let one = parts.next().ok_or("no listener is given")?;
    if parts.next().is_some() {
        return Err("only one listener can be given".to_owned());
    }
    let (protocol, address) = one.split_once("://").ok_or("a listener begins with its protocol, as PLAINTEXT://")?;
    let protocol = Protocol::of_name(protocol).ok_or_else(|| {
        format!("{protocol:?} is not a protocol; there are PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL")
    })?;
    Ok((protocol, HostPort::parse(address)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_of_both_address_families_are_read() {
        let (protocol, v4) = parse_listener("PLAINTEXT://127.0.0.1:9092").unwrap();
        assert_eq!(protocol, Protocol::Plaintext);
        assert_eq!((v4.host.as_str(), v4.port, v4.is_wildcard(), v4.is_loopback()), ("127.0.0.1", 9092, false, true));
        let (protocol, v6) = parse_listener("sasl_ssl://[::1]:9093").unwrap();
        assert!(protocol == Protocol::SaslSsl && protocol.encrypted() && protocol.with_login());
        assert_eq!((v6.host.as_str(), v6.port, v6.is_loopback()), ("::1", 9093, true));
        assert_eq!(v6.to_string(), "[::1]:9093");
        assert!(parse_listener("PLAINTEXT://:9092").unwrap().1.is_wildcard());
        assert_eq!(parse_listener("SSL://kafka.example.org:0").unwrap().1.to_string(), "kafka.example.org:0");
    }

    #[test]
    fn every_spelling_of_the_wildcard_is_known() {
        for host in ["0.0.0.0", "[::]", "[0:0::0]", "[::ffff:0.0.0.0]", "", "0"] {
            assert!(HostPort::parse(&format!("{host}:1")).unwrap().is_wildcard(), "{host}");
        }
        assert!(!HostPort::parse("[::1]:1").unwrap().is_wildcard());
    }

    #[test]
    fn wrong_listeners_say_what_is_wrong() {
        for (text, part) in [
            ("", "no listener"),
            ("127.0.0.1:9092", "begins with its protocol"),
            ("PLAINTEXT://127.0.0.1", "no port"),
            ("PLAINTEXT://127.0.0.1:", "not a port"),
            ("PLAINTEXT://127.0.0.1:70000", "not a port"),
            ("PLAINTEXT://127.0.0.1:+5", "not a port"),
            ("PLAINTEXT://::1:9092", "in brackets"),
            ("PLAINTEXT://[::1:9092", "not closed"),
            ("PLAINTEXT://[127.0.0.1]:1", "not an IPv6 address"),
            ("PLAINTEXT://a b:1", "not a host name"),
            ("PLAINTEXT://a:1,PLAINTEXT://b:2", "only one"),
            ("TLS://a:1", "not a protocol; there are"),
            ("HTTP://a:1", "not a protocol"),
        ] {
            let error = parse_listener(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
