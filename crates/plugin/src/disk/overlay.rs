//! Reading a file that cannot be written. After a failed write redb must repair the file before it serves a read; here
//! what the repair writes stays in memory, so that descriptions are served while the disk is full or read-only.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{Database, DatabaseError, StorageBackend};

const BLOCK: u64 = 4_096;
/// Blocks kept in memory (64 MiB). A repair writes a few; nothing else writes here.
const MAX_BLOCKS: usize = 16_384;

/// A backend whose writes stay in memory.
#[derive(Debug)]
pub(super) struct Overlay<B> {
    below: B,
    above: Mutex<Above>,
}

#[derive(Debug)]
struct Above {
    length: u64,
    /// Bytes of the file below that still count; shrinking cuts them off for good.
    below_length: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl<B: StorageBackend> Overlay<B> {
    pub(super) fn new(below: B) -> io::Result<Overlay<B>> {
        let length = below.len()?;
        Ok(Overlay { below, above: Mutex::new(Above { length, below_length: length, blocks: BTreeMap::new() }) })
    }

    fn above(&self) -> MutexGuard<'_, Above> {
        self.above.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file has in `[offset, offset + out)`, zeros behind its end.
    fn read_below(&self, above: &Above, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let there = above.below_length.saturating_sub(offset).min(out.len() as u64);
        match out.get_mut(..usize::try_from(there).unwrap_or(0)) {
            Some(part) if !part.is_empty() => self.below.read(offset, part),
            _ => Ok(()),
        }
    }
}

impl<B: StorageBackend> StorageBackend for Overlay<B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.above().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let above = self.above();
        let end = offset + out.len() as u64;
        if end > above.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_below(&above, offset, out)?;
        for (number, block) in above.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let start = number * BLOCK;
            let (from, to) = (start.max(offset), (start + BLOCK).min(end));
            let (source, target) = (from - start, from - offset);
            let length = (to - from) as usize;
            if let (Some(target), Some(source)) = (
                out.get_mut(target as usize..target as usize + length),
                block.get(source as usize..source as usize + length),
            ) {
                target.copy_from_slice(source);
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut above = self.above();
        if length < above.length {
            above.blocks.split_off(&length.div_ceil(BLOCK));
            let cut = (length % BLOCK) as usize;
            if let Some(tail) = above.blocks.get_mut(&(length / BLOCK)).and_then(|block| block.get_mut(cut..)) {
                tail.fill(0);
            }
            above.below_length = above.below_length.min(length);
        }
        above.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut above = self.above();
        let end = offset + data.len() as u64;
        for number in offset / BLOCK..end.div_ceil(BLOCK) {
            let start = number * BLOCK;
            if !above.blocks.contains_key(&number) {
                if above.blocks.len() >= MAX_BLOCKS {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                let mut block = vec![0; BLOCK as usize].into_boxed_slice();
                self.read_below(&above, start, &mut block)?;
                above.blocks.insert(number, block);
            }
            let (from, to) = (start.max(offset), (start + BLOCK).min(end));
            let (source, target) = (from - offset, from - start);
            let length = (to - from) as usize;
            let block = above.blocks.get_mut(&number);
            if let (Some(target), Some(source)) = (
                block.and_then(|block| block.get_mut(target as usize..target as usize + length)),
                data.get(source as usize..source as usize + length),
            ) {
                target.copy_from_slice(source);
            }
        }
        above.length = above.length.max(end);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.below.close()
    }
}

/// Opens a file for reading, whatever state it is in. Nobody else may write it meanwhile.
pub(super) fn open(path: &Path) -> Result<Database, DatabaseError> {
    let file = File::open(path)?;
    // A writer takes this lock exclusively; it goes when the file is closed.
    if file.try_lock_shared().is_err() {
        return Err(DatabaseError::DatabaseAlreadyOpen);
    }
    super::file::builder().create_with_backend(Overlay::new(FileBackend::new(file)?)?)
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn reads_see_what_was_written_above_and_the_file_stays_as_it_was() {
        let below = InMemoryBackend::new();
        below.set_len(10_000).unwrap();
        below.write(0, &[1; 10_000]).unwrap();
        let overlay = Overlay::new(below).unwrap();
        overlay.write(4_000, &[2; 200]).unwrap();
        let mut out = [0; 400];
        overlay.read(3_900, &mut out).unwrap();
        assert_eq!((out[99], out[100], out[299], out[300]), (1, 2, 2, 1));
        overlay.set_len(4_100).unwrap();
        overlay.set_len(20_000).unwrap();
        let mut out = [9; 200];
        overlay.read(4_000, &mut out).unwrap();
        assert_eq!((out[99], out[100], out[199]), (2, 0, 0));
        let mut out = [9; 100];
        overlay.read(9_000, &mut out).unwrap();
        assert_eq!(out, [0; 100], "what was cut off stays gone");
        assert!(overlay.read(19_950, &mut out).is_err());
        let mut file = [0; 10_000];
        overlay.below.read(0, &mut file).unwrap();
        assert_eq!(file, [1; 10_000]);
    }
}
