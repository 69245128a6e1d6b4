//! The plugin trait. Descriptions cross it as the encoded body struct of API 93 (`TopologyDescription` v0), so that
//! there is one data model and a describe splices the bytes without decoding them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use crate::error::PluginError;

/// A call under way. Dropping it does not promise that the work stops.
pub type Call<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'static>>;

/// What a plugin is configured with: every key of the process as it was written, and each
/// `streamside.plugin.config.X` once more as `X`. Unknown keys pass through, as in Kafka (kip1331 §8.3).
pub type Config = BTreeMap<String, String>;

/// Why a call did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// One of our own stores could not; transient towards the client. The text is ours, so it begins with the reason
    /// word (docs/stability.md).
    #[error("{}: {message}", .trouble.word())]
    Store {
        /// Which reason word.
        trouble: StoreTrouble,
        /// What happened, in the store's words, without the reason word.
        message: String,
    },
    /// There is a copy but it is damaged. Only a get may answer it. [`crate::Runner`] turns it into "nothing there",
    /// so that the group is asked again (H1), except in `compat=kafka`.
    #[error("the stored copy is damaged: {message}")]
    Corrupt {
        /// What is wrong with it.
        message: String,
    },
    /// The call broke the contract: it threw, or gave no result at all.
    #[error("contract violation")]
    Contract,
    /// Broken beyond this call.
    #[error("fatal plugin error")]
    Fatal,
}

/// What kept one of our own stores from working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreTrouble {
    /// A bound of the store is met.
    Full,
    /// The disk, the file or the store itself failed.
    Failed,
}

impl StoreTrouble {
    /// The reason word.
    pub fn word(self) -> &'static str {
        match self {
            StoreTrouble::Full => "store_full",
            StoreTrouble::Failed => "store_failed",
        }
    }
}

impl Failure {
    /// A transient failure with a text and no wish when to be asked again.
    pub fn transient(message: impl Into<String>) -> Failure {
        Failure::Transient { message: Some(message.into()), retry_after: None }
    }

    /// A permanent failure with a text.
    pub fn permanent(message: impl Into<String>) -> Failure {
        Failure::Permanent { message: Some(message.into()) }
    }

    /// The reason word: metric label and log field (docs/stability.md).
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Permanent { .. } => "plugin_permanent",
            Failure::Transient { .. } => "plugin_transient",
            Failure::Store { trouble, .. } => trouble.word(),
            Failure::Corrupt { .. } => "store_failed",
            Failure::Contract => "plugin_contract",
            Failure::Fatal => "plugin_crashed",
        }
    }

    /// What the pushing client may read (kip1331 §4.3): a plugin's own text as it is, ours behind the reason word.
    pub fn client_message(&self) -> Option<String> {
        match self {
            Failure::Permanent { message } | Failure::Transient { message, .. } => message.clone(),
            Failure::Store { .. } => Some(self.to_string()),
            Failure::Contract => Some("Topology description plugin failed.".to_owned()),
            Failure::Corrupt { .. } | Failure::Fatal => None,
        }
    }
}

/// One entry of a group's history.
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
    /// Grows with every mutation of one group id for the life of the process, over deletion and re-creation of the
    /// group too (one counter for all groups will do). A store may treat a mutation with a smaller number than it has
    /// already applied as if it had come before: it answers success and changes nothing. 0 = not numbered.
    pub sequence: u64,
    /// Milliseconds since the Unix epoch.
    pub at: i64,
}

/// A topology description store. Calls may come concurrently, for the same group as well, and must not block the
/// caller: long work belongs into the returned future or behind it. The order of two mutations of one group is the
/// order in which the methods were called.
pub trait TopologyPlugin: Send + Sync + 'static {
    /// Called once, before any other call. The error is for the operator, not for a client: it stops the start (or
    /// the change while running) and so is a [`PluginError`].
    fn configure(&self, config: &Config) -> Result<(), PluginError>;
    /// Stores the description of `group` at `epoch`; idempotent per (group, epoch). What was stored before for this
    /// group, at whatever epoch, need not be kept.
    fn set(&self, group: &str, epoch: i32, description: Bytes, stamp: Stamp) -> Call<()>;
    /// The description at exactly `epoch`; `None` when there is nothing.
    fn get(&self, group: &str, epoch: i32) -> Call<Option<Bytes>>;
    /// Removes all epochs of `group`; succeeds for an unknown group.
    fn delete(&self, group: &str, stamp: Stamp) -> Call<()>;
    /// Called at the end, after the calls in flight have settled or were given up; idempotent. Blocks until what was
    /// accepted is safe, so call it where blocking is allowed.
    fn close(&self) {}
    /// Every (group, epoch) held; `None` where the store cannot list.
    fn list(&self) -> Option<Call<Vec<(String, i32)>>> {
        None
    }
    /// Versions of one group, newest first, at most `limit`; `None` where the store keeps none. Versions outlive a
    /// deletion of the group.
    fn history(&self, _group: &str, _limit: usize) -> Option<Call<Vec<Version>>> {
        None
    }
    /// Whether the store can work now; `None` where it cannot tell.
    fn health(&self) -> Option<Call<()>> {
        None
    }
    /// Bytes the store occupies; `None` where it cannot tell. Cheap enough for every scrape.
    fn size_bytes(&self) -> Option<u64> {
        None
    }
}
