//! From the upstream to the client: each answer goes to whoever is next in the order of requests.

use std::task::{Context, Poll};

use bytes::{BufMut, BytesMut};

use super::buffers::{self, Run, Start};
use super::slots::{Owed, Place, Waiter};
use super::{Ended, Pair, sentences};
use crate::handler::{Answer, Filter, Handler, Mapped};
use crate::limits::{WAITING_ANSWERS_BYTES, WHOLE_ANSWER_BYTES};

/// Length and correlation id: what tells an answer.
const HEAD_BYTES: usize = 8;

/// Where the upstream's stream of bytes stands.
#[derive(Default)]
pub(super) struct Answers {
    state: State,
    /// Bytes of a head that is not all there.
    start: Start<HEAD_BYTES>,
    /// A first frame was seen.
    known: bool,
}

#[derive(Default)]
enum State {
    /// Between frames, or in the head of one.
    #[default]
    Head,
    Passing(Passing),
    Collecting(Box<Collecting>),
}

struct Passing {
    place: Place,
    filter: Option<Box<dyn Filter>>,
    /// Bytes of the length that did not pass yet; no filter sees them.
    prefix: usize,
    /// Bytes that did not pass yet, those of the length included.
    left: usize,
}

struct Collecting {
    length: usize,
    body: BytesMut,
    to: Collected,
}

/// Who gets a collected answer.
enum Collected {
    Map(Place, Box<dyn FnOnce(BytesMut) -> Mapped + Send>),
    Question(tokio::sync::oneshot::Sender<bytes::Bytes>),
    Handshake(Place),
}

impl<H: Handler> Pair<H> {
    /// Moves finished answers to the client, then one read of the upstream's. True if anything moved.
    pub(super) fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let mut moved = self.slots.advance(&mut self.to_client, None);
        match self.to_client.poll_drain(cx, &mut self.client) {
            Poll::Ready(Ok(drained)) => moved |= drained,
            Poll::Ready(Err(_)) => return Err(Ended::Client),
            Poll::Pending => return Ok(moved),
        }
        // What waits for a slot in front that the upstream has to fill must not keep the upstream from filling it.
        if self.upstream_over || (self.slots.waiting() >= WAITING_ANSWERS_BYTES && self.slots.front_is_ours()) {
            return Ok(moved);
        }
        let mut chunk = buffers::take();
        let read = match self.upstream.poll_read(cx, &mut chunk) {
            Poll::Ready(Ok(n)) => n,
            Poll::Ready(Err(_)) => 0,
            Poll::Pending => {
                buffers::give(chunk);
                return Ok(moved);
            }
        };
        if read == 0 {
            buffers::give(chunk);
            let end = if self.client_eof { Ended::Client } else { Ended::Upstream };
            self.end_upstream(end);
            return Ok(true);
        }
        self.stats.answer_bytes += read as u64;
        let mut run = Run::at(0);
        let framed = self.frame_answers(&mut chunk, read, &mut run);
        let (chunk, sent) = self.to_client.send(cx, &mut self.client, chunk, run, false);
        if let Some(chunk) = chunk {
            buffers::give(chunk);
        }
        if sent.is_err() {
            return Err(Ended::Client);
        }
        if let Err(end) = framed {
            self.end_upstream(end);
        }
        Ok(true)
    }

    /// The upstream sends no more, or nothing that can be understood. Everyone who waits for it learns so.
    pub(super) fn end_upstream(&mut self, end: Ended) {
        self.upstream_over = true;
        self.answers = Answers::default();
        self.slots.lost();
        self.exchanges.hold = None;
        self.exchanges.injected.clear();
        self.to_upstream.clear();
        if let Some((chunk, _, _)) = self.held.take() {
            buffers::give(chunk);
        }
        self.ending.get_or_insert(end);
    }

    fn frame_answers(&mut self, chunk: &mut [u8], to: usize, run: &mut Run) -> Result<(), Ended> {
        let mut at = 0;
        while at < to {
            match &mut self.answers.state {
                State::Head => at = self.begin_answer(chunk, at, to, run)?,
                State::Passing(passing) => {
                    let taken = passing.left.min(to - at);
                    let prefix = passing.prefix.min(taken);
                    passing.prefix -= prefix;
                    passing.left -= taken;
                    if let Some(filter) = &mut passing.filter
                        && let Some(bytes) = chunk.get_mut(at + prefix..at + taken)
                    {
                        filter.pass(bytes).map_err(Ended::Garbled)?;
                    }
                    let (place, left) = (passing.place, passing.left);
                    if self.slots.is_front(place) {
                        self.to_client.pass(chunk, run, at, at + taken);
                    } else {
                        self.slots.keep(place, chunk.get(at..at + taken).unwrap_or_default());
                    }
                    at += taken;
                    if left == 0 {
                        self.answers.state = State::Head;
                        self.slots.arrived(place);
                        self.slots.advance(&mut self.to_client, Some((chunk, run)));
                    }
                }
                State::Collecting(collecting) => {
                    let taken = collecting.length.saturating_sub(collecting.body.len()).min(to - at);
                    collecting.body.extend_from_slice(chunk.get(at..at + taken).unwrap_or_default());
                    at += taken;
                    if collecting.body.len() >= collecting.length
                        && let State::Collecting(collecting) = std::mem::take(&mut self.answers.state)
                    {
                        self.answer_collected(collecting.to, collecting.body, chunk, run)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks at the head of a frame whose next bytes are at `at`. Returns where framing goes on.
    fn begin_answer(&mut self, chunk: &mut [u8], at: usize, to: usize, run: &mut Run) -> Result<usize, Ended> {
        let have = self.answers.start.have;
        let fresh = chunk.get(at..to).unwrap_or_default();
        let (start, seen) = self.answers.start.with(fresh);
        if !self.answers.known
            && let Some(line) = start.get(..seen).and_then(sentences::upstream_speaks)
        {
            return Err(Ended::Garbled(line));
        }
        let token = self.slots.next_is_token();
        if seen < if token { 4 } else { HEAD_BYTES } {
            self.answers.start = Start { stored: start, have: seen };
            return Ok(to);
        }
        let [l1, l2, l3, l4, c1, c2, c3, c4] = start;
        let length = i32::from_be_bytes([l1, l2, l3, l4]);
        let Some(length) = usize::try_from(length).ok().filter(|length| token || *length >= 4) else {
            return Err(Ended::Garbled(format!("the upstream sent an answer of {length} bytes")));
        };
        let number = i32::from_be_bytes([c1, c2, c3, c4]);
        let Some(Owed { correlation_id, tells_login, to: waiter }) = self.slots.next_owed() else {
            return Err(Ended::Garbled(format!("the upstream sent an answer ({number}) that nobody asked for")));
        };
        if let Some(expected) = correlation_id
            && expected != number
        {
            return Err(Ended::Garbled(format!("the upstream answered {number} where {expected} was asked")));
        }
        self.answers.known = true;
        self.logged_in |= tells_login;
        self.stats.answers += 1;
        let (max, collected) = match waiter {
            Waiter::Token(place) | Waiter::Client(place, Answer::Stream) => {
                return self.begin_passing(length, place, None, chunk, at, run);
            }
            Waiter::Client(place, Answer::Filter(filter)) => {
                return self.begin_passing(length, place, Some(filter), chunk, at, run);
            }
            Waiter::Client(place, Answer::Whole { max, map }) => (max, Collected::Map(place, map)),
            Waiter::Handshake(place) => (WHOLE_ANSWER_BYTES, Collected::Handshake(place)),
            Waiter::Question(answer) => (WHOLE_ANSWER_BYTES, Collected::Question(answer)),
        };
        if length > max {
            return Err(Ended::Garbled(format!("an answer of {length} bytes is over the limit of {max}")));
        }
        self.answers.start.have = 0;
        let end = at.saturating_add(4 + length);
        if have == 0 && end <= to {
            let body = BytesMut::from(chunk.get(at + 4..end).unwrap_or_default());
            self.answer_collected(collected, body, chunk, run)?;
            return Ok(end);
        }
        let body = BytesMut::from(start.get(4..).unwrap_or_default());
        if body.len() == length {
            self.answer_collected(collected, body, chunk, run)?;
        } else {
            self.answers.state = State::Collecting(Box::new(Collecting { length, body, to: collected }));
        }
        Ok(at + (HEAD_BYTES - have))
    }

    fn begin_passing(
        &mut self,
        length: usize,
        place: Place,
        mut filter: Option<Box<dyn Filter>>,
        chunk: &[u8],
        at: usize,
        run: &mut Run,
    ) -> Result<usize, Ended> {
        let have = std::mem::take(&mut self.answers.start.have);
        if let Some(filter) = &mut filter {
            filter.begin(length);
        }
        self.slots.arriving(place);
        if let Some(stored) = self.answers.start.stored.get_mut(..have)
            && have > 0
        {
            if let (Some(filter), Some(body)) = (&mut filter, stored.get_mut(4..)) {
                filter.pass(body).map_err(Ended::Garbled)?;
            }
            if self.slots.is_front(place) {
                self.to_client.settle(chunk, run);
                self.to_client.copy(stored);
            } else {
                self.slots.keep(place, stored);
            }
        }
        let prefix = 4_usize.saturating_sub(have);
        self.answers.state = State::Passing(Passing { place, filter, prefix, left: (4 + length).saturating_sub(have) });
        Ok(at)
    }

    /// A collected answer is whole.
    fn answer_collected(&mut self, to: Collected, body: BytesMut, chunk: &[u8], run: &mut Run) -> Result<(), Ended> {
        match to {
            Collected::Question(answer) => {
                // Whoever asked may have given up.
                let _ = answer.send(body.freeze());
                return Ok(());
            }
            Collected::Map(place, map) => match map(body) {
                Mapped::Frame(frame, behind) => {
                    self.slots.fill(place, frame);
                    self.exchanges.injected.extend(behind);
                }
                Mapped::Later(future) => {
                    self.slots.working(place);
                    self.exchanges.later(place, future);
                }
                Mapped::Close(line) => {
                    self.slots.cut(place);
                    return Err(Ended::Garbled(line));
                }
            },
            Collected::Handshake(place) => {
                let good = body.get(4..6) == Some(&[0, 0]);
                self.login.answered(good);
                let mut whole = BytesMut::with_capacity(4 + body.len());
                whole.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
                whole.extend_from_slice(&body);
                self.slots.fill(place, whole);
            }
        }
        self.slots.advance(&mut self.to_client, Some((chunk, run)));
        Ok(())
    }
}
