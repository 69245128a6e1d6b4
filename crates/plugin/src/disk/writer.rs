//! The one thread that writes. It takes all mutations that wait into one transaction (group commit), so that they share
//! a sync to disk, and answers them when it is done.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};
use tokio::sync::oneshot;

use super::Shared;
use super::file::Trouble;
use super::layout::{BODIES, CURRENT, META, META_LAYOUT, META_STORED, VERSIONS, VersionMeta, hash, pack};
use super::{LAYOUT, now_ms};
use crate::api::{Failure, Stamp, StoreTrouble};
use crate::fence::Fence;
use crate::limits::{MAX_BATCH, MAX_DESCRIPTION_BYTES, SWEEP_EVERY};

/// Versions that one sweep removes, so that mutations do not wait behind a long one.
const MAX_SWEPT: usize = 500;
const DAY_MS: i64 = 86_400_000;

/// Something for the writer.
pub(super) struct Work {
    pub(super) task: Task,
    pub(super) done: oneshot::Sender<Result<(), Failure>>,
}

pub(super) enum Task {
    Set {
        group: Box<str>,
        epoch: i32,
        description: Bytes,
        stamp: Stamp,
    },
    Delete {
        group: Box<str>,
        stamp: Stamp,
    },
    /// Writes for the sake of writing: does the disk take it?
    Probe,
}

impl Task {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Task::Set { group, description, .. } => group.len() + description.len(),
            Task::Delete { group, .. } => group.len(),
            Task::Probe => 0,
        }
    }
}

/// Until the queue is closed.
pub(super) fn run(shared: &Arc<Shared>, queue: &Receiver<Work>) {
    let mut fence = Fence::default();
    let mut next_sweep = Instant::now() + Duration::from_secs(60);
    loop {
        match queue.recv_timeout(next_sweep.saturating_duration_since(Instant::now())) {
            Ok(first) => {
                let mut batch = vec![first];
                batch.extend(queue.try_iter().take(MAX_BATCH - 1));
                carry_out(shared, &mut fence, batch);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= next_sweep {
            let more = sweep(shared, now_ms()).unwrap_or(false);
            next_sweep = Instant::now() + if more { Duration::from_secs(1) } else { SWEEP_EVERY };
        }
    }
}

fn carry_out(shared: &Shared, fence: &mut Fence, batch: Vec<Work>) {
    let results = write_batch(shared, fence, &batch);
    // The cache first, then the answers: who has an answer must not read what was before.
    {
        let mut cache = shared.cache();
        cache.committed();
        for (work, result) in batch.iter().zip(&results) {
            match (&work.task, result) {
                (Task::Set { group, epoch, description, .. }, Ok(Applied::Yes)) => {
                    cache.put(group, *epoch, Bytes::copy_from_slice(description));
                }
                (Task::Set { .. } | Task::Delete { .. }, Ok(Applied::No)) | (Task::Probe, _) => {}
                (Task::Set { group, .. } | Task::Delete { group, .. }, _) => cache.remove(group),
            }
        }
    }
    for (work, result) in batch.into_iter().zip(results) {
        shared.queued_bytes.fetch_sub(work.task.bytes(), Ordering::Relaxed);
        // Who asked may have gone.
        let _ = work.done.send(result.map(|_| ()));
    }
}

/// Whether a mutation was carried out, or came too late to change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    Yes,
    No,
}

fn write_batch(shared: &Shared, fence: &mut Fence, batch: &[Work]) -> Vec<Result<Applied, Failure>> {
    let packed: Vec<Option<(Vec<u8>, [u8; 32])>> = batch
        .iter()
        .map(|work| match &work.task {
            Task::Set { description, .. } => Some((pack(description), hash(description))),
            _ => None,
        })
        .collect();
    let written = shared.file.write(|txn| {
        let mut tables = Tables::open(shared, txn)?;
        // Numbers seen within this batch; they count for good only when it is committed.
        let mut results = Vec::with_capacity(batch.len());
        let mut applied: Vec<(&str, Stamp)> = Vec::new();
        for (work, packed) in batch.iter().zip(&packed) {
            let late = |group: &str, stamp: Stamp| {
                let in_batch = applied.iter().any(|(g, s)| *g == group && stamp.sequence < s.sequence);
                stamp.sequence != 0 && (in_batch || !fence.admits(group, stamp))
            };
            results.push(match &work.task {
                Task::Set { group, stamp, .. } | Task::Delete { group, stamp } if late(group, *stamp) => {
                    Ok(Applied::No)
                }
                Task::Set { group, epoch, description, stamp } => {
                    let Some((packed, hash)) = packed else {
                        continue;
                    };
                    let result = tables.set(group, *epoch, description.len(), packed, *hash, *stamp)?;
                    if result.is_ok() {
                        applied.push((group, *stamp));
                    }
                    result.map(|()| Applied::Yes)
                }
                Task::Delete { group, stamp } => {
                    tables.delete(group)?;
                    applied.push((group, *stamp));
                    Ok(Applied::Yes)
                }
                Task::Probe => {
                    tables.probe()?;
                    Ok(Applied::Yes)
                }
            });
        }
        let changed = tables.finish()?;
        Ok(((results, applied, changed), changed))
    });
    match written {
        Ok((results, applied, changed)) => {
            for (group, stamp) in applied {
                fence.applied(group, stamp);
            }
            // What changed nothing says nothing about the disk.
            if changed {
                shared.wrote(Ok(()));
            }
            results
        }
        Err(trouble) => {
            let failure = shared.wrote(Err(trouble)).unwrap_or(Failure::Fatal);
            batch.iter().map(|_| Err(failure.clone())).collect()
        }
    }
}

/// Removes history past its age. Whether more is left to remove.
pub(super) fn sweep(shared: &Shared, now: i64) -> Result<bool, Trouble> {
    let oldest = now.saturating_sub(shared.settings.max_age_days.saturating_mul(DAY_MS));
    shared.file.write(|txn| {
        let mut tables = Tables::open(shared, txn)?;
        let past = tables.history(|meta| meta.at < oldest, MAX_SWEPT)?;
        for (group, version, meta) in &past {
            tables.remove_version(group, *version, meta)?;
        }
        Ok((past.len() == MAX_SWEPT, tables.finish()?))
    })
}

/// The tables of one transaction.
struct Tables<'t> {
    shared: &'t Shared,
    meta: Table<'t, &'static str, u64>,
    current: Table<'t, &'static str, (i32, u64)>,
    versions: Table<'t, (&'static str, u64), &'static [u8]>,
    bodies: Table<'t, (&'static str, u64), &'static [u8]>,
    stored: u64,
    changed: bool,
}

impl<'t> Tables<'t> {
    fn open(shared: &'t Shared, txn: &'t WriteTransaction) -> Result<Tables<'t>, redb::Error> {
        let meta = txn.open_table(META)?;
        let stored = meta.get(META_STORED)?.map_or(0, |v| v.value());
        Ok(Tables {
            shared,
            meta,
            current: txn.open_table(CURRENT)?,
            versions: txn.open_table(VERSIONS)?,
            bodies: txn.open_table(BODIES)?,
            stored,
            changed: false,
        })
    }

    /// Whether there is anything to commit.
    fn finish(mut self) -> Result<bool, redb::Error> {
        if self.changed {
            self.meta.insert(META_STORED, self.stored)?;
        }
        Ok(self.changed)
    }

    fn set(
        &mut self,
        group: &str,
        epoch: i32,
        length: usize,
        packed: &[u8],
        hash: [u8; 32],
        stamp: Stamp,
    ) -> Result<Result<(), Failure>, redb::Error> {
        let (Ok(length), Ok(packed_length)) = (u32::try_from(length), u32::try_from(packed.len())) else {
            return Ok(Err(too_large(length)));
        };
        if length as usize > MAX_DESCRIPTION_BYTES {
            return Ok(Err(too_large(length as usize)));
        }
        if self.holds(group, epoch, packed, &hash)? {
            return Ok(Ok(()));
        }
        let at = if stamp.at == 0 { now_ms() } else { stamp.at };
        let meta = VersionMeta { at, epoch, hash, length, packed: packed_length };
        let weight = meta.weight(group);
        if !self.make_room(weight)? {
            return Ok(Err(self.full(weight)));
        }
        let version = match self.versions.range((group, 0)..=(group, u64::MAX))?.next_back() {
            Some(last) => last?.0.value().1 + 1,
            None => 1,
        };
        self.versions.insert((group, version), meta.encode().as_slice())?;
        self.bodies.insert((group, version), packed)?;
        self.current.insert(group, (epoch, version))?;
        self.stored = self.stored.saturating_add(weight);
        self.changed = true;
        self.prune(group, version, at)?;
        Ok(Ok(()))
    }

    /// Removes the group from what is served. Its versions stay as history.
    fn delete(&mut self, group: &str) -> Result<(), redb::Error> {
        if self.current.remove(group)?.is_some() {
            self.changed = true;
        }
        Ok(())
    }

    fn probe(&mut self) -> Result<(), redb::Error> {
        self.meta.insert(META_LAYOUT, LAYOUT)?;
        self.changed = true;
        Ok(())
    }

    /// Whether exactly this is stored already, down to the bytes in the file: a damaged copy must be written again.
    fn holds(&self, group: &str, epoch: i32, packed: &[u8], hash: &[u8; 32]) -> Result<bool, redb::Error> {
        let Some(version) = self.current.get(group)?.map(|v| v.value()).filter(|(at, _)| *at == epoch).map(|(_, v)| v)
        else {
            return Ok(false);
        };
        let known = self.versions.get((group, version))?.and_then(|v| VersionMeta::decode(v.value()).ok());
        if known.is_none_or(|meta| meta.hash != *hash || meta.epoch != epoch) {
            return Ok(false);
        }
        Ok(self.bodies.get((group, version))?.is_some_and(|body| body.value() == packed))
    }

    /// Bounds the history of one group, whose served version is `keep`.
    fn prune(&mut self, group: &str, keep: u64, now: i64) -> Result<(), redb::Error> {
        let settings = &self.shared.settings;
        let oldest = now.saturating_sub(settings.max_age_days.saturating_mul(DAY_MS));
        let mut gone = Vec::new();
        let mut kept = 1;
        for entry in self.versions.range((group, 0)..(group, keep))?.rev() {
            let (key, value) = entry?;
            let meta = VersionMeta::decode(value.value()).ok();
            if kept < settings.max_versions && meta.as_ref().is_some_and(|meta| meta.at >= oldest) {
                kept += 1;
            } else {
                gone.push((key.value().1, meta));
            }
        }
        for (version, meta) in gone {
            self.remove_version(group, version, &meta)?;
        }
        Ok(())
    }

    fn remove_version(&mut self, group: &str, version: u64, meta: &Option<VersionMeta>) -> Result<(), redb::Error> {
        self.versions.remove((group, version))?;
        let body = self.bodies.remove((group, version))?.map_or(0, |body| body.value().len());
        // An unreadable entry is counted as what is certain of it.
        let weight = meta.as_ref().map_or(body as u64, |meta| meta.weight(group));
        self.stored = self.stored.saturating_sub(weight);
        self.changed = true;
        Ok(())
    }

    /// Versions that are not served and that `wanted` picks; unreadable ones are picked too.
    fn history(
        &self,
        wanted: impl Fn(&VersionMeta) -> bool,
        limit: usize,
    ) -> Result<Vec<(String, u64, Option<VersionMeta>)>, redb::Error> {
        let mut found = Vec::new();
        for entry in self.versions.iter()? {
            let (key, value) = entry?;
            let (group, version) = key.value();
            let meta = VersionMeta::decode(value.value()).ok();
            if meta.as_ref().is_none_or(&wanted) && self.current.get(group)?.is_none_or(|v| v.value().1 != version) {
                found.push((group.to_owned(), version, meta));
                if found.len() >= limit {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// History gives way, oldest first, before a description in use is refused.
    fn make_room(&mut self, weight: u64) -> Result<bool, redb::Error> {
        let max = self.shared.settings.max_bytes;
        if self.stored.saturating_add(weight) <= max {
            return Ok(true);
        }
        let mut old = self.history(|_| true, usize::MAX)?;
        old.sort_by_key(|(_, _, meta)| meta.as_ref().map_or(i64::MIN, |meta| meta.at));
        // A little more than needed, so that the next set does not look through everything again.
        let goal = max.saturating_sub(weight).saturating_sub(max / 20);
        for (group, version, meta) in old {
            if self.stored <= goal {
                break;
            }
            self.remove_version(&group, version, &meta)?;
        }
        Ok(self.stored.saturating_add(weight) <= max)
    }

    fn full(&self, weight: u64) -> Failure {
        Failure::Store {
            trouble: StoreTrouble::Full,
            message: format!(
                "the disk store holds {} of {} bytes, {weight} more do not fit (disk.max.bytes)",
                self.stored, self.shared.settings.max_bytes
            ),
        }
    }
}

fn too_large(length: usize) -> Failure {
    Failure::permanent(format!(
        "too_large: the disk store takes up to {MAX_DESCRIPTION_BYTES} bytes a description, this one has {length}"
    ))
}
