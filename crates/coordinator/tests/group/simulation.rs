//! Spec kip1071 §13.3 T57: members that join, work, lose answers, fall silent and leave, and a process that is killed
//! after any decision. `STREAMSIDE_SEED=n cargo test -p streamside-coordinator t57` plays one seed.

use std::collections::BTreeMap;

use streamside_coordinator::Durable;
use streamside_coordinator::group::CurrentAssignment;
use streamside_coordinator::group::tasks::{AssignedTasks, without_epochs};
use streamside_wire::messages::streams_group_heartbeat::TaskIds;

use crate::lab::*;

/// A small generator, so that a seed means the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }
}

/// A member as its client sees it.
#[derive(Default)]
struct Client {
    epoch: i32,
    joined: bool,
    /// Active and standby tasks.
    owned: (Vec<TaskIds>, Vec<TaskIds>),
    /// The owned lists must be sent: they changed, or an answer was lost.
    untold: bool,
    endpoint_epoch: i32,
}

struct World {
    lab: Lab,
    chance: Chance,
    clients: Vec<Client>,
    lost: u64,
    killed: u64,
    /// Members as journalled, and how much of the journal that is.
    members: BTreeMap<String, CurrentAssignment>,
    read: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut lab = Lab::with(&[("foo", 4), ("bar", 3), ("store", 4)]);
        lab.config.num_standby_replicas = i32::try_from(seed % 2).unwrap();
        let clients = (0..5).map(|_| Client::default()).collect();
        Self {
            lab,
            chance: Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            clients,
            lost: 0,
            killed: 0,
            members: BTreeMap::new(),
            read: 0,
        }
    }

    fn request(&self, i: usize) -> Request {
        let (id, client) = (format!("m{i}"), &self.clients[i]);
        if !client.joined {
            let mut t = topology(&[("a", &["foo"]), ("b", &["bar"])]);
            t.subtopologies[0].state_changelog_topics =
                vec![streamside_wire::messages::streams_group_heartbeat::TopicInfo {
                    name: "store".into(),
                    ..Default::default()
                }];
            // Two threads a process.
            let process_id = Some(format!("p{}", i / 2).into());
            return Request { topology: Some(t), process_id, endpoint_information_epoch: -1, ..join(&id) };
        }
        let mut request = steady(&id, client.epoch);
        request.endpoint_information_epoch = client.endpoint_epoch;
        if client.untold {
            request.active_tasks = Some(client.owned.0.clone());
            request.standby_tasks = Some(client.owned.1.clone());
            request.warmup_tasks = Some(Vec::new());
        }
        request
    }

    /// One heartbeat; `lose`: the answer never arrives.
    fn beat(&mut self, i: usize, lose: bool) {
        let request = self.request(i);
        let answer = self.lab.beat(&request);
        self.check();
        let client = &mut self.clients[i];
        if lose {
            self.lost += 1;
            client.untold = true;
            return;
        }
        client.untold = false;
        match answer.error_code {
            0 => {
                assert!(answer.member_epoch > 0);
                client.epoch = answer.member_epoch;
                client.joined = true;
                client.endpoint_epoch = answer.endpoint_information_epoch;
                if let Some(active) = answer.active_tasks {
                    let owned = (active, answer.standby_tasks.unwrap());
                    client.untold = client.owned != owned;
                    client.owned = owned;
                }
            }
            // Everything is dropped, then joined again.
            25 | 110 => *client = Client::default(),
            code => panic!("{code} {:?} on {request:?}", answer.error_message),
        }
    }

    fn step(&mut self) {
        let i = usize::try_from(self.chance.below(5)).unwrap();
        match self.chance.below(40) {
            0 => {
                self.lab.restart();
                self.killed += 1;
            }
            1 if self.clients[i].joined => {
                self.lab.beat(&steady(&format!("m{i}"), -1));
                self.clients[i] = Client::default();
            }
            2 => {
                self.lab.pass(i64::try_from(self.chance.below(50_000)).unwrap());
            }
            3 => {
                let partitions = self.lab.config.topics["bar"].min(5) + 1;
                self.lab.config.topics.insert("bar".into(), partitions);
                self.lab.groups.topics_changed();
            }
            n => {
                let lose = n < 8;
                self.beat(i, lose);
            }
        }
        self.check();
    }

    /// Reads what was journalled since the last time.
    fn read_journal(&mut self) {
        for record in self.lab.journal.iter().skip(self.read) {
            match record {
                Durable::CurrentAssignment { member, value: Some(value), .. } => {
                    self.members.insert(member.to_string(), value.clone());
                }
                Durable::Member { member, value: None, .. } => {
                    self.members.remove(member.as_ref());
                }
                _ => {}
            }
        }
        self.read = self.lab.journal.len();
    }

    /// No two members have the same active task, and no process has a task in two members.
    fn check(&mut self) {
        self.read_journal();
        let mut actives = BTreeMap::new();
        for (id, current) in &self.members {
            let both = [&current.assigned, &current.pending];
            for tasks in both.map(|t: &AssignedTasks| without_epochs(&t.active)) {
                for (s, partitions) in tasks {
                    for p in partitions {
                        let other = actives.insert((s.clone(), p), id.clone());
                        assert!(other.is_none(), "{s}-{p} is active in {id} and in {other:?}");
                    }
                }
            }
        }
    }

    /// Everybody keeps talking: the group comes to rest with every task in place.
    fn settle(&mut self) {
        for _ in 0..30 {
            for i in 0..self.clients.len() {
                self.beat(i, false);
            }
        }
        assert_eq!(self.lab.state(), "Stable");
        let active: usize = self.clients.iter().flat_map(|c| &c.owned.0).map(|t| t.partitions.len()).sum();
        let bar = usize::try_from(self.lab.config.topics["bar"]).unwrap();
        assert_eq!(active, 4 + bar);
        for (i, client) in self.clients.iter().enumerate() {
            let current = &self.members[&format!("m{i}")];
            let told = |tasks: &[TaskIds]| -> BTreeMap<String, Vec<i32>> {
                tasks.iter().map(|t| (t.subtopology_id.clone(), t.partitions.clone())).collect()
            };
            let has = |set: &streamside_coordinator::group::tasks::TaskSet| -> BTreeMap<String, Vec<i32>> {
                set.iter().map(|(id, p)| (id.to_string(), p.iter().copied().collect())).collect()
            };
            assert_eq!(told(&client.owned.0), has(&without_epochs(&current.assigned.active)), "m{i}");
            assert_eq!(told(&client.owned.1), has(&current.assigned.standby), "m{i}");
        }
    }
}

#[test]
fn t57_no_task_is_active_twice_and_every_task_finds_a_place() {
    let seeds: Vec<u64> = match std::env::var("STREAMSIDE_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..200).collect(),
    };
    let (mut lost, mut killed) = (0, 0);
    for seed in seeds {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..150 {
                world.step();
            }
            world.settle();
            (world.lost, world.killed)
        });
        let Ok(counts) = run else { panic!("seed {seed} failed: replay with STREAMSIDE_SEED={seed}") };
        lost += counts.0;
        killed += counts.1;
    }
    assert!(lost > 0 && killed > 0);
}
