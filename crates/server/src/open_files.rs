//! The limit of open files: each connection is one.

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's soft limit to its hard limit, as a shell's default of 1,024 is for people, not for servers.
/// Gives the limit that holds; `None`: there is none.
#[cfg(unix)]
pub fn raise() -> Option<u64> {
    let now = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum }) {
        Ok(()) => now.maximum,
        Err(_) => now.current,
    }
}

/// Nothing to raise here.
#[cfg(not(unix))]
pub fn raise() -> Option<u64> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise();
        assert_eq!(getrlimit(Resource::Nofile).current, limit);
    }
}
