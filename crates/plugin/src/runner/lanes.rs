//! One lane a group: mutations of a group run one after another (H3). A lane exists only while somebody holds it, waits
//! for it, or a read of its group hangs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Operation;
use crate::limits::{MAX_HUNG_READS_PER_GROUP, MAX_WAITING};

/// The lanes of one plugin instance.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    lanes: HashMap<Box<str>, Lane>,
    waiting: usize,
    next_ticket: u64,
}

#[derive(Debug, Default)]
struct Lane {
    holder: Holder,
    waiters: VecDeque<Waiter>,
    hung_reads: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holder {
    #[default]
    Nobody,
    Running,
    /// The call timed out and has not settled.
    Hung,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    operation: Operation,
    wake: oneshot::Sender<LaneGuard>,
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.holder == Holder::Nobody && self.waiters.is_empty() && self.hung_reads == 0
    }
}

impl Lanes {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Groups that have a lane now.
    pub(super) fn len(&self) -> usize {
        self.table().lanes.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.table().lanes.capacity()
    }

    /// Calls that wait for a lane now.
    pub(super) fn waiting(&self) -> usize {
        self.table().waiting
    }

    /// Takes the lane of `group` or a place in its queue, now: the order of these calls is the order of the
    /// mutations. A set does not wait behind a hung call; a delete does, since it is the caller's last chance to be
    /// rid of the group.
    pub(super) fn enter(self: &Arc<Self>, group: &str, operation: Operation) -> Entry {
        let mut table = self.table();
        let Table { lanes, waiting, next_ticket } = &mut *table;
        let lane = lanes.entry(group.into()).or_default();
        match lane.holder {
            Holder::Nobody if lane.waiters.is_empty() => {
                lane.holder = Holder::Running;
                return Entry::Granted(LaneGuard { lanes: self.clone(), group: group.into() });
            }
            Holder::Hung if operation == Operation::Set => return Entry::Refused,
            _ if *waiting >= MAX_WAITING => return Entry::Refused,
            _ => {}
        }
        let (wake, woken) = oneshot::channel();
        *next_ticket += 1;
        *waiting += 1;
        lane.waiters.push_back(Waiter { ticket: *next_ticket, operation, wake });
        Entry::Queued(woken, Place { lanes: self.clone(), group: group.into(), ticket: *next_ticket })
    }

    /// Whether a read of `group` may start: not when too many hang already.
    pub(super) fn admits_read(&self, group: &str) -> bool {
        self.table().lanes.get(group).is_none_or(|lane| lane.hung_reads < MAX_HUNG_READS_PER_GROUP)
    }

    /// A read of `group` hangs until the guard is dropped.
    pub(super) fn hang_read(self: &Arc<Self>, group: &str) -> HungRead {
        self.table().lanes.entry(group.into()).or_default().hung_reads += 1;
        HungRead { lanes: self.clone(), group: group.into() }
    }

    fn hang(&self, group: &str) {
        let mut table = self.table();
        let Some(lane) = table.lanes.get_mut(group) else {
            return;
        };
        lane.holder = Holder::Hung;
        let before = lane.waiters.len();
        // Dropping the sender tells the set that the lane is taken.
        lane.waiters.retain(|waiter| waiter.operation != Operation::Set);
        let gone = before - lane.waiters.len();
        table.waiting -= gone;
    }

    fn leave(self: &Arc<Self>, group: &str) {
        let next = {
            let mut table = self.table();
            let Some(lane) = table.lanes.get_mut(group) else {
                return;
            };
            let next = lane.waiters.pop_front();
            lane.holder = if next.is_some() { Holder::Running } else { Holder::Nobody };
            let idle = lane.is_idle();
            table.waiting -= usize::from(next.is_some());
            table.forget_if(idle, group);
            next
        };
        if let Some(waiter) = next {
            // Outside the lock: if the waiter has gone meanwhile, the guard comes back and leaves again.
            let _ = waiter.wake.send(LaneGuard { lanes: self.clone(), group: group.into() });
        }
    }
}

impl Table {
    fn forget_if(&mut self, idle: bool, group: &str) {
        if idle {
            self.lanes.remove(group);
            // A burst of groups must not hold its memory for ever.
            if self.lanes.is_empty() && self.lanes.capacity() > 1_024 {
                self.lanes.shrink_to(0);
            }
        }
    }
}

/// Holds a lane; leaves it when dropped.
#[derive(Debug)]
pub(super) struct LaneGuard {
    lanes: Arc<Lanes>,
    group: Box<str>,
}

impl LaneGuard {
    /// The call in this lane timed out: sets that wait are told so.
    pub(super) fn hang(&self) {
        self.lanes.hang(&self.group);
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        self.lanes.leave(&self.group);
    }
}

/// Counts a hung read of a group.
#[derive(Debug)]
pub(super) struct HungRead {
    lanes: Arc<Lanes>,
    group: Box<str>,
}

impl Drop for HungRead {
    fn drop(&mut self) {
        let mut table = self.lanes.table();
        let Some(lane) = table.lanes.get_mut(&self.group) else {
            return;
        };
        lane.hung_reads = lane.hung_reads.saturating_sub(1);
        let idle = lane.is_idle();
        table.forget_if(idle, &self.group);
    }
}

/// A mutation on its way into its lane.
pub(super) enum Entry {
    Granted(LaneGuard),
    Queued(oneshot::Receiver<LaneGuard>, Place),
    Refused,
}

impl Entry {
    /// The lane, waited for until `patience` ends; `None`: it stayed taken.
    pub(super) async fn wait(self, patience: Option<Instant>) -> Option<LaneGuard> {
        match self {
            Entry::Granted(guard) => Some(guard),
            Entry::Refused => None,
            Entry::Queued(woken, _place) => match patience {
                None => woken.await.ok(),
                Some(patience) => timeout_at(patience, woken).await.ok()?.ok(),
            },
        }
    }
}

/// A place in a lane's queue; given back when dropped.
pub(super) struct Place {
    lanes: Arc<Lanes>,
    group: Box<str>,
    ticket: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.lanes.table();
        let Some(lane) = table.lanes.get_mut(&self.group) else {
            return;
        };
        // Tickets grow along the queue.
        let place = lane.waiters.binary_search_by_key(&self.ticket, |waiter| waiter.ticket);
        let gone = usize::from(place.is_ok_and(|at| lane.waiters.remove(at).is_some()));
        let idle = lane.is_idle();
        table.waiting -= gone;
        table.forget_if(idle, &self.group);
    }
}
