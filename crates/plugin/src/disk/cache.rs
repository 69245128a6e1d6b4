//! Descriptions read or written last, bounded by bytes, so that a describe does not go to the file each time.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

/// Counted for an entry besides its group id (twice) and description.
const ENTRY_OVERHEAD: usize = 160;

#[derive(Debug, Default)]
pub(super) struct Cache {
    slots: HashMap<Box<str>, Slot>,
    by_touch: BTreeMap<u64, Box<str>>,
    touch: u64,
    bytes: usize,
    max_bytes: usize,
    commits: u64,
}

#[derive(Debug)]
struct Slot {
    epoch: i32,
    description: Bytes,
    touched: u64,
}

fn weight(group: &str, description: &Bytes) -> usize {
    2 * group.len() + description.len() + ENTRY_OVERHEAD
}

impl Cache {
    pub(super) fn new(max_bytes: usize) -> Cache {
        Cache { max_bytes, ..Cache::default() }
    }

    /// Says how many commits there were; a reader gives it back with what it read.
    pub(super) fn commits(&self) -> u64 {
        self.commits
    }

    /// A commit has changed the file; call before the changes of that commit are put in.
    pub(super) fn committed(&mut self) {
        self.commits += 1;
    }

    pub(super) fn get(&mut self, group: &str, epoch: i32) -> Option<Bytes> {
        let slot = self.slots.get_mut(group).filter(|slot| slot.epoch == epoch)?;
        self.touch += 1;
        if let Some(key) = self.by_touch.remove(&slot.touched) {
            self.by_touch.insert(self.touch, key);
        }
        slot.touched = self.touch;
        Some(slot.description.clone())
    }

    pub(super) fn put(&mut self, group: &str, epoch: i32, description: Bytes) {
        self.remove(group);
        let weight = weight(group, &description);
        // One large description must not push all others out.
        if weight > self.max_bytes / 4 {
            return;
        }
        self.touch += 1;
        self.bytes += weight;
        self.slots.insert(group.into(), Slot { epoch, description, touched: self.touch });
        self.by_touch.insert(self.touch, group.into());
        while self.bytes > self.max_bytes {
            let Some((_, oldest)) = self.by_touch.pop_first() else {
                break;
            };
            self.forget(&oldest);
        }
    }

    /// As [`Cache::put`], unless there was a commit since the read began: what was read may be old.
    pub(super) fn put_read(&mut self, commits: u64, group: &str, epoch: i32, description: Bytes) {
        if commits == self.commits {
            self.put(group, epoch, description);
        }
    }

    pub(super) fn remove(&mut self, group: &str) {
        if let Some(slot) = self.forget(group) {
            self.by_touch.remove(&slot.touched);
        }
    }

    fn forget(&mut self, group: &str) -> Option<Slot> {
        let slot = self.slots.remove(group)?;
        self.bytes -= weight(group, &slot.description);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(n: usize) -> Bytes {
        Bytes::from(vec![7; n])
    }

    #[test]
    fn it_stays_within_its_bytes_and_forgets_the_longest_untouched() {
        let one = weight("a", &bytes(1_000));
        let mut cache = Cache::new(4 * one);
        for group in ["a", "b", "c", "d"] {
            cache.put(group, 0, bytes(1_000));
        }
        assert!(cache.get("a", 0).is_some());
        cache.put("e", 0, bytes(1_000));
        assert!(cache.get("b", 0).is_none(), "b was touched longest ago");
        assert!(cache.get("a", 0).is_some() && cache.get("e", 0).is_some());
        assert!(cache.get("a", 1).is_none(), "another epoch is another description");
        assert_eq!((cache.bytes, cache.slots.len(), cache.by_touch.len()), (4 * one, 4, 4));
        cache.put("huge", 0, bytes(1_001));
        assert!(cache.get("huge", 0).is_none() && cache.get("c", 0).is_some());
        for group in ["a", "c", "d", "e"] {
            cache.remove(group);
        }
        assert_eq!((cache.bytes, cache.slots.len(), cache.by_touch.len()), (0, 0, 0));
    }

    #[test]
    fn what_was_read_before_a_commit_is_not_kept_after_it() {
        let mut cache = Cache::new(100_000);
        let began = cache.commits();
        cache.committed();
        cache.put("g", 0, bytes(1));
        cache.put_read(began, "g", 0, bytes(2));
        assert_eq!(cache.get("g", 0), Some(bytes(1)));
        cache.put_read(cache.commits(), "g", 0, bytes(2));
        assert_eq!(cache.get("g", 0), Some(bytes(2)));
    }
}
