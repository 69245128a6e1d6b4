//! In front of a cluster: what does the process add to the proxy?
//!
//! | module | what it holds |
//! |---|---|
//! | [`dial`] | connections to the upstream |
//! | [`intercept`] | the four APIs, decided by the coordinator |

pub mod dial;
pub mod intercept;
