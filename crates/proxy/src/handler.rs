//! What the engine asks about each request, in bytes. A handler belongs to one connection pair.
//!
//! All frames here are *bodies of frames*: header and payload without the four length bytes, unless a doc says "whole
//! frame".

use std::future::Future;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use tokio::sync::{mpsc, oneshot};

/// A future that the pair's task drives.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The first bytes of a request: all that is known before it is decided whether it is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// API key, any.
    pub api_key: i16,
    /// Version, any.
    pub api_version: i16,
    /// The client's number, any.
    pub correlation_id: i32,
    /// Bytes of the frame's body.
    pub length: usize,
}

/// How a request is to be treated, decided by its head alone.
pub enum Treat {
    /// It goes on byte for byte while it arrives; its answer is treated so.
    Stream(Answer),
    /// It is collected, up to so many bytes, and handed to [`Handler::request`]. A longer one is treated as
    /// [`Handler::oversized`] says.
    Whole(usize),
    /// The connection is closed, with this line for the log.
    Close(String),
}

/// How the upstream's answer to a request is treated.
pub enum Answer {
    /// Byte for byte while it arrives.
    Stream,
    /// Changed in place while it arrives: not a byte more or less, nothing held.
    Filter(Box<dyn Filter>),
    /// Collected, up to so many bytes, and mapped. A longer one ends the connection, with a line for the log.
    Whole {
        /// The most bytes.
        max: usize,
        /// From the frame's body to what the client gets.
        map: Box<dyn FnOnce(BytesMut) -> Mapped + Send>,
    },
}

/// Changes an answer in place while it streams by.
pub trait Filter: Send {
    /// The answer begins; its frame's body has so many bytes. Called once, before anything passes.
    fn begin(&mut self, _length: usize) {}

    /// The next bytes of the frame's body, in order, in chunks of any size.
    ///
    /// # Errors
    /// The answer cannot be understood; the connection ends with this line for the log, and nothing of this chunk is
    /// sent.
    fn pass(&mut self, chunk: &mut [u8]) -> Result<(), String>;
}

/// What became of a collected answer.
pub enum Mapped {
    /// The whole frame for the client, length included, and a question of ours that may follow.
    Frame(BytesMut, Option<Exchange>),
    /// The frame takes time but no upstream; answers behind it wait.
    Later(BoxFuture<Result<BytesMut, String>>),
    /// The connection is closed, with this line for the log.
    Close(String),
}

/// What is done about a collected request.
pub enum Plan {
    /// It goes on: the bytes as they came (`None`) or this body of a frame instead.
    Forward(Option<BytesMut>, Answer),
    /// It is answered here and now by this whole frame.
    Local(BytesMut),
    /// It is answered here, in steps that may question the upstream at this request's place in the order.
    Exchange(Exchange),
    /// The connection is closed, with this line for the log.
    Close(String),
}

/// Steps that end in an answer. While the [`Upstream`] lives, nothing behind this request is forwarded; whoever needs it
/// no more drops it. Ends in the whole frame for the client, in `None` where the client waits for nothing (a question of
/// ours), or in the line for the log with which the connection is closed.
pub type Exchange = Box<dyn FnOnce(Upstream) -> BoxFuture<Result<Option<BytesMut>, String>> + Send>;

/// The upstream connection, at one place in the order of requests.
#[derive(Debug)]
pub struct Upstream {
    pub(crate) questions: mpsc::Sender<Question>,
}

/// One question to the upstream.
#[derive(Debug)]
pub(crate) struct Question {
    /// Body of a frame: header and payload.
    pub request: Bytes,
    /// Gets the body of the answer's frame.
    pub answer: oneshot::Sender<Bytes>,
}

/// The upstream connection ended before the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the upstream connection ended before the answer came")]
pub struct Lost;

impl Upstream {
    /// Sends the body of a request's frame and waits for the body of the answer's. The correlation id in it may be any.
    ///
    /// # Errors
    /// [`Lost`]: the connection pair is ending.
    pub async fn ask(&mut self, request: Bytes) -> Result<Bytes, Lost> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question { request, answer }).await.map_err(|_| Lost)?;
        answered.await.map_err(|_| Lost)
    }
}

/// Decides about the requests of one connection pair.
pub trait Handler: Send {
    /// How a request that begins so is treated.
    fn head(&mut self, head: Head) -> Treat;

    /// What is done about a collected request, given as the body of its frame.
    fn request(&mut self, head: Head, body: &BytesMut) -> Plan;

    /// What is done about a request longer than [`Treat::Whole`] allows: streamed or closed, never collected.
    fn oversized(&mut self, head: Head) -> Treat {
        Treat::Close(format!("a request of {} bytes (api {}) is too long", head.length, head.api_key))
    }
}
