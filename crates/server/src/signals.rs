//! Signals: the first SIGTERM or SIGINT asks for an orderly end, the second for an end at once; SIGHUP for a re-read.

use std::io;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// SIGTERM or SIGINT.
    End,
    /// SIGHUP.
    Reload,
}

/// Signals of this process, held from [`Signals::install`] on. Must be made inside a tokio runtime.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
    /// A file-size limit is met: the write fails and is handled where it was made, like a full disk.
    #[cfg(unix)]
    _file_size: tokio::signal::unix::Signal,
}

/// SIGXFSZ, which would end the process.
#[cfg(unix)]
const FILE_SIZE_EXCEEDED: i32 = 25;

impl Signals {
    /// From now on signals no longer end the process by themselves.
    #[cfg(unix)]
    pub fn install() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(FILE_SIZE_EXCEEDED))?,
        })
    }

    /// The next signal. Safe to drop while it waits.
    #[cfg(unix)]
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// From now on Ctrl-C no longer ends the process by itself.
    #[cfg(not(unix))]
    pub fn install() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next Ctrl-C.
    #[cfg(not(unix))]
    pub async fn next(&mut self) -> Asked {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Asked::End
    }
}
