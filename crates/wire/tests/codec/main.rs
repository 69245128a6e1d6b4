//! The codec against recorded bytes, all versions, and hostile input.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests through and through

mod allocations;
mod every_message;
mod hostile;
mod vectors;
