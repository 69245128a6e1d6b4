use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use streamside_topology::{Description, Node};
use tokio::task::yield_now;

use super::*;
use crate::api::{Call, Config, Failure, Stamp, Version};
use crate::registry::resolve;

fn rt() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Each breaks one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twist {
    None,
    RefusesRepetition,
    KeepsTheFirst,
    KeepsTheHighestEpoch,
    DeletesOneEpoch,
    AnyEpochWillDo,
    MissesTheUnknown,
    SortsNodes,
    TrimsNames,
    LowersGroupIds,
    RefusesManyNodes,
    RefusesLargeOnes,
    LosesConcurrentGroups,
    MixesConcurrentSets,
    ListsTheDeleted,
    OldestFirst,
    ForgetsAtRestart,
    WorksOnTheCallersThread,
    ClosesOnce,
}

type Groups = BTreeMap<String, BTreeMap<i32, Bytes>>;

#[derive(Default)]
struct State {
    groups: Groups,
    newest: BTreeMap<String, i32>,
    listed: BTreeMap<String, i32>,
    history: BTreeMap<String, Vec<Version>>,
}

/// A store in memory that does everything right but for its twist. Its state is that of the "disk" it was made on.
struct Model {
    twist: Twist,
    state: Arc<Mutex<State>>,
    closed: AtomicBool,
}

impl Model {
    fn key(&self, group: &str) -> String {
        match self.twist {
            Twist::LowersGroupIds => group.to_lowercase(),
            _ => group.to_owned(),
        }
    }

    fn tidy(&self, description: &Bytes) -> Bytes {
        let name = |node: &mut Node, change: &dyn Fn(&str) -> String| match node {
            Node::Source(n) => n.name = change(&n.name),
            Node::Processor(n) => n.name = change(&n.name),
            Node::Sink(n) => n.name = change(&n.name),
        };
        let mut graph = Description::decode(description).unwrap();
        for subtopology in &mut graph.subtopologies {
            match self.twist {
                Twist::SortsNodes => subtopology.nodes.sort_by(|a, b| a.view().name().cmp(b.view().name())),
                Twist::TrimsNames => subtopology.nodes.iter_mut().for_each(|node| name(node, &|n| n.trim().to_owned())),
                _ => {}
            }
        }
        graph.encode()
    }

    fn refuses(&self, state: &State, group: &str, epoch: i32, description: &Bytes) -> bool {
        match self.twist {
            Twist::RefusesRepetition => {
                state.groups.get(group).is_some_and(|epochs| epochs.get(&epoch) == Some(description))
            }
            Twist::RefusesManyNodes => Description::decode(description).unwrap().node_count() > 1_000,
            Twist::RefusesLargeOnes => description.len() > 900_000,
            _ => false,
        }
    }
}

impl State {
    fn set(&mut self, twist: Twist, group: &str, epoch: i32, description: Bytes, stamp: Stamp) {
        let hash = streamside_topology::hash_of_encoded(&description).0;
        self.history
            .entry(group.to_owned())
            .or_default()
            .insert(0, Version { at: stamp.at, epoch, hash, description: description.clone() });
        let epochs = self.groups.entry(group.to_owned()).or_default();
        let keeps = match twist {
            Twist::KeepsTheFirst => epochs.contains_key(&epoch),
            Twist::KeepsTheHighestEpoch => epochs.keys().any(|e| *e > epoch),
            _ => false,
        };
        if !keeps {
            epochs.insert(epoch, description);
        }
        self.newest.insert(group.to_owned(), epoch);
        self.listed.insert(group.to_owned(), epoch);
    }
}

impl TopologyPlugin for Model {
    fn configure(&self, _config: &Config) -> Result<(), PluginError> {
        Ok(())
    }

    fn set(&self, group: &str, epoch: i32, description: Bytes, stamp: Stamp) -> Call<()> {
        let (group, twist, state) = (self.key(group), self.twist, self.state.clone());
        if twist == Twist::WorksOnTheCallersThread {
            std::thread::sleep(Duration::from_millis(25));
        }
        if self.refuses(&state.lock().unwrap(), &group, epoch, &description) {
            return Box::pin(ready(Err(Failure::permanent("I do not like it"))));
        }
        let description = self.tidy(&description);
        match twist {
            Twist::LosesConcurrentGroups => Box::pin(async move {
                let mut copy = state.lock().unwrap().groups.clone();
                yield_now().await;
                copy.entry(group.clone()).or_default().insert(epoch, description.clone());
                let mut state = state.lock().unwrap();
                state.set(twist, &group, epoch, description, stamp);
                state.groups = copy;
                Ok(())
            }),
            Twist::MixesConcurrentSets => Box::pin(async move {
                let before = {
                    let mut state = state.lock().unwrap();
                    let before = state.groups.get(&group).and_then(|e| e.get(&epoch)).cloned();
                    state.set(twist, &group, epoch, description.clone(), stamp);
                    before
                };
                if let Some(before) = before.filter(|b| b.len() == description.len()) {
                    let half = before.len() / 2;
                    let mut mixed = BytesMut::from(&description[..half]);
                    mixed.extend_from_slice(&before[half..]);
                    let epochs = |state: &mut State, bytes: Bytes| {
                        state.groups.entry(group.clone()).or_default().insert(epoch, bytes)
                    };
                    epochs(&mut state.lock().unwrap(), mixed.freeze());
                    yield_now().await;
                    epochs(&mut state.lock().unwrap(), description);
                }
                Ok(())
            }),
            _ => Box::pin(async move {
                yield_now().await;
                state.lock().unwrap().set(twist, &group, epoch, description, stamp);
                Ok(())
            }),
        }
    }

    fn get(&self, group: &str, epoch: i32) -> Call<Option<Bytes>> {
        let state = self.state.lock().unwrap();
        let epochs = state.groups.get(&self.key(group));
        let found = match self.twist {
            Twist::AnyEpochWillDo => {
                epochs.and_then(|e| e.get(&epoch).or_else(|| e.get(state.newest.get(&self.key(group))?)))
            }
            _ => epochs.and_then(|e| e.get(&epoch)),
        };
        Box::pin(ready(Ok(found.cloned())))
    }

    fn delete(&self, group: &str, _stamp: Stamp) -> Call<()> {
        let (group, twist, state) = (self.key(group), self.twist, self.state.clone());
        Box::pin(async move {
            yield_now().await;
            let mut state = state.lock().unwrap();
            let known = if twist == Twist::DeletesOneEpoch {
                state.groups.get_mut(&group).and_then(|epochs| epochs.pop_last()).is_some()
            } else {
                state.groups.remove(&group).is_some()
            };
            if twist != Twist::ListsTheDeleted {
                state.listed.remove(&group);
            }
            if twist == Twist::MissesTheUnknown && !known {
                return Err(Failure::transient("no such group"));
            }
            Ok(())
        })
    }

    fn close(&self) {
        assert!(!self.closed.swap(true, Ordering::SeqCst) || self.twist != Twist::ClosesOnce, "closed twice");
    }

    fn list(&self) -> Option<Call<Vec<(String, i32)>>> {
        let state = self.state.lock().unwrap();
        Some(Box::pin(ready(Ok(state.listed.clone().into_iter().collect()))))
    }

    fn history(&self, group: &str, limit: usize) -> Option<Call<Vec<Version>>> {
        let state = self.state.lock().unwrap();
        let mut all = state.history.get(group).cloned().unwrap_or_default();
        if self.twist == Twist::OldestFirst {
            all.reverse();
        }
        all.truncate(limit);
        Some(Box::pin(ready(Ok(all))))
    }
}

fn check_model(twist: Twist) -> Report {
    let disk = Arc::new(Mutex::new(State::default()));
    let make = || -> Result<Arc<dyn TopologyPlugin>, PluginError> {
        if twist == Twist::ForgetsAtRestart {
            *disk.lock().unwrap() = State::default();
        }
        Ok(Arc::new(Model { twist, state: disk.clone(), closed: AtomicBool::new(false) }))
    };
    let options = Options { durable: true, ..Options::default() };
    rt().block_on(run(make, &options))
}

#[test]
fn a_good_store_passes_every_rule() {
    let report = check_model(Twist::None);
    assert!(report.passed(), "{report}");
    assert!(report.verdicts.iter().all(|(_, v)| *v == Verdict::Passed));
    assert_eq!(report.verdicts.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), RULES);
}

#[test]
fn a_store_that_is_wrong_in_one_thing_fails_just_that_rule() {
    let wrong = [
        (Twist::RefusesRepetition, "idempotent-set"),
        (Twist::KeepsTheFirst, "newest-set-wins"),
        (Twist::KeepsTheHighestEpoch, "newest-set-wins"),
        (Twist::DeletesOneEpoch, "delete-removes-all-epochs"),
        (Twist::AnyEpochWillDo, "null-for-foreign-epoch"),
        (Twist::MissesTheUnknown, "delete-of-unknown-succeeds"),
        (Twist::SortsNodes, "order-and-names-kept"),
        (Twist::TrimsNames, "order-and-names-kept"),
        (Twist::LowersGroupIds, "group-ids-kept-apart"),
        (Twist::RefusesManyNodes, "5000-nodes"),
        (Twist::RefusesLargeOnes, "one-megabyte"),
        (Twist::LosesConcurrentGroups, "concurrent-groups"),
        (Twist::MixesConcurrentSets, "concurrent-sets-of-one-group"),
        (Twist::ListsTheDeleted, "list-is-complete"),
        (Twist::OldestFirst, "history-newest-first"),
        (Twist::WorksOnTheCallersThread, "returns-at-once"),
        (Twist::ForgetsAtRestart, "survives-restart"),
        (Twist::ClosesOnce, "close-twice"),
    ];
    for (twist, rule) in wrong {
        let report = check_model(twist);
        assert_eq!(report.failed().collect::<Vec<_>>(), [rule], "{twist:?}\n{report}");
        let why = RULES.iter().find(|r| r.name == rule).unwrap().why;
        assert!(report.to_string().contains(why), "{report}");
    }
    // No rule without a store that breaks it.
    for rule in RULES {
        assert!(wrong.iter().any(|(_, name)| *name == rule.name), "{}", rule.name);
    }
}

#[test]
fn memory_and_disk_pass() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::from([("streamside.data.dir".to_owned(), folder.path().to_str().unwrap().to_owned())]);
    for name in ["memory", "disk"] {
        let factory = resolve(name).unwrap().unwrap();
        let options = Options { durable: factory.schema.durable, ..Options::default() };
        let report = rt().block_on(run(|| factory.open(&config), &options));
        assert!(report.passed(), "{name}\n{report}");
        let skipped = report.verdicts.iter().filter(|(_, v)| matches!(v, Verdict::Skipped(_))).count();
        assert_eq!(skipped, if name == "memory" { 2 } else { 0 }, "{name}\n{report}");
    }
}

#[test]
fn a_store_that_cannot_be_opened_or_hangs_or_panics_fails_in_words() {
    let make =
        || -> Result<Arc<dyn TopologyPlugin>, PluginError> { Err(PluginError::Refused("no licence".to_owned())) };
    let report = rt().block_on(run(make, &Options::default()));
    assert_eq!(report.failed().count(), RULES.len());
    assert!(report.to_string().contains("the store can't be opened: no licence"));

    struct Hangs;
    impl TopologyPlugin for Hangs {
        fn configure(&self, _config: &Config) -> Result<(), PluginError> {
            Ok(())
        }
        fn set(&self, _: &str, _: i32, _: Bytes, _: Stamp) -> Call<()> {
            Box::pin(std::future::pending())
        }
        fn get(&self, _: &str, _: i32) -> Call<Option<Bytes>> {
            panic!("no reading")
        }
        fn delete(&self, _: &str, _: Stamp) -> Call<()> {
            Box::pin(ready(Err(Failure::Contract)))
        }
    }
    let options = Options { call_timeout: Duration::from_millis(10), ..Options::default() };
    let report = rt().block_on(run(|| Ok(Arc::new(Hangs) as _), &options)).to_string();
    assert!(report.contains("idempotent-set: set of 158 bytes at epoch 0 gave no result in time"), "{report}");
    assert!(report.contains("get at epoch 0 panicked: no reading"), "{report}");
    assert!(report.contains("delete failed: contract violation"), "{report}");
}
