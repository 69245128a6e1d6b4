//! The data folder: one process at a time, a layout that is versioned, an identity that is kept.
//!
//! | file | what it holds |
//! |---|---|
//! | `lock` | held while a process uses the folder; the process id, for people |
//! | `layout` | the layout's version |
//! | `cluster-id` | 22 characters, made at the first start |
//! | `nodes.json` | see [`crate::beside::nodes`] |
//! | `http-token` | see [`crate::http`] |

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom as _, SystemRandom};

/// The layout that this build writes.
pub const LAYOUT: u32 = 1;

/// Why the folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process holds it.
    #[error(
        "the data folder {} is used by another process{}; stop it, or choose another folder with --override streamside.data.dir=FOLDER",
        .folder.display(), .holder.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The other process, if it said.
        holder: Option<u32>,
    },
    /// Written by a newer build.
    #[error(
        "the data folder {} has layout {found} and this build knows layouts up to {LAYOUT}: it was written by a newer Streamside; start that one, or choose another folder",
        .folder.display()
    )]
    Newer {
        /// The folder.
        folder: PathBuf,
        /// Its layout.
        found: u32,
    },
    /// A file in it is not what it should be.
    #[error("{} does not hold {expected}; the data folder may be damaged, or is not one of Streamside's", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What should be in it.
        expected: &'static str,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

impl DataDirError {
    /// A word for metrics and policy.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "data_dir_in_use",
            Self::Newer { .. } => "data_dir_newer",
            Self::Damaged { .. } => "data_dir_damaged",
            Self::Io { .. } => "data_dir_io",
        }
    }
}

/// The folder, ours until this is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    cluster_id: String,
    _lock: File,
}

impl DataDir {
    /// Makes the folder if it is absent, locks it, checks its layout, reads or makes its identity.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        make(path).map_err(wrap("make the data folder", path))?;
        let lock = lock(path)?;
        check_layout(path)?;
        let cluster_id = cluster_id(path)?;
        Ok(Self { path: path.to_owned(), cluster_id, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cluster id: 22 characters of URL-safe base64, as Kafka's.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }
}

fn wrap<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> DataDirError + 'a {
    move |source| DataDirError::Io { doing, path: path.to_owned(), source }
}

fn lock(folder: &Path) -> Result<File, DataDirError> {
    let path = folder.join("lock");
    // Not truncated: the holder's id must stay readable for whoever fails to get the lock.
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.map_err(wrap("open the lock file", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.take(32).read_to_string(&mut text);
            return Err(DataDirError::InUse { folder: folder.to_owned(), holder: text.trim().parse().ok() });
        }
        Err(TryLockError::Error(error)) => return Err(wrap("lock", &path)(error)),
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(wrap("write the lock file", &path))?;
    Ok(file)
}

/// Makes the folder where it is absent, for its owner alone: it holds what applications said about themselves.
fn make(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn check_layout(folder: &Path) -> Result<(), DataDirError> {
    let path = folder.join("layout");
    let Some(text) = read_small(&path)? else {
        return write_whole(&path, &format!("{LAYOUT}\n"));
    };
    let damaged = || DataDirError::Damaged { file: path.clone(), expected: "the number of a layout" };
    let found: u32 = text.trim().parse().map_err(|_| damaged())?;
    match found {
        0 => Err(damaged()),
        LAYOUT => Ok(()),
        // Layout 1 is the first: there is none older. A later build copies the folder and migrates it here.
        found => Err(DataDirError::Newer { folder: folder.to_owned(), found }),
    }
}

fn cluster_id(folder: &Path) -> Result<String, DataDirError> {
    let path = folder.join("cluster-id");
    if let Some(text) = read_small(&path)? {
        let id = text.trim();
        let fits = id.len() == 22 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        let expected = "a cluster id (22 characters of base64)";
        return if fits { Ok(id.to_owned()) } else { Err(DataDirError::Damaged { file: path, expected }) };
    }
    loop {
        let mut bytes = [0; 16];
        random(&mut bytes).map_err(wrap("make a cluster id for", &path))?;
        // A random UUID; like Kafka, none that begins with a dash, which command lines would take for an option.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let id = base64url(&bytes);
        if !id.starts_with('-') {
            write_whole(&path, &format!("{id}\n"))?;
            return Ok(id);
        }
    }
}

fn read_small(path: &Path) -> Result<Option<String>, DataDirError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrap("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes).map_err(wrap("read", path))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Writes a file so that a crash leaves either nothing or all of it.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), DataDirError> {
    let fresh = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    };
    write().map_err(wrap("write", path))
}

/// Random bytes from the system.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    SystemRandom::new().fill(bytes).map_err(|_| io::Error::other("the system gives no random bytes"))
}

/// URL-safe base64 without padding.
pub fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..=chunk.len() {
            let index = (word >> (18 - 6 * at)) & 0x3f;
            out.push(char::from(ALPHABET[index as usize]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_url_safe_one_without_padding() {
        for (bytes, text) in [(&b""[..], ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (b"\xfb\xff", "-_8")] {
            assert_eq!(base64url(bytes), text);
        }
    }

    #[test]
    fn the_folder_is_made_and_its_identity_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let first = DataDir::open(&path).unwrap();
        let id = first.cluster_id().to_owned();
        assert_eq!(id.len(), 22);
        assert_eq!(std::fs::read_to_string(path.join("layout")).unwrap(), "1\n");
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions()) & 0o777, 0o700);
        drop(first);
        assert_eq!(DataDir::open(&path).unwrap().cluster_id(), id);
        let other = DataDir::open(&dir.path().join("c")).unwrap();
        assert_ne!(other.cluster_id(), id);
    }

    #[test]
    fn a_second_user_is_refused_with_the_folder_and_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDir::open(dir.path()).unwrap();
        let error = DataDir::open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), "data_dir_in_use");
        let text = error.to_string();
        assert!(text.contains(&dir.path().display().to_string()), "{text}");
        assert!(text.contains(&format!("pid {}", std::process::id())), "{text}");
        drop(held);
        assert!(DataDir::open(dir.path()).is_ok());
    }

    #[test]
    fn a_newer_or_damaged_folder_is_refused_in_words_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("layout"), "2\n").unwrap();
        let error = DataDir::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("written by a newer Streamside"), "{error}");
        assert!(!dir.path().join("cluster-id").exists());
        for wrong in ["", "one", "0"] {
            std::fs::write(dir.path().join("layout"), wrong).unwrap();
            assert_eq!(DataDir::open(dir.path()).unwrap_err().kind(), "data_dir_damaged");
        }
        std::fs::write(dir.path().join("layout"), "1").unwrap();
        std::fs::write(dir.path().join("cluster-id"), "short").unwrap();
        assert_eq!(DataDir::open(dir.path()).unwrap_err().kind(), "data_dir_damaged");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "").unwrap();
        let error = DataDir::open(&path).unwrap_err();
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}
