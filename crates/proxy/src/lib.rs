//! How do bytes pass?
//!
//! A client's connection and an upstream connection of its own are a *pair*, served by one task. Every request takes a
//! slot; upstream answers come in request order, so an answer is known by its slot. What nobody asked to see is streamed
//! in chunks and never held whole.
//!
//! | module | what it holds |
//! |---|---|
//! | [`pair`] | the engine: one connection pair from its first byte to its end |
//! | [`handler`] | what the engine asks about each request, in bytes; questions of ours to the upstream |
//! | [`intercept`] | what is plugged in from outside, over wire types |
//! | [`gateway`] | the handler that composes bridge, addresses and intercept |
//! | [`bridge`] | versions: what is offered to the client, typed conversion between versions |
//! | [`addresses`] | upstream addresses taken out of answers |
//! | [`limits`] | every bound, each with its reason |

pub mod addresses;
pub mod bridge;
pub mod gateway;
pub mod handler;
pub mod intercept;
pub mod limits;
pub mod pair;
