//! Which mutations come too late.
//!
//! Lanes keep the order of one group's calls, so this is a second line: it matters where calls run without lanes, or
//! where a store carries out what it accepted long ago. A late mutation can only come from a call of this process, so
//! the numbers are kept in memory and forgotten at its end; nothing of them is stored, and numbers that restart with
//! the process are never compared with old ones.

use std::collections::{BTreeMap, HashMap};

use crate::api::Stamp;
use crate::limits::MAX_FENCED_GROUPS;

/// The newest applied sequence number of each group, bounded.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    newest: HashMap<Box<str>, (u64, u64)>,
    by_touch: BTreeMap<u64, Box<str>>,
    touch: u64,
}

impl Fence {
    /// Whether a mutation may be applied: not numbered, or not older than what was applied.
    pub(crate) fn admits(&self, group: &str, stamp: Stamp) -> bool {
        stamp.sequence == 0 || self.newest.get(group).is_none_or(|&(seq, _)| stamp.sequence >= seq)
    }

    /// Remembers that a mutation was applied.
    pub(crate) fn applied(&mut self, group: &str, stamp: Stamp) {
        if stamp.sequence == 0 {
            return;
        }
        self.touch += 1;
        let before = self.newest.insert(group.into(), (stamp.sequence, self.touch));
        if let Some((_, touched)) = before {
            self.by_touch.remove(&touched);
        }
        self.by_touch.insert(self.touch, group.into());
        if self.newest.len() > MAX_FENCED_GROUPS
            && let Some((_, oldest)) = self.by_touch.pop_first()
        {
            self.newest.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(sequence: u64) -> Stamp {
        Stamp { sequence, at: 0 }
    }

    #[test]
    fn h3_a_smaller_number_is_late_an_equal_or_absent_one_is_not() {
        let mut fence = Fence::default();
        fence.applied("g", stamp(5));
        assert!(!fence.admits("g", stamp(4)));
        assert!(fence.admits("g", stamp(5)));
        assert!(fence.admits("g", stamp(0)));
        assert!(fence.admits("other", stamp(1)));
    }

    #[test]
    fn h3_the_fence_is_bounded_and_forgets_the_longest_untouched() {
        let mut fence = Fence::default();
        for n in 0..MAX_FENCED_GROUPS {
            fence.applied(&n.to_string(), stamp(10));
        }
        fence.applied("0", stamp(11));
        fence.applied("one more", stamp(12));
        assert_eq!((fence.newest.len(), fence.by_touch.len()), (MAX_FENCED_GROUPS, MAX_FENCED_GROUPS));
        assert!(!fence.admits("0", stamp(1)));
        assert!(fence.admits("1", stamp(1)), "the longest untouched is forgotten");
    }
}
