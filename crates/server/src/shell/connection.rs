//! One client connection, one task: read into the worker's scratch buffer, answer whole frames in order, write the
//! answers of a turn at once, keep only what is left over.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use streamside_wire::frame::{self, Intruder};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::Sleep;

use super::answers::{self, Handled};
use super::context::{Context, HeldBytes};
use super::limits::{
    KEEP_BUFFER_BYTES, LARGE_REQUEST_BYTES, PARTIAL_FRAMES_BYTES, READ_SCRATCH_BYTES, UNSENT_ANSWERS_BYTES,
    WRITE_HIGH_WATER_BYTES,
};
use super::shutdown::Phase;

/// How long the last bytes may take.
const GOODBYE: Duration = Duration::from_secs(1);

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        input: vec![0; READ_SCRATCH_BYTES],
        output: BytesMut::with_capacity(READ_SCRATCH_BYTES),
    });
}

struct Scratch {
    input: Vec<u8>,
    output: BytesMut,
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The client closed it, or the network did.
    Peer,
    /// We are shutting down and nothing of it was in flight.
    Drained,
    /// Nothing came for too long.
    Idle,
    /// A frame was begun and not finished in time.
    Stalled { have: usize, promised: usize },
    /// The client sent something that Kafka answers by closing.
    Refused { reason: String },
}

/// What a turn came to.
enum Turn {
    /// A request needs to wait; nothing behind it is looked at until it is answered.
    Later(answers::Pending),
    End(End),
}

struct Connection<S> {
    context: Arc<Context>,
    stream: S,
    peer: SocketAddr,
    client_host: String,
    /// Received bytes of a frame that is not whole yet, or that waits behind a slow request.
    leftover: Vec<u8>,
    /// `leftover` against the bound over all connections.
    leftover_held: HeldBytes,
    /// Answers that the socket did not take yet, and how much of them was sent.
    unsent: Vec<u8>,
    sent: usize,
    /// `unsent` against the bound over all connections.
    unsent_held: HeldBytes,
    timer: Pin<Box<Sleep>>,
    timer_at: Instant,
    /// Something came since the timer was set.
    active: bool,
    /// Since when we wait for the rest of the unfinished frame in `leftover`.
    frame_began: Option<Instant>,
    draining: bool,
    /// The client has closed its side.
    half_closed: bool,
    first_frame: bool,
}

/// Serves one connection until it ends.
pub async fn serve<S>(context: Arc<Context>, stream: S, peer: SocketAddr, mut phase: watch::Receiver<Phase>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let timer_at = Instant::now() + context.tunables.idle();
    let mut connection = Connection {
        client_host: answers::client_host(peer.ip()),
        leftover_held: HeldBytes::new(&context.partial_bytes, 0),
        unsent_held: HeldBytes::new(&context.unsent_bytes, 0),
        context,
        stream,
        peer,
        leftover: Vec::new(),
        unsent: Vec::new(),
        sent: 0,
        timer: Box::pin(tokio::time::sleep_until(timer_at.into())),
        timer_at,
        active: false,
        frame_began: None,
        draining: false,
        half_closed: false,
        first_frame: true,
    };
    let mut stopping = Box::pin(async move {
        // An error means that the sender is gone, which is the end as well.
        let _ = phase.wait_for(|p| *p != Phase::Running).await;
    });
    let end = loop {
        match poll_fn(|cx| connection.poll_turn(cx, stopping.as_mut())).await {
            Turn::Later(pending) => {
                let patience = connection.context.tunables.idle();
                let answer = tokio::select! {
                    answer = pending => answer,
                    // What the client asked for goes on without it; only the answer is dropped.
                    () = poll_fn(|cx| connection.poll_gone(cx)) => break End::Peer,
                    () = tokio::time::sleep(patience) => break End::Idle,
                };
                match answer {
                    Ok(bytes) => {
                        connection.context.metrics.bytes(0, bytes.len() as u64);
                        if connection.unsent.is_empty() {
                            connection.unsent = bytes.into();
                        } else {
                            connection.unsent.extend_from_slice(&bytes);
                        }
                    }
                    Err(reason) => break End::Refused { reason },
                }
                // What came meanwhile was not waited for.
                connection.frame_began = None;
                if let Err(end) = connection.count_unsent().and_then(|()| connection.count_leftover()) {
                    break end;
                }
            }
            Turn::End(end) => break end,
        }
    };
    connection.close(end).await;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Reads, answers, writes, until something has to wait or the connection ends.
    fn poll_turn(&mut self, cx: &mut TaskContext<'_>, stopping: Pin<&mut impl Future<Output = ()>>) -> Poll<Turn> {
        match SCRATCH.with_borrow_mut(|scratch| self.poll_io(cx, scratch)) {
            Poll::Ready(turn) => return Poll::Ready(turn),
            Poll::Pending => {}
        }
        self.poll_waits(cx, stopping)
    }

    fn poll_waits(&mut self, cx: &mut TaskContext<'_>, stopping: Pin<&mut impl Future<Output = ()>>) -> Poll<Turn> {
        if !self.draining && stopping.poll(cx).is_ready() {
            self.draining = true;
        }
        if self.draining && self.leftover.is_empty() && self.unsent.is_empty() {
            return Poll::Ready(Turn::End(End::Drained));
        }
        loop {
            let frame_end = self.frame_end();
            if let Some(end) = frame_end.filter(|end| *end < self.timer_at) {
                self.timer_at = end;
                self.timer.as_mut().reset(end.into());
            }
            ready!(self.timer.as_mut().poll(cx));
            self.timer_at = match frame_end {
                Some(end) if Instant::now() >= end => {
                    let promised = self.leftover.first_chunk::<4>().map_or(4, |b| 4 + length_of(*b));
                    return Poll::Ready(Turn::End(End::Stalled { have: self.leftover.len(), promised }));
                }
                Some(end) => end,
                None if !std::mem::replace(&mut self.active, false) => return Poll::Ready(Turn::End(End::Idle)),
                None => Instant::now() + self.context.tunables.idle(),
            };
            self.timer.as_mut().reset(self.timer_at.into());
        }
    }

    /// By when the rest of an unfinished frame must have come. While the client does not take its answers we do not
    /// read, so nothing of it is late.
    fn frame_end(&self) -> Option<Instant> {
        let began = self.frame_began.filter(|_| self.unsent.is_empty());
        began.map(|began| began + self.context.tunables.frame_timeout())
    }

    /// While a slow request is under way: ready once the connection is broken. A client that has only closed its side
    /// still gets its answer. Of further requests so much is read that a broken connection shows.
    fn poll_gone(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        if self.half_closed || self.leftover.len() >= READ_SCRATCH_BYTES {
            return Poll::Pending;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            loop {
                let mut buffer = ReadBuf::new(&mut scratch.input);
                match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                    Ok(()) if buffer.filled().is_empty() => {
                        self.half_closed = true;
                        return Poll::Pending;
                    }
                    Err(_) => return Poll::Ready(()),
                    Ok(()) => {
                        self.context.metrics.bytes(buffer.filled().len() as u64, 0);
                        self.leftover.extend_from_slice(buffer.filled());
                        if self.leftover.len() >= READ_SCRATCH_BYTES {
                            return Poll::Pending;
                        }
                    }
                }
            }
        })
    }

    fn poll_io(&mut self, cx: &mut TaskContext<'_>, scratch: &mut Scratch) -> Poll<Turn> {
        // What a turn that met a defect left behind is another client's.
        scratch.output.clear();
        loop {
            if let Err(end) = ready!(self.poll_flush(cx)) {
                return Poll::Ready(Turn::End(end));
            }
            if !self.leftover.is_empty() && whole_frame(&self.leftover) {
                // A request that is whole by now, or that waited behind a slow one.
                let turn = self.take_leftover(&mut scratch.output);
                if let Some(turn) = self.send(cx, &mut scratch.output).or(turn) {
                    return Poll::Ready(turn);
                }
                continue;
            }
            if self.half_closed {
                return Poll::Ready(Turn::End(End::Peer));
            }
            let mut buffer = ReadBuf::new(&mut scratch.input);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(Turn::End(End::Peer)),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(Turn::End(End::Peer)),
                Poll::Ready(Ok(())) => {}
            }
            self.active = true;
            let received = buffer.filled().len();
            self.context.metrics.bytes(received as u64, 0);
            let Scratch { input, output } = scratch;
            let received = input.get(..received).unwrap_or_default();
            let turn = if self.leftover.is_empty() {
                self.take_frames(received, output)
            } else {
                self.leftover.extend_from_slice(received);
                if whole_frame(&self.leftover) || length_is_bad(&self.leftover, self.context.max_frame) {
                    self.take_leftover(output)
                } else {
                    self.count_leftover().err().map(Turn::End)
                }
            };
            if let Some(turn) = self.send(cx, output).or(turn) {
                return Poll::Ready(turn);
            }
        }
    }

    /// The same for what was kept. A large request goes elsewhere, with its bytes.
    fn take_leftover(&mut self, output: &mut BytesMut) -> Option<Turn> {
        let mut input = std::mem::take(&mut self.leftover);
        let length = input.first_chunk::<4>().map_or(0, |head| length_of(*head));
        let intruder = self.first_frame && frame::diagnose(&input).is_some();
        if intruder || length <= LARGE_REQUEST_BYTES || length_is_bad(&input, self.context.max_frame) {
            return self.take_frames(&input, output);
        }
        self.first_frame = false;
        self.leftover = input.split_off(4 + length);
        input.shrink_to_fit();
        let pending = answers::handle_large(&self.context, input, &self.client_host);
        self.frame_began = None;
        Some(self.count_leftover().map_or_else(Turn::End, |()| Turn::Later(pending)))
    }

    /// Answers every whole frame of `input` into `output` and keeps the rest.
    fn take_frames(&mut self, input: &[u8], output: &mut BytesMut) -> Option<Turn> {
        let mut rest = input;
        let mut turn = None;
        while let Some((head, body)) = rest.split_first_chunk::<4>() {
            if self.first_frame {
                self.first_frame = false;
                if let Some(intruder) = frame::diagnose(rest) {
                    turn = Some(Turn::End(End::Refused { reason: intruder_text(intruder) }));
                    break;
                }
            }
            let length = match frame::check_length(i32::from_be_bytes(*head), self.context.max_frame) {
                Ok(length) => length,
                Err(e) => {
                    turn = Some(Turn::End(End::Refused { reason: e.to_string() }));
                    break;
                }
            };
            let Some((request, behind)) = body.split_at_checked(length) else { break };
            rest = behind;
            self.frame_began = None;
            match answers::handle(&self.context, request, &self.client_host, output) {
                Handled::Done => {}
                Handled::Ready(Ok(answer)) => output.extend_from_slice(&answer),
                Handled::Ready(Err(reason)) => {
                    turn = Some(Turn::End(End::Refused { reason }));
                    break;
                }
                Handled::Later(pending) => {
                    turn = Some(Turn::Later(pending));
                    break;
                }
                Handled::Close(reason) => {
                    turn = Some(Turn::End(End::Refused { reason }));
                    break;
                }
            }
            if output.len() >= WRITE_HIGH_WATER_BYTES {
                break;
            }
        }
        self.leftover.extend_from_slice(rest);
        if let Err(end) = self.count_leftover() {
            return Some(Turn::End(end));
        }
        turn
    }

    /// Counts unfinished bytes against the bound over all connections, and notes since when a frame is unfinished.
    fn count_leftover(&mut self) -> Result<(), End> {
        if self.leftover.is_empty() && self.leftover.capacity() > KEEP_BUFFER_BYTES {
            self.leftover = Vec::new();
        }
        if self.leftover.is_empty() || whole_frame(&self.leftover) {
            self.frame_began = None;
        } else if self.frame_began.is_none() {
            self.frame_began = Some(Instant::now());
        }
        let now = self.leftover.len();
        if now == self.leftover_held.mine() {
            return Ok(());
        }
        if self.leftover_held.set(now) > PARTIAL_FRAMES_BYTES && now > READ_SCRATCH_BYTES {
            self.context.metrics.limit_hit("partial_frames");
            return Err(End::Refused {
                reason: format!("unfinished requests of all connections hold more than {PARTIAL_FRAMES_BYTES} bytes"),
            });
        }
        Ok(())
    }

    /// Counts answers that the socket did not take against the bound over all connections.
    fn count_unsent(&mut self) -> Result<(), End> {
        let now = self.unsent.len();
        if now == self.unsent_held.mine() {
            return Ok(());
        }
        if self.unsent_held.set(now) > UNSENT_ANSWERS_BYTES && now > WRITE_HIGH_WATER_BYTES {
            self.context.metrics.limit_hit("unsent_answers");
            return Err(End::Refused {
                reason: format!("answers that clients do not take hold more than {UNSENT_ANSWERS_BYTES} bytes"),
            });
        }
        Ok(())
    }

    /// Hands the answers of a turn to the socket, in one write where it takes them, and keeps the rest.
    fn send(&mut self, cx: &mut TaskContext<'_>, output: &mut BytesMut) -> Option<Turn> {
        if output.is_empty() {
            return None;
        }
        self.context.metrics.bytes(0, output.len() as u64);
        let mut sent = 0;
        if self.unsent.is_empty() {
            // A failed write shows again at the next read.
            if let Poll::Ready(Ok(n)) = Pin::new(&mut self.stream).poll_write(cx, output) {
                sent = n;
            }
        }
        self.unsent.extend_from_slice(output.get(sent..).unwrap_or_default());
        output.clear();
        if output.capacity() > 4 * WRITE_HIGH_WATER_BYTES {
            *output = BytesMut::with_capacity(READ_SCRATCH_BYTES);
        }
        self.count_unsent().err().map(Turn::End)
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), End>> {
        while let Some(rest) = self.unsent.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(End::Peer)),
                Ok(n) => {
                    self.active = true;
                    self.sent += n;
                }
            }
        }
        // TLS keeps what the socket does not take.
        if ready!(Pin::new(&mut self.stream).poll_flush(cx)).is_err() {
            return Poll::Ready(Err(End::Peer));
        }
        if self.sent > 0 {
            self.sent = 0;
            self.unsent.clear();
            if self.unsent.capacity() > KEEP_BUFFER_BYTES {
                self.unsent = Vec::new();
            }
            self.frame_began = self.frame_began.map(|_| Instant::now());
            self.unsent_held.set(0);
        }
        Poll::Ready(Ok(()))
    }

    async fn close(mut self, end: End) {
        let peer = self.peer;
        let polite = !matches!(end, End::Peer);
        match end {
            End::Peer => tracing::debug!(%peer, "connection closed by the client"),
            End::Drained => tracing::debug!(%peer, "connection closed: shutting down"),
            End::Idle => {
                self.context.metrics.limit_hit("idle");
                tracing::debug!(%peer, "connection closed: nothing came for {:?}", self.context.tunables.idle());
            }
            End::Stalled { have, promised } => {
                self.context.metrics.limit_hit("stalled_frame");
                self.context.noise.warn(|| {
                    tracing::warn!(%peer, have, promised, "connection closed: a request was begun and not finished in time");
                });
            }
            End::Refused { reason } => {
                // Answers to the requests before the bad one still go out.
                let flush = poll_fn(|cx| self.poll_flush(cx));
                let _ = tokio::time::timeout(GOODBYE, flush).await;
                self.context.metrics.limit_hit("refused_frame");
                self.context.noise.warn(|| {
                    tracing::warn!(%peer, reason = %reason, "connection closed");
                });
            }
        }
        if polite {
            // The goodbye of TLS; in the clear the same as dropping it.
            let shutdown = poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx));
            let _ = tokio::time::timeout(GOODBYE, shutdown).await;
        }
    }
}

fn length_of(bytes: [u8; 4]) -> usize {
    usize::try_from(i32::from_be_bytes(bytes)).unwrap_or(0)
}

/// Whether `input` begins with a frame that is all there, or with a length that no frame can have.
fn whole_frame(input: &[u8]) -> bool {
    match input.split_first_chunk::<4>() {
        Some((head, body)) => body.len() >= length_of(*head) || i32::from_be_bytes(*head) < 0,
        None => false,
    }
}

fn length_is_bad(input: &[u8], max: usize) -> bool {
    input.first_chunk::<4>().is_some_and(|head| frame::check_length(i32::from_be_bytes(*head), max).is_err())
}

/// What the log says of a client that speaks something else.
pub(crate) fn intruder_text(intruder: Intruder) -> String {
    let text = intruder.at_a_kafka_listener();
    match intruder {
        Intruder::Http => format!("{text}; the page and the API are on streamside.http.listen"),
        _ => text,
    }
}
