//! A file that fails when a test says so.

use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, Database, DatabaseError, StorageBackend};

use super::file::{Opener, builder};
use super::overlay::Overlay;

/// What goes wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// System error number of every write from now on; 0 = none.
    pub(super) writes: AtomicI64,
    /// System error number of every read from now on; 0 = none.
    pub(super) reads: AtomicI64,
    /// The write (of any kind) that fails once, counted down; negative = none.
    pub(super) nth_write: AtomicI64,
    /// Syncs to disk so far.
    pub(super) syncs: AtomicU64,
    /// Writes that failed.
    pub(super) failed: AtomicU64,
}

pub(super) const EIO: i64 = 5;
pub(super) const ENOSPC: i64 = 28;
pub(super) const EROFS: i64 = 30;

impl Faults {
    pub(super) fn none() -> Arc<Faults> {
        let faults = Faults::default();
        faults.nth_write.store(-1, Ordering::SeqCst);
        Arc::new(faults)
    }

    fn write(&self) -> io::Result<()> {
        let errno = self.writes.load(Ordering::SeqCst);
        let nth = self.nth_write.load(Ordering::SeqCst) >= 0 && self.nth_write.fetch_sub(1, Ordering::SeqCst) == 0;
        if errno == 0 && !nth {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err(io::Error::from_raw_os_error(if errno == 0 { EIO as i32 } else { errno as i32 }))
    }

    fn read(&self) -> io::Result<()> {
        match self.reads.load(Ordering::SeqCst) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }
}

#[derive(Debug)]
struct Faulty {
    inner: FileBackend,
    faults: Arc<Faults>,
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.faults.read()?;
        self.inner.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.write()?;
        self.inner.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        self.faults.write()?;
        self.inner.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.write()?;
        self.inner.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }
    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }
    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }
    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }
    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}

/// Opens the file behind the faults.
pub(super) struct FaultyOpener(pub(super) Arc<Faults>);

impl FaultyOpener {
    fn backend(&self, path: &Path, write: bool) -> Result<Faulty, DatabaseError> {
        if write && self.0.writes.load(Ordering::SeqCst) == EROFS {
            return Err(io::Error::from_raw_os_error(EROFS as i32).into());
        }
        let file = OpenOptions::new().read(true).write(write).create(write).truncate(false).open(path)?;
        Ok(Faulty { inner: FileBackend::new(file)?, faults: self.0.clone() })
    }
}

impl Opener for FaultyOpener {
    fn write(&self, path: &Path) -> Result<Database, DatabaseError> {
        builder().create_with_backend(self.backend(path, true)?)
    }

    fn read_only(&self, path: &Path) -> Result<Database, DatabaseError> {
        builder().create_with_backend(Overlay::new(self.backend(path, false)?)?)
    }
}
