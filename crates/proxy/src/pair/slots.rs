//! The two orders of a pair: what the client waits for, and what the upstream still owes.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use super::buffers::{Outbox, Run};
use crate::handler::Answer;

/// A place in the client's order; counts from 0 and never comes again.
pub(super) type Place = u64;

/// What the client waits for, at one place.
pub(super) enum Slot {
    /// The upstream was asked.
    Asked,
    /// The upstream's answer is arriving; bytes of it that wait for slots in front.
    Arriving(BytesMut),
    /// An exchange or a future is under way.
    Working,
    /// The frames that the client gets, whole; empty where it gets nothing.
    Ready(BytesMut),
}

/// What the upstream owes next.
pub(super) struct Owed {
    /// The number that the answer must bear; tokens have none.
    pub correlation_id: Option<i32>,
    /// Its coming says that the connection is logged in.
    pub tells_login: bool,
    pub to: Waiter,
}

/// Who waits for an answer of the upstream.
pub(super) enum Waiter {
    /// The client, through this treatment.
    Client(Place, Answer),
    /// The client, and we look whether a token phase begins: a handshake of version 0.
    Handshake(Place),
    /// The client; a frame without header.
    Token(Place),
    /// An exchange.
    Question(oneshot::Sender<Bytes>),
}

/// The tables of a pair. Both are empty whenever nothing is in flight.
#[derive(Default)]
pub(super) struct Slots {
    first: Place,
    slots: VecDeque<Slot>,
    owed: VecDeque<Owed>,
    /// Bytes in slots that wait for slots in front.
    waiting: usize,
    pub(super) most: usize,
    pub(super) most_waiting: usize,
}

impl Slots {
    /// Slots in use.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Nothing is in flight either way.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.owed.is_empty()
    }

    /// The client waits for nothing.
    pub(super) fn no_one_waits(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Bytes of answers that wait for answers in front.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The slot in front is one that the upstream has no part in.
    pub(super) fn front_is_ours(&self) -> bool {
        matches!(self.slots.front(), Some(Slot::Working | Slot::Ready(_)))
    }

    pub(super) fn is_front(&self, place: Place) -> bool {
        place == self.first && !self.slots.is_empty()
    }

    /// A new slot at the end.
    pub(super) fn add(&mut self, slot: Slot) -> Place {
        if let Slot::Ready(frame) = &slot {
            self.waiting += frame.len();
        }
        self.slots.push_back(slot);
        self.most = self.most.max(self.slots.len());
        self.most_waiting = self.most_waiting.max(self.waiting);
        self.first + (self.slots.len() as u64 - 1)
    }

    pub(super) fn owe(&mut self, owed: Owed) {
        self.owed.push_back(owed);
    }

    pub(super) fn next_is_token(&self) -> bool {
        matches!(self.owed.front(), Some(Owed { to: Waiter::Token(_), .. }))
    }

    pub(super) fn next_owed(&mut self) -> Option<Owed> {
        let owed = self.owed.pop_front();
        self.shrink();
        owed
    }

    fn get(&mut self, place: Place) -> Option<&mut Slot> {
        let index = usize::try_from(place.checked_sub(self.first)?).ok()?;
        self.slots.get_mut(index)
    }

    /// The first bytes of an answer come in.
    pub(super) fn arriving(&mut self, place: Place) {
        if let Some(slot) = self.get(place) {
            *slot = Slot::Arriving(BytesMut::new());
        }
    }

    /// Bytes of an answer that has to wait.
    pub(super) fn keep(&mut self, place: Place, bytes: &[u8]) {
        if let Some(Slot::Arriving(kept)) = self.get(place) {
            kept.extend_from_slice(bytes);
            self.waiting += bytes.len();
            self.most_waiting = self.most_waiting.max(self.waiting);
        }
    }

    /// The answer that was arriving is whole.
    pub(super) fn arrived(&mut self, place: Place) {
        if let Some(slot) = self.get(place)
            && let Slot::Arriving(kept) = slot
        {
            let kept = std::mem::take(kept);
            *slot = Slot::Ready(kept);
        }
    }

    /// The answer is this frame.
    pub(super) fn fill(&mut self, place: Place, frame: BytesMut) {
        let length = frame.len();
        if let Some(slot) = self.get(place) {
            *slot = Slot::Ready(frame);
            self.waiting += length;
            self.most_waiting = self.most_waiting.max(self.waiting);
        }
    }

    /// The answer is no longer the upstream's: a future makes it.
    pub(super) fn working(&mut self, place: Place) {
        if let Some(slot) = self.get(place) {
            *slot = Slot::Working;
        }
    }

    /// Moves what is finished at the front behind the run. True if a slot became free.
    pub(super) fn advance(&mut self, out: &mut Outbox, mut in_hand: Option<(&[u8], &mut Run)>) -> bool {
        let mut freed = false;
        while let Some(front) = self.slots.front_mut() {
            let (Slot::Ready(bytes) | Slot::Arriving(bytes)) = front else { break };
            if !bytes.is_empty() {
                if let Some((chunk, run)) = &mut in_hand {
                    out.settle(chunk, run);
                }
                self.waiting = self.waiting.saturating_sub(bytes.len());
                out.push(std::mem::take(bytes));
            }
            if matches!(front, Slot::Arriving(_)) {
                break;
            }
            self.slots.pop_front();
            self.first += 1;
            freed = true;
        }
        if freed {
            self.shrink();
        }
        freed
    }

    /// The slot at `place` and all behind it will never be answered.
    pub(super) fn cut(&mut self, place: Place) {
        let keep = usize::try_from(place.saturating_sub(self.first)).unwrap_or(usize::MAX);
        while self.slots.len() > keep {
            if let Some(Slot::Ready(bytes) | Slot::Arriving(bytes)) = self.slots.pop_back() {
                self.waiting = self.waiting.saturating_sub(bytes.len());
            }
        }
    }

    /// The upstream sends no more: everyone who waits for it is told, by losing the other end of the question. What is
    /// finished or being made in front of the first slot that it owed still goes out, and what came of that one.
    pub(super) fn lost(&mut self) {
        self.owed = VecDeque::new();
        let Some(index) = self.slots.iter().position(|slot| matches!(slot, Slot::Asked | Slot::Arriving(_))) else {
            return;
        };
        let place = self.first + index as u64;
        let torn = matches!(self.slots.get(index), Some(Slot::Arriving(_)));
        self.cut(place + u64::from(torn));
        self.arrived(place);
    }

    /// Tokens that nobody answered: some mechanisms end so.
    pub(super) fn forget_tokens(&mut self) {
        while let Some(Owed { to: Waiter::Token(place), .. }) = self.owed.back() {
            let place = *place;
            self.owed.pop_back();
            self.fill(place, BytesMut::new());
        }
    }

    /// The request that was being forwarded ended in the middle.
    pub(super) fn forget_last(&mut self, place: Place) {
        self.cut(place);
        if matches!(self.owed.back(), Some(Owed { to: Waiter::Client(p, _) | Waiter::Token(p), .. }) if *p == place) {
            self.owed.pop_back();
        }
    }

    /// What a burst needed is not kept by a pair at rest.
    fn shrink(&mut self) {
        if self.slots.is_empty() && self.slots.capacity() > 16 {
            self.slots = VecDeque::new();
        }
        if self.owed.is_empty() && self.owed.capacity() > 16 {
            self.owed = VecDeque::new();
        }
    }
}
