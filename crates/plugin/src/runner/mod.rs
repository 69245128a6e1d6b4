//! Calls a plugin so that it can harm nothing but its own calls (design H3): one lane a group for mutations, a deadline,
//! a limit in flight, hung calls counted apart, panics caught, late results reported.

mod flight;
mod lanes;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::api::{Call, Failure, Stamp, TopologyPlugin, Version};
use crate::limits::MAX_WAITING;
use crate::panic_text::panic_text;
use flight::{Flight, Held, Hung, InFlight, Report, start};
use lanes::Lanes;

/// How calls are run.
#[derive(Clone)]
pub struct RunnerConfig {
    /// Deadline of one call, and of its wait before it is made; `None`: for ever.
    pub call_timeout: Option<Duration>,
    /// Calls that may be under way; `None`: no limit.
    pub max_in_flight: Option<usize>,
    /// Calls past their deadline that do not count as under way. Beyond it a hung call keeps its place in flight.
    pub max_hung: usize,
    /// Mutations of one group run one after another.
    pub lanes: bool,
    /// Told of each mutation that settles after its caller had its answer (or had gone). Called from a task, before
    /// the group's lane is free; must not block.
    pub on_late: Arc<dyn Fn(Late) + Send + Sync>,
}

impl fmt::Debug for RunnerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerConfig")
            .field("call_timeout", &self.call_timeout)
            .field("max_in_flight", &self.max_in_flight)
            .field("max_hung", &self.max_hung)
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}

impl Default for RunnerConfig {
    /// The defaults of `streamside.plugin.call.timeout.ms` and `streamside.plugin.max.in.flight`; late results go
    /// nowhere.
    fn default() -> Self {
        RunnerConfig {
            call_timeout: Some(Duration::from_millis(10_000)),
            max_in_flight: Some(64),
            max_hung: 64,
            lanes: true,
            on_late: Arc::new(|_| {}),
        }
    }
}

impl RunnerConfig {
    /// `streamside.compat=kafka`: every call just runs (design §5).
    pub fn kafka() -> Self {
        RunnerConfig {
            call_timeout: None,
            max_in_flight: None,
            max_hung: 0,
            lanes: false,
            on_late: Arc::new(|_| {}),
        }
    }
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It did its work.
    Ok(T),
    /// The plugin said no.
    Failure(Failure),
    /// No result within the deadline; the call may still be running.
    TimedOut,
    /// The plugin was not called: the group's lane, the limit in flight or the queue before them is taken.
    Busy,
    /// The plugin panicked; its text.
    Crashed(String),
}

impl<T> Outcome<T> {
    /// Changes the value of a success.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Ok(value) => Outcome::Ok(change(value)),
            Outcome::Failure(failure) => Outcome::Failure(failure),
            Outcome::TimedOut => Outcome::TimedOut,
            Outcome::Busy => Outcome::Busy,
            Outcome::Crashed(text) => Outcome::Crashed(text),
        }
    }

    /// Whether it is a success.
    pub fn is_ok(&self) -> bool {
        matches!(self, Outcome::Ok(_))
    }

    /// `ok` or the reason word (names: Reason words).
    pub fn kind(&self) -> &'static str {
        match self {
            Outcome::Ok(_) => "ok",
            Outcome::Failure(failure) => failure.kind(),
            Outcome::TimedOut => "plugin_timeout",
            Outcome::Busy => "plugin_busy",
            Outcome::Crashed(_) => "plugin_crashed",
        }
    }
}

/// The three operations of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A description is stored.
    Set,
    /// A description is read.
    Get,
    /// A group is removed.
    Delete,
}

impl Operation {
    /// Metric label and log field.
    pub fn word(self) -> &'static str {
        match self {
            Operation::Set => "set",
            Operation::Get => "get",
            Operation::Delete => "delete",
        }
    }
}

/// A mutation that settled after its caller had its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The number that the caller gave.
    pub op: u64,
    /// The group.
    pub group: Box<str>,
    /// [`Operation::Set`] or [`Operation::Delete`].
    pub operation: Operation,
    /// Topology epoch of a set.
    pub epoch: Option<i32>,
    /// Never `TimedOut` or `Busy`.
    pub result: Outcome<()>,
}

/// Figures for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunnerStats {
    /// Calls under way within their deadline (and hung ones that kept their place).
    pub in_flight: usize,
    /// Calls past their deadline, counted apart.
    pub hung: usize,
    /// Calls that wait for a lane or for the limit in flight.
    pub waiting: usize,
    /// Groups with a lane.
    pub lanes: usize,
    /// Damaged copies met since the start.
    pub corrupt_reads: u64,
}

/// Runs the calls of one plugin instance. The futures must be polled inside a tokio runtime with time enabled. A
/// caller may drop a call's future at any time: before the plugin was called nothing happens any more, after it the
/// call runs on behind its lane, and a mutation is reported as [`Late`].
pub struct Runner {
    plugin: Arc<dyn TopologyPlugin>,
    config: RunnerConfig,
    lanes: Arc<Lanes>,
    permits: Option<Arc<Semaphore>>,
    in_flight: Arc<AtomicUsize>,
    waiting_for_permit: AtomicUsize,
    hung: Arc<Hung>,
    corrupt_reads: AtomicU64,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("config", &self.config)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Runner {
    /// Runs calls of `plugin`, which has been configured.
    pub fn new(plugin: Arc<dyn TopologyPlugin>, config: RunnerConfig) -> Runner {
        let permits = |n: usize| Arc::new(Semaphore::new(n.clamp(1, Semaphore::MAX_PERMITS)));
        Runner {
            plugin,
            lanes: Arc::default(),
            permits: config.max_in_flight.map(permits),
            in_flight: Arc::default(),
            waiting_for_permit: AtomicUsize::new(0),
            hung: Arc::new(Hung {
                now: AtomicUsize::new(0),
                max: config.max_hung,
            }),
            corrupt_reads: AtomicU64::new(0),
            config,
        }
    }

    /// The plugin itself.
    pub fn plugin(&self) -> &Arc<dyn TopologyPlugin> {
        &self.plugin
    }

    /// Stores a description. `op` comes back in a [`Late`].
    pub async fn set(
        &self,
        op: u64,
        group: &str,
        epoch: i32,
        description: Bytes,
        stamp: Stamp,
    ) -> Outcome<()> {
        self.mutate(op, group, Operation::Set, Some(epoch), |plugin| {
            plugin.set(group, epoch, description, stamp)
        })
        .await
    }

    /// Removes a group. `op` comes back in a [`Late`].
    pub async fn delete(&self, op: u64, group: &str, stamp: Stamp) -> Outcome<()> {
        self.mutate(op, group, Operation::Delete, None, |plugin| {
            plugin.delete(group, stamp)
        })
        .await
    }

    /// Reads a description. A damaged copy is "nothing there", so that the group is asked again (H1); with
    /// [`RunnerConfig::kafka`] it stays a failure, as an undecodable one is in Kafka.
    pub async fn get(&self, group: &str, epoch: i32) -> Outcome<Option<Bytes>> {
        if self.config.lanes && !self.lanes.admits_read(group) {
            return Outcome::Busy;
        }
        let reader_of = self
            .config
            .lanes
            .then(|| (self.lanes.clone(), group.into()));
        let outcome = self
            .read(reader_of, |plugin| plugin.get(group, epoch))
            .await;
        if let Outcome::Failure(Failure::Corrupt { message }) = &outcome {
            self.corrupt_reads.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                group,
                epoch,
                "stored topology description is damaged: {message}"
            );
            if self.config.lanes {
                return Outcome::Ok(None);
            }
        }
        outcome
    }

    /// Every (group, epoch) that the plugin holds; `None` where it cannot list.
    pub async fn list(&self) -> Option<Outcome<Vec<(String, i32)>>> {
        self.optional(|plugin| plugin.list()).await
    }

    /// Versions of one group, newest first; `None` where the plugin keeps none.
    pub async fn history(&self, group: &str, limit: usize) -> Option<Outcome<Vec<Version>>> {
        self.optional(|plugin| plugin.history(group, limit)).await
    }

    /// Whether the plugin can work now; `None` where it cannot tell.
    pub async fn health(&self) -> Option<Outcome<()>> {
        self.optional(|plugin| plugin.health()).await
    }

    /// Bytes the store occupies; `None` where it cannot tell.
    pub fn size_bytes(&self) -> Option<u64> {
        catch_unwind(AssertUnwindSafe(|| self.plugin.size_bytes()))
            .ok()
            .flatten()
    }

    /// Closes the plugin, once its calls have settled or were given up. May block.
    pub fn close(&self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.plugin.close())) {
            tracing::error!(
                "the topology description plugin panicked while it was closed: {}",
                panic_text(panic)
            );
        }
    }

    /// Figures for metrics.
    pub fn stats(&self) -> RunnerStats {
        RunnerStats {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            hung: self.hung.now.load(Ordering::Relaxed),
            waiting: self.lanes.waiting() + self.waiting_for_permit.load(Ordering::Relaxed),
            lanes: self.lanes.len(),
            corrupt_reads: self.corrupt_reads.load(Ordering::Relaxed),
        }
    }

    async fn mutate(
        &self,
        op: u64,
        group: &str,
        operation: Operation,
        epoch: Option<i32>,
        make: impl FnOnce(&dyn TopologyPlugin) -> Call<()>,
    ) -> Outcome<()> {
        let patience = self.deadline();
        let lane = if self.config.lanes {
            let Some(lane) = self.lanes.enter(group, operation, patience).await else {
                return Outcome::Busy;
            };
            Some(lane)
        } else {
            None
        };
        let Ok(permit) = self.permit(patience).await else {
            return Outcome::Busy;
        };
        let report = Report {
            op,
            group: group.into(),
            operation,
            epoch,
            tell: self.config.on_late.clone(),
        };
        let held = Held {
            lane,
            ..self.held(permit, None)
        };
        self.fly(held, Some(report), make).await
    }

    async fn read<T: Send + 'static>(
        &self,
        reader_of: Option<(Arc<Lanes>, Box<str>)>,
        make: impl FnOnce(&dyn TopologyPlugin) -> Call<T>,
    ) -> Outcome<T> {
        let Ok(permit) = self.permit(self.deadline()).await else {
            return Outcome::Busy;
        };
        self.fly(self.held(permit, reader_of), None, make).await
    }

    async fn optional<T: Send + 'static>(
        &self,
        make: impl FnOnce(&dyn TopologyPlugin) -> Option<Call<T>>,
    ) -> Option<Outcome<T>> {
        let Ok(permit) = self.permit(self.deadline()).await else {
            return Some(Outcome::Busy);
        };
        let call = match catch_unwind(AssertUnwindSafe(|| make(&*self.plugin))) {
            Ok(call) => call?,
            Err(panic) => return Some(Outcome::Crashed(panic_text(panic))),
        };
        Some(self.fly(self.held(permit, None), None, |_| call).await)
    }

    async fn fly<T: Send + 'static>(
        &self,
        held: Held,
        report: Option<Report>,
        make: impl FnOnce(&dyn TopologyPlugin) -> Call<T>,
    ) -> Outcome<T> {
        let deadline = self.deadline();
        match start(|| make(&*self.plugin)) {
            Ok(call) => Flight::new(call, held, report, deadline).land().await,
            Err(text) => Outcome::Crashed(text),
        }
    }

    fn held(
        &self,
        permit: Option<OwnedSemaphorePermit>,
        reader_of: Option<(Arc<Lanes>, Box<str>)>,
    ) -> Held {
        Held {
            lane: None,
            in_flight: Some(InFlight::enter(&self.in_flight, permit)),
            hung: self.hung.clone(),
            reader_of,
            hung_place: None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.config
            .call_timeout
            .map(|timeout| Instant::now() + timeout)
    }

    /// A place in flight, waited for until `patience` ends. `Ok(None)`: there is no limit.
    async fn permit(&self, patience: Option<Instant>) -> Result<Option<OwnedSemaphorePermit>, ()> {
        let Some(permits) = &self.permits else {
            return Ok(None);
        };
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return Ok(Some(permit));
        }
        let _place = Waiting::enter(&self.waiting_for_permit).ok_or(())?;
        let acquire = permits.clone().acquire_owned();
        let acquired = match patience {
            None => acquire.await,
            Some(at) => tokio::time::timeout_at(at, acquire).await.map_err(|_| ())?,
        };
        acquired.map(Some).map_err(|_| ())
    }
}

/// Counts one who waits for a place in flight.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Option<Waiting<'a>> {
        let place = Waiting(count);
        (count.fetch_add(1, Ordering::Relaxed) < MAX_WAITING).then_some(place)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
