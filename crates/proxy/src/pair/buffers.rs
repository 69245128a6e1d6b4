//! Buffers: chunks of the worker that a pair holds only while bytes are in them, and what waits to be written.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};

use super::stream::Stream;
use crate::limits::{CHUNK_BYTES, COPY_BYTES, POOLED_CHUNKS, REST_BYTES, SEGMENTS_AT_ONCE};

/// The first `N` bytes of a frame, of which some may have come before.
pub(super) struct Start<const N: usize> {
    pub stored: [u8; N],
    /// How many of them came before.
    pub have: usize,
}

impl<const N: usize> Default for Start<N> {
    fn default() -> Self {
        Start { stored: [0; N], have: 0 }
    }
}

impl<const N: usize> Start<N> {
    /// What came before and what `fresh` adds to it, and how many bytes that are.
    pub(super) fn with(&self, fresh: &[u8]) -> ([u8; N], usize) {
        let mut start = self.stored;
        let mut seen = self.have;
        for (place, byte) in start.iter_mut().skip(self.have).zip(fresh) {
            *place = *byte;
            seen += 1;
        }
        (start, seen)
    }
}

/// A buffer to read into, always of [`CHUNK_BYTES`].
pub(super) type Chunk = Box<[u8]>;

/// A chunk and which bytes of it are not looked at yet.
pub(super) type Held = (Chunk, usize, usize);

thread_local! {
    static POOL: RefCell<Vec<Chunk>> = const { RefCell::new(Vec::new()) };
    static BODY: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// A chunk of this worker's; its old bytes are no one's business, so only what was read into it may be looked at.
pub(super) fn take() -> Chunk {
    POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; CHUNK_BYTES].into_boxed_slice())
}

/// Gives it back.
pub(super) fn give(chunk: Chunk) {
    POOL.with_borrow_mut(|pool| {
        if pool.len() < POOLED_CHUNKS {
            pool.push(chunk);
        }
    });
}

/// Calls `f` with `bytes` as the body of a request, in a buffer of the worker's.
pub(super) fn with_body<T>(bytes: &[u8], f: impl FnOnce(&BytesMut) -> T) -> T {
    let mut body = BODY.take();
    body.clear();
    body.extend_from_slice(bytes);
    let result = f(&body);
    if body.capacity() <= CHUNK_BYTES {
        BODY.set(body);
    }
    result
}

/// A run of bytes of the chunk in hand that goes on as it is, and was not handed to the socket yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub from: usize,
    pub to: usize,
}

impl Run {
    pub(super) fn at(place: usize) -> Self {
        Run { from: place, to: place }
    }
}

/// Bytes on their way to one side.
#[derive(Default)]
pub(super) struct Outbox {
    segments: VecDeque<Segment>,
    bytes: usize,
    /// Something was written since the last flush.
    unflushed: bool,
}

enum Segment {
    Chunk { chunk: Chunk, from: usize, to: usize },
    Owned(BytesMut),
}

impl Segment {
    fn bytes(&self) -> &[u8] {
        match self {
            Segment::Chunk { chunk, from, to } => chunk.get(*from..*to).unwrap_or_default(),
            Segment::Owned(owned) => owned,
        }
    }
}

impl Outbox {
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Nothing waits, not even in the stream's own buffer.
    pub(super) fn is_done(&self) -> bool {
        self.bytes == 0 && !self.unflushed
    }

    pub(super) fn clear(&mut self) {
        *self = Outbox::default();
    }

    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        match self.segments.back_mut() {
            Some(Segment::Owned(last)) if last.len() + bytes.len() <= CHUNK_BYTES => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.segments.push_back(Segment::Owned(BytesMut::from(bytes))),
        }
    }

    pub(super) fn push(&mut self, bytes: BytesMut) {
        if bytes.len() <= COPY_BYTES {
            self.copy(&bytes);
        } else {
            self.bytes += bytes.len();
            self.segments.push_back(Segment::Owned(bytes));
        }
    }

    /// Takes `from..to` of the chunk in hand behind the run, which grows or is copied.
    pub(super) fn pass(&mut self, chunk: &[u8], run: &mut Run, from: usize, to: usize) {
        if run.to != from {
            self.settle(chunk, run);
            run.from = from;
        }
        run.to = to;
    }

    /// Copies the run, because something else comes behind it.
    pub(super) fn settle(&mut self, chunk: &[u8], run: &mut Run) {
        self.copy(chunk.get(run.from..run.to).unwrap_or_default());
        run.from = run.to;
    }

    /// Writes the run unless something waits in front of it, and keeps what the socket does not take. Gives the chunk back
    /// if it is not needed for that; always where it is `wanted`.
    pub(super) fn send(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        chunk: Chunk,
        run: Run,
        wanted: bool,
    ) -> (Option<Chunk>, io::Result<()>) {
        let Run { mut from, to } = run;
        let mut result = Ok(());
        if from < to && self.is_empty() {
            match stream.poll_write(cx, chunk.get(from..to).unwrap_or_default()) {
                Poll::Ready(Ok(0)) => result = Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => {
                    from += n;
                    self.unflushed = true;
                }
                Poll::Ready(Err(e)) => result = Err(e),
                Poll::Pending => {}
            }
        }
        if result.is_err() || from >= to {
            return (Some(chunk), result);
        }
        if wanted || to - from <= REST_BYTES {
            self.copy(chunk.get(from..to).unwrap_or_default());
            return (Some(chunk), result);
        }
        self.bytes += to - from;
        self.segments.push_back(Segment::Chunk { chunk, from, to });
        (None, result)
    }

    /// Writes what waits. Ready with whether anything was to be done.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> Poll<io::Result<bool>> {
        if self.is_done() {
            return Poll::Ready(Ok(false));
        }
        while self.bytes > 0 {
            let written = match self.segments.front() {
                Some(only) if self.segments.len() == 1 => ready!(stream.poll_write(cx, only.bytes()))?,
                _ => {
                    let mut slices = [IoSlice::new(&[]); SEGMENTS_AT_ONCE];
                    let count = self.segments.len().min(SEGMENTS_AT_ONCE);
                    for (slice, segment) in slices.iter_mut().zip(&self.segments) {
                        *slice = IoSlice::new(segment.bytes());
                    }
                    ready!(stream.poll_write_vectored(cx, slices.get(..count).unwrap_or_default()))?
                }
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            self.written(written);
        }
        ready!(stream.poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(true))
    }

    fn written(&mut self, mut count: usize) {
        self.bytes = self.bytes.saturating_sub(count);
        while let Some(first) = self.segments.front_mut() {
            let length = first.bytes().len();
            if count < length {
                match first {
                    Segment::Chunk { from, .. } => *from += count,
                    Segment::Owned(owned) => owned.advance(count),
                }
                return;
            }
            count -= length;
            if let Some(Segment::Chunk { chunk, .. }) = self.segments.pop_front() {
                give(chunk);
            }
        }
        // Nothing is kept for a pair that has nothing to write.
        self.segments = VecDeque::new();
    }
}
