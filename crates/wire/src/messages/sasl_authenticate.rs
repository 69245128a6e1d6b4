//! API 36: one round of a login.

use bytes::Bytes;

message! {
    /// The mechanism's bytes.
    SaslAuthenticateRequest: key 36, versions 0..=2, flexible 2.. {
        auth_bytes: Bytes [0..],
    }
}

message! {
    /// The mechanism's bytes in return.
    SaslAuthenticateResponse: key 36, versions 0..=2, flexible 2.. {
        error_code: i16 [0..],
        error_message: Option<String> [0..] null [0..] = Some(String::new()),
        auth_bytes: Bytes [0..],
        /// 0 if the session has no end.
        session_lifetime_ms: i64 [1..] [ignorable] = 0,
    }
}
