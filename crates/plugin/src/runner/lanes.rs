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

    /// Calls that wait for a lane now.
    pub(super) fn waiting(&self) -> usize {
        self.table().waiting
    }

    /// Waits for the lane of `group`, until `patience` ends. `None`: taken. A set does not wait behind a hung call; a
    /// delete does, since it is the caller's last chance to be rid of the group.
    pub(super) async fn enter(
        self: &Arc<Self>,
        group: &str,
        operation: Operation,
        patience: Option<Instant>,
    ) -> Option<LaneGuard> {
        let (ticket, woken) = {
            let mut table = self.table();
            let waiting = table.waiting;
            if !table.lanes.contains_key(group) {
                table.lanes.insert(group.into(), Lane::default());
            }
            let lane = table.lanes.get_mut(group)?;
            match lane.holder {
                Holder::Nobody if lane.waiters.is_empty() => {
                    lane.holder = Holder::Running;
                    return Some(LaneGuard {
                        lanes: self.clone(),
                        group: group.into(),
                    });
                }
                Holder::Hung if operation == Operation::Set => return None,
                _ if waiting >= MAX_WAITING => return None,
                _ => {}
            }
            let (wake, woken) = oneshot::channel();
            table.next_ticket += 1;
            let ticket = table.next_ticket;
            table.waiting += 1;
            if let Some(lane) = table.lanes.get_mut(group) {
                lane.waiters.push_back(Waiter {
                    ticket,
                    operation,
                    wake,
                });
            }
            (ticket, woken)
        };
        // Also gives the place back when the caller goes away.
        let _place = Place {
            lanes: self,
            group,
            ticket,
        };
        match patience {
            None => woken.await.ok(),
            Some(patience) => timeout_at(patience, woken).await.ok()?.ok(),
        }
    }

    /// Whether a read of `group` may start: not when too many hang already.
    pub(super) fn admits_read(&self, group: &str) -> bool {
        self.table()
            .lanes
            .get(group)
            .is_none_or(|lane| lane.hung_reads < MAX_HUNG_READS_PER_GROUP)
    }

    /// A read of `group` hangs until the guard is dropped.
    pub(super) fn hang_read(self: &Arc<Self>, group: &str) -> HungRead {
        self.table()
            .lanes
            .entry(group.into())
            .or_default()
            .hung_reads += 1;
        HungRead {
            lanes: self.clone(),
            group: group.into(),
        }
    }

    fn hang(&self, group: &str) {
        let mut table = self.table();
        let Some(lane) = table.lanes.get_mut(group) else {
            return;
        };
        lane.holder = Holder::Hung;
        let before = lane.waiters.len();
        // Dropping the sender tells the set that the lane is taken.
        lane.waiters
            .retain(|waiter| waiter.operation != Operation::Set);
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
            lane.holder = if next.is_some() {
                Holder::Running
            } else {
                Holder::Nobody
            };
            let idle = lane.is_idle();
            table.waiting -= usize::from(next.is_some());
            table.forget_if(idle, group);
            next
        };
        if let Some(waiter) = next {
            // Outside the lock: if the waiter has gone meanwhile, the guard comes back and leaves again.
            let _ = waiter.wake.send(LaneGuard {
                lanes: self.clone(),
                group: group.into(),
            });
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

struct Place<'a> {
    lanes: &'a Arc<Lanes>,
    group: &'a str,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut table = self.lanes.table();
        let Some(lane) = table.lanes.get_mut(self.group) else {
            return;
        };
        let before = lane.waiters.len();
        lane.waiters.retain(|waiter| waiter.ticket != self.ticket);
        let gone = before - lane.waiters.len();
        let idle = lane.is_idle();
        table.waiting -= gone;
        table.forget_if(idle, self.group);
    }
}
