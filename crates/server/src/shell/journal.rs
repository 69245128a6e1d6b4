//! The journal: durable records of all shards in one redb table, one group commit a transaction.
//!
//! A writer thread takes everything that was submitted since its last commit, writes it as one transaction, syncs, and
//! publishes how far the disk has come. Positions grow by one with each submission and are never reused.
//!
//! When a commit fails, nothing that waited is released: the generation moves on, waiters get [`JournalError::Failed`],
//! and submissions are refused until the shards have been reloaded from what the disk holds ([`Journal::reload`]).
//! A file that was removed or replaced while it is open counts as a failed commit: what is written to it is lost.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use streamside_coordinator::Durable;
use tokio::sync::{mpsc, watch};

use crate::metrics::Metrics;

use super::limits::{JOURNAL_BACKLOG_BYTES, JOURNAL_CACHE_BYTES, JOURNAL_REOPEN_PAUSE};

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records-1");

/// Why the journal did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened or read.
    #[error("the journal {path} cannot be used: {reason}", path = .path.display())]
    Open {
        /// The journal's file.
        path: PathBuf,
        /// What the store said.
        reason: String,
    },
    /// A record in the file is not one of ours.
    #[error("the journal {path} holds a record that this version cannot read: {reason}", path = .path.display())]
    Record {
        /// The journal's file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A commit failed; what waited for it is not durable.
    #[error("the journal could not be written")]
    Failed,
    /// Too much is waiting to be written.
    #[error("the journal is behind by more than {JOURNAL_BACKLOG_BYTES} bytes")]
    Backlog,
    /// A decision met a defect of ours: nothing was decided.
    #[error("a request met a defect of ours; see the log")]
    Defect,
}

impl JournalError {
    /// A word for metrics and policy.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Record { .. } => "record",
            Self::Failed => "failed",
            Self::Backlog => "backlog",
            Self::Defect => "defect",
        }
    }
}

/// How far the disk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    generation: u64,
    durable: u64,
}

/// Key and value; no value removes the key.
type Entry = (Vec<u8>, Option<Vec<u8>>);

struct Queue {
    entries: Vec<Entry>,
    bytes: usize,
    submitted: u64,
    generation: u64,
    /// Between a failed commit and the reload that answers it.
    broken: bool,
    closed: bool,
}

struct Inner {
    path: PathBuf,
    queue: Mutex<Queue>,
    wake: Condvar,
    progress: watch::Sender<Progress>,
    database: Mutex<Option<OpenFile>>,
    failed: mpsc::UnboundedSender<()>,
    metrics: Arc<Metrics>,
}

/// The file as it was opened.
struct OpenFile {
    database: Database,
    identity: Option<Identity>,
}

/// Device and inode: another file of the same name is another file.
type Identity = (u64, u64);

/// A handle on the journal; cheap to clone.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

/// A point in the journal that a reply waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    generation: u64,
    position: u64,
}

impl Point {
    /// The point at which a group of a shard of `generation` was given `position`.
    #[must_use]
    pub fn at(generation: u64, position: u64) -> Self {
        Self { generation, position }
    }

    /// Position within its generation.
    #[must_use]
    pub fn position(self) -> u64 {
        self.position
    }

    /// The point at which both are reached. What was read in an older generation may never have become durable, so a
    /// reply that has read in two generations waits for the older one, and fails.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match self.generation.cmp(&other.generation) {
            Ordering::Less => self,
            Ordering::Greater => other,
            Ordering::Equal => Self { generation: self.generation, position: self.position.max(other.position) },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Journal {
    /// Opens or makes the journal in `folder` and starts its writer. `failed` is told after each failed commit; its
    /// receiver is expected to call [`Journal::reload`].
    ///
    /// # Errors
    /// [`JournalError::Open`] when the file cannot be opened.
    pub fn open(folder: &Path, failed: mpsc::UnboundedSender<()>, metrics: Arc<Metrics>) -> Result<Self, JournalError> {
        let path = folder.join("journal.redb");
        let database = open_database(&path, Absent::Make)?;
        let inner = Arc::new(Inner {
            path,
            queue: Mutex::new(Queue {
                entries: Vec::new(),
                bytes: 0,
                submitted: 0,
                generation: 0,
                broken: false,
                closed: false,
            }),
            wake: Condvar::new(),
            progress: watch::Sender::new(Progress::default()),
            database: Mutex::new(Some(database)),
            failed,
            metrics,
        });
        let writer = Arc::clone(&inner);
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_loop(&writer))
            .map_err(|e| JournalError::Open { path: inner.path.clone(), reason: e.to_string() })?;
        Ok(Self { inner })
    }

    /// Appends the durable records of one decision, atomically. Does not wait and does not touch the disk; call it
    /// under the shard's lock, before the records are applied.
    ///
    /// # Errors
    /// [`JournalError::Failed`] while broken, [`JournalError::Backlog`] when too much waits: nothing was appended.
    pub fn submit<'a>(&self, records: impl Iterator<Item = &'a Durable>) -> Result<Point, JournalError> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for record in records {
            let key = record.key();
            let value = record.value();
            bytes += key.len() + value.as_ref().map_or(0, Vec::len) + 64;
            entries.push((key, value));
        }
        let mut queue = lock(&self.inner.queue);
        if queue.broken || queue.closed {
            return Err(JournalError::Failed);
        }
        if queue.bytes.saturating_add(bytes) > JOURNAL_BACKLOG_BYTES {
            return Err(JournalError::Backlog);
        }
        queue.bytes += bytes;
        queue.entries.append(&mut entries);
        queue.submitted += 1;
        let point = Point { generation: queue.generation, position: queue.submitted };
        drop(queue);
        self.inner.wake.notify_one();
        Ok(point)
    }

    /// Whether new work can be taken.
    #[must_use]
    pub fn healthy(&self) -> bool {
        let queue = lock(&self.inner.queue);
        !queue.broken && !queue.closed
    }

    /// Begins a read over many groups: the generation that it reads, `None` while memory may be ahead of the disk.
    #[must_use]
    pub fn begin_read(&self) -> Option<u64> {
        let queue = lock(&self.inner.queue);
        (!queue.broken).then_some(queue.generation)
    }

    /// Waits until everything that a read since [`Journal::begin_read`] may have seen is on disk.
    ///
    /// # Errors
    /// [`JournalError::Failed`] when a commit failed since.
    pub async fn end_read(&self, began: u64) -> Result<(), JournalError> {
        let latest = self.latest_point();
        if latest.generation == began { self.wait(latest).await } else { Err(JournalError::Failed) }
    }

    /// Memory is no longer what was journalled: all groups are to be reloaded from the disk.
    pub fn distrust_memory(&self) {
        self.inner.break_off();
    }

    /// Which generation of memory is being written now: it moves on with each failed commit.
    #[must_use]
    pub fn generation(&self) -> u64 {
        lock(&self.inner.queue).generation
    }

    /// Where everything that was submitted so far ends.
    #[must_use]
    pub fn latest_point(&self) -> Point {
        let queue = lock(&self.inner.queue);
        Point { generation: queue.generation, position: queue.submitted }
    }

    /// Whether `point` is on disk already.
    #[must_use]
    pub fn is_durable(&self, point: Point) -> bool {
        let progress = self.inner.progress.borrow();
        progress.generation == point.generation && progress.durable >= point.position
    }

    /// Waits until `point` is on disk.
    ///
    /// # Errors
    /// [`JournalError::Failed`] when a commit failed first.
    pub async fn wait(&self, point: Point) -> Result<(), JournalError> {
        if self.is_durable(point) {
            return Ok(());
        }
        let mut progress = self.inner.progress.subscribe();
        let seen = progress
            .wait_for(|p| p.generation != point.generation || p.durable >= point.position)
            .await
            .map_err(|_| JournalError::Failed)?;
        if seen.generation == point.generation { Ok(()) } else { Err(JournalError::Failed) }
    }

    /// Every record on disk.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something that is not ours.
    pub fn read_all(&self) -> Result<Vec<Durable>, JournalError> {
        let guard = lock(&self.inner.database);
        let Some(OpenFile { database, .. }) = guard.as_ref() else { return Err(self.unusable("it is closed")) };
        let read = database.begin_read().map_err(|e| self.unusable(e))?;
        let table = match read.open_table(RECORDS) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(e) => return Err(self.unusable(e)),
        };
        let mut records = Vec::new();
        for row in table.iter().map_err(|e| self.unusable(e))? {
            let (key, value) = row.map_err(|e| self.unusable(e))?;
            let record = Durable::decode(key.value(), value.value())
                .map_err(|e| JournalError::Record { path: self.inner.path.clone(), reason: e.to_string() })?;
            records.push(record);
        }
        Ok(records)
    }

    fn unusable(&self, reason: impl ToString) -> JournalError {
        JournalError::Open { path: self.inner.path.clone(), reason: reason.to_string() }
    }

    /// After a failed commit: opens the file anew, reads everything, gives it to `restore`, and takes submissions
    /// again once `restore` has replaced the shards. Tries until the file can be read. A file that is gone is not made
    /// anew: that would forget everything. `restore` is told the generation that its memory belongs to.
    pub fn reload(&self, mut restore: impl FnMut(Vec<Durable>, u64)) {
        // Tried often, told when something is new.
        let mut told = None;
        loop {
            let generation = {
                let queue = lock(&self.inner.queue);
                if !queue.broken {
                    return;
                }
                queue.generation
            };
            let restored = caught(|| self.reopen().map(|records| restore(records, generation)));
            match restored.unwrap_or_else(|panic| Err(self.unusable(panic))) {
                Ok(()) => {
                    let mut queue = lock(&self.inner.queue);
                    // Memory may have come to be distrusted once more meanwhile.
                    if queue.generation == generation {
                        queue.broken = false;
                        tracing::info!("the journal is writable again; all groups were reloaded from disk");
                        return;
                    }
                }
                Err(e) => {
                    let reason = e.to_string();
                    if told.as_ref() != Some(&reason) {
                        tracing::error!(error = %reason, "the journal is still unusable; requests get retriable errors");
                        told = Some(reason);
                    }
                }
            }
            if lock(&self.inner.queue).closed {
                return;
            }
            std::thread::sleep(JOURNAL_REOPEN_PAUSE);
        }
    }

    fn reopen(&self) -> Result<Vec<Durable>, JournalError> {
        {
            let mut file = lock(&self.inner.database);
            // The old handle must be gone before the file can be opened again.
            *file = None;
            let opened = file.insert(open_database(&self.inner.path, Absent::Refuse)?);
            // Can the disk be written?
            commit(&opened.database, &[]).map_err(|e| self.unusable(e))?;
        }
        self.read_all()
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn backlog_bytes(&self) -> usize {
        lock(&self.inner.queue).bytes
    }

    /// Bytes of the journal's file.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        std::fs::metadata(&self.inner.path).map_or(0, |m| m.len())
    }

    /// Writes what is waiting and closes the file. Blocks until done or `patience` is over.
    pub fn close(&self, patience: Duration) {
        lock(&self.inner.queue).closed = true;
        self.inner.wake.notify_one();
        let deadline = std::time::Instant::now() + patience;
        while std::time::Instant::now() < deadline {
            if lock(&self.inner.database).is_none() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What to do about a file that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    Make,
    Refuse,
}

fn open_database(path: &Path, absent: Absent) -> Result<OpenFile, JournalError> {
    let error = |reason: String| JournalError::Open { path: path.to_path_buf(), reason };
    let mut builder = redb::Builder::new();
    builder.set_cache_size(JOURNAL_CACHE_BYTES);
    if absent == Absent::Make && !path.exists() {
        make_database(path, &builder).map_err(|e| error(e.to_string()))?;
    }
    let opened = caught(|| builder.open(path));
    let database = opened.map_err(|_| error("it is damaged".to_owned()))?.map_err(|e| match e {
        redb::DatabaseError::DatabaseAlreadyOpen => error("another process has it open".to_owned()),
        redb::DatabaseError::UpgradeRequired(v) => {
            error(format!("it is of an older file format ({v}) that this version does not read"))
        }
        e => error(e.to_string()),
    })?;
    Ok(OpenFile { database, identity: identity(path) })
}

/// Makes the file under another name first: what has the journal's name was whole once, so that an empty file is never
/// taken for a new one.
fn make_database(path: &Path, builder: &redb::Builder) -> Result<(), redb::Error> {
    let fresh = path.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
        _ => drop(builder.create(&fresh)?),
    }
    std::fs::rename(&fresh, path)?;
    // So that the file's name survives power loss as well.
    if let Some(folder) = path.parent() {
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|_| (0, 0))
}

/// Runs `work`; a panic in it becomes its text. What `work` leaves half done must be thrown away.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
    })
}

impl Inner {
    /// Nothing that waits is released, nothing more is taken, until a reload.
    fn break_off(&self) {
        let mut queue = lock(&self.queue);
        queue.broken = true;
        queue.entries.clear();
        queue.bytes = 0;
        queue.generation += 1;
        self.progress.send_replace(Progress { generation: queue.generation, durable: queue.submitted });
        drop(queue);
        // The receiver ends with the process.
        let _ = self.failed.send(());
    }

    fn write(&self, entries: &[Entry]) -> Result<(), String> {
        let file = lock(&self.database);
        let Some(OpenFile { database, identity: opened }) = file.as_ref() else {
            return Err("it is closed".to_owned());
        };
        if identity(&self.path) != *opened {
            return Err("the file is gone or is another one".to_owned());
        }
        caught(|| commit(database, entries)).unwrap_or_else(Err)
    }
}

fn write_loop(inner: &Inner) {
    loop {
        let (entries, position, generation) = {
            let mut queue = lock(&inner.queue);
            while queue.entries.is_empty() && !queue.closed {
                queue = inner.wake.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            if queue.entries.is_empty() {
                drop(queue);
                *lock(&inner.database) = None;
                return;
            }
            queue.bytes = 0;
            (std::mem::take(&mut queue.entries), queue.submitted, queue.generation)
        };
        let began = inner.metrics.start();
        match inner.write(&entries) {
            Ok(()) => {
                inner.metrics.journal_commit(entries.len(), began.elapsed());
                let queue = lock(&inner.queue);
                if queue.generation == generation {
                    inner.progress.send_replace(Progress { generation, durable: position });
                }
            }
            Err(reason) => {
                inner.metrics.journal_failed();
                tracing::error!(
                    path = %inner.path.display(),
                    error = %reason,
                    "a journal commit failed: nothing that waited for it is answered as done; \
                     free space or repair the data folder, the journal is tried again by itself"
                );
                inner.break_off();
            }
        }
    }
}

fn commit(database: &Database, entries: &[Entry]) -> Result<(), String> {
    let transaction = database.begin_write().map_err(|e| e.to_string())?;
    {
        let mut table = transaction.open_table(RECORDS).map_err(|e| e.to_string())?;
        for (key, value) in entries {
            match value {
                Some(value) => drop(table.insert(key.as_slice(), value.as_slice()).map_err(|e| e.to_string())?),
                None => drop(table.remove(key.as_slice()).map_err(|e| e.to_string())?),
            }
        }
    }
    transaction.commit().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use streamside_coordinator::Durable;
    use streamside_coordinator::group::GroupMetadata;
    use tokio::sync::mpsc;

    use super::*;

    fn open(folder: &Path) -> Result<(Journal, mpsc::UnboundedReceiver<()>), JournalError> {
        let (failed, failures) = mpsc::unbounded_channel();
        let metrics = Arc::new(Metrics::new("standalone", None, "c"));
        Ok((Journal::open(folder, failed, metrics)?, failures))
    }

    fn record(group: &str) -> Durable {
        Durable::Group { group: Arc::from(group), value: Some(GroupMetadata::default()) }
    }

    fn groups(records: &[Durable]) -> Vec<&str> {
        records.iter().map(|r| &**r.group()).collect()
    }

    #[test]
    fn a_reply_that_read_two_generations_waits_for_the_older() {
        let (old, new) = (Point::at(1, 9), Point::at(2, 3));
        assert_eq!((old.and(new), new.and(old)), (old, old));
        assert_eq!(old.and(Point::at(1, 4)), old);
    }

    #[tokio::test]
    async fn a_file_that_is_gone_is_no_success_and_is_not_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, mut failures) = open(dir.path()).unwrap();
        let point = journal.submit([record("a")].iter()).unwrap();
        journal.wait(point).await.unwrap();
        let began = journal.begin_read().unwrap();
        let (file, away) = (dir.path().join("journal.redb"), dir.path().join("away"));
        std::fs::rename(&file, &away).unwrap();

        let lost = journal.submit([record("b")].iter()).unwrap();
        assert!(matches!(journal.wait(lost).await, Err(JournalError::Failed)));
        assert!(matches!(journal.end_read(began).await, Err(JournalError::Failed)), "a read across the failure");
        assert_eq!(journal.begin_read(), None, "memory is ahead of the disk");
        assert!(matches!(journal.submit([record("c")].iter()), Err(JournalError::Failed)));
        failures.recv().await.unwrap();

        let reloading = journal.clone();
        let reload = tokio::task::spawn_blocking(move || {
            let mut restored = Vec::new();
            reloading.reload(|records, generation| restored = vec![(records, generation)]);
            restored
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!file.exists() && !reload.is_finished());
        std::fs::rename(&away, &file).unwrap();
        let restored = reload.await.unwrap();
        assert_eq!((groups(&restored[0].0), restored[0].1), (vec!["a"], 1));
        let point = journal.submit([record("d")].iter()).unwrap();
        journal.wait(point).await.unwrap();
        assert_eq!(groups(&journal.read_all().unwrap()), ["a", "d"]);
    }

    #[tokio::test]
    async fn memory_that_is_distrusted_is_reloaded_once() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, mut failures) = open(dir.path()).unwrap();
        let point = journal.submit([record("a")].iter()).unwrap();
        journal.wait(point).await.unwrap();
        journal.distrust_memory();
        assert!(matches!(journal.wait(point).await, Err(JournalError::Failed)));
        failures.recv().await.unwrap();
        let mut times = 0;
        // A restore that panics is tried again; once memory is good a second call does nothing.
        journal.reload(|_, _| {
            times += 1;
            assert!(times > 1, "the first time fails");
        });
        journal.reload(|_, _| times += 1);
        assert_eq!((times, journal.healthy()), (2, true));
    }

    #[test]
    fn an_empty_file_is_not_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("journal.redb"), b"").unwrap();
        assert_eq!(open(dir.path()).err().map(|e| e.kind()), Some("open"));
        // What a start that was cut off left behind is no reason to refuse.
        std::fs::remove_file(dir.path().join("journal.redb")).unwrap();
        std::fs::write(dir.path().join("journal.new"), b"half").unwrap();
        assert!(open(dir.path()).is_ok());
    }
}
