//! Exchanges under way: futures that the pair's task drives, and the one that may question the upstream now.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use futures_util::stream::{FuturesUnordered, Stream as _};
use tokio::sync::mpsc;

use super::slots::{Owed, Place, Waiter};
use super::{Ended, Pair};
use crate::handler::{BoxFuture, Exchange, Handler, Question, Upstream};

/// What is being worked on beside the two streams of bytes.
#[derive(Default)]
pub(super) struct Exchanges {
    /// Questions of the exchange that has the upstream now; nothing behind it is forwarded.
    pub hold: Option<mpsc::Receiver<Question>>,
    running: Option<FuturesUnordered<Running>>,
    /// Questions of ours that have no place yet.
    pub injected: VecDeque<Exchange>,
}

struct Running {
    place: Option<Place>,
    work: Work,
}

/// Whose work is done, and the frame for the client or the line for the log.
type Done = (Option<Place>, Result<Option<BytesMut>, String>);

enum Work {
    Exchange(BoxFuture<Result<Option<BytesMut>, String>>),
    Later(BoxFuture<Result<BytesMut, String>>),
}

impl Future for Running {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match &mut self.work {
            Work::Exchange(future) => ready!(future.as_mut().poll(cx)),
            Work::Later(future) => ready!(future.as_mut().poll(cx)).map(Some),
        };
        Poll::Ready((self.place, result))
    }
}

impl Exchanges {
    fn run(&mut self, place: Option<Place>, work: Work) {
        self.running.get_or_insert_default().push(Running { place, work });
    }

    /// The frame at `place` is made by this future.
    pub(super) fn later(&mut self, place: Place, future: BoxFuture<Result<BytesMut, String>>) {
        self.run(Some(place), Work::Later(future));
    }

    /// How many are under way.
    pub(super) fn running(&self) -> usize {
        self.running.as_ref().map_or(0, FuturesUnordered::len)
    }

    /// How many are under way or wait for their place.
    pub(super) fn behind(&self) -> usize {
        self.running() + self.injected.len()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Option<Done> {
        let running = self.running.as_mut()?;
        match Pin::new(running).poll_next(cx) {
            Poll::Ready(Some(done)) => Some(done),
            Poll::Ready(None) => {
                self.running = None;
                None
            }
            Poll::Pending => None,
        }
    }
}

impl<H: Handler> Pair<H> {
    /// Begins an exchange at a place in the client's order, or without one.
    pub(super) fn begin_exchange(&mut self, place: Option<Place>, exchange: Exchange) {
        let (questions, asked) = mpsc::channel(1);
        if !self.upstream_over && !self.upstream_shut {
            self.exchanges.hold = Some(asked);
        }
        let future = exchange(Upstream { questions });
        self.exchanges.run(place, Work::Exchange(future));
    }

    /// Drives exchanges, passes on their questions, begins those that wait for a place.
    pub(super) fn poll_exchanges(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let mut moved = false;
        loop {
            while let Some((place, result)) = self.exchanges.poll_next(cx) {
                moved = true;
                match (place, result) {
                    (Some(place), Ok(frame)) => self.slots.fill(place, frame.unwrap_or_default()),
                    (None, Ok(_)) => {}
                    (place, Err(line)) => {
                        if let Some(place) = place {
                            self.slots.cut(place);
                        }
                        self.ending.get_or_insert(Ended::Refused(line));
                    }
                }
            }
            match self.exchanges.hold.as_mut().map(|asked| asked.poll_recv(cx)) {
                Some(Poll::Ready(Some(question))) => {
                    moved = true;
                    self.ask(question);
                }
                Some(Poll::Ready(None)) => {
                    moved = true;
                    self.exchanges.hold = None;
                }
                Some(Poll::Pending) => return Ok(moved),
                None => {
                    if !self.may_inject() {
                        return Ok(moved);
                    }
                    let Some(exchange) = self.exchanges.injected.pop_front() else { return Ok(moved) };
                    moved = true;
                    self.begin_exchange(None, exchange);
                }
            }
        }
    }

    /// A question of ours may take the next place: no request is half forwarded, and the connection is logged in.
    fn may_inject(&self) -> bool {
        !self.exchanges.injected.is_empty()
            && self.logged_in
            && !self.logging_in
            && self.ending.is_none()
            && !self.upstream_over
            && !self.upstream_shut
            && !self.requests.streaming()
            && !self.login_pending()
    }

    fn ask(&mut self, question: Question) {
        let Question { request, answer } = question;
        // A question that is no request would put everything behind it out of step; its asker learns that it is lost.
        let Some(correlation_id) = correlation_id(&request) else { return };
        let Ok(length) = u32::try_from(request.len()) else { return };
        if self.upstream_deaf {
            return;
        }
        self.stats.questions += 1;
        self.to_upstream.copy(&length.to_be_bytes());
        self.to_upstream.push(BytesMut::from(request));
        self.slots.owe(Owed { correlation_id: Some(correlation_id), tells_login: false, to: Waiter::Question(answer) });
    }
}

/// Of a request, given as the body of its frame.
pub(super) fn correlation_id(request: &[u8]) -> Option<i32> {
    request.get(4..8)?.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes))
}
