//! API 17. In version 1 the exchange that follows is wrapped in API 36, in version 0 it is bare.

message! {
    /// Names the mechanism to log in with.
    SaslHandshakeRequest: key 17, versions 0..=1, flexible 32767.. {
        mechanism: String [0..],
    }
}

message! {
    /// Whether it may be used, and which may.
    SaslHandshakeResponse: key 17, versions 0..=1, flexible 32767.. {
        error_code: i16 [0..],
        mechanisms: Vec<String> [0..],
    }
}
