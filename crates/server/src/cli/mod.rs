//! The command line.
//!
//! | module | what it holds |
//! |---|---|
//! | [`inspect`] | `groups`, `members`, `topology`: questions to any cluster |
//! | [`table`] | tables that fit the terminal |

pub mod inspect;
pub mod table;
