//! The way down: running, draining, gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// Where in its life the daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are taken and served.
    Running,
    /// No new connections; each one ends when nothing of it is in flight.
    Draining,
}

/// Counts what is alive, so that the way down can wait for it.
#[derive(Clone, Debug, Default)]
pub struct Alive {
    inner: Arc<AliveInner>,
}

#[derive(Debug, Default)]
struct AliveInner {
    count: AtomicUsize,
    changed: Notify,
}

/// One that is alive; it is gone when this is dropped.
#[derive(Debug)]
pub struct AliveGuard {
    inner: Arc<AliveInner>,
}

impl Alive {
    /// One more.
    #[must_use]
    pub fn enter(&self) -> AliveGuard {
        self.inner.count.fetch_add(1, Ordering::AcqRel);
        AliveGuard { inner: Arc::clone(&self.inner) }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inner.count.load(Ordering::Acquire)
    }

    /// Waits until none is left, at most `patience`; whether none is.
    pub async fn gone(&self, patience: Duration) -> bool {
        tokio::time::timeout(patience, async {
            loop {
                let changed = self.inner.changed.notified();
                if self.count() == 0 {
                    return;
                }
                changed.await;
            }
        })
        .await
        .is_ok()
    }
}

impl Drop for AliveGuard {
    fn drop(&mut self) {
        if self.inner.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.inner.changed.notify_waiters();
        }
    }
}

/// The sender's side of [`Phase`].
pub type PhaseSender = watch::Sender<Phase>;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_for_the_last_one_and_not_for_ever() {
        let alive = Alive::default();
        let one = alive.enter();
        assert!(!alive.gone(Duration::from_millis(20)).await);
        let waiting = tokio::spawn({
            let alive = alive.clone();
            async move { alive.gone(Duration::from_secs(5)).await }
        });
        tokio::task::yield_now().await;
        drop(one);
        assert!(waiting.await.unwrap());
        assert_eq!(alive.count(), 0);
    }
}
