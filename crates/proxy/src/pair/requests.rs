//! From the client to the upstream: frames are told apart while they arrive, and each is treated as the handler says.

use std::task::{Context, Poll};

use bytes::BytesMut;
use streamside_wire::frame;

use super::acks::{Acks, AcksScan};
use super::budget::Share;
use super::buffers::{self, Held, Run, Start};
use super::exchange::correlation_id;
use super::sasl::{self, Frame, Login, Mechanism};
use super::slots::{Owed, Place, Slot, Waiter};
use super::{Ended, Pair};
use crate::handler::{Answer, Handler, Head, Plan, Treat};
use crate::limits::{PRODUCE_HEADER_BYTES, SLOTS, WAITING_ANSWERS_BYTES};

/// Length, key, version, correlation id: what decides about a request.
const HEAD_BYTES: usize = 12;

/// Where the client's stream of bytes stands.
#[derive(Default)]
pub(super) struct Requests {
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
    /// So many bytes go on as they come.
    Streaming { left: usize, place: Option<Place> },
    /// The handler wants it whole, or we do.
    Collecting(Box<Collecting>),
    /// A produce request of which it is not known yet whether it wants an answer.
    Produce(Box<Produce>),
}

struct Collecting {
    head: Head,
    body: BytesMut,
    handshake: bool,
    share: Share,
}

struct Produce {
    head: Head,
    /// The frame's first bytes, length included.
    held: Vec<u8>,
    scan: AcksScan,
    answer: Answer,
}

impl Requests {
    /// A request is half forwarded.
    pub(super) fn streaming(&self) -> bool {
        matches!(self.state, State::Streaming { .. })
    }

    /// No request is half received.
    pub(super) fn between(&self) -> bool {
        matches!(self.state, State::Head) && self.start.have == 0
    }
}

impl<H: Handler> Pair<H> {
    /// Whether what the client sent is left alone for now. A request that is half forwarded is finished first.
    fn client_must_wait(&self) -> bool {
        if self.requests.streaming() {
            return false;
        }
        self.exchanges.hold.is_some()
            || self.login_pending()
            || self.slots.len() >= SLOTS
            || self.exchanges.behind() >= SLOTS
            || self.to_client.len() + self.slots.waiting() >= WAITING_ANSWERS_BYTES
            || self.to_upstream.len() >= WAITING_ANSWERS_BYTES
    }

    /// A handshake of version 0 is unanswered.
    pub(super) fn login_pending(&self) -> bool {
        matches!(self.login, Login::Asked(_))
    }

    /// One read of the client's, framed and passed on. True if anything moved.
    pub(super) fn poll_client(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        if self.upstream_over || self.upstream_deaf {
            return Ok(false);
        }
        let mut moved = match self.to_upstream.poll_drain(cx, &mut self.upstream) {
            Poll::Ready(Ok(moved)) => moved,
            Poll::Ready(Err(_)) => {
                self.upstream_takes_no_more();
                return Ok(true);
            }
            Poll::Pending => {
                self.reading = false;
                return Ok(false);
            }
        };
        if matches!(self.ending, Some(Ended::Refused(_) | Ended::Stalled)) {
            self.held = None;
            return Ok(moved);
        }
        let waits = self.client_must_wait();
        self.reading = !waits;
        if waits {
            // While an exchange has the upstream it is read ahead, so that a broken connection shows.
            return Ok(moved | (self.exchanges.hold.is_some() && self.read_ahead(cx)?) | self.poll_half_close(cx));
        }
        let (chunk, from, to) = match self.held.take() {
            Some(held) => held,
            None => match self.read_client(cx, None)? {
                Some(read) => read,
                None => return Ok(moved | self.poll_half_close(cx)),
            },
        };
        moved = true;
        let mut run = Run::at(from);
        let framed = self.frame_requests(&chunk, from, to, &mut run);
        // What is not looked at yet stays in the chunk.
        let rest = framed.as_ref().map_or(to, |at| *at);
        let (chunk, sent) = self.to_upstream.send(cx, &mut self.upstream, chunk, run, rest < to);
        match chunk {
            Some(chunk) if rest < to => self.held = Some((chunk, rest, to)),
            Some(chunk) => buffers::give(chunk),
            None => {}
        }
        if sent.is_err() {
            self.upstream_takes_no_more();
        }
        if let Err(end) = framed {
            // Answers to the requests in front still go out.
            self.ending.get_or_insert(end);
            self.held = None;
        }
        Ok(moved)
    }

    /// Reads into what is held, as long as there is room.
    fn read_ahead(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        if self.held.as_ref().is_some_and(|(chunk, _, to)| *to >= chunk.len()) {
            return Ok(false);
        }
        let held = self.held.take();
        let before = (self.client_eof, held.as_ref().map_or(0, |(_, _, to)| *to));
        self.held = self.read_client(cx, held)?;
        Ok((self.client_eof, self.held.as_ref().map_or(0, |(_, _, to)| *to)) != before)
    }

    /// One read, behind what is in hand.
    fn read_client(&mut self, cx: &mut Context<'_>, in_hand: Option<Held>) -> Result<Option<Held>, Ended> {
        if self.client_eof || (self.draining && self.requests.between()) {
            return Ok(in_hand);
        }
        let (mut chunk, from, to) = in_hand.unwrap_or_else(|| (buffers::take(), 0, 0));
        let read = self.client.poll_read(cx, chunk.get_mut(to..).unwrap_or_default());
        match read {
            Poll::Ready(Ok(0)) => {
                self.client_eof = true;
            }
            Poll::Ready(Ok(n)) => {
                self.stats.request_bytes += n as u64;
                self.touch_request();
                return Ok(Some((chunk, from, to + n)));
            }
            Poll::Ready(Err(_)) => return Err(Ended::Client),
            Poll::Pending => {}
        }
        if from < to {
            return Ok(Some((chunk, from, to)));
        }
        buffers::give(chunk);
        Ok(None)
    }

    /// The client has closed its side and all it sent is forwarded: the upstream is told.
    fn poll_half_close(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.client_eof || self.held.is_some() {
            return false;
        }
        self.cut_request();
        if self.upstream_shut || self.exchanges.hold.is_some() || !self.to_upstream.is_done() {
            return false;
        }
        let shut = self.upstream.poll_shutdown(cx).is_ready();
        self.upstream_shut = shut;
        shut
    }

    /// The request that was arriving never will be whole.
    pub(super) fn cut_request(&mut self) {
        self.requests.start.have = 0;
        if let State::Streaming { place: Some(place), .. } = std::mem::take(&mut self.requests.state) {
            self.slots.forget_last(place);
        }
    }

    /// Frames `from..to` of the chunk; ends before a frame that has to wait. Returns how far it came.
    fn frame_requests(&mut self, chunk: &[u8], from: usize, to: usize, run: &mut Run) -> Result<usize, Ended> {
        let mut at = from;
        while at < to && !self.client_must_wait() {
            let fresh = chunk.get(at..to).unwrap_or_default();
            match &mut self.requests.state {
                State::Head => at = self.begin_request(chunk, at, to, run)?,
                State::Streaming { left, .. } => {
                    let taken = fresh.len().min(*left);
                    *left -= taken;
                    if *left == 0 {
                        self.requests.state = State::Head;
                    }
                    self.to_upstream.pass(chunk, run, at, at + taken);
                    at += taken;
                }
                State::Collecting(collecting) => {
                    let missing = collecting.head.length.saturating_sub(collecting.body.len());
                    let taken = fresh.len().min(missing);
                    collecting.body.extend_from_slice(fresh.get(..taken).unwrap_or_default());
                    if !collecting.share.hold(collecting.body.len()) {
                        return Err(Ended::Refused(format!(
                            "requests that are looked at whole hold too much together, and one of {} bytes (api {}) is over",
                            collecting.head.length, collecting.head.api_key
                        )));
                    }
                    at += taken;
                    if taken == missing {
                        self.collected(chunk, run)?;
                    }
                }
                State::Produce(produce) => {
                    let missing = (4 + produce.head.length).saturating_sub(produce.held.len());
                    let taken = fresh.len().min(missing).min(PRODUCE_HEADER_BYTES);
                    produce.held.extend_from_slice(fresh.get(..taken).unwrap_or_default());
                    at += taken;
                    match produce.scan.look(produce.held.get(4..).unwrap_or_default()) {
                        Acks::More if taken < missing => {
                            if produce.held.len() > PRODUCE_HEADER_BYTES {
                                return Err(Ended::Refused("the header of a produce request is too long".to_owned()));
                            }
                        }
                        acks => self.produce_known(acks, chunk, run),
                    }
                }
            }
        }
        Ok(at)
    }

    /// Looks at the head of a frame whose next bytes are at `at`. Returns where framing goes on.
    fn begin_request(&mut self, chunk: &[u8], at: usize, to: usize, run: &mut Run) -> Result<usize, Ended> {
        let fresh = chunk.get(at..to).unwrap_or_default();
        let (start, seen) = self.requests.start.with(fresh);
        if !self.requests.known
            && let Some(intruder) = start.get(..seen).and_then(frame::diagnose)
        {
            return Err(Ended::Refused(intruder.at_a_kafka_listener()));
        }
        let [l1, l2, l3, l4, k1, k2, v1, v2, c1, c2, c3, c4] = start;
        let length = i32::from_be_bytes([l1, l2, l3, l4]);
        if seen >= 4 {
            let token = matches!(self.login, Login::Tokens { .. });
            let known = (seen >= 8).then_some([k1, k2, v1, v2]);
            match self.login.frame(usize::try_from(length).unwrap_or(0), known) {
                Frame::Token => return self.begin_token(length, chunk, at, run),
                Frame::Request if token && seen >= 8 => {
                    self.login = Login::Ordinary;
                    self.slots.forget_tokens();
                }
                Frame::Request | Frame::Unknown => {}
            }
            frame::check_length(length, self.options.max_request_bytes).map_err(|e| Ended::Refused(e.to_string()))?;
        }
        if seen < HEAD_BYTES {
            self.requests.start = Start { stored: start, have: seen };
            return Ok(to);
        }
        self.requests.known = true;
        self.stats.requests += 1;
        let head = Head {
            api_key: i16::from_be_bytes([k1, k2]),
            api_version: i16::from_be_bytes([v1, v2]),
            correlation_id: i32::from_be_bytes([c1, c2, c3, c4]),
            length: usize::try_from(length).unwrap_or(0),
        };
        match head.api_key {
            sasl::HANDSHAKE => self.logging_in = true,
            key if tells_login(key) => self.logging_in = false,
            _ => {}
        }
        let mut treat = self.handler.head(head);
        if let Treat::Whole(max) = treat
            && head.length > max
        {
            treat = self.handler.oversized(head);
            if matches!(treat, Treat::Whole(_)) {
                return Err(Ended::Refused(format!(
                    "a request of {} bytes (api {}) is too long",
                    head.length, head.api_key
                )));
            }
        }
        let handshake = head.api_key == sasl::HANDSHAKE && head.api_version == 0;
        match treat {
            Treat::Close(line) => Err(Ended::Refused(line)),
            Treat::Stream(answer) if head.api_key == 0 => Ok(self.begin_produce(head, answer, chunk, at, to, run)),
            Treat::Stream(answer) if !handshake || head.length > sasl::HANDSHAKE_BYTES => {
                let place = self.add_asked(head.api_key, head.correlation_id, answer);
                self.stream(head.length, Some(place), chunk, run);
                Ok(at)
            }
            Treat::Stream(_) | Treat::Whole(_) => self.begin_whole(head, handshake, start, chunk, at, to, run),
        }
    }

    /// The rest of the frame in hand goes on as it comes.
    fn stream(&mut self, length: usize, place: Option<Place>, chunk: &[u8], run: &mut Run) {
        let have = std::mem::take(&mut self.requests.start.have);
        if have > 0 {
            self.to_upstream.settle(chunk, run);
            self.to_upstream.copy(self.requests.start.stored.get(..have).unwrap_or_default());
        }
        self.requests.state = State::Streaming { left: (4 + length).saturating_sub(have), place };
    }

    fn begin_token(&mut self, length: i32, chunk: &[u8], at: usize, run: &mut Run) -> Result<usize, Ended> {
        let length = usize::try_from(length).ok().filter(|length| *length <= sasl::TOKEN_BYTES);
        let Some(length) = length else {
            return Err(Ended::Refused("a login token is too long".to_owned()));
        };
        self.login.token();
        let place = self.slots.add(Slot::Asked);
        self.slots.owe(Owed { correlation_id: None, tells_login: false, to: Waiter::Token(place) });
        self.stream(length, Some(place), chunk, run);
        Ok(at)
    }

    fn begin_produce(
        &mut self,
        head: Head,
        answer: Answer,
        chunk: &[u8],
        at: usize,
        to: usize,
        run: &mut Run,
    ) -> usize {
        let mut scan = AcksScan::new(head.api_version);
        if self.requests.start.have == 0 {
            let end = to.min(at.saturating_add(4 + head.length));
            let body = chunk.get(at + 4..end).unwrap_or_default();
            let acks = scan.look(body);
            if acks != Acks::More || body.len() == head.length {
                let place = self.add_produce(acks, head, answer);
                self.stream(head.length, place, chunk, run);
                return at;
            }
        }
        let have = std::mem::take(&mut self.requests.start.have);
        let held = self.requests.start.stored.get(..have).unwrap_or_default().to_vec();
        self.requests.state = State::Produce(Box::new(Produce { head, held, scan, answer }));
        at
    }

    /// Enough of a produce request is there: what was held goes on, and so does the rest.
    fn produce_known(&mut self, acks: Acks, chunk: &[u8], run: &mut Run) {
        let State::Produce(produce) = std::mem::take(&mut self.requests.state) else { return };
        let Produce { head, held, answer, .. } = *produce;
        let place = self.add_produce(acks, head, answer);
        self.to_upstream.settle(chunk, run);
        self.to_upstream.copy(&held);
        let left = (4 + head.length).saturating_sub(held.len());
        if left > 0 {
            self.requests.state = State::Streaming { left, place };
        }
    }

    /// Produce with acks=0 has no answer, so it takes no slot. One that cannot be read gets the broker's closed door.
    fn add_produce(&mut self, acks: Acks, head: Head, answer: Answer) -> Option<Place> {
        (acks != Acks::Known(0)).then(|| self.add_asked(head.api_key, head.correlation_id, answer))
    }

    fn add_asked(&mut self, api_key: i16, correlation_id: i32, answer: Answer) -> Place {
        let place = self.slots.add(Slot::Asked);
        let to = Waiter::Client(place, answer);
        self.slots.owe(Owed { correlation_id: Some(correlation_id), tells_login: tells_login(api_key), to });
        place
    }

    #[expect(clippy::too_many_arguments, reason = "where the frame stands in the chunk is four of them")]
    fn begin_whole(
        &mut self,
        head: Head,
        handshake: bool,
        start: [u8; HEAD_BYTES],
        chunk: &[u8],
        at: usize,
        to: usize,
        run: &mut Run,
    ) -> Result<usize, Ended> {
        let end = at.saturating_add(4 + head.length);
        if self.requests.start.have == 0 && end <= to && !handshake {
            let body = chunk.get(at + 4..end).unwrap_or_default();
            let plan = buffers::with_body(body, |body| self.handler.request(head, body));
            if let Plan::Forward(None, answer) = plan {
                if !is_silent(head.api_key, body) {
                    self.add_asked(head.api_key, head.correlation_id, answer);
                }
                self.to_upstream.pass(chunk, run, at, end);
            } else {
                let silent = is_silent(head.api_key, body);
                self.carry_out(head, plan, None, silent, chunk, run)?;
            }
            return Ok(end);
        }
        let missing = HEAD_BYTES - std::mem::take(&mut self.requests.start.have);
        let body = BytesMut::from(start.get(4..).unwrap_or_default());
        self.requests.state =
            State::Collecting(Box::new(Collecting { head, body, handshake, share: self.options.collected.share() }));
        if head.length == HEAD_BYTES - 4 {
            self.collected(chunk, run)?;
        }
        Ok(at + missing)
    }

    /// A collected request is whole.
    fn collected(&mut self, chunk: &[u8], run: &mut Run) -> Result<(), Ended> {
        let State::Collecting(collecting) = std::mem::take(&mut self.requests.state) else { return Ok(()) };
        let Collecting { head, body, handshake, share } = *collecting;
        if handshake {
            self.login = Login::Asked(Mechanism::of_handshake(&body));
            let place = self.slots.add(Slot::Asked);
            let to = Waiter::Handshake(place);
            self.slots.owe(Owed { correlation_id: Some(head.correlation_id), tells_login: false, to });
            self.forward(body, chunk, run);
            return Ok(());
        }
        let plan = match self.handler.request(head, &body) {
            // What it holds it holds until it has decided.
            Plan::Exchange(exchange) => Plan::Exchange(Box::new(move |upstream| {
                let deciding = exchange(upstream);
                Box::pin(async move {
                    let _share = share;
                    deciding.await
                })
            })),
            other => other,
        };
        let silent = is_silent(head.api_key, &body);
        self.carry_out(head, plan, Some(body), silent, chunk, run)
    }

    fn carry_out(
        &mut self,
        head: Head,
        plan: Plan,
        body: Option<BytesMut>,
        silent: bool,
        chunk: &[u8],
        run: &mut Run,
    ) -> Result<(), Ended> {
        match plan {
            Plan::Forward(changed, answer) => {
                let body = changed.or(body).unwrap_or_default();
                let Some(correlation_id) = correlation_id(&body) else {
                    return Err(Ended::Refused(format!("nothing is left of a request (api {})", head.api_key)));
                };
                if !is_silent(head.api_key, &body) {
                    self.add_asked(head.api_key, correlation_id, answer);
                }
                self.forward(body, chunk, run);
            }
            Plan::Local(frame) if !silent => {
                self.slots.add(Slot::Ready(frame));
            }
            Plan::Local(_) => {}
            Plan::Exchange(exchange) => {
                let place = (!silent).then(|| self.slots.add(Slot::Working));
                self.begin_exchange(place, exchange);
            }
            Plan::Close(line) => return Err(Ended::Refused(line)),
        }
        Ok(())
    }

    fn forward(&mut self, body: BytesMut, chunk: &[u8], run: &mut Run) {
        self.to_upstream.settle(chunk, run);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        self.to_upstream.copy(&length.to_be_bytes());
        self.to_upstream.push(body);
    }
}

/// An answer to it is given to clients that are logged in, and to no others.
fn tells_login(api_key: i16) -> bool {
    !matches!(api_key, sasl::HANDSHAKE | sasl::VERSIONS | sasl::AUTHENTICATE)
}

/// A produce request that wants no answer, given as the body of its frame.
fn is_silent(api_key: i16, body: &[u8]) -> bool {
    let version = || body.get(2..4).and_then(<[u8]>::first_chunk).map_or(0, |bytes| i16::from_be_bytes(*bytes));
    api_key == 0 && AcksScan::new(version()).look(body) == Acks::Known(0)
}
