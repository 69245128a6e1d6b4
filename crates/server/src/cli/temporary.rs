//! A folder that goes with its owner.

use std::io;
use std::path::{Path, PathBuf};

use crate::data_dir::{base64url, random};

/// A fresh name in the system's folder for temporary files; whatever is there at the end is removed.
#[derive(Debug)]
pub struct Temporary(PathBuf);

impl Temporary {
    /// A name that nobody can guess. The folder itself is made by whoever uses it.
    pub fn new(what: &str) -> io::Result<Self> {
        let mut bytes = [0; 9];
        random(&mut bytes)?;
        Ok(Self(std::env::temp_dir().join(format!("streamside-{what}-{}", base64url(&bytes)))))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            super::complain(&format!("{} could not be removed: {error}", self.0.display()));
        }
    }
}
