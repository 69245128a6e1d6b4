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
//!
//! A handler that passes everything on:
//!
//! ```
//! use streamside_proxy::handler::{Answer, Handler, Head, Plan, Treat};
//! use streamside_proxy::pair::{self, Ended, Options, Stream};
//! use streamside_wire::bytes::BytesMut;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! struct Passing;
//!
//! impl Handler for Passing {
//!     fn head(&mut self, _: Head) -> Treat {
//!         Treat::Stream(Answer::Stream)
//!     }
//!
//!     fn request(&mut self, _: Head, _: &BytesMut) -> Plan {
//!         Plan::Forward(None, Answer::Stream)
//!     }
//! }
//!
//! # async fn example() -> std::io::Result<()> {
//! let (mut client, ours) = tokio::io::duplex(1024);
//! let (upstream, mut broker) = tokio::io::duplex(1024);
//! let (_draining, drain) = tokio::sync::watch::channel(false);
//! let (ours, upstream) = (Stream::Other(Box::new(ours)), Stream::Other(Box::new(upstream)));
//! let pair = tokio::spawn(async move { pair::run(ours, upstream, Passing, &Options::default(), drain).await });
//!
//! // ApiVersions in version 9, number 7, from nobody; and that the broker does not know it (35).
//! client.write_all(&[0, 0, 0, 10, 0, 18, 0, 9, 0, 0, 0, 7, 0xff, 0xff]).await?;
//! let mut request = [0; 14];
//! broker.read_exact(&mut request).await?;
//! broker.write_all(&[0, 0, 0, 6, 0, 0, 0, 7, 0, 35]).await?;
//! let mut answer = [0; 10];
//! client.read_exact(&mut answer).await?;
//! assert_eq!(answer[8..], [0, 35]);
//! drop(client);
//! assert_eq!(pair.await?, Ended::Client);
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

pub mod addresses;
pub mod bridge;
pub mod gateway;
pub mod handler;
pub mod intercept;
pub mod limits;
pub mod pair;
