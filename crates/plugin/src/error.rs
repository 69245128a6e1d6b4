//! What an operator reads when a plugin cannot be used: at start, in `streamside check`, on a change while running.

use std::path::PathBuf;

/// Why a plugin could not be found, configured or opened. Each text says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// No store of this name.
    #[error("no description store is called '{class}'; known here: {known}; empty or 'none' switches the feature off")]
    Unknown {
        /// What was asked for.
        class: String,
        /// The names of this build.
        known: String,
    },
    /// A way of hosting plugins that this build lacks.
    #[error("{what} ('{class}') is not in this build; use one of {known}")]
    NotInThisBuild {
        /// What was asked for.
        class: String,
        /// Which kind of plugin that is.
        what: &'static str,
        /// The names of this build.
        known: String,
    },
    /// A value that the plugin cannot work with.
    #[error("{key}={value}: allowed is {allowed}")]
    BadConfig {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What would be accepted.
        allowed: String,
    },
    /// The plugin refused its configuration in its own words.
    #[error("{0}")]
    Refused(String),
    /// `configure` was called twice, or the plugin panicked in it.
    #[error("the plugin broke while it was configured: {0}")]
    Broken(String),
    /// The folder or file cannot be written.
    #[error("{} can't be written ({reason}); give the user that runs Streamside write access, or point streamside.data.dir elsewhere", .path.display())]
    NotWritable {
        /// Folder or file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Another process has the file open.
    #[error("{} is in use by another process; stop it, or give this one a streamside.data.dir of its own", .path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer version.
    #[error("{} has layout {found}, this build reads up to {known}; run the newer Streamside again, or move the file away to start empty (members push their descriptions again)", .path.display())]
    NewerLayout {
        /// The file.
        path: PathBuf,
        /// Layout in the file.
        found: u64,
        /// Newest layout of this build.
        known: u64,
    },
    /// Damaged, cut off, or not ours.
    #[error("{} is damaged or not a Streamside store ({reason}); restore it from a backup, or move it away to start empty (members push their descriptions again)", .path.display())]
    Torn {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Anything else that the system said.
    #[error("{} can't be opened: {reason}", .path.display())]
    Io {
        /// Folder or file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

impl PluginError {
    /// A word for metrics and logs.
    pub fn kind(&self) -> &'static str {
        match self {
            PluginError::Unknown { .. } => "unknown_class",
            PluginError::NotInThisBuild { .. } => "not_in_this_build",
            PluginError::BadConfig { .. } => "bad_config",
            PluginError::Refused(_) => "refused",
            PluginError::Broken(_) => "broken",
            PluginError::NotWritable { .. } => "not_writable",
            PluginError::Locked { .. } => "locked",
            PluginError::NewerLayout { .. } => "newer_layout",
            PluginError::Torn { .. } => "torn_file",
            PluginError::Io { .. } => "io",
        }
    }
}
