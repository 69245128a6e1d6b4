//! The token file: lines `viewer TOKEN` or `operator TOKEN`.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::config::source::read_bounded;
use crate::data_dir::{base64url, random};

/// What a token allows; later ones allow what earlier ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// To read.
    Viewer,
    /// To change.
    Operator,
}

/// Why the token file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It can't be read or made.
    #[error("the token file {} {problem}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// A phrase.
        problem: String,
    },
    /// A line is wrong. The line itself is not told, since it may hold a token.
    #[error("line {line} of the token file {} is not `viewer TOKEN` or `operator TOKEN` with a token of at least 16 characters", .path.display())]
    Line {
        /// Which.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
}

/// The tokens that are accepted.
#[derive(Clone, Default)]
pub struct Tokens(Vec<(Role, String)>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tokens", self.0.len())
    }
}

impl Tokens {
    /// Reads the file; makes one with an operator's token, readable by its owner alone, if there is none.
    pub fn read_or_make(path: &Path) -> Result<Self, TokenError> {
        let fail = |problem: String| TokenError::File { path: path.to_owned(), problem };
        if !path.exists() {
            make(path).map_err(|error| fail(format!("cannot be made: {error}")))?;
        }
        Self::read(path)
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let text = read_bounded(path).map_err(|problem| TokenError::File { path: path.to_owned(), problem })?;
        let mut tokens = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || TokenError::Line { path: path.to_owned(), line: at + 1 };
            let (role, token) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
            let role = match role {
                "viewer" => Role::Viewer,
                "operator" => Role::Operator,
                _ => return Err(wrong()),
            };
            let token = token.trim();
            if token.len() < 16 || !token.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(wrong());
            }
            tokens.push((role, token.to_owned()));
        }
        Ok(Self(tokens))
    }

    /// What this token allows. Every token is compared in whole, so that time tells nothing.
    pub fn role(&self, given: &str) -> Option<Role> {
        let mut best = None;
        for (role, token) in &self.0 {
            if same(token.as_bytes(), given.as_bytes()) {
                best = best.max(Some(*role));
            }
        }
        best
    }

    /// A token that allows this, for the command line.
    pub fn any(&self, least: Role) -> Option<&str> {
        self.0.iter().find(|(role, _)| *role >= least).map(|(_, token)| token.as_str())
    }
}

fn same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

fn make(path: &Path) -> io::Result<()> {
    let mut bytes = [0; 32];
    random(&mut bytes)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "operator {}", base64url(&bytes))?;
    file.sync_all()
}

/// Whether others than the owner may read the file.
pub fn is_open_to_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("http-token");
        let tokens = Tokens::read_or_make(&path).unwrap();
        let token = tokens.any(Role::Operator).unwrap().to_owned();
        assert_eq!(token.len(), 43);
        assert!(!is_open_to_others(&path));
        assert_eq!(Tokens::read_or_make(&path).unwrap().role(&token), Some(Role::Operator));
        assert_eq!(tokens.role("nope"), None);
        assert_eq!(tokens.role(""), None);
        assert_eq!(tokens.role(&token[..42]), None);
    }

    #[test]
    fn lines_name_a_role_and_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, "# people\nviewer aaaaaaaaaaaaaaaa\n\n operator  bbbbbbbbbbbbbbbb \n").unwrap();
        let tokens = Tokens::read(&path).unwrap();
        assert_eq!(tokens.role("aaaaaaaaaaaaaaaa"), Some(Role::Viewer));
        assert_eq!(tokens.role("bbbbbbbbbbbbbbbb"), Some(Role::Operator));
        for wrong in ["root aaaaaaaaaaaaaaaa", "viewer", "viewer short", "viewer aaaaaaaaaaaaaaaaé"] {
            std::fs::write(&path, wrong).unwrap();
            let error = Tokens::read(&path).unwrap_err();
            assert!(matches!(error, TokenError::Line { line: 1, .. }), "{wrong}");
            assert!(!error.to_string().contains("aaaa"), "{error}");
        }
    }
}
