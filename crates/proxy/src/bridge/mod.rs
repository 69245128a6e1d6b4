//! Versions: what is offered to the client, typed conversion between versions. Pure; kip1331 §§1.2–1.7.
//!
//! | module | what it holds |
//! |---|---|
//! | [`versions`] | ApiVersions answers: raised, inserted and capped rows, the upstream's own ranges |
//! | [`heartbeat`] | API 88 between version 0 and 1 |
//! | [`groups`] | APIs 89 and 42 between their versions |

pub mod groups;
pub mod heartbeat;
pub mod versions;
