//! Logins of the old kind: after a SaslHandshake of version 0 the next frames are tokens without a header.
//!
//! They go through as they are, each one a frame; nothing of them is looked at beyond what tells a token from a request,
//! kept or logged.

use streamside_wire::api_key;

/// API key of SaslHandshake.
pub(super) const HANDSHAKE: i16 = 17;
/// API key of ApiVersions, which a broker answers before a login.
pub(super) const VERSIONS: i16 = 18;
/// API key of SaslAuthenticate, which carries tokens in frames with headers.
pub(super) const AUTHENTICATE: i16 = 36;

/// The longest token: `sasl.server.max.receive.size`.
pub(super) const TOKEN_BYTES: usize = 512 * 1024;

/// A handshake request longer than this names no mechanism.
pub(super) const HANDSHAKE_BYTES: usize = 72 * 1024;

/// Where a login stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Login {
    /// Frames have headers.
    #[default]
    Ordinary,
    /// A handshake of version 0 is unanswered; nothing behind it is looked at, since it may be a token.
    Asked(Mechanism),
    /// So many frames are tokens for certain; behind them a frame is a token unless it looks like a request.
    Tokens {
        certain: u8,
        /// Then frames have headers again, whatever they look like.
        exact: bool,
    },
}

/// How many tokens a mechanism sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// One.
    Plain,
    /// Two.
    Scram,
    /// One, and a single byte after a refusal.
    OauthBearer,
    /// Nobody knows: GSSAPI, plugged-in ones.
    Other,
}

impl Mechanism {
    /// From the body of a SaslHandshake request.
    pub(super) fn of_handshake(body: &[u8]) -> Self {
        let name = |body: &[u8]| -> Option<Mechanism> {
            let (_, rest) = body.split_at_checked(8)?;
            let (client_id, rest) = rest.split_first_chunk::<2>()?;
            let client_id = usize::try_from(i16::from_be_bytes(*client_id)).unwrap_or(0);
            let (_, rest) = rest.split_at_checked(client_id)?;
            let (length, rest) = rest.split_first_chunk::<2>()?;
            Some(match rest.get(..usize::from(u16::from_be_bytes(*length)))? {
                b"PLAIN" => Mechanism::Plain,
                b"OAUTHBEARER" => Mechanism::OauthBearer,
                name if name.starts_with(b"SCRAM-") => Mechanism::Scram,
                _ => Mechanism::Other,
            })
        };
        name(body).unwrap_or(Mechanism::Other)
    }
}

/// What a frame is while a login may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Request,
    Token,
    /// Its first bytes must be seen.
    Unknown,
}

impl Login {
    /// A handshake of version 0 was answered.
    pub(super) fn answered(&mut self, good: bool) {
        if let Login::Asked(mechanism) = *self {
            *self = match mechanism {
                _ if !good => Login::Ordinary,
                Mechanism::Plain => Login::Tokens { certain: 1, exact: true },
                Mechanism::Scram => Login::Tokens { certain: 2, exact: true },
                Mechanism::OauthBearer => Login::Tokens { certain: 1, exact: false },
                Mechanism::Other => Login::Tokens { certain: 0, exact: false },
            };
        }
    }

    /// What a frame of this length is. `start`: its first four bytes behind the length, once they are there.
    pub(super) fn frame(self, length: usize, start: Option<[u8; 4]>) -> Frame {
        match self {
            Login::Ordinary | Login::Asked(_) => Frame::Request,
            Login::Tokens { certain: 1.., .. } => Frame::Token,
            Login::Tokens { exact: true, .. } => Frame::Request,
            Login::Tokens { .. } if length < 8 => Frame::Token,
            Login::Tokens { .. } => match start {
                None => Frame::Unknown,
                Some([k1, k2, v1, v2]) => {
                    let (key, version) = (i16::from_be_bytes([k1, k2]), i16::from_be_bytes([v1, v2]));
                    if api_key::ALL.contains(&key) && (0..32).contains(&version) {
                        Frame::Request
                    } else {
                        Frame::Token
                    }
                }
            },
        }
    }

    /// A token went on.
    pub(super) fn token(&mut self) {
        if let Login::Tokens { certain, exact } = *self {
            *self = match certain.saturating_sub(1) {
                0 if exact => Login::Ordinary,
                certain => Login::Tokens { certain, exact },
            };
        }
    }
}
