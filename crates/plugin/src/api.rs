//! The plugin trait. Descriptions cross it as the encoded body struct of API 93 (`TopologyDescription` v0), so that
//! there is one data model and a describe splices the bytes without decoding them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

/// A call under way. Dropping it does not promise that the work stops.
pub type Call<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'static>>;

/// Why a call did not do its work (design: permanent, transient, contract violation, fatal).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Will never be accepted; the message reaches the pushing client.
    #[error("refused for good: {}", .message.as_deref().unwrap_or("no message"))]
    Permanent {
        /// Text for the pushing client.
        message: Option<String>,
    },
    /// May be accepted later; the message reaches the pushing client.
    #[error("refused for now: {}", .message.as_deref().unwrap_or("no message"))]
    Transient {
        /// Text for the pushing client.
        message: Option<String>,
        /// When the plugin would like to be asked again.
        retry_after: Option<Duration>,
    },
    /// The call broke the contract: it threw, or gave no result at all.
    #[error("contract violation")]
    Contract,
    /// Broken beyond this call.
    #[error("fatal plugin error")]
    Fatal,
}

/// The store's answer to one group's history request, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Milliseconds since the Unix epoch.
    pub at: i64,
    /// Topology epoch it was set for.
    pub epoch: i32,
    /// SHA-256 of the encoded bytes.
    pub hash: [u8; 32],
    /// The encoded description.
    pub description: Bytes,
}

/// What a mutation carries besides the description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Grows with every mutation of one group; a store may drop what comes too late.
    pub sequence: u64,
    /// Milliseconds since the Unix epoch.
    pub at: i64,
}

/// A topology description store. Calls may come concurrently, for the same group as well, and must not block the
/// caller: long work belongs into the returned future or behind it.
pub trait TopologyPlugin: Send + Sync + 'static {
    /// Called once, before any other call.
    fn configure(&self, config: &BTreeMap<String, String>) -> Result<(), Failure>;
    /// Stores the description of `group` at `epoch`; idempotent per (group, epoch).
    fn set(&self, group: &str, epoch: i32, description: Bytes, stamp: Stamp) -> Call<()>;
    /// The description at exactly `epoch`; `None` when there is nothing.
    fn get(&self, group: &str, epoch: i32) -> Call<Option<Bytes>>;
    /// Removes all epochs of `group`; succeeds for an unknown group.
    fn delete(&self, group: &str, stamp: Stamp) -> Call<()>;
    /// Called at the end; idempotent.
    fn close(&self) {}
    /// Every (group, epoch) held; `None` where the store cannot list.
    fn list(&self) -> Option<Call<Vec<(String, i32)>>> {
        None
    }
    /// Versions of one group, newest first, at most `limit`; `None` where the store keeps none.
    fn history(&self, _group: &str, _limit: usize) -> Option<Call<Vec<Version>>> {
        None
    }
    /// Whether the store can work now; `None` where it cannot tell.
    fn health(&self) -> Option<Call<()>> {
        None
    }
    /// Bytes the store occupies; `None` where it cannot tell.
    fn size_bytes(&self) -> Option<u64> {
        None
    }
}
