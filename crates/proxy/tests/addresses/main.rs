//! No address of the upstream's reaches a client.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests through and through

mod answers;
mod filter;
mod scan;
mod support;
mod typed;
