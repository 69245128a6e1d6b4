//! Reason words: metric labels, log fields, and first words of texts that are ours.

use serde::{Deserialize, Serialize};

/// Why a push or a plugin call came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Reason {
    TooLarge,
    TooManyNodes,
    NameTooLong,
    PluginPermanent,
    PluginTransient,
    PluginTimeout,
    PluginBusy,
    PluginCrashed,
    PluginContract,
    /// The plugin is broken beyond the call; Kafka's synchronous `Error`.
    PluginFatal,
    StoreFull,
    StoreFailed,
    /// The broker did not say whether the pusher may push.
    NotVerified,
}

impl Reason {
    /// The word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::TooManyNodes => "too_many_nodes",
            Self::NameTooLong => "name_too_long",
            Self::PluginPermanent => "plugin_permanent",
            Self::PluginTransient => "plugin_transient",
            Self::PluginTimeout => "plugin_timeout",
            Self::PluginBusy => "plugin_busy",
            Self::PluginCrashed => "plugin_crashed",
            Self::PluginContract => "plugin_contract",
            // Named as what it comes to for everybody but the plugin itself.
            Self::PluginFatal => "plugin_crashed",
            Self::StoreFull => "store_full",
            Self::StoreFailed => "store_failed",
            Self::NotVerified => "not_verified",
        }
    }
}
