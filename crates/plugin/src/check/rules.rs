//! The rules and how each is tried.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use streamside_topology::Description;

use super::{Options, Report, Rule, Verdict, samples};
use crate::api::{Stamp, TopologyPlugin, Version};
use crate::error::PluginError;
use crate::panic_text::panic_text;
use crate::runner::{Outcome, Runner, RunnerConfig};

const IDEMPOTENT: Rule = Rule {
    name: "idempotent-set",
    why: "setting the same description again must succeed and change nothing: clients repeat a push whose answer was lost",
};
const NEWEST: Rule = Rule {
    name: "newest-set-wins",
    why: "the set that came last is what a get returns, also at the same or a smaller epoch: clients always send epoch 0, so an older copy would be served for ever",
};
const DELETE_ALL: Rule = Rule {
    name: "delete-removes-all-epochs",
    why: "a delete must remove every epoch of the group: a new application of the same name would be shown the old one's topology",
};
const FOREIGN: Rule = Rule {
    name: "null-for-foreign-epoch",
    why: "a get of an epoch that was never set must find nothing: else a group is shown a topology that it does not run",
};
const UNKNOWN: Rule = Rule {
    name: "delete-of-unknown-succeeds",
    why: "deleting a group that is not there must succeed: deletes are repeated until they do, and the group can't be deleted before",
};
const EXACT: Rule = Rule {
    name: "order-and-names-kept",
    why: "subtopologies, nodes and names must come back as they were sent, odd ones too: order carries the numbering of tasks, names are what users search for",
};
const GROUP_IDS: Rule = Rule {
    name: "group-ids-kept-apart",
    why: "a group id is any string and two ids are the same only byte by byte: else one application is shown or deletes another's topology",
};
const NODES: Rule = Rule {
    name: "5000-nodes",
    why: "a description of 5,000 nodes must be stored: that is the default limit of what is accepted from clients",
};
const MEGABYTE: Rule = Rule {
    name: "one-megabyte",
    why: "a description of 1 MB must be stored: that is the default limit of what is accepted from clients",
};
const GROUPS: Rule = Rule {
    name: "concurrent-groups",
    why: "sets of many groups at the same time must all be kept: after a restart of a cluster all applications push at once",
};
const ONE_GROUP: Rule = Rule {
    name: "concurrent-sets-of-one-group",
    why: "a get during sets of the same group must return one of them in whole or nothing: a mixture does not decode and the group shows an error",
};
const LIST: Rule = Rule {
    name: "list-is-complete",
    why: "a list must hold what was set and not what was deleted: it decides which groups are asked for their description again",
};
const HISTORY: Rule = Rule {
    name: "history-newest-first",
    why: "history must hold the versions that were set, newest first, with epoch, time and hash: a diff would compare the wrong ones",
};
const RESTART: Rule = Rule {
    name: "survives-restart",
    why: "a durable store must hold after a restart what it held before: until some member pushes again, the group shows nothing",
};
const AT_ONCE: Rule = Rule {
    name: "returns-at-once",
    why: "a call must hand back its future without doing the work first: it is made on a thread that serves other connections",
};
const CLOSE: Rule = Rule {
    name: "close-twice",
    why: "close must be harmless when it is called again: a shutdown that is interrupted calls it twice",
};

/// All rules, in the order in which they are tried.
pub const RULES: [Rule; 16] = [
    IDEMPOTENT, NEWEST, DELETE_ALL, FOREIGN, UNKNOWN, EXACT, GROUP_IDS, NODES, MEGABYTE, GROUPS, ONE_GROUP, LIST,
    HISTORY, AT_ONCE, RESTART, CLOSE,
];

/// Sets that run at the same time.
const CONCURRENT: usize = 64;
/// The fastest of some tries must return within this; the fastest, since the machine may be busy.
const AT_ONCE_LIMIT: Duration = Duration::from_millis(20);
const AT_ONCE_TRIES: usize = 5;

type Tried = Result<(), String>;

struct Bench<'a> {
    runner: Runner,
    options: &'a Options,
}

pub(super) async fn run(make: &impl Fn() -> Result<Arc<dyn TopologyPlugin>, PluginError>, options: &Options) -> Report {
    let mut bench = match Bench::open(make, options) {
        Ok(bench) => bench,
        Err(e) => {
            let seen = format!("the store can't be opened: {e}");
            let verdicts = RULES.iter().map(|rule| (*rule, Verdict::Failed(seen.clone())));
            return Report { verdicts: verdicts.collect() };
        }
    };
    let mut verdicts = Vec::with_capacity(RULES.len());
    for rule in RULES {
        let verdict = match rule {
            RESTART if !options.durable => Verdict::Skipped("the store does not claim to be durable"),
            RESTART => match bench.before_restart(rule).await {
                Err(seen) => Verdict::Failed(seen),
                Ok(()) => {
                    bench.runner.close();
                    match Bench::open(make, options) {
                        Err(e) => Verdict::Failed(format!("the store can't be opened again: {e}")),
                        Ok(again) => {
                            bench = again;
                            verdict(bench.after_restart(rule).await)
                        }
                    }
                }
            },
            LIST => bench.list(rule).await,
            HISTORY => bench.history(rule).await,
            IDEMPOTENT => verdict(bench.idempotent(rule).await),
            NEWEST => verdict(bench.newest(rule).await),
            DELETE_ALL => verdict(bench.delete_all(rule).await),
            FOREIGN => verdict(bench.foreign(rule).await),
            UNKNOWN => verdict(bench.unknown(rule).await),
            EXACT => verdict(bench.keeps(rule, samples::odd()).await),
            GROUP_IDS => verdict(bench.group_ids(rule).await),
            NODES => verdict(bench.keeps(rule, samples::nodes(5_000)).await),
            MEGABYTE => verdict(bench.keeps(rule, samples::bytes(1 << 20)).await),
            GROUPS => verdict(bench.groups(rule).await),
            ONE_GROUP => verdict(bench.one_group(rule).await),
            AT_ONCE => verdict(bench.at_once(rule).await),
            _ => verdict(bench.close_twice()),
        };
        verdicts.push((rule, verdict));
    }
    Report { verdicts }
}

fn verdict(tried: Tried) -> Verdict {
    match tried {
        Ok(()) => Verdict::Passed,
        Err(seen) => Verdict::Failed(seen),
    }
}

impl<'a> Bench<'a> {
    fn open(
        make: &impl Fn() -> Result<Arc<dyn TopologyPlugin>, PluginError>,
        options: &'a Options,
    ) -> Result<Bench<'a>, PluginError> {
        let plugin =
            catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| Err(PluginError::Broken(panic_text(panic))))?;
        // No lanes and no limit: the store itself must stand concurrent calls.
        let config = RunnerConfig { call_timeout: Some(options.call_timeout), ..RunnerConfig::kafka() };
        Ok(Bench { runner: Runner::new(plugin, config), options })
    }

    fn group(&self, rule: Rule, suffix: &str) -> String {
        format!("{}-{}{suffix}", self.options.group_prefix, rule.name)
    }

    fn now(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }

    async fn set(&self, group: &str, epoch: i32, description: &Bytes) -> Tried {
        self.set_at(group, epoch, description, self.now()).await
    }

    async fn set_at(&self, group: &str, epoch: i32, description: &Bytes, at: i64) -> Tried {
        let stamp = Stamp { sequence: 0, at };
        let outcome = self.runner.set(0, group, epoch, description.clone(), stamp).await;
        told(outcome, || format!("set of {} bytes at epoch {epoch}", description.len()))
    }

    async fn get(&self, group: &str, epoch: i32) -> Result<Option<Bytes>, String> {
        told(self.runner.get(group, epoch).await, || format!("get at epoch {epoch}"))
    }

    async fn delete(&self, group: &str) -> Tried {
        let stamp = Stamp { sequence: 0, at: self.now() };
        told(self.runner.delete(0, group, stamp).await, || "delete".to_owned())
    }

    async fn expect(&self, group: &str, epoch: i32, wanted: Option<&Bytes>) -> Tried {
        let found = self.get(group, epoch).await?;
        if found.as_ref() == wanted {
            return Ok(());
        }
        Err(format!("get at epoch {epoch} {}", difference(wanted, found.as_ref())))
    }

    async fn idempotent(&self, rule: Rule) -> Tried {
        let (group, description) = (self.group(rule, ""), samples::small(0));
        for _ in 0..3 {
            self.set(&group, 0, &description).await?;
        }
        self.expect(&group, 0, Some(&description)).await?;
        self.delete(&group).await
    }

    async fn newest(&self, rule: Rule) -> Tried {
        let group = self.group(rule, "");
        for (variant, epoch) in [(0, 5), (1, 5), (2, 6), (3, 2)] {
            let description = samples::small(variant);
            self.set(&group, epoch, &description).await?;
            self.expect(&group, epoch, Some(&description)).await?;
        }
        self.delete(&group).await
    }

    async fn delete_all(&self, rule: Rule) -> Tried {
        let group = self.group(rule, "");
        for epoch in [0, 1, 7] {
            self.set(&group, epoch, &samples::small(0)).await?;
        }
        self.delete(&group).await?;
        for epoch in [0, 1, 7] {
            self.expect(&group, epoch, None).await?;
        }
        Ok(())
    }

    async fn foreign(&self, rule: Rule) -> Tried {
        let group = self.group(rule, "");
        self.expect(&self.group(rule, "-unknown"), 0, None).await?;
        self.set(&group, 3, &samples::small(0)).await?;
        for epoch in [2, 4, 0, -1, i32::MAX] {
            self.expect(&group, epoch, None).await?;
        }
        self.delete(&group).await
    }

    async fn unknown(&self, rule: Rule) -> Tried {
        let group = self.group(rule, "");
        self.delete(&group).await?;
        self.set(&group, 0, &samples::small(0)).await?;
        self.delete(&group).await?;
        self.delete(&group).await
    }

    async fn keeps(&self, rule: Rule, description: Bytes) -> Tried {
        let group = self.group(rule, "");
        self.set(&group, 0, &description).await?;
        self.expect(&group, 0, Some(&description)).await?;
        self.delete(&group).await
    }

    async fn group_ids(&self, rule: Rule) -> Tried {
        let long = "g".repeat(200);
        let odd = [
            "",
            " ",
            "-A",
            "-a",
            "/../../etc",
            "\\",
            "\n",
            "\0",
            "%00",
            "-e\u{301}",
            "-\u{e9}",
            "\u{1f600}",
            "'\"",
            long.as_str(),
        ];
        let groups: Vec<String> = odd.iter().map(|suffix| self.group(rule, suffix)).collect();
        for (n, group) in groups.iter().enumerate() {
            self.set(group, 0, &samples::small(n)).await?;
        }
        for (n, group) in groups.iter().enumerate() {
            let tried = self.expect(group, 0, Some(&samples::small(n))).await;
            tried.map_err(|seen| format!("group {group:?}: {seen}"))?;
        }
        for (n, group) in groups.iter().enumerate() {
            self.delete(group).await?;
            if let Some(next) = groups.get(n + 1) {
                let tried = self.expect(next, 0, Some(&samples::small(n + 1))).await;
                tried.map_err(|seen| format!("group {next:?} after {group:?} was deleted: {seen}"))?;
            }
        }
        Ok(())
    }

    async fn groups(&self, rule: Rule) -> Tried {
        let groups: Vec<String> = (0..CONCURRENT).map(|n| self.group(rule, &format!("-{n}"))).collect();
        let sets = groups
            .iter()
            .enumerate()
            .map(|(n, group)| self.runner.set(0, group, 0, samples::small(n), Stamp { sequence: 0, at: self.now() }));
        // Called first and awaited together, so that they overlap.
        for set in all(sets).await {
            told(set, || "set".to_owned())?;
        }
        for (n, group) in groups.iter().enumerate() {
            let tried = self.expect(group, 0, Some(&samples::small(n))).await;
            tried.map_err(|seen| format!("after {CONCURRENT} concurrent sets: {seen}"))?;
        }
        for group in &groups {
            self.delete(group).await?;
        }
        Ok(())
    }

    async fn one_group(&self, rule: Rule) -> Tried {
        let group = self.group(rule, "");
        let mut variants: Vec<Bytes> = (0..CONCURRENT).map(samples::small).collect();
        let before = samples::small(CONCURRENT);
        self.set(&group, 0, &before).await?;
        let calls = variants.iter().flat_map(|variant| {
            let set = self.runner.set(0, &group, 0, variant.clone(), Stamp { sequence: 0, at: self.now() });
            let runner = &self.runner;
            let group = group.as_str();
            let set: Concurrent<'_> = Box::pin(async move { Side::Set(set.await) });
            let get: Concurrent<'_> = Box::pin(async move { Side::Get(runner.get(group, 0).await) });
            [set, get]
        });
        let mut sides = all(calls).await;
        variants.push(before);
        sides.push(Side::Get(self.runner.get(&group, 0).await));
        for side in sides {
            match side {
                Side::Set(outcome) => told(outcome, || "set".to_owned())?,
                Side::Get(outcome) => {
                    let found = told(outcome, || "get".to_owned())?;
                    if let Some(found) = found.filter(|found| !variants.contains(found)) {
                        return Err(format!("a get returned {} bytes that nobody had set", found.len()));
                    }
                }
            }
        }
        self.delete(&group).await
    }

    async fn list(&self, rule: Rule) -> Verdict {
        let tried = async {
            let (kept, moved, gone) =
                (self.group(rule, "-kept"), self.group(rule, "-moved"), self.group(rule, "-gone"));
            self.set(&kept, 0, &samples::small(0)).await?;
            self.set(&moved, 1, &samples::small(1)).await?;
            self.set(&moved, 4, &samples::small(2)).await?;
            self.set(&gone, 0, &samples::small(3)).await?;
            self.delete(&gone).await?;
            let Some(outcome) = self.runner.list().await else { return Ok(None) };
            let prefix = self.group(rule, "");
            let mut listed = told(outcome, || "list".to_owned())?;
            listed.retain(|(group, _)| group.starts_with(&prefix));
            // A store may keep older epochs of a group.
            let listed: BTreeSet<(String, i32)> = listed.into_iter().filter(|(g, e)| *g != moved || *e != 1).collect();
            if listed != BTreeSet::from([(kept.clone(), 0), (moved.clone(), 4)]) {
                return Err(format!(
                    "{kept} at 0 and {moved} at 4 are stored, {gone} was deleted; listed are {listed:?}"
                ));
            }
            self.delete(&kept).await?;
            self.delete(&moved).await?;
            Ok(Some(()))
        };
        optional(tried.await, "the store does not list")
    }

    async fn history(&self, rule: Rule) -> Verdict {
        let tried = async {
            let group = self.group(rule, &format!("-{}", self.now()));
            let first_at = self.now() - 5_000;
            let mut wanted: Vec<Version> = Vec::new();
            for n in 0..3 {
                let description = samples::small(n);
                let (epoch, at) = (n as i32, first_at + 1_000 * n as i64);
                self.set_at(&group, epoch, &description, at).await?;
                let hash = streamside_topology::hash_of_encoded(&description).0;
                wanted.insert(0, Version { at, epoch, hash, description });
            }
            let Some(outcome) = self.runner.history(&group, 2).await else { return Ok(None) };
            let found = told(outcome, || "history".to_owned())?;
            wanted.truncate(2);
            let brief = |versions: &[Version]| {
                let brief =
                    versions.iter().map(|v| format!("epoch {} at {} hash {:02x?}…", v.epoch, v.at, &v.hash[..4]));
                brief.collect::<Vec<_>>().join(", ")
            };
            if found != wanted {
                return Err(format!("the two newest of three are [{}], found are [{}]", brief(&wanted), brief(&found)));
            }
            self.delete(&group).await?;
            Ok(Some(()))
        };
        optional(tried.await, "the store keeps no history")
    }

    async fn before_restart(&self, rule: Rule) -> Tried {
        self.set(&self.group(rule, "-kept"), 2, &samples::small(0)).await?;
        self.set(&self.group(rule, "-gone"), 0, &samples::small(1)).await?;
        self.delete(&self.group(rule, "-gone")).await
    }

    async fn after_restart(&self, rule: Rule) -> Tried {
        let kept = self.group(rule, "-kept");
        self.expect(&kept, 2, Some(&samples::small(0))).await?;
        let gone = self.expect(&self.group(rule, "-gone"), 0, None).await;
        gone.map_err(|seen| format!("a group that was deleted before the restart: {seen}"))?;
        self.delete(&kept).await
    }

    async fn at_once(&self, rule: Rule) -> Tried {
        let (group, description) = (self.group(rule, ""), samples::bytes(1 << 20));
        let stamp = Stamp { sequence: 0, at: self.now() };
        let plugin = self.runner.plugin();
        let mut fastest = [Duration::MAX; 3];
        for _ in 0..AT_ONCE_TRIES {
            let calls: [(usize, &dyn Fn()); 3] = [
                (0, &|| drop(plugin.set(&group, 0, description.clone(), stamp))),
                (1, &|| drop(plugin.get(&group, 0))),
                (2, &|| drop(plugin.delete(&group, stamp))),
            ];
            for (n, call) in calls {
                let began = Instant::now();
                catch_unwind(AssertUnwindSafe(call)).map_err(panic_text)?;
                if let Some(fastest) = fastest.get_mut(n) {
                    *fastest = began.elapsed().min(*fastest);
                }
                tokio::task::yield_now().await;
            }
        }
        for (operation, fastest) in ["set", "get", "delete"].iter().zip(fastest) {
            if fastest > AT_ONCE_LIMIT {
                let limit = AT_ONCE_LIMIT.as_millis();
                return Err(format!(
                    "{operation} of 1 MB held its caller for {} ms, the limit is {limit}",
                    fastest.as_millis()
                ));
            }
        }
        // Tidying up; what a delete must do is another rule's business.
        let _ = self.delete(&group).await;
        Ok(())
    }

    fn close_twice(&self) -> Tried {
        for _ in 0..2 {
            let plugin = self.runner.plugin();
            catch_unwind(AssertUnwindSafe(|| plugin.close())).map_err(panic_text)?;
        }
        Ok(())
    }
}

type Concurrent<'a> = std::pin::Pin<Box<dyn Future<Output = Side> + Send + 'a>>;

enum Side {
    Set(Outcome<()>),
    Get(Outcome<Option<Bytes>>),
}

/// Drives futures together; all are made before the first is polled.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = pending.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut left = false;
        for (future, slot) in pending.iter_mut().zip(&mut done) {
            if slot.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *slot = Some(output),
                    std::task::Poll::Pending => left = true,
                }
            }
        }
        if left { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}

fn optional(tried: Result<Option<()>, String>, lacks: &'static str) -> Verdict {
    match tried {
        Ok(Some(())) => Verdict::Passed,
        Ok(None) => Verdict::Skipped(lacks),
        Err(seen) => Verdict::Failed(seen),
    }
}

fn told<T>(outcome: Outcome<T>, what: impl Fn() -> String) -> Result<T, String> {
    match outcome {
        Outcome::Ok(value) => Ok(value),
        Outcome::Failure(failure) => Err(format!("{} failed: {failure}", what())),
        Outcome::TimedOut => Err(format!("{} gave no result in time", what())),
        Outcome::Busy => Err(format!("{} was not made: too many calls hang", what())),
        Outcome::Crashed(text) => Err(format!("{} panicked: {text}", what())),
    }
}

fn difference(wanted: Option<&Bytes>, found: Option<&Bytes>) -> String {
    match (wanted, found) {
        (Some(wanted), Some(found)) => {
            let decodes = match Description::decode(found) {
                Ok(_) => "another description",
                Err(_) => "bytes that do not decode",
            };
            let at = wanted.iter().zip(found.iter()).take_while(|(a, b)| a == b).count();
            format!("returned {decodes}: {} bytes for {}, different from byte {at} on", found.len(), wanted.len())
        }
        (Some(wanted), None) => format!("found nothing where {} bytes were set", wanted.len()),
        (None, Some(found)) => format!("returned {} bytes where nothing is", found.len()),
        (None, None) => "found nothing".to_owned(),
    }
}
