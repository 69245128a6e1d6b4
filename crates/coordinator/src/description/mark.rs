//! The durable mark: what we know about a group's stored description (design "Marks").

use streamside_topology::DescriptionHash;

/// What is known about the stored description of one group. Journalled as kind 1024.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {}

/// The state of a mark that a read belongs to; handed back with the read's outcome as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadToken {
    pub(crate) sequence: u64,
    pub(crate) uncertain: bool,
    pub(crate) served: Option<DescriptionHash>,
    pub(crate) pending: Option<DescriptionHash>,
}
