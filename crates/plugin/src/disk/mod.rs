//! `disk`: its interface only; descriptions still live in memory.
use crate::api::*;
use crate::error::PluginError;
use crate::registry::Factory;
use crate::schema::Schema;
use bytes::Bytes;

/// The store's keys.
pub fn schema() -> Schema {
    Schema {
        name: "disk",
        about: "",
        durable: true,
        keys: &[],
    }
}
/// Makes instances of this store.
pub fn factory() -> Factory {
    Factory::new(schema(), DiskStore::default)
}
/// Store on disk.
#[derive(Debug, Default)]
pub struct DiskStore(crate::memory::MemoryStore);

impl TopologyPlugin for DiskStore {
    fn configure(&self, config: &Config) -> Result<(), PluginError> {
        self.0.configure(config)
    }
    fn set(&self, group: &str, epoch: i32, description: Bytes, stamp: Stamp) -> Call<()> {
        self.0.set(group, epoch, description, stamp)
    }
    fn get(&self, group: &str, epoch: i32) -> Call<Option<Bytes>> {
        self.0.get(group, epoch)
    }
    fn delete(&self, group: &str, stamp: Stamp) -> Call<()> {
        self.0.delete(group, stamp)
    }
}
