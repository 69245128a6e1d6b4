//! What can be wrong with bytes, or with a message that is to become bytes.

/// Bytes that are not the message they claim to be. The peer's connection cannot be trusted any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at `{field}`")]
pub struct DecodeError {
    /// What is wrong.
    pub reason: Malformed,
    /// The innermost field that was being read, in snake case; `-` outside of any field.
    pub field: &'static str,
}

/// Why bytes were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end too early.
    #[error("{wanted} bytes wanted, {left} left")]
    Truncated {
        /// Bytes that the value needs.
        wanted: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// An array claims more elements than there are bytes.
    #[error("{count} elements claimed in {left} bytes")]
    TooManyElements {
        /// Elements claimed.
        count: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// More elements than [`crate::reader::MAX_ELEMENTS`], or tagged fields than [`crate::reader::MAX_TAGS`].
    #[error("{0} elements are too many")]
    OverMaximum(usize),
    /// A string above [`crate::MAX_STRING_BYTES`].
    #[error("string of {0} bytes is too long")]
    StringTooLong(usize),
    /// A variable-length integer of more than five bytes.
    #[error("variable-length integer is longer than five bytes")]
    VarintTooLong,
    /// Null where the version allows none.
    #[error("null where a value is needed")]
    Null,
    /// A tagged field that is longer than its value.
    #[error("{0} bytes behind the value of a tagged field")]
    TagTooLong(usize),
    /// The decoded message would take more memory than the caller allows.
    #[error("message needs more memory than allowed")]
    TooMuchMemory,
    /// We do not know this version of the API.
    #[error("version {version} of API {api_key} is not known")]
    UnsupportedVersion {
        /// API key.
        api_key: i16,
        /// The version asked for.
        version: i16,
    },
}

impl DecodeError {
    /// An error outside of any field.
    #[cold]
    pub fn new(reason: Malformed) -> Self {
        DecodeError { reason, field: "-" }
    }

    /// Names the field, unless an inner one is named already.
    #[cold]
    pub fn at(self, field: &'static str) -> Self {
        if self.field == "-" { DecodeError { field, ..self } } else { self }
    }

    /// One word for metrics.
    pub fn kind(&self) -> &'static str {
        match self.reason {
            Malformed::Truncated { .. } => "truncated",
            Malformed::TooManyElements { .. } => "too_many_elements",
            Malformed::OverMaximum(_) => "over_maximum",
            Malformed::StringTooLong(_) => "string_too_long",
            Malformed::VarintTooLong => "varint_too_long",
            Malformed::Null => "null",
            Malformed::TagTooLong(_) => "tag_too_long",
            Malformed::TooMuchMemory => "too_much_memory",
            Malformed::UnsupportedVersion { .. } => "unsupported_version",
        }
    }

    /// True if the bytes may be fine and only the version is one that we lack.
    pub fn is_unsupported_version(&self) -> bool {
        matches!(self.reason, Malformed::UnsupportedVersion { .. })
    }
}

/// A message that has no bytes in the version asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at `{field}`")]
pub struct EncodeError {
    /// What is wrong.
    pub reason: Unencodable,
    /// The innermost field that was being written, in snake case; `-` outside of any field.
    pub field: &'static str,
}

/// Why a message could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unencodable {
    /// The field has a value that matters, and the version has no place for it.
    #[error("value has no place in version {0}")]
    NotInVersion(i16),
    /// Null where the version allows none.
    #[error("null where a value is needed")]
    Null,
    /// A string above [`crate::MAX_STRING_BYTES`].
    #[error("string of {0} bytes is too long")]
    StringTooLong(usize),
    /// More elements or bytes than a length can say.
    #[error("length {0} is too large")]
    TooLarge(usize),
    /// Unknown tagged fields are not in ascending order, or collide with known ones.
    #[error("tagged fields out of order")]
    TagOrder,
    /// We do not know this version of the API.
    #[error("version {version} of API {api_key} is not known")]
    UnsupportedVersion {
        /// API key.
        api_key: i16,
        /// The version asked for.
        version: i16,
    },
}

impl EncodeError {
    /// An error outside of any field.
    #[cold]
    pub fn new(reason: Unencodable) -> Self {
        EncodeError { reason, field: "-" }
    }

    /// Names the field, unless an inner one is named already.
    #[cold]
    pub fn at(self, field: &'static str) -> Self {
        if self.field == "-" { EncodeError { field, ..self } } else { self }
    }

    /// One word for metrics.
    pub fn kind(&self) -> &'static str {
        match self.reason {
            Unencodable::NotInVersion(_) => "not_in_version",
            Unencodable::Null => "null",
            Unencodable::StringTooLong(_) => "string_too_long",
            Unencodable::TooLarge(_) => "too_large",
            Unencodable::TagOrder => "tag_order",
            Unencodable::UnsupportedVersion { .. } => "unsupported_version",
        }
    }
}
