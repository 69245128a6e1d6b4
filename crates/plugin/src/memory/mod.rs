//! `memory`: one description a group, gone with the process. Behaves as Kafka's reference store (kip1331 §8.4), but
//! bounded: when it is full a set fails for now (`store_full`) and what is stored stays.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::api::{Call, Config, Failure, Stamp, StoreTrouble, TopologyPlugin};
use crate::error::PluginError;
use crate::fence::Fence;
use crate::registry::Factory;
use crate::schema::{Key, Kind, Schema};

/// The store's name.
pub const NAME: &str = "memory";

const MAX_BYTES: Key = Key {
    name: "memory.max.bytes",
    kind: Kind::Int { min: 1, max: 1 << 40 },
    default: "268435456",
    about: "Bytes that all group ids and descriptions together may take; a set beyond them fails with store_full.",
};

/// Bytes counted for an entry besides its group id and description: map slot, allocations.
const ENTRY_OVERHEAD: u64 = 128;

/// The store's keys.
pub fn schema() -> Schema {
    Schema {
        name: NAME,
        about: "Keeps descriptions in memory; they are asked for again after a restart.",
        durable: false,
        keys: &[MAX_BYTES],
    }
}

/// Makes instances of this store.
pub fn factory() -> Factory {
    Factory::new(schema(), MemoryStore::default)
}

/// See the module.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: HashMap<String, (i32, Bytes)>,
    bytes: u64,
    max_bytes: u64,
    fence: Fence,
}

fn weight(group: &str, description: &Bytes) -> u64 {
    group.len() as u64 + description.len() as u64 + ENTRY_OVERHEAD
}

impl State {
    fn set(&mut self, group: &str, epoch: i32, description: &Bytes, stamp: Stamp) -> Result<(), Failure> {
        if !self.fence.admits(group, stamp) {
            return Ok(());
        }
        let before = self.groups.get(group).map_or(0, |(_, old)| weight(group, old));
        let after = self.bytes - before + weight(group, description);
        if after > self.max_bytes {
            return Err(Failure::Store {
                trouble: StoreTrouble::Full,
                message: format!(
                    "the memory store holds {} of {} bytes in {} groups, {} more do not fit ({})",
                    self.bytes,
                    self.max_bytes,
                    self.groups.len(),
                    description.len(),
                    MAX_BYTES.name
                ),
            });
        }
        // A copy of our own: the bytes may be a window into something larger that is not counted.
        self.groups.insert(group.to_owned(), (epoch, Bytes::copy_from_slice(description)));
        self.bytes = after;
        self.fence.applied(group, stamp);
        Ok(())
    }

    fn delete(&mut self, group: &str, stamp: Stamp) {
        if !self.fence.admits(group, stamp) {
            return;
        }
        if let Some((_, old)) = self.groups.remove(group) {
            self.bytes -= weight(group, &old);
        }
        self.fence.applied(group, stamp);
    }
}

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TopologyPlugin for MemoryStore {
    fn configure(&self, config: &Config) -> Result<(), PluginError> {
        self.state().max_bytes = MAX_BYTES.int(config)?;
        Ok(())
    }

    fn set(&self, group: &str, epoch: i32, description: Bytes, stamp: Stamp) -> Call<()> {
        Box::pin(ready(self.state().set(group, epoch, &description, stamp)))
    }

    fn get(&self, group: &str, epoch: i32) -> Call<Option<Bytes>> {
        let found = self.state().groups.get(group).filter(|(at, _)| *at == epoch).map(|(_, bytes)| bytes.clone());
        Box::pin(ready(Ok(found)))
    }

    fn delete(&self, group: &str, stamp: Stamp) -> Call<()> {
        self.state().delete(group, stamp);
        Box::pin(ready(Ok(())))
    }

    fn close(&self) {
        let mut state = self.state();
        state.groups.clear();
        state.bytes = 0;
    }

    fn list(&self) -> Option<Call<Vec<(String, i32)>>> {
        let all = self.state().groups.iter().map(|(group, (epoch, _))| (group.clone(), *epoch)).collect();
        Some(Box::pin(ready(Ok(all))))
    }

    fn health(&self) -> Option<Call<()>> {
        Some(Box::pin(ready(Ok(()))))
    }

    fn size_bytes(&self) -> Option<u64> {
        Some(self.state().bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(max: u64) -> MemoryStore {
        let store = MemoryStore::default();
        store.configure(&Config::from([(MAX_BYTES.name.to_owned(), max.to_string())])).unwrap();
        store
    }

    fn now<T>(call: Call<T>) -> Result<T, Failure> {
        let mut call = call;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match call.as_mut().poll(&mut context) {
            std::task::Poll::Ready(result) => result,
            std::task::Poll::Pending => panic!("the memory store must answer at once"),
        }
    }

    #[test]
    fn kip1331_8_4_set_overwrites_also_with_a_lower_epoch_and_get_wants_the_exact_one() {
        let store = store(10_000);
        now(store.set("g", 5, Bytes::from_static(b"five"), Stamp::default())).unwrap();
        now(store.set("g", 3, Bytes::from_static(b"three"), Stamp::default())).unwrap();
        assert_eq!(now(store.get("g", 3)), Ok(Some(Bytes::from_static(b"three"))));
        assert_eq!(now(store.get("g", 5)), Ok(None));
        now(store.delete("g", Stamp::default())).unwrap();
        now(store.delete("never there", Stamp::default())).unwrap();
        assert_eq!(now(store.get("g", 3)), Ok(None));
        assert_eq!(store.size_bytes(), Some(0));
    }

    #[test]
    fn h8_a_full_store_refuses_for_now_and_keeps_what_it_has() {
        let max = 1 + 100 + ENTRY_OVERHEAD;
        let store = store(max);
        now(store.set("g", 0, Bytes::from(vec![0; 100]), Stamp::default())).unwrap();
        assert_eq!(store.size_bytes(), Some(max));
        let e = now(store.set("g", 0, Bytes::from(vec![0; 101]), Stamp::default())).unwrap_err();
        assert_eq!(e.kind(), "store_full");
        assert_eq!(
            e.client_message().unwrap(),
            "store_full: the memory store holds 229 of 229 bytes in 1 groups, 101 more do not fit (memory.max.bytes)"
        );
        assert_eq!(now(store.get("g", 0)).unwrap().unwrap().len(), 100);
        now(store.delete("g", Stamp::default())).unwrap();
        now(store.set("h", 0, Bytes::from(vec![0; 100]), Stamp::default())).unwrap();
    }

    #[test]
    fn h3_what_comes_late_changes_nothing() {
        let store = store(10_000);
        let at = |sequence| Stamp { sequence, at: 0 };
        now(store.set("g", 0, Bytes::from_static(b"new"), at(9))).unwrap();
        now(store.set("g", 0, Bytes::from_static(b"old"), at(8))).unwrap();
        now(store.delete("g", at(7))).unwrap();
        assert_eq!(now(store.get("g", 0)), Ok(Some(Bytes::from_static(b"new"))));
        now(store.delete("g", at(10))).unwrap();
        now(store.set("g", 0, Bytes::from_static(b"late"), at(9))).unwrap();
        assert_eq!(now(store.get("g", 0)), Ok(None));
    }
}
