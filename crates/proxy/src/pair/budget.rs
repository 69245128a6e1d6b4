//! How much all pairs hold together, of collected requests or of what peers do not take: what a crowd of slow or hostile
//! clients may cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{COLLECTED_ALWAYS_BYTES, COLLECTED_BYTES};

/// Shared by all pairs of a process.
#[derive(Clone, Debug)]
pub struct Budget {
    used: Arc<AtomicUsize>,
    max: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(COLLECTED_BYTES)
    }
}

impl Budget {
    /// So many bytes.
    #[must_use]
    pub fn of(max: usize) -> Self {
        Self { used: Arc::default(), max }
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn share(&self) -> Share {
        Share { budget: self.clone(), mine: 0 }
    }
}

/// One request's or one pair's part; given back when this is dropped.
pub(super) struct Share {
    budget: Budget,
    mine: usize,
}

impl Share {
    /// Bytes that this holds.
    pub(super) fn mine(&self) -> usize {
        self.mine
    }

    /// Holds `now` bytes from now on. Whether that fits; a small request always does.
    pub(super) fn hold(&mut self, now: usize) -> bool {
        let before = self.budget.used.fetch_add(now, Ordering::Relaxed);
        self.budget.used.fetch_sub(self.mine, Ordering::Relaxed);
        let mine = std::mem::replace(&mut self.mine, now);
        now <= COLLECTED_ALWAYS_BYTES || before.saturating_sub(mine).saturating_add(now) <= self.budget.max
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.mine, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_are_given_back() {
        let budget = Budget::of(3 * COLLECTED_ALWAYS_BYTES);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.hold(COLLECTED_ALWAYS_BYTES) && one.hold(2 * COLLECTED_ALWAYS_BYTES));
        // Small ones come through whatever large ones hold.
        assert!(other.hold(COLLECTED_ALWAYS_BYTES));
        assert!(!other.hold(COLLECTED_ALWAYS_BYTES + 1));
        drop(one);
        assert!(other.hold(3 * COLLECTED_ALWAYS_BYTES));
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
