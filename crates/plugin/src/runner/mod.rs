//! Calls a plugin so that it can harm nothing but its own calls (H3): one lane a group for mutations, a deadline,
//! a limit in flight, hung calls counted apart, panics caught, late results reported.

mod flight;
mod lanes;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::api::{Call, Failure, Stamp, TopologyPlugin, Version};
use crate::fence::Fence;
use crate::limits::MAX_WAITING;
use crate::panic_text::panic_text;
use flight::{Flight, Held, Hung, InFlight, Report, start};
use lanes::{Entry, Lanes};

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
    /// `streamside.compat=kafka`: every call just runs (docs/differences.md).
    pub fn kafka() -> Self {
        RunnerConfig { call_timeout: None, max_in_flight: None, max_hung: 0, lanes: false, on_late: Arc::new(|_| {}) }
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

    /// `ok` or the reason word (docs/stability.md).
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
/// call runs on behind its lane, and a mutation is reported as [`Late`]. Whoever starts a mutation must poll its future:
/// it holds its group's lane, and its deadline is only seen by polling.
pub struct Runner {
    core: Arc<Core>,
}

struct Core {
    plugin: Arc<dyn TopologyPlugin>,
    config: RunnerConfig,
    lanes: Arc<Lanes>,
    /// The newest mutation that each group's plugin has confirmed.
    fence: Arc<Mutex<Fence>>,
    permits: Option<Arc<Semaphore>>,
    in_flight: Arc<AtomicUsize>,
    waiting_for_permit: AtomicUsize,
    hung: Arc<Hung>,
    corrupt_reads: AtomicU64,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("config", &self.core.config)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Runner {
    /// Runs calls of `plugin`, which has been configured.
    pub fn new(plugin: Arc<dyn TopologyPlugin>, config: RunnerConfig) -> Runner {
        let permits = |n: usize| Arc::new(Semaphore::new(n.clamp(1, Semaphore::MAX_PERMITS)));
        let core = Core {
            plugin,
            lanes: Arc::default(),
            fence: Arc::default(),
            permits: config.max_in_flight.map(permits),
            in_flight: Arc::default(),
            waiting_for_permit: AtomicUsize::new(0),
            hung: Arc::new(Hung { now: AtomicUsize::new(0), max: config.max_hung }),
            corrupt_reads: AtomicU64::new(0),
            config,
        };
        Runner { core: Arc::new(core) }
    }

    /// The plugin itself.
    pub fn plugin(&self) -> &Arc<dyn TopologyPlugin> {
        &self.core.plugin
    }

    /// Stores a description. `op` comes back in a [`Late`]. The place in the group's lane is taken by the call, not by
    /// the first poll, so the order of the calls is the order of the mutations. One that is called after a mutation
    /// with a larger [`Stamp::sequence`] has succeeded is as if it had come before that: a success without a call.
    pub fn set(
        &self,
        op: u64,
        group: &str,
        epoch: i32,
        description: Bytes,
        stamp: Stamp,
    ) -> impl Future<Output = Outcome<()>> + Send + use<> {
        let call = Mutation { op, group: group.into(), stamp, change: Change::Set { epoch, description } };
        self.mutate(call)
    }

    /// Removes a group. `op` comes back in a [`Late`]. As with a set, the call takes the place in the lane.
    pub fn delete(&self, op: u64, group: &str, stamp: Stamp) -> impl Future<Output = Outcome<()>> + Send + use<> {
        let call = Mutation { op, group: group.into(), stamp, change: Change::Delete };
        self.mutate(call)
    }

    /// Reads a description. A damaged copy is "nothing there", so that the group is asked again (H1); with
    /// [`RunnerConfig::kafka`] it stays a failure, as an undecodable one is in Kafka.
    pub async fn get(&self, group: &str, epoch: i32) -> Outcome<Option<Bytes>> {
        let core = &*self.core;
        if core.config.lanes && !core.lanes.admits_read(group) {
            return Outcome::Busy;
        }
        let Ok(permit) = core.permit(core.deadline()).await else {
            return Outcome::Busy;
        };
        let mut held = core.held(permit);
        held.reader_of = core.config.lanes.then(|| (core.lanes.clone(), group.into()));
        let call = start(|| core.plugin.get(group, epoch));
        let outcome = core.fly(call, held, None).await;
        if let Outcome::Failure(Failure::Corrupt { message }) = &outcome {
            core.corrupt_reads.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(group, epoch, "stored topology description is damaged: {message}");
            if core.config.lanes {
                return Outcome::Ok(None);
            }
        }
        outcome
    }

    /// Every (group, epoch) that the plugin holds; `None` where it cannot list.
    pub async fn list(&self) -> Option<Outcome<Vec<(String, i32)>>> {
        self.core.optional(|plugin| plugin.list()).await
    }

    /// Versions of one group, newest first; `None` where the plugin keeps none.
    pub async fn history(&self, group: &str, limit: usize) -> Option<Outcome<Vec<Version>>> {
        self.core.optional(|plugin| plugin.history(group, limit)).await
    }

    /// Whether the plugin can work now; `None` where it cannot tell.
    pub async fn health(&self) -> Option<Outcome<()>> {
        self.core.optional(|plugin| plugin.health()).await
    }

    /// Bytes the store occupies; `None` where it cannot tell.
    pub fn size_bytes(&self) -> Option<u64> {
        catch_unwind(AssertUnwindSafe(|| self.core.plugin.size_bytes())).ok().flatten()
    }

    /// Closes the plugin, once its calls have settled or were given up. May block.
    pub fn close(&self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.core.plugin.close())) {
            let text = panic_text(panic);
            tracing::error!("the topology description plugin panicked while it was closed: {text}");
        }
    }

    /// Figures for metrics.
    pub fn stats(&self) -> RunnerStats {
        let core = &*self.core;
        RunnerStats {
            in_flight: core.in_flight.load(Ordering::Relaxed),
            hung: core.hung.now.load(Ordering::Relaxed),
            waiting: core.lanes.waiting() + core.waiting_for_permit.load(Ordering::Relaxed),
            lanes: core.lanes.len(),
            corrupt_reads: core.corrupt_reads.load(Ordering::Relaxed),
        }
    }

    fn mutate(&self, call: Mutation) -> impl Future<Output = Outcome<()>> + Send + use<> {
        let core = self.core.clone();
        // Without lanes and limits nothing is waited for: the plugin is called here and now.
        let way = if core.config.lanes {
            Way::Lane(core.lanes.enter(&call.group, call.operation()))
        } else if core.permits.is_some() {
            Way::Free
        } else {
            Way::Started(call.start(&core))
        };
        let patience = core.deadline();
        async move {
            let (lane, started) = match way {
                Way::Lane(entry) => match entry.wait(patience).await {
                    Some(lane) => (Some(lane), None),
                    None => return Outcome::Busy,
                },
                Way::Free => (None, None),
                Way::Started(started) => (None, Some(started)),
            };
            let Ok(permit) = core.permit(patience).await else {
                return Outcome::Busy;
            };
            let mut held = core.held(permit);
            held.lane = lane;
            let report = call.report(&core);
            if report.is_late() {
                return Outcome::Ok(());
            }
            let started = started.unwrap_or_else(|| call.start(&core));
            core.fly(started, held, Some(report)).await
        }
    }
}

/// How a mutation gets to the plugin.
enum Way {
    Lane(Entry),
    Free,
    Started(Result<Call<()>, String>),
}

struct Mutation {
    op: u64,
    group: Box<str>,
    stamp: Stamp,
    change: Change,
}

enum Change {
    Set { epoch: i32, description: Bytes },
    Delete,
}

impl Mutation {
    fn operation(&self) -> Operation {
        match self.change {
            Change::Set { .. } => Operation::Set,
            Change::Delete => Operation::Delete,
        }
    }

    fn start(&self, core: &Core) -> Result<Call<()>, String> {
        start(|| match &self.change {
            Change::Set { epoch, description } => core.plugin.set(&self.group, *epoch, description.clone(), self.stamp),
            Change::Delete => core.plugin.delete(&self.group, self.stamp),
        })
    }

    fn report(&self, core: &Core) -> Report {
        Report {
            op: self.op,
            group: self.group.clone(),
            operation: self.operation(),
            epoch: match self.change {
                Change::Set { epoch, .. } => Some(epoch),
                Change::Delete => None,
            },
            stamp: self.stamp,
            fence: core.config.lanes.then(|| core.fence.clone()),
            tell: core.config.on_late.clone(),
        }
    }
}

impl Core {
    async fn optional<T: Send + 'static>(
        &self,
        make: impl FnOnce(&dyn TopologyPlugin) -> Option<Call<T>>,
    ) -> Option<Outcome<T>> {
        let Ok(permit) = self.permit(self.deadline()).await else {
            return Some(Outcome::Busy);
        };
        let call = match catch_unwind(AssertUnwindSafe(|| make(&*self.plugin))) {
            Ok(call) => Ok(call?),
            Err(panic) => Err(panic_text(panic)),
        };
        Some(self.fly(call, self.held(permit), None).await)
    }

    async fn fly<T: Send + 'static>(
        &self,
        started: Result<Call<T>, String>,
        held: Held,
        report: Option<Report>,
    ) -> Outcome<T> {
        match started {
            Ok(call) => Flight::new(call, held, report, self.deadline()).land().await,
            Err(text) => Outcome::Crashed(text),
        }
    }

    fn held(&self, permit: Option<OwnedSemaphorePermit>) -> Held {
        Held {
            lane: None,
            in_flight: Some(InFlight::enter(&self.in_flight, permit)),
            hung: self.hung.clone(),
            reader_of: None,
            hung_place: None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.config.call_timeout.map(|timeout| Instant::now() + timeout)
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
