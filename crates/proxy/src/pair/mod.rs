//! The engine: one connection pair from its first byte to its end.
//!
//! | module | what it holds |
//! |---|---|
//! | `stream` | one side of a pair: a plain socket, or anything that carries bytes |
//! | `requests` | from the client to the upstream: framing, what the handler decided |
//! | `answers` | from the upstream to the client: whose answer a frame is |
//! | `slots` | the two orders: what the client waits for, what the upstream owes |
//! | `exchange` | exchanges under way, questions of ours |
//! | `budget` | what all pairs may hold together |
//! | `acks` | where a produce request says whether it wants an answer |
//! | `sasl` | logins whose tokens have no header |
//! | `buffers` | chunks held only while bytes are in them, and what waits to be written |
//! | `sentences` | what the log says about an upstream that speaks something else |
//!
//! Either direction is read only when what it brought before was taken, so that a slow reader or a slow upstream holds
//! its peer back and grows nothing here.

mod acks;
mod answers;
mod budget;
mod buffers;
mod exchange;
mod requests;
mod sasl;
mod sentences;
mod slots;
mod stream;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::Sleep;

use self::answers::Answers;
pub use self::budget::Budget;
use self::budget::Share;
use self::buffers::{Held, Outbox};
use self::exchange::Exchanges;
use self::requests::Requests;
use self::sasl::Login;
use self::slots::Slots;
pub use self::stream::{Duplex, Stream};
use crate::handler::Handler;
use crate::limits::{UNSENT_ALWAYS_BYTES, UNSENT_BYTES};

/// Settings of a pair.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest request: `socket.request.max.bytes`.
    pub max_request_bytes: usize,
    /// How long a request may take to arrive once begun; where it is streamed, how long nothing of it may come.
    pub frame_timeout: Duration,
    /// How long nothing may pass either way.
    pub idle: Duration,
    /// What requests that are collected may hold, of all pairs that share it.
    pub collected: Budget,
    /// What waits for peers to take it may hold, of all pairs that share it.
    pub unsent: Budget,
}

impl Default for Options {
    /// Kafka's defaults, and 30 seconds for a request.
    fn default() -> Self {
        Options {
            max_request_bytes: 100 * 1024 * 1024,
            frame_timeout: Duration::from_secs(30),
            idle: Duration::from_secs(600),
            collected: Budget::default(),
            unsent: Budget::of(UNSENT_BYTES),
        }
    }
}

/// Why a pair ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed it, or the network did.
    Client,
    /// The upstream closed it, or the network did.
    Upstream,
    /// Nothing passed for too long.
    Idle,
    /// A request was begun and not finished in time.
    Stalled,
    /// We are going down and nothing was in flight.
    Drained,
    /// What peers do not take holds too much, of all pairs together: so many bytes for this one's.
    Untaken(usize),
    /// The client sent what cannot be passed on; the line is for the log.
    Refused(String),
    /// The upstream sent what cannot be understood; the line is for the log.
    Garbled(String),
}

/// What passed through a pair, and what was left in its tables when it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that began.
    pub requests: u64,
    /// Answers of the upstream that began, those to questions of ours included.
    pub answers: u64,
    /// Questions of ours.
    pub questions: u64,
    /// Bytes from the client.
    pub request_bytes: u64,
    /// Bytes from the upstream.
    pub answer_bytes: u64,
    /// The most slots in use at once.
    pub most_slots: usize,
    /// The most bytes of answers that waited for an answer in front.
    pub most_waiting_bytes: usize,
    /// Slots in use at the end.
    pub slots: usize,
    /// Answers that the upstream owed at the end.
    pub owed: usize,
    /// Exchanges under way, or waiting for their place, at the end.
    pub exchanges: usize,
    /// Bytes at the end that waited for an answer in front, or for a socket to take them.
    pub unsent_bytes: usize,
}

/// Serves one pair until it ends. `draining` turns true when the process is going down: the pair then reads no new
/// request and ends once nothing is in flight.
///
/// Futures of the handler's are dropped when the pair ends, wherever they are: work that must go on runs in a task of
/// its own.
pub async fn run<H: Handler>(
    client: Stream,
    upstream: Stream,
    handler: H,
    options: &Options,
    draining: watch::Receiver<bool>,
) -> Ended {
    run_counted(client, upstream, handler, options, draining).await.0
}

/// As [`run`], with the figures.
pub async fn run_counted<H: Handler>(
    client: Stream,
    upstream: Stream,
    handler: H,
    options: &Options,
    mut draining: watch::Receiver<bool>,
) -> (Ended, Stats) {
    let now = Instant::now();
    let timer_at = now + options.idle;
    let mut pair = Box::new(Pair {
        client,
        upstream,
        handler,
        unsent: options.unsent.share(),
        options: options.clone(),
        requests: Requests::default(),
        answers: Answers::default(),
        slots: Slots::default(),
        exchanges: Exchanges::default(),
        to_upstream: Outbox::default(),
        to_client: Outbox::default(),
        held: None,
        login: Login::default(),
        logged_in: false,
        logging_in: false,
        client_eof: false,
        upstream_shut: false,
        upstream_deaf: false,
        upstream_over: false,
        draining: false,
        reading: true,
        ending: None,
        stats: Stats::default(),
        timer: Box::pin(tokio::time::sleep_until(timer_at.into())),
        timer_at,
        last_moved: now,
        request_since: None,
    });
    let mut drain = Box::pin(async move {
        // An error means that the sender is gone, which is the end as well.
        let _ = draining.wait_for(|draining| *draining).await;
    });
    let ended = poll_fn(|cx| pair.poll(cx, drain.as_mut())).await;
    // Tell both sides, where they still listen; what was promised to be sent was sent before.
    let closing = poll_fn(|cx| pair.poll_close(cx));
    let _ = tokio::time::timeout(CLOSING, closing).await;
    (ended, pair.figures())
}

/// How long a side may take to be told that the connection ends.
const CLOSING: Duration = Duration::from_millis(500);

struct Pair<H> {
    client: Stream,
    upstream: Stream,
    handler: H,
    options: Options,
    /// This pair's part of what waits for peers.
    unsent: Share,
    requests: Requests,
    answers: Answers,
    slots: Slots,
    exchanges: Exchanges,
    to_upstream: Outbox,
    to_client: Outbox,
    /// Bytes of the client's that were read and may not be looked at yet.
    held: Option<Held>,
    login: Login,
    /// An answer was seen that only clients who are logged in get.
    logged_in: bool,
    /// A login has begun, the first or a later one (KIP-368), and no other request came since: a broker closes the
    /// connection for anything else in between.
    logging_in: bool,
    /// The client has closed its side.
    client_eof: bool,
    /// We have closed our side towards the upstream.
    upstream_shut: bool,
    /// The upstream takes no more, but may have sent something.
    upstream_deaf: bool,
    /// Nothing more is read from the upstream.
    upstream_over: bool,
    draining: bool,
    /// The client is listened to; else nobody waits for the rest of its request.
    reading: bool,
    /// Why the pair ends once what is finished has gone out.
    ending: Option<Ended>,
    stats: Stats,
    timer: Pin<Box<Sleep>>,
    timer_at: Instant,
    last_moved: Instant,
    /// Since when the rest of a request is waited for.
    request_since: Option<Instant>,
}

impl<H: Handler> Pair<H> {
    fn poll(&mut self, cx: &mut Context<'_>, drain: Pin<&mut impl Future<Output = ()>>) -> Poll<Ended> {
        if !self.draining && drain.poll(cx).is_ready() {
            self.draining = true;
        }
        let mut any = false;
        loop {
            let moved = self.poll_exchanges(cx).and_then(|exchanges| {
                let client = self.poll_client(cx)?;
                let upstream = self.poll_upstream(cx)?;
                Ok(exchanges | client | upstream)
            });
            match moved {
                Err(end) => return Poll::Ready(end),
                Ok(moved) => {
                    if let Some(end) = self.finished() {
                        return Poll::Ready(end);
                    }
                    any |= moved;
                    if !moved {
                        break;
                    }
                }
            }
        }
        if let Err(end) = self.count_unsent() {
            return Poll::Ready(end);
        }
        self.poll_timer(cx, any)
    }

    /// Counts what the peers did not take against the bound over all pairs.
    fn count_unsent(&mut self) -> Result<(), Ended> {
        let unsent = self.unsent_bytes();
        let now = if unsent > UNSENT_ALWAYS_BYTES { unsent } else { 0 };
        let before = self.unsent.mine();
        // Whoever takes some goes on, whatever others hold.
        if now == before || self.unsent.hold(now) || now < before {
            return Ok(());
        }
        Err(Ended::Untaken(unsent))
    }

    fn unsent_bytes(&self) -> usize {
        self.slots.waiting() + self.to_client.len() + self.to_upstream.len()
    }

    /// Why the pair ends now.
    fn finished(&mut self) -> Option<Ended> {
        if !self.slots.no_one_waits() || !self.to_client.is_done() {
            return None;
        }
        let forwarded = self.upstream_over || self.upstream_deaf || self.to_upstream.is_done();
        if self.ending.is_some() {
            return if forwarded { self.ending.take() } else { None };
        }
        if self.held.is_some() || !forwarded || self.exchanges.hold.is_some() {
            return None;
        }
        if self.client_eof {
            return Some(Ended::Client);
        }
        let at_rest = self.slots.is_empty() && self.exchanges.running() == 0 && self.requests.between();
        (self.draining && at_rest).then_some(Ended::Drained)
    }

    /// A write to the upstream failed. What it sent before is still read; its end comes with the next read.
    fn upstream_takes_no_more(&mut self) {
        self.upstream_deaf = true;
        self.to_upstream.clear();
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, moved: bool) -> Poll<Ended> {
        let mid_request = self.reading && !self.client_eof && !self.requests.between();
        if moved || (mid_request && self.request_since.is_none()) {
            let now = Instant::now();
            self.last_moved = now;
            if mid_request {
                self.request_since.get_or_insert(now);
            }
        }
        if !mid_request {
            self.request_since = None;
        }
        loop {
            let idle_at = self.last_moved + self.options.idle;
            let stalled_at = self.request_since.map(|since| since + self.options.frame_timeout);
            if let Some(stalled_at) = stalled_at
                && stalled_at < self.timer_at
            {
                self.timer_at = stalled_at;
                self.timer.as_mut().reset(stalled_at.into());
            }
            ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            if now >= idle_at {
                return Poll::Ready(Ended::Idle);
            }
            if stalled_at.is_some_and(|stalled_at| now >= stalled_at) {
                self.cut_request();
                self.request_since = None;
                self.ending.get_or_insert(Ended::Stalled);
                if let Some(end) = self.finished() {
                    return Poll::Ready(end);
                }
            }
            self.timer_at = stalled_at.filter(|at| *at > now).map_or(idle_at, |at| at.min(idle_at));
            self.timer.as_mut().reset(self.timer_at.into());
        }
    }

    /// Bytes of the client's came: where a request is streamed, that is progress.
    fn touch_request(&mut self) {
        if self.requests.streaming() {
            self.request_since = None;
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let client = self.client.poll_shutdown(cx).is_ready();
        let upstream = self.upstream_shut || self.upstream.poll_shutdown(cx).is_ready();
        if client && upstream { Poll::Ready(()) } else { Poll::Pending }
    }

    fn figures(&self) -> Stats {
        Stats {
            most_slots: self.slots.most,
            most_waiting_bytes: self.slots.most_waiting,
            slots: self.slots.len(),
            owed: self.slots.owed(),
            exchanges: self.exchanges.behind(),
            unsent_bytes: self.unsent_bytes(),
            ..self.stats
        }
    }
}
