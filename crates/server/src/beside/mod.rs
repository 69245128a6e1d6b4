//! In front of a cluster: what does the process add to the proxy?
//!
//! | module | what it holds |
//! |---|---|
//! | [`dial`] | connections to the upstream |
//! | [`hosts`] | which member speaks from where |
//! | [`intercept`] | the four APIs, decided by the coordinator |
//! | [`limits`] | every bound, each with its reason |
//! | [`topics`] | topics that only a description names |

pub mod dial;
pub mod hosts;
pub mod intercept;
pub mod limits;
pub mod topics;
