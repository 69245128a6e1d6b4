//! What is known about stored descriptions, and what follows from it (KIP-1331).
//!
//! | module | what it holds |
//! |---|---|
//! | [`mark`] | the durable mark of a group and its transitions |
//! | [`push`] | a push, from its payload to its outcome |

pub mod mark;
pub mod push;

pub use mark::{Mark, ReadToken};
pub use push::PreparedPush;

/// A volatile change of what is known about descriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptionChange {}
