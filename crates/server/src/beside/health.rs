//! Whether the cluster behind us can be reached: told once when it changes, asked by `/readyz` and `/metrics`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::metrics::Metrics;

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has asked yet.
    Unknown,
    Up,
    Down {
        reason: String,
        since: Instant,
    },
}

/// What is known about the upstream.
#[derive(Debug)]
pub struct Health {
    state: Mutex<State>,
    /// Wakes whoever asks the upstream from time to time.
    doubt: Notify,
    metrics: Arc<Metrics>,
}

impl Health {
    /// Nothing is known.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        metrics.upstream_up(false);
        Self { state: Mutex::new(State::Unknown), doubt: Notify::new(), metrics }
    }

    /// It answered.
    pub fn up(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Up);
        self.metrics.upstream_up(true);
        match before {
            State::Up => {}
            State::Unknown => tracing::info!("the upstream answers"),
            State::Down { since, .. } => {
                tracing::info!(after_seconds = since.elapsed().as_secs(), "the upstream answers again");
            }
        }
    }

    /// It did not; `reason` is a sentence that says what to do.
    pub fn down(&self, reason: &str) {
        let mut state = self.state();
        let since = match &*state {
            State::Down { reason: known, since } if known == reason => return,
            State::Down { since, .. } => *since,
            _ => Instant::now(),
        };
        *state = State::Down { reason: reason.to_owned(), since };
        drop(state);
        self.metrics.upstream_up(false);
        tracing::error!("{reason}; clients are closed until it answers, and it is tried again");
        self.doubt.notify_one();
    }

    /// Why it cannot be reached; `None`: it can, or nobody has asked yet.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match &*self.state() {
            State::Down { reason, .. } => Some(reason.clone()),
            State::Unknown | State::Up => None,
        }
    }

    /// Ready when someone met a failure since the last call.
    pub async fn doubted(&self) {
        self.doubt.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn trouble_comes_and_goes_with_the_answers() {
        let metrics = Arc::new(Metrics::new("beside", None, "c"));
        let health = Health::new(Arc::clone(&metrics));
        let figure = || metrics.text().lines().find(|l| l.starts_with("streamside_upstream_up ")).map(str::to_owned);
        assert_eq!((health.trouble(), figure().as_deref()), (None, Some("streamside_upstream_up 0.0")));
        health.up();
        assert_eq!((health.trouble(), figure().as_deref()), (None, Some("streamside_upstream_up 1.0")));
        health.down("upstream kafka:9092: refused");
        assert_eq!(health.trouble().as_deref(), Some("upstream kafka:9092: refused"));
        assert_eq!(figure().as_deref(), Some("streamside_upstream_up 0.0"));
        tokio::time::timeout(std::time::Duration::from_secs(5), health.doubted()).await.unwrap();
        health.up();
        assert_eq!(health.trouble(), None);
    }
}
