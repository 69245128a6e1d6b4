//! A message as a tree of named values, for tests and for tools that show any message.

/// One value. Fields keep the schema's order and only those that the version has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// Any integer.
    Int(i64),
    /// A string.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A UUID.
    Uuid([u8; 16]),
    /// An array.
    List(Vec<Tree>),
    /// A struct: field names in snake case, then unknown tags.
    Struct(Vec<(&'static str, Tree)>, Vec<(u32, Vec<u8>)>),
}
