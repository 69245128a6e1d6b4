//! One call under way. Its caller drives it; when the deadline passes or the caller goes away, a task takes it over, so
//! that it keeps its lane and its place in the limits until it settles. A call that is ready at once costs no task
//! and no timer.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::lanes::{HungRead, LaneGuard, Lanes};
use super::{Late, Operation, Outcome};
use crate::api::{Call, Failure, Stamp};
use crate::fence::Fence;
use crate::panic_text::panic_text;

/// How many calls hang, and how many may before they keep their places in flight.
#[derive(Debug)]
pub(super) struct Hung {
    pub(super) now: AtomicUsize,
    pub(super) max: usize,
}

/// What a call occupies until it settles.
pub(super) struct Held {
    pub(super) lane: Option<LaneGuard>,
    pub(super) in_flight: Option<InFlight>,
    pub(super) hung: Arc<Hung>,
    /// For a read: whose hung reads it counts to.
    pub(super) reader_of: Option<(Arc<Lanes>, Box<str>)>,
    pub(super) hung_place: Option<HungPlace>,
}

/// A place in flight.
pub(super) struct InFlight {
    count: Arc<AtomicUsize>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    pub(super) fn enter(count: &Arc<AtomicUsize>, permit: Option<OwnedSemaphorePermit>) -> InFlight {
        count.fetch_add(1, Ordering::Relaxed);
        InFlight { count: count.clone(), _permit: permit }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Places that a hung call takes.
#[derive(Default)]
pub(super) struct HungPlace {
    counted: Option<Arc<Hung>>,
    _read: Option<HungRead>,
}

impl Drop for HungPlace {
    fn drop(&mut self) {
        if let Some(hung) = &self.counted {
            hung.now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Held {
    /// The call has passed its deadline: it leaves the limit in flight if the cap of hung calls has room, and keeps
    /// its place there otherwise.
    fn hang(&mut self) {
        if let Some(lane) = &self.lane {
            lane.hang();
        }
        let below_cap = |n: usize| (n < self.hung.max).then_some(n + 1);
        let counted = self
            .hung
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_cap)
            .is_ok()
            .then(|| self.hung.clone());
        if counted.is_some() {
            self.in_flight = None;
        }
        let read = self.reader_of.as_ref().map(|(lanes, group)| lanes.hang_read(group));
        self.hung_place = Some(HungPlace { counted, _read: read });
    }
}

/// What is to be noted, and told, when a mutation settles.
#[derive(Clone)]
pub(super) struct Report {
    pub(super) op: u64,
    pub(super) group: Box<str>,
    pub(super) operation: Operation,
    pub(super) epoch: Option<i32>,
    pub(super) stamp: Stamp,
    /// Absent where calls just run.
    pub(super) fence: Option<Arc<Mutex<Fence>>>,
    pub(super) tell: Arc<dyn Fn(Late) + Send + Sync>,
}

impl Report {
    /// Whether a newer mutation of the group has succeeded before.
    pub(super) fn is_late(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| {
            let fence = fence.lock().unwrap_or_else(PoisonError::into_inner);
            !fence.admits(&self.group, self.stamp)
        })
    }

    /// Remembers a success; call before the lane is free.
    fn settled<T>(&self, outcome: &Outcome<T>) {
        if let Some(fence) = self.fence.as_ref().filter(|_| outcome.is_ok()) {
            let mut fence = fence.lock().unwrap_or_else(PoisonError::into_inner);
            fence.applied(&self.group, self.stamp);
        }
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("op", &self.op).field("group", &self.group).finish_non_exhaustive()
    }
}

/// Starts a call: runs the plugin's own code up to the future it returns.
pub(super) fn start<T>(make: impl FnOnce() -> Call<T>) -> Result<Call<T>, String> {
    catch_unwind(AssertUnwindSafe(make)).map_err(panic_text)
}

/// A started call together with what it occupies.
pub(super) struct Flight<T: Send + 'static> {
    parts: Option<Parts<T>>,
    deadline: Option<Instant>,
}

struct Parts<T> {
    call: Call<T>,
    held: Held,
    report: Option<Report>,
}

impl<T: Send + 'static> Flight<T> {
    pub(super) fn new(call: Call<T>, held: Held, report: Option<Report>, deadline: Option<Instant>) -> Flight<T> {
        Flight { parts: Some(Parts { call, held, report }), deadline }
    }

    /// Drives the call to its end or its deadline.
    pub(super) async fn land(mut self) -> Outcome<T> {
        let Some(parts) = self.parts.as_mut() else {
            return Outcome::Busy;
        };
        let settled = match self.deadline {
            None => Some(parts.settle().await),
            Some(deadline) => timeout_at(deadline, parts.settle()).await.ok(),
        };
        let Some(mut parts) = self.parts.take() else {
            return Outcome::Busy;
        };
        match settled {
            Some(outcome) => {
                if let Some(report) = &parts.report {
                    report.settled(&outcome);
                }
                parts.bury();
                outcome
            }
            None => {
                parts.held.hang();
                parts.hand_over(None);
                Outcome::TimedOut
            }
        }
    }
}

impl<T: Send + 'static> Drop for Flight<T> {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            parts.hand_over(self.deadline);
        }
    }
}

impl<T: Send + 'static> Parts<T> {
    async fn settle(&mut self) -> Outcome<T> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        match catch_unwind(AssertUnwindSafe(|| self.call.as_mut().poll(context))) {
            Ok(poll) => poll.map(Outcome::from),
            Err(panic) => Poll::Ready(Outcome::Crashed(panic_text(panic))),
        }
    }

    // A plugin's future may panic when it is dropped, too.
    fn bury(self) {
        let Parts { call, held, .. } = self;
        let _ = catch_unwind(AssertUnwindSafe(move || drop(call)));
        drop(held);
    }

    fn hand_over(mut self, deadline: Option<Instant>) {
        // Without a runtime nothing can drive it any more; what it held is given back.
        let Ok(runtime) = Handle::try_current() else {
            return self.bury();
        };
        runtime.spawn(async move {
            let outcome = match deadline {
                None => self.settle().await,
                Some(deadline) => match timeout_at(deadline, self.settle()).await {
                    Ok(outcome) => outcome,
                    Err(_) => {
                        self.held.hang();
                        self.settle().await
                    }
                },
            };
            // Told before the lane is free, so that a later mutation of the group cannot be reported first.
            if let Some(report) = self.report.take() {
                report.settled(&outcome);
                let Report { op, group, operation, epoch, tell, .. } = report;
                let result = outcome.map(|_| ());
                let _ = catch_unwind(AssertUnwindSafe(|| tell(Late { op, group, operation, epoch, result })));
            }
            self.bury();
        });
    }
}

impl<T> From<Result<T, Failure>> for Outcome<T> {
    fn from(result: Result<T, Failure>) -> Outcome<T> {
        match result {
            Ok(value) => Outcome::Ok(value),
            Err(failure) => Outcome::Failure(failure),
        }
    }
}
