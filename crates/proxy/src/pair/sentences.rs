//! What the log says about an upstream that does not speak Kafka's protocol.

use streamside_wire::frame::{self, Intruder};

/// About the upstream, by its first bytes; `None` where they may be an answer.
pub(super) fn upstream_speaks(first: &[u8]) -> Option<String> {
    if first.starts_with(b"HTTP") {
        return Some("the upstream speaks HTTP; streamside.upstream must name a broker's Kafka listener".to_owned());
    }
    Some(match frame::diagnose(first)? {
        Intruder::TlsHello | Intruder::TlsAlert => {
            "the upstream speaks TLS; set streamside.upstream.security.protocol to SSL or SASL_SSL".to_owned()
        }
        other => {
            format!("the upstream speaks {}; streamside.upstream must name a broker's Kafka listener", other.name())
        }
    })
}
