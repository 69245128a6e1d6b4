//! `disk`: descriptions in one redb file in the data folder, with bounded history. What was answered survives kill -9
//! and power loss; the description and its index change in one transaction.
//!
//! A set is answered after the sync to disk. Mutations that wait at the same time share one transaction. After an I/O
//! error or on a full disk a set fails for now (`store_failed`, `store_full`), reads go on where the file can still be
//! read, and the store works again as soon as the disk does.

mod cache;
mod file;
mod layout;
mod overlay;
mod writer;

#[cfg(test)]
mod crash_test;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable};
use tokio::sync::oneshot;

use self::cache::Cache;
use self::file::{Opener, Plain, StoreFile, Trouble};
use self::layout::{BODIES, CURRENT, LAYOUT, VERSIONS, VersionMeta, unpack};
use self::writer::{Task, Work};
use crate::api::{Call, Config, Failure, Stamp, StoreTrouble, TopologyPlugin, Version};
use crate::error::PluginError;
use crate::limits::{
    MAX_HISTORY_ANSWER, MAX_HISTORY_ANSWER_BYTES, MAX_QUEUED_READS, MAX_QUEUED_WRITE_BYTES, MAX_QUEUED_WRITES, READERS,
};
use crate::registry::Factory;
use crate::schema::{Key, Kind, Schema};

pub use self::file::FILE_NAME;

/// The store's name.
pub const NAME: &str = "disk";

const FOLDER: Key = Key {
    name: "streamside.data.dir",
    kind: Kind::Path,
    default: "./streamside-data",
    about: "Folder of the file descriptions.redb; made where absent.",
};
const MAX_VERSIONS: Key = Key {
    name: "streamside.history.max.versions",
    kind: Kind::Int { min: 1, max: 100_000 },
    default: "50",
    about: "Versions kept of one group, the served one included.",
};
const MAX_AGE_DAYS: Key = Key {
    name: "streamside.history.max.age.days",
    kind: Kind::Int { min: 0, max: 36_500 },
    default: "90",
    about: "Days for which a version is kept after it was stored, also when its group is deleted; the served one stays.",
};
const MAX_BYTES: Key = Key {
    name: "disk.max.bytes",
    kind: Kind::Int { min: 1, max: 1 << 50 },
    default: "8589934592",
    about: "Bytes that all packed versions together may take. History gives way first; then a set fails with store_full.",
};
const CACHE_BYTES: Key = Key {
    name: "disk.cache.bytes",
    kind: Kind::Int { min: 0, max: 1 << 40 },
    default: "16777216",
    about: "Bytes of descriptions kept in memory for reading.",
};

/// The store's keys.
pub fn schema() -> Schema {
    Schema {
        name: NAME,
        about: "Keeps descriptions and their history in a file of the data folder.",
        durable: true,
        keys: &[FOLDER, MAX_VERSIONS, MAX_AGE_DAYS, MAX_BYTES, CACHE_BYTES],
    }
}

/// Makes instances of this store.
pub fn factory() -> Factory {
    Factory::new(schema(), DiskStore::default)
}

/// How long a full disk counts as full when no description is set.
const FULL_FOR: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
struct Settings {
    folder: PathBuf,
    max_versions: u64,
    max_age_days: i64,
    max_bytes: u64,
    cache_bytes: usize,
}

impl Settings {
    fn from_config(config: &Config) -> Result<Settings, PluginError> {
        Ok(Settings {
            folder: PathBuf::from(FOLDER.text(config)),
            max_versions: MAX_VERSIONS.int(config)?,
            max_age_days: i64::try_from(MAX_AGE_DAYS.int(config)?).unwrap_or(i64::MAX),
            max_bytes: MAX_BYTES.int(config)?,
            cache_bytes: usize::try_from(CACHE_BYTES.int(config)?).unwrap_or(usize::MAX),
        })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct DiskStore {
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    writes: SyncSender<Work>,
    reads: SyncSender<Job>,
    threads: Vec<JoinHandle<()>>,
}

type Job = Box<dyn FnOnce(&Shared) + Send>;

/// What the threads share.
#[derive(Debug)]
struct Shared {
    file: StoreFile,
    settings: Settings,
    cache: Mutex<Cache>,
    queued_bytes: AtomicUsize,
    /// The failure that the last write met, if it met one, and when.
    failing: Mutex<Option<(Failure, Instant)>>,
}

impl Shared {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failing(&self) -> Option<(Failure, Instant)> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes how a write went; logs when that changes.
    fn wrote(&self, result: Result<(), Trouble>) -> Option<Failure> {
        let now = result.err().map(failed);
        let mut before = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.file.path().display();
        match (&*before, &now) {
            (None, Some(failure)) => {
                tracing::error!("{path} can't be written, descriptions are refused for now: {failure}");
            }
            (Some(_), None) => tracing::info!("{path} can be written again"),
            _ => {}
        }
        *before = now.clone().map(|failure| (failure, Instant::now()));
        now
    }

    fn read(&self, group: &str, epoch: i32) -> Result<Option<Bytes>, Failure> {
        let commits = self.cache().commits();
        let read = self.file.read(|snapshot| find(snapshot, group, epoch)).map_err(failed)?;
        let description = read?;
        if let Some(description) = &description {
            self.cache().put_read(commits, group, epoch, description.clone());
        }
        Ok(description)
    }

    fn history(&self, group: &str, limit: usize) -> Result<Vec<Version>, Failure> {
        self.file.read(|snapshot| versions(snapshot, group, limit.min(MAX_HISTORY_ANSWER))).map_err(failed)
    }

    fn list(&self) -> Result<Vec<(String, i32)>, Failure> {
        self.file
            .read(|snapshot| {
                let mut all = Vec::new();
                for entry in snapshot.open_table(CURRENT)?.iter()? {
                    let (group, at) = entry?;
                    all.push((group.value().to_owned(), at.value().0));
                }
                Ok(all)
            })
            .map_err(failed)
    }
}

/// The served copy of a group; the inner error is its damage.
fn find(snapshot: &ReadTransaction, group: &str, epoch: i32) -> Result<Result<Option<Bytes>, Failure>, redb::Error> {
    let damaged = |what: &str| Ok(Err(Failure::Corrupt { message: what.to_owned() }));
    let Some((at, version)) = snapshot.open_table(CURRENT)?.get(group)?.map(|v| v.value()) else {
        return Ok(Ok(None));
    };
    if at != epoch {
        return Ok(Ok(None));
    }
    let Some(meta) = snapshot.open_table(VERSIONS)?.get((group, version))?.map(|v| VersionMeta::decode(v.value()))
    else {
        return damaged("its index entry is missing");
    };
    let meta = match meta {
        Ok(meta) if meta.epoch == epoch => meta,
        Ok(_) => return damaged("its index entry has another epoch"),
        Err(damage) => return damaged(damage.0),
    };
    let Some(body) = snapshot.open_table(BODIES)?.get((group, version))? else {
        return damaged("its body is missing");
    };
    Ok(unpack(&meta, body.value()).map(Some).map_err(|damage| Failure::Corrupt { message: damage.0.to_owned() }))
}

/// Damaged versions are left out: history is worth less than the rest of it.
fn versions(snapshot: &ReadTransaction, group: &str, limit: usize) -> Result<Vec<Version>, redb::Error> {
    let table = snapshot.open_table(VERSIONS)?;
    let bodies = snapshot.open_table(BODIES)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    for entry in table.range((group, 0)..=(group, u64::MAX))?.rev() {
        let (key, value) = entry?;
        if found.len() >= limit || bytes >= MAX_HISTORY_ANSWER_BYTES {
            break;
        }
        let Ok(meta) = VersionMeta::decode(value.value()) else {
            continue;
        };
        let Some(body) = bodies.get(key.value())? else {
            continue;
        };
        let Ok(description) = unpack(&meta, body.value()) else {
            continue;
        };
        bytes += description.len();
        found.push(Version { at: meta.at, epoch: meta.epoch, hash: meta.hash, description });
    }
    Ok(found)
}

fn failed(trouble: Trouble) -> Failure {
    let kind = if trouble.full { StoreTrouble::Full } else { StoreTrouble::Failed };
    Failure::Store { trouble: kind, message: format!("the disk store's file: {trouble}") }
}

fn refused(what: &str) -> Failure {
    Failure::Store { trouble: StoreTrouble::Failed, message: format!("the disk store {what}") }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl DiskStore {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, config: &Config, opener: Box<dyn Opener>) -> Result<(), PluginError> {
        let settings = Settings::from_config(config)?;
        let mut running = self.running();
        if running.is_some() {
            return Err(PluginError::Broken("the disk store is already configured".to_owned()));
        }
        let shared = Arc::new(Shared {
            file: StoreFile::open(&settings.folder, opener)?,
            cache: Mutex::new(Cache::new(settings.cache_bytes)),
            settings,
            queued_bytes: AtomicUsize::new(0),
            failing: Mutex::new(None),
        });
        let (writes, write_queue) = sync_channel(MAX_QUEUED_WRITES);
        let (reads, read_queue) = sync_channel::<Job>(MAX_QUEUED_READS);
        let read_queue = Arc::new(Mutex::new(read_queue));
        let for_writer = shared.clone();
        let mut threads = vec![spawn("disk-writer", move || writer::run(&for_writer, &write_queue))?];
        for _ in 0..READERS {
            let (shared, queue) = (shared.clone(), read_queue.clone());
            threads.push(spawn("disk-reader", move || serve(&shared, &queue))?);
        }
        *running = Some(Running { shared, writes, reads, threads });
        Ok(())
    }

    fn mutate(&self, task: Task) -> Call<()> {
        let (done, settled) = oneshot::channel();
        let submitted = match &*self.running() {
            None => Err(refused("is closed")),
            Some(running) => running.submit(Work { task, done }),
        };
        match submitted {
            Err(failure) => Box::pin(ready(Err(failure))),
            Ok(()) => answer(settled),
        }
    }

    /// Runs a read on a reader thread.
    fn ask<T: Send + 'static>(&self, read: impl FnOnce(&Shared) -> Result<T, Failure> + Send + 'static) -> Call<T> {
        let (done, settled) = oneshot::channel();
        let job: Job = Box::new(move |shared| {
            // Nobody waits any more: not read.
            if !done.is_closed() {
                let _ = done.send(read(shared));
            }
        });
        let submitted = match &*self.running() {
            None => Err(refused("is closed")),
            Some(running) => running.reads.try_send(job).map_err(|_| refused("has too many reads waiting")),
        };
        match submitted {
            Err(failure) => Box::pin(ready(Err(failure))),
            Ok(()) => answer(settled),
        }
    }
}

impl Running {
    fn submit(&self, work: Work) -> Result<(), Failure> {
        let bytes = work.task.bytes();
        let queued = &self.shared.queued_bytes;
        if queued.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_QUEUED_WRITE_BYTES {
            queued.fetch_sub(bytes, Ordering::Relaxed);
            return Err(refused("has too many bytes waiting to be written"));
        }
        self.writes.try_send(work).map_err(|e| {
            queued.fetch_sub(bytes, Ordering::Relaxed);
            match e {
                TrySendError::Full(_) => refused("has too many changes waiting to be written"),
                TrySendError::Disconnected(_) => refused("has lost its writer"),
            }
        })
    }
}

fn answer<T: Send + 'static>(settled: oneshot::Receiver<Result<T, Failure>>) -> Call<T> {
    Box::pin(async move { settled.await.unwrap_or_else(|_| Err(refused("has lost a call"))) })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, PluginError> {
    let named = std::thread::Builder::new().name(name.to_owned());
    named.spawn(body).map_err(|e| PluginError::Broken(format!("no thread for {name}: {e}")))
}

fn serve(shared: &Shared, queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        job(shared);
    }
}

impl TopologyPlugin for DiskStore {
    fn configure(&self, config: &Config) -> Result<(), PluginError> {
        self.start(config, Box::new(Plain))
    }

    fn set(&self, group: &str, epoch: i32, description: Bytes, stamp: Stamp) -> Call<()> {
        self.mutate(Task::Set { group: group.into(), epoch, description, stamp })
    }

    fn get(&self, group: &str, epoch: i32) -> Call<Option<Bytes>> {
        let cached = self.running().as_ref().and_then(|running| running.shared.cache().get(group, epoch));
        if cached.is_some() {
            return Box::pin(ready(Ok(cached)));
        }
        let group: Box<str> = group.into();
        self.ask(move |shared| shared.read(&group, epoch))
    }

    fn delete(&self, group: &str, stamp: Stamp) -> Call<()> {
        self.mutate(Task::Delete { group: group.into(), stamp })
    }

    /// Writes what waits, ends the threads, lets go of the file.
    fn close(&self) {
        let Some(Running { shared, writes, reads, threads }) = self.running().take() else {
            return;
        };
        drop((writes, reads));
        for thread in threads {
            let _ = thread.join();
        }
        shared.file.close();
    }

    fn list(&self) -> Option<Call<Vec<(String, i32)>>> {
        Some(self.ask(Shared::list))
    }

    fn history(&self, group: &str, limit: usize) -> Option<Call<Vec<Version>>> {
        let group: Box<str> = group.into();
        Some(self.ask(move |shared| shared.history(&group, limit)))
    }

    /// After a failed write this writes, so that health comes back without a push; but not soon after the disk was
    /// full, since a little may fit where a description did not.
    fn health(&self) -> Option<Call<()>> {
        let (failing, file) = match &*self.running() {
            None => (None, Err(refused("is closed"))),
            Some(running) => (running.shared.failing(), running.shared.file.writable().map_err(failed)),
        };
        Some(match (failing, file) {
            (Some((failure, at)), _) if failure.kind() == StoreTrouble::Full.word() && at.elapsed() < FULL_FOR => {
                Box::pin(ready(Err(failure)))
            }
            (None, Ok(())) => Box::pin(ready(Ok(()))),
            _ => self.mutate(Task::Probe),
        })
    }

    fn size_bytes(&self) -> Option<u64> {
        self.running().as_ref().and_then(|running| running.shared.file.len())
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.close();
    }
}
