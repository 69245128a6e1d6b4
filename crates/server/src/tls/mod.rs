//! Who are we, whom do we trust, and for how long still?
//!
//! | module | what it holds |
//! |---|---|
//! | [`acceptor`] | TLS of the Kafka listener: handshakes with a bound, words for what failed, certificates changed while running |
//! | [`expiry`] | the end of our certificates: read, told, counted |
//! | `validity` | the two dates of a certificate |
//!
//! Towards the cluster it is [`streamside_client::TlsConnector`].

pub mod acceptor;
pub mod expiry;
mod validity;

pub use acceptor::{Acceptor, NoHands, TlsError};

use crate::config::Settings;

/// Reads the listener's certificates again: new connections get them. What is wrong with them changes nothing but the
/// log.
pub fn reload(acceptor: Option<&Acceptor>, settings: &Settings) {
    if let (Some(acceptor), Some(tls)) = (acceptor, &settings.tls)
        && let Err(error) = acceptor.reload(tls)
    {
        tracing::error!(%error, "the certificates stay as they were");
    }
}
