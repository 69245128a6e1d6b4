//! The `sticky` assignor (spec kip1071 §5.5): tasks stay where they are or where their state is, as long as nobody gets
//! more than a fair part. Ties are broken by id, so that equal inputs give equal assignments (§14 D8).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::assign::{AssignError, Assignor, Input};
use super::hash_order::{in_table, ordered};
use super::java_queue::JavaQueue;
use super::tasks::{SubtopologyId, TaskSet, Tasks};
use crate::config::Compat;
use crate::record::MemberId;

/// The `sticky` assignor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sticky;

impl Assignor for Sticky {
    fn assign(&self, input: &Input<'_>) -> Result<BTreeMap<MemberId, Tasks>, AssignError> {
        let mut placement = Placement::of(input);
        placement.place_active()?;
        placement.place_standbys();
        Ok(placement.finish())
    }
}

/// A subtopology, by its place among all in the order of ids, and a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Task {
    subtopology: usize,
    partition: i32,
}

impl Task {
    fn by_partition(self) -> (i32, usize) {
        (self.partition, self.subtopology)
    }
}

/// Tasks per member of a process, compared without fractions.
#[derive(Clone, Copy, Debug)]
struct Load {
    tasks: u64,
    members: u64,
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Load {}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.tasks * other.members).cmp(&(other.tasks * self.members))
    }
}

#[derive(Debug)]
struct Process {
    /// With how many tasks each was given.
    members: BTreeSet<(u64, usize)>,
    load: Load,
    holds: HashSet<Task>,
}

#[derive(Debug, Default)]
struct Placed {
    process: usize,
    count: u64,
    active: Vec<Task>,
    standby: Vec<Task>,
}

/// How many tasks a member may be given for the sake of stickiness. Who has reached it is taken out, and the rest is
/// divided anew.
#[derive(Debug)]
struct Quota {
    tasks: u64,
    members: u64,
    each: u64,
}

impl Quota {
    fn new(tasks: u64, members: u64) -> Self {
        Self { tasks, members, each: if members == 0 { 0 } else { tasks.div_ceil(members) } }
    }

    fn placed(&mut self, count: u64) {
        if count == self.each {
            *self = Self::new(self.tasks.saturating_sub(count), self.members.saturating_sub(1));
        }
    }
}

struct Placement<'a> {
    input: &'a Input<'a>,
    ids: Vec<&'a SubtopologyId>,
    /// All active tasks, in the order of subtopology and partition.
    tasks: Vec<Task>,
    stateful: Vec<Task>,
    members: Vec<Placed>,
    /// In the order of their ids.
    processes: Vec<Process>,
    by_load: BTreeSet<(Load, usize)>,
    active_quota: Quota,
    total_quota: Quota,
    had_active: HashMap<Task, usize>,
    /// Who has state of a task, best first: standbys, then members that reported an offset of it.
    candidates: HashMap<Task, Vec<usize>>,
}

impl<'a> Placement<'a> {
    fn of(input: &'a Input<'a>) -> Self {
        let ids: Vec<_> = input.subtopologies.keys().collect();
        let (mut tasks, mut stateful) = (Vec::new(), Vec::new());
        for (subtopology, configured) in input.subtopologies.values().enumerate() {
            let all = (0..configured.tasks).map(|partition| Task { subtopology, partition });
            tasks.extend(all.clone());
            if configured.stateful {
                stateful.extend(all);
            }
        }
        let names: BTreeSet<&str> = input.members.iter().map(|m| m.process).collect();
        let index: HashMap<&str, usize> = names.into_iter().enumerate().map(|(i, name)| (name, i)).collect();
        let mut processes: Vec<Process> = (0..index.len())
            .map(|_| Process { members: BTreeSet::new(), load: Load { tasks: 0, members: 0 }, holds: HashSet::new() })
            .collect();
        let mut members = Vec::with_capacity(input.members.len());
        for (m, member) in input.members.iter().enumerate() {
            let process = index.get(member.process).copied().unwrap_or_default();
            if let Some(process) = processes.get_mut(process) {
                process.members.insert((0, m));
                process.load.members += 1;
            }
            members.push(Placed { process, ..Placed::default() });
        }
        let by_load = processes.iter().enumerate().map(|(i, p)| (p.load, i)).collect();
        let (active, people) = (len(&tasks), len(&members));
        let standbys = u64::try_from(input.standbys).unwrap_or(0) * len(&stateful);
        let mut placement = Self {
            input,
            ids,
            tasks,
            stateful,
            members,
            processes,
            by_load,
            active_quota: Quota::new(active, people),
            total_quota: Quota::new(active + standbys, people),
            had_active: HashMap::new(),
            candidates: HashMap::new(),
        };
        placement.remember();
        placement
    }

    /// Spec kip1071 §5.4.
    fn remember(&mut self) {
        let places: HashMap<&str, usize> = self.ids.iter().enumerate().map(|(i, id)| (id.as_ref(), i)).collect();
        let task = |id: &str, partition| Some(Task { subtopology: *places.get(id)?, partition });
        let mut ranked: HashMap<Task, Vec<(bool, i64, usize)>> = HashMap::new();
        for (m, member) in self.input.members.iter().enumerate() {
            let active = member.assigned.active.iter().flat_map(|(id, epochs)| epochs.keys().map(move |p| (id, *p)));
            self.had_active.extend(active.filter_map(|(id, p)| Some((task(id, p)?, m))));
            let offset = |id: &SubtopologyId, p| member.offsets.and_then(|o| o.get(&(id.clone(), p))).copied();
            for (id, partitions) in &member.assigned.standby {
                for &p in partitions {
                    if let Some(task) = task(id, p) {
                        ranked.entry(task).or_default().push((true, offset(id, p).unwrap_or(0), m));
                    }
                }
            }
            for ((id, p), offset) in member.offsets.into_iter().flatten() {
                let standby = member.assigned.standby.get(id).is_some_and(|partitions| partitions.contains(p));
                if let (false, Some(task)) = (standby, task(id, *p)) {
                    ranked.entry(task).or_default().push((false, *offset, m));
                }
            }
        }
        self.candidates = ranked
            .into_iter()
            .map(|(task, mut ranked)| {
                ranked.sort_by_key(|(standby, offset, m)| (!standby, std::cmp::Reverse(*offset), *m));
                (task, ranked.into_iter().map(|(.., m)| m).collect())
            })
            .collect();
    }

    /// Steps 1 to 3.
    fn place_active(&mut self) -> Result<(), AssignError> {
        let mut by_partition = self.tasks.clone();
        by_partition.sort_unstable_by_key(|t| t.by_partition());
        let mut left = Vec::new();
        for task in by_partition {
            match self.had_active.get(&task).copied().filter(|m| self.count(*m) < self.active_quota.each) {
                Some(member) => self.give_active(task, member),
                None => left.push(task),
            }
        }
        let mut rest = Vec::new();
        for task in left {
            match self.candidate(task).filter(|m| self.count(*m) < self.active_quota.each) {
                Some(member) => self.give_active(task, member),
                None => rest.push(task),
            }
        }
        rest.sort_unstable();
        if self.input.ties == Compat::Kafka {
            return self.place_in_turns(rest);
        }
        for task in rest {
            let member = self.least_loaded(task).ok_or(AssignError)?;
            self.give_active(task, member);
        }
        Ok(())
    }

    /// Step 3 with Kafka's queues: of processes by load, and in each of members by count (D8).
    fn place_in_turns(&mut self, rest: Vec<Task>) -> Result<(), AssignError> {
        let members = &self.input.members;
        let ids: HashMap<&str, usize> = members.iter().enumerate().map(|(i, m)| (m.id.as_ref(), i)).collect();
        let mut by_count: Vec<JavaQueue> = self
            .processes
            .iter()
            .map(|p| {
                let own = p.members.iter().filter_map(|(_, i)| members.get(*i)).map(|m| m.id.as_ref());
                let own = ordered(Compat::Kafka, own).into_iter().filter_map(|id| ids.get(id).copied());
                JavaQueue::new(own, |m| self.count(m))
            })
            .collect();
        let mut first_of: HashMap<&str, usize> = HashMap::new();
        for (member, placed) in members.iter().zip(&self.members) {
            first_of.entry(member.process).or_insert(placed.process);
        }
        let order = in_table(members.iter().map(|m| m.process), members.len());
        let order = order.into_iter().filter_map(|name| first_of.get(name).copied());
        let mut by_load = JavaQueue::new(order, |p| self.load(p));
        for task in rest {
            let process = by_load.poll(|p| self.load(p)).ok_or(AssignError)?;
            let queue = by_count.get_mut(process).ok_or(AssignError)?;
            let member = queue.poll(|m| self.count(m)).ok_or(AssignError)?;
            self.give_active(task, member);
            queue.add(member, |m| self.count(m));
            by_load.add(process, |p| self.load(p));
        }
        Ok(())
    }

    fn load(&self, process: usize) -> Option<Load> {
        self.processes.get(process).map(|p| p.load)
    }

    /// Steps 4 and 5.
    fn place_standbys(&mut self) {
        let replicas = self.input.standbys;
        if replicas <= 0 {
            return;
        }
        let mut by_partition = self.stateful.clone();
        by_partition.sort_unstable_by_key(|t| std::cmp::Reverse(t.by_partition()));
        let mut deferred: Vec<(Task, i32)> = Vec::new();
        for task in by_partition {
            for placed in 0..replicas {
                let had = self.had_active.get(&task).copied().filter(|m| !self.holds(*m, task));
                let fits = |m: &usize| self.count(*m) < self.total_quota.each;
                let member = had.filter(fits).or_else(|| self.candidate(task).filter(fits));
                let Some(member) = member else {
                    deferred.push((task, replicas - placed));
                    break;
                };
                self.give_standby(task, member);
            }
        }
        deferred.sort_unstable_by_key(|(task, _)| std::cmp::Reverse(*task));
        for (task, replicas) in deferred {
            for _ in 0..replicas {
                // Every process has it: nobody can take another.
                let Some(member) = self.least_loaded(task) else { break };
                self.give_standby(task, member);
            }
        }
    }

    fn count(&self, member: usize) -> u64 {
        self.members.get(member).map_or(u64::MAX, |m| m.count)
    }

    fn process(&self, member: usize) -> Option<&Process> {
        self.processes.get(self.members.get(member)?.process)
    }

    fn holds(&self, member: usize, task: Task) -> bool {
        self.process(member).is_some_and(|p| p.holds.contains(&task))
    }

    /// The least loaded of those that have state of the task; a better rank gives way only to one whose process and
    /// self are both less loaded. Processes that already have the task are passed over.
    fn candidate(&self, task: Task) -> Option<usize> {
        let mut pick: Option<(usize, &Process)> = None;
        for &member in self.candidates.get(&task)? {
            let Some(process) = self.process(member).filter(|p| !p.holds.contains(&task)) else { continue };
            let better =
                pick.is_none_or(|(picked, its)| process.load < its.load && self.count(member) < self.count(picked));
            if better {
                pick = Some((member, process));
            }
        }
        pick.map(|(member, _)| member)
    }

    /// The member with the fewest tasks in the least loaded process that does not have this task.
    fn least_loaded(&self, task: Task) -> Option<usize> {
        let processes = self.by_load.iter().filter_map(|(_, i)| self.processes.get(*i));
        let process = processes.into_iter().find(|p| !p.holds.contains(&task))?;
        process.members.first().map(|(_, member)| *member)
    }

    fn give_active(&mut self, task: Task, member: usize) {
        let count = self.give(task, member, |m| &mut m.active);
        self.active_quota.placed(count);
        self.total_quota.placed(count);
    }

    fn give_standby(&mut self, task: Task, member: usize) {
        let count = self.give(task, member, |m| &mut m.standby);
        self.total_quota.placed(count);
    }

    fn give(&mut self, task: Task, member: usize, role: impl Fn(&mut Placed) -> &mut Vec<Task>) -> u64 {
        let Some(placed) = self.members.get_mut(member) else { return 0 };
        role(placed).push(task);
        placed.count += 1;
        if let Some(process) = self.processes.get_mut(placed.process) {
            process.members.remove(&(placed.count - 1, member));
            process.members.insert((placed.count, member));
            self.by_load.remove(&(process.load, placed.process));
            process.holds.insert(task);
            process.load.tasks += 1;
            self.by_load.insert((process.load, placed.process));
        }
        placed.count
    }

    fn finish(self) -> BTreeMap<MemberId, Tasks> {
        let set = |tasks: Vec<Task>| {
            let mut set = TaskSet::new();
            for task in tasks {
                if let Some(id) = self.ids.get(task.subtopology) {
                    set.entry((*id).clone()).or_default().insert(task.partition);
                }
            }
            set
        };
        let members = self.input.members.iter().zip(self.members);
        members
            .map(|(member, placed)| {
                let tasks = Tasks { active: set(placed.active), standby: set(placed.standby), warmup: TaskSet::new() };
                (member.id.clone(), tasks)
            })
            .collect()
    }
}

fn len<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}
