//! What every connection of the process shares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::config::{Effective, Settings};
use crate::metrics::Metrics;

use super::operations::Operations;
use super::shards::SharedShards;

/// "For ever" for timers that a setting switches off.
pub const NEVER: Duration = Duration::from_secs(31_536_000);

/// How this node presents itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The only broker's id.
    pub node_id: i32,
    /// The cluster's id, kept in the data folder.
    pub cluster_id: String,
    /// Host that clients are told.
    pub host: String,
    /// Port that clients are told.
    pub port: u16,
}

/// Settings that may change while running, read on the hot path.
#[derive(Debug)]
pub struct Tunables {
    idle_ms: AtomicU64,
    frame_timeout_ms: AtomicU64,
    max_connections: AtomicUsize,
    max_connections_per_ip: AtomicUsize,
}

impl Tunables {
    /// `connections.max.idle.ms`, `streamside.frame.timeout.ms`, `max.connections`, `max.connections.per.ip`.
    #[must_use]
    pub fn new(idle: Duration, frame_timeout: Duration, max_connections: usize, max_connections_per_ip: usize) -> Self {
        let tunables = Self {
            idle_ms: 0.into(),
            frame_timeout_ms: 0.into(),
            max_connections: 0.into(),
            max_connections_per_ip: 0.into(),
        };
        tunables.set(idle, frame_timeout, max_connections, max_connections_per_ip);
        tunables
    }

    /// As configured.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let tunables = Self::new(NEVER, NEVER, 0, 0);
        tunables.take(settings);
        tunables
    }

    /// Takes what is configured now.
    pub fn take(&self, settings: &Settings) {
        self.set(
            settings.connections_max_idle.unwrap_or(NEVER),
            settings.frame_timeout,
            settings.max_connections,
            settings.max_connections_per_ip,
        );
    }

    /// Takes new values; connections see them at their next timer.
    pub fn set(&self, idle: Duration, frame_timeout: Duration, max_connections: usize, max_connections_per_ip: usize) {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        self.idle_ms.store(ms(idle), Ordering::Relaxed);
        self.frame_timeout_ms.store(ms(frame_timeout), Ordering::Relaxed);
        self.max_connections.store(max_connections, Ordering::Relaxed);
        self.max_connections_per_ip.store(max_connections_per_ip, Ordering::Relaxed);
    }

    /// How long a connection may be silent; at most a year.
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms.load(Ordering::Relaxed)).min(NEVER)
    }

    /// How long a request may take to arrive once begun.
    #[must_use]
    pub fn frame_timeout(&self) -> Duration {
        Duration::from_millis(self.frame_timeout_ms.load(Ordering::Relaxed)).min(NEVER)
    }

    /// Connections in all.
    #[must_use]
    pub fn max_connections(&self) -> usize {
        self.max_connections.load(Ordering::Relaxed)
    }

    /// Connections from one address.
    #[must_use]
    pub fn max_connections_per_ip(&self) -> usize {
        self.max_connections_per_ip.load(Ordering::Relaxed)
    }
}

/// Lets through so many warnings a second that a client may cause, and counts the rest.
#[derive(Debug)]
pub struct NoiseGate {
    began: Instant,
    second: AtomicU64,
    let_through: AtomicU32,
    held_back: AtomicU64,
}

/// Warnings a second that hostile or broken clients may write into the log.
const WARNINGS_PER_SECOND: u32 = 50;

impl NoiseGate {
    /// An open gate.
    #[must_use]
    pub fn new() -> Self {
        Self { began: Instant::now(), second: 0.into(), let_through: 0.into(), held_back: 0.into() }
    }

    /// Runs `log` unless this second had its share.
    pub fn warn(&self, log: impl FnOnce()) {
        let second = self.began.elapsed().as_secs();
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.let_through.store(0, Ordering::Relaxed);
            let held_back = self.held_back.swap(0, Ordering::Relaxed);
            if held_back > 0 {
                tracing::warn!(held_back, "further warnings about clients were not written, to keep the log readable");
            }
        }
        if self.let_through.fetch_add(1, Ordering::Relaxed) < WARNINGS_PER_SECOND {
            log();
        } else {
            self.held_back.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Default for NoiseGate {
    fn default() -> Self {
        Self::new()
    }
}

/// Shared by all connections.
pub struct Context {
    /// How this node presents itself.
    pub identity: Identity,
    /// The coordinator.
    pub shards: SharedShards,
    /// Pushes, describes, deletes: what takes several steps.
    pub operations: Arc<Operations>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What may change while running.
    pub tunables: Arc<Tunables>,
    /// `socket.request.max.bytes`.
    pub max_frame: usize,
    /// Every key with its value and origin, for DescribeConfigs; replaced at a reload.
    pub effective: RwLock<Arc<Vec<Effective>>>,
    /// `streamside.topics`: name to number of partitions.
    pub topics: BTreeMap<String, i32>,
    /// Received bytes of unfinished frames and of large ones that wait for their turn, all connections together.
    pub partial_bytes: Arc<AtomicUsize>,
    /// Bytes of answers that clients have not taken yet, all connections together.
    pub unsent_bytes: Arc<AtomicUsize>,
    /// Lets through so many large requests at once.
    pub large: Arc<Semaphore>,
    /// Keeps clients from flooding the log.
    pub noise: Arc<NoiseGate>,
}

/// One holder's part of a number of bytes that all hold together; given back when this is dropped.
#[derive(Debug)]
pub struct HeldBytes {
    all: Arc<AtomicUsize>,
    mine: usize,
}

impl HeldBytes {
    /// Holds `mine` bytes of `all`.
    #[must_use]
    pub fn new(all: &Arc<AtomicUsize>, mine: usize) -> Self {
        all.fetch_add(mine, Ordering::Relaxed);
        Self { all: Arc::clone(all), mine }
    }

    /// How many are held by this one.
    #[must_use]
    pub fn mine(&self) -> usize {
        self.mine
    }

    /// Holds `now` bytes from now on. How many all held before.
    pub fn set(&mut self, now: usize) -> usize {
        self.all.fetch_add(now, Ordering::Relaxed);
        let before = self.all.fetch_sub(self.mine, Ordering::Relaxed);
        self.mine = now;
        before.saturating_sub(now)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.mine, Ordering::Relaxed);
    }
}

impl Context {
    /// Every key with its value and origin.
    pub fn effective(&self) -> Arc<Vec<Effective>> {
        Arc::clone(&self.effective.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_gate_lets_through_its_share_and_counts_the_rest() {
        let gate = NoiseGate::new();
        let mut written = 0;
        for _ in 0..200 {
            gate.warn(|| written += 1);
        }
        assert!((50..=100).contains(&written), "two seconds' share at most, got {written}");
        assert!(gate.held_back.load(Ordering::Relaxed) >= 100);
    }
}
