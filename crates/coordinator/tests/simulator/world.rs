//! One schedule: members, operators, the shell, its journal and a plugin, in virtual time.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use streamside_coordinator::description::{PreparedPush, ReadToken};
use streamside_coordinator::{
    ClientContext, Config, Coordinator, Durable, Effect, Input, Now, OpId, PluginFailure, Record, Reply, Volatile,
};
use streamside_topology::DescriptionHash;
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, Subtopology, Topology};
use streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest;
use streamside_wire::messages::topology_description as wire;

use crate::book::{GroupBook, Must, Pushed};
use crate::dice::Dice;
use crate::faults::{CrashPoint, Fault, Plan};
use crate::journal::Journal;
use crate::plugin::{CallId, Mutation, Plugin};

const INTERVAL: i64 = 5_000;
const DEADLINE: i64 = 10_000;
/// Faults and operators act within this time.
const STORM: i64 = 70_000;
/// The longest window, and time for what is done after it.
const HEALED_WITHIN: i64 = 3_600_000 + 120_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Beat(usize),
    Push(usize),
    /// A push that nobody asked for, perhaps of a newer application.
    Repush(usize),
    Leave(usize),
    Join(usize),
    Describe(usize),
    Delete(usize),
    Cleanup,
    Sweep,
    Damage,
    Commit {
        life: u64,
    },
    CallEnds {
        life: u64,
        call: CallId,
    },
    CallDeadline {
        life: u64,
        call: CallId,
    },
    ReadEnds {
        life: u64,
        read: u64,
    },
}

impl Event {
    /// Of the world, not of the process.
    fn is_weather(self) -> bool {
        matches!(
            self,
            Self::Beat(_)
                | Self::Repush(_)
                | Self::Leave(_)
                | Self::Join(_)
                | Self::Describe(_)
                | Self::Delete(_)
                | Self::Cleanup
                | Self::Sweep
                | Self::Damage
        )
    }
}

#[derive(Debug)]
struct Member {
    group: usize,
    id: String,
    version: i16,
    willing: bool,
    /// Which application it runs: part of what it pushes.
    variant: usize,
    inside: bool,
    epoch: i32,
    wants_push: bool,
    pushing: bool,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
enum Task {
    Beat(usize),
    /// Or the outcome of its call, which is answered to the pusher as well. `begun`: the call was.
    Push {
        member: usize,
        hash: DescriptionHash,
        begun: Option<u64>,
    },
    Describe(usize),
    Attach {
        group: usize,
        read: u64,
    },
    Delete {
        group: usize,
        begun: u64,
    },
    Nobody,
}

/// What came back, without what it borrowed.
#[derive(Debug)]
enum Answer {
    Beat { error: i16, epoch: i32, asked: bool },
    Push(i16),
    Deleted(i16),
    Described { error: i16, read: Option<(i32, ReadToken)> },
    Attached { status: i8, description: Option<Bytes> },
    Done,
    None,
}

impl Answer {
    fn of(reply: Option<Reply<'_>>) -> Self {
        match reply {
            Some(Reply::Heartbeat(r)) => {
                Self::Beat { error: r.error_code, epoch: r.member_epoch, asked: r.topology_description_required }
            }
            Some(Reply::Push { error_code, .. }) => Self::Push(error_code),
            Some(Reply::Deleted { error_code, .. }) => Self::Deleted(error_code),
            Some(Reply::Described { entry, read }) => {
                Self::Described { error: entry.error_code, read: read.map(|read| (read.epoch, read.token)) }
            }
            Some(Reply::Attached { status, description, .. }) => Self::Attached { status, description },
            Some(
                Reply::Done
                | Reply::Listed(_)
                | Reply::Altered { .. }
                | Reply::Settings(_)
                | Reply::Beat { .. }
                | Reply::Entry { .. },
            ) => Self::Done,
            None => Self::None,
        }
    }
}

/// A decision that waits until the journal holds it.
#[derive(Debug)]
struct Held {
    position: u64,
    task: Task,
    answer: Answer,
    effects: Vec<Effect>,
    /// Where the process may be killed before this is let go, and after.
    before: Option<CrashPoint>,
    after: Option<CrashPoint>,
}

/// Where the process may be killed around one step.
#[derive(Clone, Copy, Debug, Default)]
struct Points {
    journal: Option<CrashPoint>,
    reply: Option<CrashPoint>,
    after: Option<CrashPoint>,
}

#[derive(Debug)]
struct Reading {
    group: usize,
    epoch: i32,
    token: ReadToken,
    allowed: Vec<DescriptionHash>,
}

pub struct World {
    dice: Dice,
    pub plan: Plan,
    now: i64,
    order: u64,
    queue: BTreeMap<(i64, u64), Event>,
    queued: u64,
    life: u64,
    coordinator: Coordinator,
    journal: Journal,
    committing: bool,
    held: Vec<Held>,
    plugin: Plugin,
    books: Vec<GroupBook>,
    members: Vec<Member>,
    tasks: HashMap<OpId, Task>,
    reads: HashMap<u64, Reading>,
    next_op: u64,
    trace: bool,
}

impl World {
    pub fn new(seed: u64, trace: bool) -> Self {
        let mut dice = Dice::new(seed);
        let plan = Plan::new(seed, &mut dice);
        let books: Vec<_> = (0..=dice.below(2)).map(|n| GroupBook::new(format!("g{n}"))).collect();
        let mut members = Vec::new();
        for group in 0..books.len() {
            for n in 0..=dice.below(3) {
                members.push(Member {
                    group,
                    id: format!("m{n}"),
                    version: i16::from(dice.chance(90)),
                    willing: dice.chance(85),
                    variant: dice.below(2),
                    inside: true,
                    epoch: 0,
                    wants_push: false,
                    pushing: false,
                });
            }
        }
        Self {
            dice,
            plan,
            now: 1_000_000,
            order: 0,
            queue: BTreeMap::new(),
            queued: 0,
            life: 0,
            coordinator: Coordinator::new(Config::default()),
            journal: Journal::default(),
            committing: false,
            held: Vec::new(),
            plugin: Plugin::default(),
            books,
            members,
            tasks: HashMap::new(),
            reads: HashMap::new(),
            next_op: 0,
            trace,
        }
    }

    pub fn run(&mut self) {
        self.storm();
        self.heal();
        self.agree_with_disk();
        self.kill();
        self.all_shown();
        self.clear_up();
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>9} {}", self.now - 1_000_000, what());
        }
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn later(&mut self, delay: i64, event: Event) {
        self.queued += 1;
        self.queue.insert((self.now + delay, self.queued), event);
    }

    fn at(&mut self) -> Now {
        Now { at: self.now, jitter: self.dice.roll() as u32 }
    }

    // The storm.

    fn storm(&mut self) {
        for member in 0..self.members.len() {
            let delay = self.dice.between(0, 4_000);
            self.later(delay, Event::Beat(member));
            for _ in 0..self.dice.below(4) {
                let delay = self.dice.between(3_000, STORM);
                self.later(delay, Event::Repush(member));
            }
            for _ in 0..self.dice.below(3) {
                let (leave, join) = (self.dice.between(10_000, STORM), self.dice.between(10_000, STORM));
                self.later(leave, Event::Leave(member));
                self.later(join, Event::Join(member));
            }
        }
        for group in 0..self.books.len() {
            let unmarks = self.plan.crash().is_some_and(CrashPoint::is_of_unmark);
            for _ in 0..2 + self.dice.below(4) + 6 * usize::from(unmarks) {
                let delay = self.dice.between(1_000, STORM);
                self.later(delay, Event::Describe(group));
            }
            let deletes = self.plan.crash().is_some_and(CrashPoint::is_of_delete);
            for _ in 0..self.dice.below(2) + 3 * usize::from(deletes) {
                let delay = self.dice.between(10_000, STORM);
                if deletes {
                    self.all_leave(group, delay - 500);
                    if self.dice.chance(50) {
                        self.visit(group, delay + 50);
                    }
                }
                self.later(delay, Event::Delete(group));
            }
            if self.plan.crash() == Some(CrashPoint::SweepBeforeJournal) {
                let delay = self.dice.between(20_000, STORM - 20_000);
                self.all_leave(group, delay);
                for after in [1_000, 15_000] {
                    self.later(delay + after, Event::Cleanup);
                    self.later(delay + after + 4_000, Event::Sweep);
                }
            }
        }
        let delays = [5_000; 2].map(|least| self.dice.between(least, STORM));
        self.later(delays[0], Event::Cleanup);
        self.later(delays[1], Event::Sweep);
        for _ in 0..2 {
            let delay = self.dice.between(5_000, STORM);
            self.later(delay, Event::Damage);
        }
        let end = self.now + STORM;
        while let Some((&(at, key), &event)) = self.queue.first_key_value() {
            if at > end {
                break;
            }
            self.queue.remove(&(at, key));
            self.now = at.max(self.now);
            if self.coordinator.next_deadline().is_some_and(|deadline| deadline <= self.now) {
                self.step(Input::Tick, None, Points::default(), Task::Nobody);
            }
            self.handle(event);
        }
    }

    fn all_leave(&mut self, group: usize, delay: i64) {
        for member in 0..self.members.len() {
            if self.members[member].group == group {
                self.later(delay, Event::Leave(member));
            }
        }
    }

    /// A member comes, pushes and goes while a delete is under way.
    fn visit(&mut self, group: usize, delay: i64) {
        let Some(member) = self.members.iter().position(|member| member.group == group) else { return };
        for (event, after) in [(Event::Join(member), 0), (Event::Repush(member), 60), (Event::Leave(member), 120)] {
            self.later(delay + after, event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Beat(member) => self.beat(member),
            Event::Push(member) => self.push(member),
            Event::Repush(member) => {
                if self.dice.chance(40) {
                    self.members[member].variant = self.dice.below(3);
                }
                self.members[member].wants_push = self.members[member].willing;
                self.push(member);
            }
            Event::Leave(member) => self.leave(member),
            Event::Join(member) => {
                if !self.members[member].inside {
                    self.members[member].inside = true;
                    self.members[member].epoch = 0;
                    self.later(0, Event::Beat(member));
                }
            }
            Event::Describe(group) => self.describe(group),
            Event::Delete(group) => self.delete(group),
            Event::Cleanup => self.cleanup(),
            Event::Sweep => self.sweep(),
            Event::Damage => self.damage(),
            Event::Commit { life } if life == self.life => self.commit(),
            Event::CallEnds { life, call } if life == self.life => self.call_ends(call),
            Event::CallDeadline { life, call } if life == self.life => self.call_deadline(call),
            Event::ReadEnds { life, read } if life == self.life => self.read_ends(read),
            Event::Commit { .. } | Event::CallEnds { .. } | Event::CallDeadline { .. } | Event::ReadEnds { .. } => {}
        }
    }

    /// Everything that the process has begun comes to its end; the weather stands still.
    fn drain(&mut self) {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if event.is_weather() {
                continue;
            }
            self.now = at.max(self.now);
            self.handle(event);
        }
        assert!(self.held.is_empty() && self.journal.is_idle() && self.plugin.is_idle());
        assert!(self.tasks.is_empty(), "operations without an answer: {:?}", self.tasks);
    }

    // The shell.

    /// Decides; journals and applies; lets go at once or when the journal holds it.
    fn step(&mut self, input: Input<'_>, group: Option<usize>, points: Points, task: Task) {
        let now = self.at();
        let decision = self.coordinator.decide(now, input);
        let answer = Answer::of(decision.reply);
        let durables: Vec<Durable> = decision
            .records
            .iter()
            .filter_map(|record| match record {
                Record::Durable(durable) => Some(durable.clone()),
                Record::Volatile(_) => None,
            })
            .collect();
        let is_durable = !durables.is_empty();
        if is_durable && points.journal.is_some_and(|point| self.plan.killed_at(point)) {
            return self.kill();
        }
        let position = self.journal.submit(&durables);
        for record in decision.records {
            self.coordinator.apply(record);
        }
        for durable in &durables {
            let group = Arc::clone(durable.group());
            self.coordinator.apply(Record::Volatile(Volatile::Journalled { group, position }));
        }
        self.note_begun(&decision.after_durable, task);
        let read = group.map_or(0, |group| self.coordinator.position(&self.books[group].id));
        let position = if is_durable { position.max(read) } else { read };
        let held = Held {
            position,
            task,
            answer,
            effects: decision.after_durable,
            before: points.reply.filter(|_| is_durable),
            after: points.after,
        };
        if held.position <= self.journal.durable {
            self.let_go(held);
        } else {
            self.held.push(held);
        }
        if !self.journal.is_idle() && !self.committing {
            self.committing = true;
            let (delay, life) = (self.dice.between(1, 20), self.life);
            self.later(delay, Event::Commit { life });
        }
    }

    /// A push or delete is begun with the decision to call the plugin.
    fn note_begun(&mut self, effects: &[Effect], task: Task) {
        for effect in effects {
            match (effect, task) {
                (Effect::PluginSet { op, group, .. }, Task::Push { member, hash, .. }) => {
                    let begun = self.next_order();
                    self.book_of(group).pushes.push(Pushed { hash, begun, good: false });
                    self.tasks.insert(*op, Task::Push { member, hash, begun: Some(begun) });
                }
                (Effect::PluginDelete { op, group, .. }, _) => {
                    let begun = self.next_order();
                    self.book_of(group).delete_begun = begun;
                    self.tasks.insert(*op, task);
                }
                _ => {}
            }
        }
    }

    fn book_of(&mut self, group: &str) -> &mut GroupBook {
        self.books.iter_mut().find(|book| book.id == group).unwrap()
    }

    fn let_go(&mut self, held: Held) {
        if held.before.is_some_and(|point| self.plan.killed_at(point)) {
            return self.kill();
        }
        let life = self.life;
        for effect in held.effects {
            let mutation = match effect {
                Effect::PluginSet { op, group, epoch, description, sequence } => {
                    Mutation { op, group: group.to_string(), set: Some((epoch, description)), sequence }
                }
                Effect::PluginDelete { op, group, sequence } => {
                    Mutation { op, group: group.to_string(), set: None, sequence }
                }
                _ => continue,
            };
            let before =
                if mutation.set.is_some() { CrashPoint::PushBeforePlugin } else { CrashPoint::DeleteBeforePlugin };
            if self.plan.killed_at(before) {
                return self.kill();
            }
            if self.plan.fault(&mut self.dice, &[Fault::Busy]).is_some() {
                self.outcome(&mutation, Err(PluginFailure::Busy), false);
            } else {
                let group = mutation.group.clone();
                let call = self.plugin.enter(mutation);
                self.later(DEADLINE, Event::CallDeadline { life, call });
                self.start_head(&group);
            }
            if self.life != life {
                return;
            }
        }
        self.tell(|| format!("{:?}: {:?}", held.task, held.answer));
        self.answered(held.task, held.answer);
        if self.life == life && held.after.is_some_and(|point| self.plan.killed_at(point)) {
            self.kill();
        }
    }

    fn start_head(&mut self, group: &str) {
        let life = self.life;
        if let Some((call, ends_after)) = self.plugin.start_head(group, &mut self.plan, &mut self.dice) {
            self.later(ends_after, Event::CallEnds { life, call });
        }
    }

    fn commit(&mut self) {
        self.committing = false;
        if self.plan.killed_at(CrashPoint::CommitTorn) {
            if self.dice.chance(50) {
                self.journal.commit();
            }
            return self.kill();
        }
        if self.dice.chance(25) && self.plan.fault(&mut self.dice, &[Fault::CommitFailure]).is_some() {
            return self.reload();
        }
        self.journal.commit();
        let life = self.life;
        let durable = self.journal.durable;
        let (free, held) = std::mem::take(&mut self.held).into_iter().partition(|held| held.position <= durable);
        self.held = held;
        let free: Vec<Held> = free;
        for held in free {
            self.let_go(held);
            if self.life != life {
                return;
            }
        }
    }

    /// A failed commit: the shard's memory is dropped, and nothing that waited is let go.
    fn reload(&mut self) {
        self.tell(|| "commit fails".to_owned());
        self.journal.forget();
        let now = self.at();
        let old = std::mem::replace(&mut self.coordinator, Coordinator::new(Config::default()));
        self.coordinator = old.reloaded(Config::default(), now, self.journal.load());
        for held in std::mem::take(&mut self.held) {
            for effect in &held.effects {
                if let Effect::PluginSet { op, .. } | Effect::PluginDelete { op, .. } = effect {
                    self.tasks.remove(op);
                }
            }
            let answer = match held.task {
                Task::Beat(_) => Answer::Beat { error: 14, epoch: 0, asked: false },
                Task::Push { .. } => Answer::Push(135),
                Task::Delete { .. } => Answer::Deleted(14),
                Task::Describe(_) | Task::Attach { .. } | Task::Nobody => continue,
            };
            self.answered(held.task, answer);
        }
        self.all_shown();
    }

    /// Killed, and started again at once.
    fn kill(&mut self) {
        self.tell(|| "killed".to_owned());
        self.life += 1;
        self.committing = false;
        self.journal.forget();
        self.held.clear();
        self.tasks.clear();
        self.reads.clear();
        self.plugin.kill(&mut self.dice);
        let now = self.at();
        self.coordinator = Coordinator::restore(Config::default(), now, self.journal.load());
        for member in 0..self.members.len() {
            // A push whose answer was lost is sent again.
            if std::mem::take(&mut self.members[member].pushing) {
                self.members[member].wants_push = true;
                self.later(100, Event::Push(member));
            }
            self.later(200, Event::Beat(member));
        }
        self.all_shown();
        if self.dice.chance(50) {
            let entries = self.plugin.list();
            self.step(Input::PluginListed { entries }, None, Points::default(), Task::Nobody);
        }
    }

    // Members.

    fn beat(&mut self, member: usize) {
        let Member { group, ref id, version, inside, epoch, .. } = self.members[member];
        if !inside {
            return;
        }
        let (group_id, member_id) = (self.books[group].id.clone(), id.clone());
        let request = if epoch == 0 { join(&group_id, &member_id) } else { bare(&group_id, &member_id, epoch) };
        let points = Points {
            journal: Some(CrashPoint::HeartbeatBeforeJournal),
            reply: Some(CrashPoint::HeartbeatBeforeReply),
            after: None,
        };
        let client = ClientContext { client_id: "c", client_host: "/127.0.0.1" };
        self.step(Input::Heartbeat { request: &request, version, client }, Some(group), points, Task::Beat(member));
        if !self.plan.calm && !self.queue.values().any(|event| *event == Event::Beat(member)) {
            self.later(INTERVAL, Event::Beat(member));
        }
    }

    fn leave(&mut self, member: usize) {
        let Member { group, ref id, version, inside, .. } = self.members[member];
        if !inside {
            return;
        }
        let (group_id, member_id) = (self.books[group].id.clone(), id.clone());
        self.members[member].inside = false;
        self.members[member].epoch = 0;
        let request = bare(&group_id, &member_id, -1);
        let client = ClientContext { client_id: "c", client_host: "/127.0.0.1" };
        let input = Input::Heartbeat { request: &request, version, client };
        self.step(input, Some(group), Points::default(), Task::Nobody);
    }

    fn push(&mut self, member: usize) {
        let Member { group, ref id, willing, variant, inside, wants_push, pushing, .. } = self.members[member];
        if !(inside && willing && wants_push) || pushing {
            return;
        }
        let book = &self.books[group];
        let (group_id, member_id) = (book.id.clone(), id.clone());
        let name = format!("{group_id}-{}-{variant}", book.making);
        let request = StreamsGroupTopologyDescriptionUpdateRequest {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            topology_description: description(&name),
            ..StreamsGroupTopologyDescriptionUpdateRequest::default()
        };
        let config = self.coordinator.config();
        let payload = PreparedPush::prepare(&request, &config.limits, config.compat);
        let hash = streamside_topology::hash_of_encoded(payload.encoded());
        self.members[member].pushing = true;
        let op = self.op();
        let points = Points { journal: Some(CrashPoint::PushBeforeJournal), reply: None, after: None };
        let input = Input::Push { op, group: &group_id, member: &member_id, topology_epoch: 0, payload };
        self.step(input, Some(group), points, Task::Push { member, hash, begun: None });
    }

    fn op(&mut self) -> OpId {
        self.next_op += 1;
        OpId(self.next_op)
    }

    fn call_deadline(&mut self, call: CallId) {
        let Some(mutation) = self.plugin.call(call).filter(|call| !call.timed_out).map(|call| call.mutation.clone())
        else {
            return;
        };
        if let Some(failure) = self.plugin.deadline(call) {
            self.start_head(&mutation.group);
            self.outcome(&mutation, Err(failure), false);
        }
    }

    fn call_ends(&mut self, call: CallId) {
        let Some(is_set) = self.plugin.call(call).map(|call| call.mutation.set.is_some()) else { return };
        let point = if is_set { CrashPoint::PushBeforeEffect } else { CrashPoint::DeleteBeforeEffect };
        if self.plan.killed_at(point) {
            return self.kill();
        }
        self.plugin.take_effect(call);
        let point = if is_set { CrashPoint::PushBeforeOutcome } else { CrashPoint::DeleteBeforeOutcome };
        if self.plan.killed_at(point) {
            // What was done is done.
            self.plugin.end(call);
            return self.kill();
        }
        if let Some((mutation, verdict, late)) = self.plugin.end(call) {
            let life = self.life;
            self.outcome(&mutation, verdict, late);
            if self.life == life {
                self.start_head(&mutation.group);
            }
        }
    }

    fn outcome(&mut self, mutation: &Mutation, result: Result<(), PluginFailure>, late: bool) {
        self.tell(|| format!("{:?} of {:?} late={late}: {result:?}", mutation.op, mutation.set.is_some()));
        // Nobody waits for a late one, and after a reload nobody may be known.
        let task = if late { Task::Nobody } else { self.tasks.remove(&mutation.op).unwrap_or(Task::Nobody) };
        let group = self.books.iter().position(|book| book.id == mutation.group);
        let op = mutation.op;
        if mutation.set.is_some() {
            let points = Points {
                journal: Some(CrashPoint::PushOutcomeBeforeJournal),
                reply: Some(CrashPoint::PushOutcomeBeforeReply),
                after: Some(CrashPoint::PushAfterReply),
            };
            self.step(Input::SetOutcome { op, result, late }, group, points, task);
        } else {
            let points = Points {
                journal: Some(CrashPoint::DeleteOutcomeBeforeJournal),
                reply: Some(CrashPoint::DeleteOutcomeBeforeReply),
                after: Some(CrashPoint::DeleteAfterReply),
            };
            self.step(Input::DeleteOutcome { op, result, late }, group, points, task);
        }
    }

    // Operators.

    fn describe(&mut self, group: usize) {
        let id = self.books[group].id.clone();
        let input = Input::Describe { group: &id, include_description: true };
        self.step(input, Some(group), Points::default(), Task::Describe(group));
    }

    fn read_ends(&mut self, read: u64) {
        let Some(Reading { group, epoch, token, .. }) = self.reads.get(&read) else { return };
        let (group, epoch, token) = (*group, *epoch, *token);
        let id = self.books[group].id.clone();
        let faults = &[Fault::NullRead, Fault::CorruptRead, Fault::FailedRead];
        let result = match self.plan.fault(&mut self.dice, faults) {
            Some(Fault::FailedRead) => {
                let transient = PluginFailure::Transient { message: None, retry_after_ms: None };
                Err(self.dice.pick(&[0, 1, 2, 3])).map_err(|n| match n {
                    0 => transient,
                    1 => PluginFailure::TimedOut,
                    2 => PluginFailure::Contract,
                    _ => PluginFailure::Fatal,
                })
            }
            Some(fault) => {
                self.books[group].damaged = self.next_order();
                Ok((fault == Fault::CorruptRead).then(|| Bytes::from_static(b"\x02\x02torn")))
            }
            None => Ok(self.plugin.get(&id, epoch)),
        };
        let points = Points {
            journal: Some(CrashPoint::UnmarkBeforeJournal),
            reply: Some(CrashPoint::UnmarkBeforeReply),
            after: None,
        };
        let input = Input::GetOutcome { group: &id, epoch, token, result };
        self.step(input, Some(group), points, Task::Attach { group, read });
    }

    fn delete(&mut self, group: usize) {
        let id = self.books[group].id.clone();
        let op = self.op();
        let begun = self.next_order();
        let points = Points {
            journal: Some(CrashPoint::DeleteBeforeJournal),
            reply: None,
            after: Some(CrashPoint::DeleteAfterReply),
        };
        self.step(Input::Delete { op, group: &id }, Some(group), points, Task::Delete { group, begun });
    }

    fn cleanup(&mut self) {
        let first_op = OpId(self.next_op + 1);
        self.next_op += self.books.len() as u64;
        let points = Points { journal: Some(CrashPoint::DeleteBeforeJournal), ..Points::default() };
        self.step(Input::CleanupCycle { first_op }, None, points, Task::Nobody);
    }

    fn sweep(&mut self) {
        let before: Vec<bool> = self.books.iter().map(|book| self.coordinator.group_id(&book.id).is_some()).collect();
        let life = self.life;
        let points = Points { journal: Some(CrashPoint::SweepBeforeJournal), ..Points::default() };
        self.step(Input::Sweep, None, points, Task::Nobody);
        if self.life != life {
            return;
        }
        for (group, was) in before.into_iter().enumerate() {
            if was && self.coordinator.group_id(&self.books[group].id).is_none() {
                let order = self.next_order();
                self.books[group].deleted = order;
                self.books[group].making += 1;
            }
        }
    }

    /// The store loses or corrupts copies.
    fn damage(&mut self) {
        if self.plugin.store.is_empty() {
            return;
        }
        let Some(fault) = self.plan.fault(&mut self.dice, &[Fault::LostStore, Fault::CorruptStore]) else { return };
        self.tell(|| format!("{fault:?}"));
        for group in 0..self.books.len() {
            let id = self.books[group].id.clone();
            if let Some(copy) = self.plugin.store.get_mut(&id) {
                let order = self.order + 1;
                self.order = order;
                self.books[group].damaged = order;
                if fault == Fault::CorruptStore {
                    copy.bytes = copy.bytes.slice(..copy.bytes.len() - 1);
                } else {
                    self.plugin.store.remove(&id);
                }
            }
        }
    }

    // What clients are told.

    fn answered(&mut self, task: Task, answer: Answer) {
        match (task, answer) {
            (Task::Beat(member), Answer::Beat { error, epoch, asked }) => {
                self.beat_answered(member, error, epoch, asked)
            }
            (Task::Push { member, begun, .. }, Answer::Push(code)) => self.push_answered(member, begun, code),
            (Task::Describe(group), Answer::Described { error, read }) => {
                assert!(matches!(error, 0 | 69), "described with {error}");
                if let Some((epoch, token)) = read {
                    let allowed = self.books[group].allowed();
                    self.next_op += 1;
                    let (read, life) = (self.next_op, self.life);
                    self.reads.insert(read, Reading { group, epoch, token, allowed });
                    let delay = self.dice.between(1, 3_000);
                    self.later(delay, Event::ReadEnds { life, read });
                }
            }
            (Task::Attach { group, read }, Answer::Attached { status, description }) => {
                let reading = self.reads.remove(&read).unwrap();
                assert_eq!(status == 3, description.is_some());
                if let Some(bytes) = description {
                    let hash = streamside_topology::hash_of_encoded(&bytes);
                    let mut allowed = reading.allowed;
                    allowed.extend(self.books[group].allowed());
                    assert!(allowed.contains(&hash), "a describe showed what nobody pushed, or what was deleted");
                }
            }
            (Task::Delete { group, begun }, Answer::Deleted(code)) => {
                assert!(matches!(code, 0 | 14 | 68 | 69 | 134 | -1), "deleted with {code}");
                if code == 0 {
                    let book = &mut self.books[group];
                    book.deleted = book.deleted.max(begun);
                    book.delete_begun = book.delete_begun.max(begun);
                    book.making += 1;
                    let id = book.id.clone();
                    let newer = book.pushes.iter().any(|push| push.begun > begun);
                    assert!(newer || !self.plugin.store.contains_key(&id), "a deleted group's copy stayed");
                }
            }
            // Called, and the outcome is awaited; or nobody waits.
            (_, Answer::None) | (Task::Nobody, _) => {}
            (task, answer) => panic!("{task:?} was answered {answer:?}"),
        }
    }

    fn beat_answered(&mut self, member: usize, error: i16, epoch: i32, asked: bool) {
        let member_now = &mut self.members[member];
        if !member_now.inside {
            return;
        }
        match error {
            0 => member_now.epoch = epoch,
            14 => {}
            25 | 110 => {
                member_now.epoch = 0;
                member_now.wants_push = false;
                self.later(100, Event::Beat(member));
            }
            error => panic!("a heartbeat was answered {error}"),
        }
        if asked {
            assert_eq!(self.members[member].version, 1);
            self.members[member].wants_push = true;
            self.later(100, Event::Push(member));
        }
    }

    fn push_answered(&mut self, member: usize, begun: Option<u64>, code: i16) {
        let group = self.members[member].group;
        self.members[member].pushing = false;
        self.members[member].wants_push = false;
        assert!(matches!(code, 0 | 25 | 69 | 135 | -1), "a push was answered {code}");
        if code == 0 {
            // Without a call the bytes are those of an earlier push that was good.
            if let Some(push) = self.books[group].pushes.iter_mut().find(|push| Some(push.begun) == begun) {
                push.good = true;
            }
            self.shown(group);
        }
    }

    // What must hold.

    /// What an honest store would have a describe show now; changes nothing.
    fn look(&mut self, group: usize) -> Option<DescriptionHash> {
        let id = self.books[group].id.clone();
        let now = self.at();
        let describe = Input::Describe { group: &id, include_description: true };
        let Answer::Described { read, .. } = Answer::of(self.coordinator.decide(now, describe).reply) else {
            panic!("a describe was not answered")
        };
        let (epoch, token) = read?;
        let result = Ok(self.plugin.get(&id, epoch));
        let outcome = Input::GetOutcome { group: &id, epoch, token, result };
        match Answer::of(self.coordinator.decide(now, outcome).reply) {
            Answer::Attached { description, .. } => {
                description.map(|bytes| streamside_topology::hash_of_encoded(&bytes))
            }
            other => panic!("a read was answered {other:?}"),
        }
    }

    fn shown(&mut self, group: usize) {
        let shown = self.look(group);
        match self.books[group].must() {
            Must::Show(hashes) => {
                let fine = shown.is_some_and(|hash| hashes.contains(&hash));
                let id = &self.books[group].id;
                let (mark, held) = (self.coordinator.mark(id), self.plugin.store.get(id));
                assert!(
                    fine,
                    "{id}: a push that was answered 0 is lost: shown {shown:?}, {mark:#?}, the plugin holds {held:?}"
                );
            }
            Must::AtMost(hashes) => {
                let fine = shown.is_none_or(|hash| hashes.contains(&hash));
                assert!(fine, "{}: shown what must not be", self.books[group].id);
            }
        }
    }

    fn all_shown(&mut self) {
        for group in 0..self.books.len() {
            self.shown(group);
        }
    }

    /// Faults have stopped: every group with a member that can push is AVAILABLE again in bounded time.
    fn heal(&mut self) {
        self.tell(|| "calm".to_owned());
        self.plan.calm = true;
        self.drain();
        self.all_shown();
        for group in 0..self.books.len() {
            let first = self.members.iter().position(|member| member.group == group).unwrap();
            let pusher = &mut self.members[first];
            (pusher.inside, pusher.willing, pusher.version) = (true, true, 1);
            // The cause of a refusal was repaired.
            let id = self.books[group].id.clone();
            if self.coordinator.mark(&id).is_some_and(|mark| mark.failed.is_some()) {
                self.step(Input::Retry { group: &id }, Some(group), Points::default(), Task::Nobody);
            }
        }
        let began = self.now;
        loop {
            self.now += 1;
            // Two beats each: the first may be a join, or told to join.
            for member in (0..self.members.len()).chain(0..self.members.len()) {
                self.beat(member);
                self.drain();
            }
            for group in 0..self.books.len() {
                self.describe(group);
                self.drain();
            }
            let ill: Vec<usize> = (0..self.books.len()).filter(|group| self.look(*group).is_none()).collect();
            if ill.is_empty() {
                break;
            }
            let next = ill.iter().map(|group| self.next_asking(*group)).min().unwrap();
            self.now = self.now.max(next);
            let passed = self.now - began;
            assert!(passed <= HEALED_WITHIN, "not AVAILABLE again after {passed} ms: {ill:?}");
        }
        self.all_shown();
    }

    /// When somebody of the group may be asked next.
    fn next_asking(&self, group: usize) -> i64 {
        let window = self.coordinator.descriptions().window(&self.books[group].id);
        window.map_or(self.now, |window| {
            let another = window.asked_at + 2 * INTERVAL;
            let others = !window.answered && (1..3).contains(&window.asked.len()) && another > self.now;
            if others { window.until.min(another) } else { window.until }
        })
    }

    /// Memory is what a start from the disk would give.
    fn agree_with_disk(&mut self) {
        let now = self.at();
        let restored = Coordinator::restore(Config::default(), now, self.journal.load());
        for book in &self.books {
            assert_eq!(restored.mark(&book.id), self.coordinator.mark(&book.id));
            assert_eq!(restored.group_id(&book.id), self.coordinator.group_id(&book.id));
        }
        for group in self.plugin.store.keys() {
            let known = self.coordinator.mark(group).is_some_and(|mark| mark.may_hold());
            assert!(known, "{group}: the plugin holds a copy that no mark knows of");
        }
    }

    /// Everybody leaves, everything is deleted: no table, journal or store keeps anything.
    fn clear_up(&mut self) {
        self.drain();
        // One that was asked and never pushed goes as well, and its window with it.
        let asked = join("asked", "m");
        let client = ClientContext { client_id: "c", client_host: "/127.0.0.1" };
        self.books.push(GroupBook::new("asked".to_owned()));
        for request in [asked, bare("asked", "m", -1)] {
            let input = Input::Heartbeat { request: &request, version: 1, client };
            self.step(input, None, Points::default(), Task::Nobody);
        }
        for member in 0..self.members.len() {
            self.leave(member);
        }
        self.drain();
        // Members whose leaving was lost are fenced when their sessions end.
        self.now += 60_000;
        while self.coordinator.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.step(Input::Tick, None, Points::default(), Task::Nobody);
            self.drain();
        }
        if self.dice.chance(50) {
            for group in 0..self.books.len() {
                self.delete(group);
            }
        } else {
            self.cleanup();
            self.drain();
            self.sweep();
        }
        self.drain();
        let sizes = self.coordinator.maps_len();
        assert!(sizes.iter().all(|(_, size)| *size == 0), "left behind: {sizes:?}");
        assert!(self.plugin.store.is_empty(), "orphans: {:?}", self.plugin.store.keys());
        assert!(self.journal.is_empty());
    }
}

fn bare<'a>(group: &'a str, member: &'a str, epoch: i32) -> StreamsGroupHeartbeatRequest<'a> {
    StreamsGroupHeartbeatRequest {
        group_id: Cow::Borrowed(group),
        member_id: Cow::Borrowed(member),
        member_epoch: epoch,
        ..StreamsGroupHeartbeatRequest::default()
    }
}

fn join<'a>(group: &'a str, member: &'a str) -> StreamsGroupHeartbeatRequest<'a> {
    let subtopology =
        Subtopology { subtopology_id: "0".to_owned(), source_topics: vec!["in".to_owned()], ..Subtopology::default() };
    StreamsGroupHeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        topology: Some(Topology { epoch: 0, subtopologies: vec![subtopology], ..Topology::default() }),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        process_id: Some(Cow::Borrowed("p")),
        ..bare(group, member, 0)
    }
}

fn description(name: &str) -> wire::TopologyDescription {
    let node = wire::Node { name: name.to_owned(), node_type: 1, ..wire::Node::default() };
    let subtopology =
        wire::Subtopology { subtopology_id: "0".to_owned(), nodes: vec![node], ..wire::Subtopology::default() };
    wire::TopologyDescription { subtopologies: vec![subtopology], ..wire::TopologyDescription::default() }
}
