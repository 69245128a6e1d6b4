//! The file: opened, and opened again after an I/O error, since redb refuses all work on a handle that met one. When it
//! can only be opened for reading, reads go on and writes fail in words.

use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, StorageError, TableError, WriteTransaction,
};

use super::layout::{BODIES, CURRENT, LAYOUT, META, META_LAYOUT, META_STORED, VERSIONS};
use super::overlay;
use crate::error::PluginError;
use crate::panic_text::panic_text;

/// Name of the file in the data folder.
pub const FILE_NAME: &str = "descriptions.redb";

/// redb's own page cache; ours holds whole descriptions.
const PAGE_CACHE_BYTES: usize = 8 * 1024 * 1024;
/// How soon after a failed attempt the file is opened again.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// Opens the file; tests put a failing one here.
pub(super) trait Opener: Send + Sync + 'static {
    fn write(&self, path: &Path) -> Result<Database, DatabaseError>;
    /// For reading, also where nothing can be written.
    fn read_only(&self, path: &Path) -> Result<Database, DatabaseError>;
}

/// The real file.
pub(super) struct Plain;

pub(super) fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(PAGE_CACHE_BYTES);
    builder
}

impl Opener for Plain {
    fn write(&self, path: &Path) -> Result<Database, DatabaseError> {
        builder().create(path)
    }

    fn read_only(&self, path: &Path) -> Result<Database, DatabaseError> {
        overlay::open(path)
    }
}

/// Why a piece of work on the file failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The disk has no room.
    pub(super) full: bool,
    /// What was said, without our path: it may reach a client.
    pub(super) text: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<redb::Error> for Trouble {
    fn from(e: redb::Error) -> Trouble {
        match e {
            redb::Error::Io(e) => Trouble {
                full: matches!(
                    e.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
                ),
                text: e.to_string(),
            },
            e => Trouble { full: false, text: e.to_string() },
        }
    }
}

enum Handle {
    Open(Database),
    ReadOnly(Database, Trouble),
    Shut(Trouble),
}

struct State {
    handle: Handle,
    /// Which file it is that is open.
    identity: Option<Identity>,
    tried: Option<Instant>,
    closed: bool,
}

/// Device and inode: another file of the same name is another file.
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|_| (0, 0))
}

pub(super) struct StoreFile {
    path: PathBuf,
    opener: Box<dyn Opener>,
    state: RwLock<State>,
    /// The handle met an error that it does not recover from.
    broken: AtomicBool,
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl StoreFile {
    /// Opens the file in `folder`, making both where absent.
    pub(super) fn open(folder: &Path, opener: Box<dyn Opener>) -> Result<StoreFile, PluginError> {
        fs::create_dir_all(folder).map_err(|e| from_io(folder, &e))?;
        let path = folder.join(FILE_NAME);
        let fresh = !path.exists();
        let db = guarded(&path, || opener.write(&path))?;
        prepare(&path, &db)?;
        if fresh {
            // So that the file's name survives power loss as well.
            fs::File::open(folder).and_then(|f| f.sync_all()).map_err(|e| from_io(folder, &e))?;
        }
        let state = State { handle: Handle::Open(db), identity: identity(&path), tried: None, closed: false };
        Ok(StoreFile { path, opener, state: RwLock::new(state), broken: AtomicBool::new(false) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes the file occupies.
    pub(super) fn len(&self) -> Option<u64> {
        fs::metadata(&self.path).ok().map(|m| m.len())
    }

    /// Work on a snapshot. Tried once more on a fresh handle when the handle proves broken.
    pub(super) fn read<T>(&self, work: impl Fn(&ReadTransaction) -> Result<T, redb::Error>) -> Result<T, Trouble> {
        self.twice(|handle| {
            let snapshot = match handle {
                Handle::Open(db) | Handle::ReadOnly(db, _) => db.begin_read().map_err(redb::Error::from),
                Handle::Shut(trouble) => return Err(Failed::Told(trouble.clone())),
            };
            snapshot.and_then(|snapshot| work(&snapshot)).map_err(Failed::Redb)
        })
    }

    /// One transaction, safe on the disk when this returns `Ok`. `work` says whether there is anything to commit.
    /// After an error nothing or all of it may be in the file. A file that was removed or replaced while it is open takes
    /// nothing more: it would be lost.
    pub(super) fn write<T>(
        &self,
        mut work: impl FnMut(&WriteTransaction) -> Result<(T, bool), redb::Error>,
    ) -> Result<T, Trouble> {
        let opened = self.state.read().unwrap_or_else(PoisonError::into_inner).identity;
        self.twice(|handle| {
            let db = match handle {
                Handle::Open(_) if identity(&self.path) != opened => return Err(Failed::Told(gone())),
                Handle::Open(db) => db,
                Handle::ReadOnly(_, trouble) | Handle::Shut(trouble) => {
                    return Err(Failed::Told(trouble.clone()));
                }
            };
            commit(db, &mut work).map_err(Failed::Redb)
        })
    }

    /// Whether the file is open for writing.
    pub(super) fn writable(&self) -> Result<(), Trouble> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        match &state.handle {
            Handle::Open(_) if identity(&self.path) != state.identity => Err(gone()),
            Handle::Open(_) => Ok(()),
            Handle::ReadOnly(_, trouble) | Handle::Shut(trouble) => Err(trouble.clone()),
        }
    }

    /// Lets go of the file and its lock.
    pub(super) fn close(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        let was = std::mem::replace(&mut state.handle, Handle::Shut(shut()));
        let _ = catch_unwind(AssertUnwindSafe(move || drop(was)));
    }

    /// Work on the handle; once more on a fresh one when somebody else's error had broken it.
    fn twice<T>(&self, mut work: impl FnMut(&Handle) -> Result<T, Failed>) -> Result<T, Trouble> {
        let mut again = true;
        loop {
            self.heal(false);
            let trouble = {
                let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
                match catch_unwind(AssertUnwindSafe(|| work(&state.handle))) {
                    Ok(Ok(done)) => return Ok(done),
                    Ok(Err(Failed::Told(trouble))) => return Err(trouble),
                    Ok(Err(Failed::Redb(e))) if !breaks_the_handle(&e) => return Err(e.into()),
                    Ok(Err(Failed::Redb(e))) => {
                        again &= matches!(e, redb::Error::PreviousIo);
                        e.into()
                    }
                    Err(panic) => {
                        again = false;
                        Trouble { full: false, text: format!("the file may be damaged: {}", panic_text(panic)) }
                    }
                }
            };
            // At once, so that reads go on.
            self.broken.store(true, Ordering::Release);
            self.heal(true);
            if !std::mem::take(&mut again) {
                return Err(trouble);
            }
        }
    }

    /// Opens the file again when its handle is broken or not open for writing. `now`: without waiting for the time
    /// after a failed attempt.
    fn heal(&self, now: bool) {
        let waits = |state: &State| !now && state.tried.is_some_and(|at| at.elapsed() < REOPEN_AFTER);
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let well = matches!(state.handle, Handle::Open(_)) && !self.broken.load(Ordering::Acquire);
            if well || state.closed || waits(&state) {
                return;
            }
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let well = matches!(state.handle, Handle::Open(_)) && !self.broken.load(Ordering::Acquire);
        if well || state.closed || waits(&state) {
            return;
        }
        self.reopen(&mut state);
    }

    fn reopen(&self, state: &mut RwLockWriteGuard<'_, State>) {
        // The old handle holds the lock on the file, so it goes first.
        let was = std::mem::replace(&mut state.handle, Handle::Shut(shut()));
        let _ = catch_unwind(AssertUnwindSafe(move || drop(was)));
        let opened = match catch_unwind(AssertUnwindSafe(|| self.opener.write(&self.path))) {
            Ok(Ok(db)) => prepare(&self.path, &db).map(|()| db).map_err(|e| Trouble { full: false, text: told(&e) }),
            Ok(Err(e)) => Err(redb::Error::from(e).into()),
            Err(panic) => Err(Trouble { full: false, text: panic_text(panic) }),
        };
        state.handle = match opened {
            Ok(db) => Handle::Open(db),
            Err(trouble) => match guarded(&self.path, || self.opener.read_only(&self.path)) {
                Ok(db) => Handle::ReadOnly(db, trouble),
                Err(_) => Handle::Shut(trouble),
            },
        };
        state.identity = identity(&self.path);
        state.tried = (!matches!(state.handle, Handle::Open(_))).then(Instant::now);
        self.broken.store(false, Ordering::Release);
    }
}

fn gone() -> Trouble {
    Trouble { full: false, text: "the store's file is gone or is another one".to_owned() }
}

fn shut() -> Trouble {
    Trouble { full: false, text: "the store is closed".to_owned() }
}

enum Failed {
    Redb(redb::Error),
    Told(Trouble),
}

fn commit<T>(
    db: &Database,
    work: &mut impl FnMut(&WriteTransaction) -> Result<(T, bool), redb::Error>,
) -> Result<T, redb::Error> {
    let mut txn = db.begin_write()?;
    // Opening after a crash must not read the whole file.
    txn.set_quick_repair(true);
    let (done, changed) = work(&txn)?;
    if changed {
        txn.commit()?;
    } else {
        txn.abort()?;
    }
    Ok(done)
}

fn breaks_the_handle(e: &redb::Error) -> bool {
    matches!(
        e,
        redb::Error::Io(_)
            | redb::Error::Backend(_)
            | redb::Error::PreviousIo
            | redb::Error::DatabaseClosed
            | redb::Error::LockPoisoned(_)
            | redb::Error::TransactionPoisoned
            | redb::Error::Corrupted(_)
    )
}

/// The part of an open error that may be told to a client: no path.
fn told(e: &PluginError) -> String {
    match e {
        PluginError::NotWritable { reason, .. } | PluginError::Torn { reason, .. } | PluginError::Io { reason, .. } => {
            reason.clone()
        }
        PluginError::Locked { .. } => "the file is in use by another process".to_owned(),
        PluginError::NewerLayout { .. } => "the file has a newer layout".to_owned(),
        e => e.kind().to_owned(),
    }
}

/// Opens with every way of failing put in words; a damaged file can make redb panic.
fn guarded<T>(path: &Path, open: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, PluginError> {
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(e)) => Err(from_redb(path, e)),
        Err(panic) => Err(PluginError::Torn { path: path.to_owned(), reason: panic_text(panic) }),
    }
}

fn from_redb(path: &Path, e: DatabaseError) -> PluginError {
    let path = path.to_owned();
    match e {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => PluginError::Locked { path },
        DatabaseError::Storage(StorageError::Io(e)) => from_io(&path, &e),
        DatabaseError::Storage(StorageError::Corrupted(reason)) => PluginError::Torn { path, reason },
        e => PluginError::Io { path, reason: e.to_string() },
    }
}

fn from_io(path: &Path, e: &io::Error) -> PluginError {
    let (path, reason) = (path.to_owned(), e.to_string());
    match e.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::StorageFull
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::AlreadyExists => PluginError::NotWritable { path, reason },
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => PluginError::Torn { path, reason },
        _ => PluginError::Io { path, reason },
    }
}

/// Checks the layout; writes it into a new file.
fn prepare(path: &Path, db: &Database) -> Result<(), PluginError> {
    let torn = |reason: String| PluginError::Torn { path: path.to_owned(), reason };
    match catch_unwind(AssertUnwindSafe(|| layout_of(db))) {
        Ok(Ok(Found::Layout(LAYOUT))) => return Ok(()),
        Ok(Ok(Found::Layout(found))) if found > LAYOUT => {
            return Err(PluginError::NewerLayout { path: path.to_owned(), found, known: LAYOUT });
        }
        Ok(Ok(Found::Layout(found))) => return Err(torn(format!("layout {found} never existed"))),
        Ok(Ok(Found::Foreign)) => return Err(torn("it holds other tables".to_owned())),
        Ok(Ok(Found::Empty)) => {}
        Ok(Err(redb::Error::Io(e))) => return Err(from_io(path, &e)),
        Ok(Err(e)) => return Err(torn(e.to_string())),
        Err(panic) => return Err(torn(panic_text(panic))),
    }
    commit(db, &mut |txn: &WriteTransaction| {
        let mut meta = txn.open_table(META)?;
        meta.insert(META_LAYOUT, LAYOUT)?;
        meta.insert(META_STORED, 0)?;
        txn.open_table(CURRENT)?;
        txn.open_table(VERSIONS)?;
        txn.open_table(BODIES)?;
        Ok(((), true))
    })
    .map_err(|e| match e {
        redb::Error::Io(e) => from_io(path, &e),
        e => PluginError::Io { path: path.to_owned(), reason: e.to_string() },
    })
}

enum Found {
    Empty,
    Foreign,
    Layout(u64),
}

fn layout_of(db: &Database) -> Result<Found, redb::Error> {
    let snapshot = db.begin_read()?;
    let layout = match snapshot.open_table(META) {
        Ok(meta) => meta.get(META_LAYOUT)?.map(|v| v.value()),
        Err(TableError::TableDoesNotExist(_)) => None,
        Err(TableError::Storage(e)) => return Err(e.into()),
        Err(_) => return Ok(Found::Foreign),
    };
    let tables = snapshot.list_tables()?.count();
    Ok(match layout {
        Some(found) => Found::Layout(found),
        None if tables == 0 => Found::Empty,
        None => Found::Foreign,
    })
}
