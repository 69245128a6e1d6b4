//! What can go wrong between us and a cluster, in words that say what to do.

use std::time::Duration;

use streamside_wire::error_code::ErrorCode;

use crate::options::OptionsError;

/// Why a question to a cluster has no answer.
///
/// Cheap to clone: one failed connection hands the same error to everyone who waits on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection could be made to any address.
    #[error("{address} can't be reached: {reason}")]
    Unreachable {
        /// `host:port`, or several separated by commas.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// Nothing came in time.
    #[error("{address} gave no answer to {what} within {} ms", after.as_millis())]
    Timeout {
        /// `host:port` asked.
        address: String,
        /// The request, or `connect`.
        what: &'static str,
        /// The time that was allowed.
        after: Duration,
    },
    /// The encrypted connection could not be made.
    #[error("{address}: {reason}")]
    Tls {
        /// `host:port` asked.
        address: String,
        /// What failed and what to change.
        reason: String,
    },
    /// The server did not accept who we are, or could not prove who it is.
    #[error("{address}: {reason}")]
    Auth {
        /// `host:port` asked.
        address: String,
        /// What failed and what to change.
        reason: String,
    },
    /// The server lacks the request, or every version of it that we speak.
    #[error("{address} does not offer {api} in a version that is known here (offered: {}, known: {}-{})", offered(*theirs), ours.0, ours.1)]
    UnsupportedVersion {
        /// `host:port` asked.
        address: String,
        /// Kafka's name of the request.
        api: &'static str,
        /// Our first and last version.
        ours: (i16, i16),
        /// The server's first and last version; none when it lacks the request.
        theirs: Option<(i16, i16)>,
    },
    /// The other side broke the protocol, or speaks another one.
    #[error("{address}: {reason}")]
    Protocol {
        /// `host:port` asked.
        address: String,
        /// What was wrong and what to change.
        reason: String,
    },
    /// The connection ended before the answer came.
    #[error("{address} closed the connection: {reason}")]
    Closed {
        /// `host:port` asked.
        address: String,
        /// When it ended and what to look at.
        reason: String,
    },
    /// What we were told about the cluster can't be used.
    #[error(transparent)]
    Settings(#[from] OptionsError),
    /// The server answered the question, or its part about one group, with an error code.
    #[error("{api} was answered with {}{}", code.name(), suffix(message))]
    Refused {
        /// Kafka's name of the request.
        api: &'static str,
        /// Kafka's error code.
        code: ErrorCode,
        /// The server's own text.
        message: Option<String>,
    },
}

impl Error {
    /// A stable word for metrics and logs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::Tls { .. } => "tls",
            Self::Auth { .. } => "auth",
            Self::UnsupportedVersion { .. } => "unsupported_version",
            Self::Protocol { .. } => "protocol",
            Self::Closed { .. } => "closed",
            Self::Settings(_) => "settings",
            Self::Refused { .. } => "refused",
        }
    }

    /// The code with which the server refused; none when the answer never came or made no sense.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

fn suffix(message: &Option<String>) -> String {
    match message {
        Some(text) if !text.is_empty() => format!(": {}", shown(text)),
        _ => String::new(),
    }
}

fn offered(theirs: Option<(i16, i16)>) -> String {
    match theirs {
        Some((first, last)) => format!("{first}-{last}"),
        None => "none".to_owned(),
    }
}

/// Text that came over the wire, made harmless for logs and terminals: control characters, and marks that turn the
/// reading direction or hide, become `\u{…}`.
pub(crate) fn shown(text: &str) -> String {
    let hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if hostile(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_show_code_and_harmless_text() {
        let error = Error::Refused {
            api: "StreamsGroupDescribe",
            code: ErrorCode::GROUP_ID_NOT_FOUND,
            message: Some("Group 'a\u{1b}[2J\u{202e}' not found.".to_owned()),
        };
        assert_eq!(
            error.to_string(),
            "StreamsGroupDescribe was answered with GROUP_ID_NOT_FOUND: Group 'a\\u{1b}[2J\\u{202e}' not found."
        );
        assert_eq!(error.kind(), "refused");
    }
}
