//! A journal with group commit whose disk survives the process.

use std::collections::BTreeMap;

use streamside_coordinator::Durable;

#[derive(Debug, Default)]
pub struct Journal {
    disk: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    submitted: u64,
    pub durable: u64,
}

impl Journal {
    /// Takes the records of one decision; their position.
    pub fn submit(&mut self, records: &[Durable]) -> u64 {
        if !records.is_empty() {
            self.pending.extend(records.iter().map(|record| (record.key(), record.value())));
            self.submitted += 1;
        }
        self.submitted
    }

    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Everything that waits becomes durable at once.
    pub fn commit(&mut self) {
        for (key, value) in self.pending.drain(..) {
            match value {
                Some(value) => self.disk.insert(key, value),
                None => self.disk.remove(&key),
            };
        }
        self.durable = self.submitted;
    }

    /// What waits is lost.
    pub fn forget(&mut self) {
        self.pending.clear();
        self.durable = self.submitted;
    }

    pub fn load(&self) -> Vec<Durable> {
        self.disk.iter().map(|(key, value)| Durable::decode(key, value).unwrap()).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.disk.is_empty() && self.pending.is_empty()
    }
}
