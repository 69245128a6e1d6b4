//! Whether the cluster behind us can be reached: told once when it changes, asked by `/readyz` and `/metrics`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::metrics::Metrics;

/// So many changes are told in a minute; an upstream that comes and goes does not fill the log.
const TOLD_A_MINUTE: u32 = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has asked yet.
    Unknown,
    Up,
    Down {
        reason: String,
        since: Instant,
        /// It stands in the log.
        told: bool,
    },
}

/// How often something was told in this minute.
#[derive(Debug)]
struct Told {
    minute: Instant,
    times: u32,
}

impl Told {
    fn again(&mut self) -> bool {
        if self.minute.elapsed() >= Duration::from_secs(60) {
            *self = Self { minute: Instant::now(), times: 0 };
        }
        self.times += 1;
        self.times <= TOLD_A_MINUTE
    }
}

/// What is known about the upstream.
#[derive(Debug)]
pub struct Health {
    state: Mutex<State>,
    told: Mutex<Told>,
    /// It has answered once in this process's life. Before that no client is carried on, so that an upstream that leads
    /// back to us in a way that cannot be seen never makes one connection into a chain of them.
    ever_up: AtomicBool,
    /// A question of ours came in at our own listener.
    loops: AtomicBool,
    /// Questions of ours that have a verdict.
    verdicts: watch::Sender<u64>,
    /// Wakes whoever asks the upstream from time to time.
    doubt: Notify,
    metrics: Arc<Metrics>,
}

/// What becomes of clients while the upstream is away.
const CLOSED: &str = "it is tried again, and clients that come meanwhile are closed";

impl Health {
    /// Nothing is known.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        metrics.upstream_up(false);
        Self {
            state: Mutex::new(State::Unknown),
            told: Mutex::new(Told { minute: Instant::now(), times: 0 }),
            ever_up: AtomicBool::new(false),
            loops: AtomicBool::new(false),
            verdicts: watch::Sender::new(0),
            doubt: Notify::new(),
            metrics,
        }
    }

    /// A question of ours was answered.
    pub fn up(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Up);
        self.metrics.upstream_up(true);
        match before {
            State::Up => {}
            State::Unknown => tracing::info!("the upstream answers"),
            State::Down { told: false, .. } => {}
            State::Down { since, .. } => {
                tracing::info!(after_seconds = since.elapsed().as_secs(), "the upstream answers again");
            }
        }
        self.ever_up.store(true, Ordering::Release);
        self.verdicts.send_modify(|n| *n += 1);
    }

    /// It said who it is.
    pub fn cluster_is(&self, id: &str) {
        self.metrics.cluster_is(id);
    }

    /// A question of ours was not answered; `reason` is a sentence that says what to do.
    pub fn down(&self, reason: &str) {
        if self.loops.swap(false, Ordering::AcqRel) {
            self.note("upstream: leads back to this process; set streamside.upstream to the cluster behind it", CLOSED);
        } else {
            self.note(reason, CLOSED);
        }
        self.verdicts.send_modify(|n| *n += 1);
    }

    /// It answered a question of ours, and not as we need it: our login was refused. Clients have their own.
    pub fn refused(&self, reason: &str) {
        self.note(reason, "it is tried again, and clients are carried on meanwhile");
        self.metrics.upstream_up(true);
        self.ever_up.store(true, Ordering::Release);
        self.verdicts.send_modify(|n| *n += 1);
    }

    /// A client could not be carried on; the upstream is asked soon.
    pub fn met_failure(&self, reason: &str) {
        self.note(reason, CLOSED);
        self.doubt.notify_one();
    }

    /// One node could not be reached: the cluster is asked soon where it is now.
    pub fn met_silent_node(&self) {
        self.doubt.notify_one();
    }

    /// A question of ours came in at our own listener.
    pub fn met_ourselves(&self) {
        self.loops.store(true, Ordering::Release);
    }

    fn note(&self, reason: &str, meanwhile: &str) {
        let mut state = self.state();
        let since = match &*state {
            State::Down { reason: known, .. } if known == reason => return,
            State::Down { since, .. } => *since,
            _ => Instant::now(),
        };
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).again();
        *state = State::Down { reason: reason.to_owned(), since, told };
        drop(state);
        self.metrics.upstream_up(false);
        if told {
            tracing::error!("{reason}; {meanwhile}");
        }
    }

    /// Whether the upstream has answered once in this process's life.
    #[must_use]
    pub fn ever_up(&self) -> bool {
        self.ever_up.load(Ordering::Acquire)
    }

    /// Whether a client may be carried on: at once when the upstream has ever answered, else after the next question of
    /// ours.
    pub async fn admits(&self) -> bool {
        let mut verdicts = self.verdicts.subscribe();
        if self.ever_up() {
            return true;
        }
        self.doubt.notify_one();
        let _ = verdicts.changed().await;
        self.ever_up()
    }

    /// Why it cannot be reached; `None`: it can, or nobody has asked yet.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match &*self.state() {
            State::Down { reason, .. } => Some(reason.clone()),
            State::Unknown | State::Up => None,
        }
    }

    /// Ready when a client met a failure since the last call.
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
    async fn a_refused_login_of_ours_keeps_no_client_out() {
        let health = Health::new(Arc::new(Metrics::new("beside", None, "c")));
        health.down("upstream kafka:9092: closed");
        assert!(!health.ever_up());
        health.refused("upstream kafka:9092: the login was refused");
        assert!(health.admits().await);
        assert_eq!(health.trouble().as_deref(), Some("upstream kafka:9092: the login was refused"));
        health.up();
        assert_eq!(health.trouble(), None);
    }

    #[tokio::test]
    async fn trouble_comes_and_goes_with_the_answers() {
        let metrics = Arc::new(Metrics::new("beside", None, "c"));
        let health = Health::new(Arc::clone(&metrics));
        let figure = || metrics.text().lines().find(|l| l.starts_with("streamside_upstream_up ")).map(str::to_owned);
        assert_eq!((health.trouble(), figure().as_deref()), (None, Some("streamside_upstream_up 0.0")));
        health.up();
        assert_eq!((health.trouble(), figure().as_deref()), (None, Some("streamside_upstream_up 1.0")));
        health.met_failure("upstream kafka:9092: refused");
        assert_eq!(health.trouble().as_deref(), Some("upstream kafka:9092: refused"));
        assert_eq!(figure().as_deref(), Some("streamside_upstream_up 0.0"));
        tokio::time::timeout(std::time::Duration::from_secs(5), health.doubted()).await.unwrap();
        health.up();
        assert_eq!(health.trouble(), None);
    }

    #[tokio::test]
    async fn nobody_is_carried_on_before_the_first_answer() {
        let health = Arc::new(Health::new(Arc::new(Metrics::new("beside", None, "c"))));
        let waiting = |health: &Arc<Health>| {
            let health = Arc::clone(health);
            tokio::spawn(async move { health.admits().await })
        };
        let first = waiting(&health);
        health.doubted().await;
        health.met_ourselves();
        health.down("upstream kafka:9092: closed");
        assert!(!first.await.unwrap());
        assert!(health.trouble().unwrap().contains("leads back to this process"));
        let second = waiting(&health);
        health.doubted().await;
        health.up();
        assert!(second.await.unwrap() && health.admits().await);
        health.down("upstream kafka:9092: closed");
        assert!(health.admits().await, "it may be back");
    }
}
