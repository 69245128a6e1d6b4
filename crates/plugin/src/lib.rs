//! Where do descriptions live?
//!
//! | module | what it holds |
//! |---|---|
//! | [`api`] | the plugin trait, results, capabilities |

pub mod api;
