//! A store with one lane a group, behind the deadline of H3.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use streamside_coordinator::{OpId, PluginFailure};

use crate::dice::Dice;
use crate::faults::{Fault, Plan};

pub type CallId = u64;
type Verdict = Result<(), PluginFailure>;

#[derive(Clone, Debug)]
pub struct Mutation {
    pub op: OpId,
    pub group: String,
    /// Absent for a delete.
    pub set: Option<(i32, Bytes)>,
    pub sequence: u64,
}

/// What will become of a call that was started.
#[derive(Clone, Debug)]
struct Course {
    verdict: Verdict,
    takes_effect: bool,
    ends_after: i64,
}

#[derive(Debug)]
pub struct Call {
    pub mutation: Mutation,
    course: Option<Course>,
    pub timed_out: bool,
}

/// A stored copy.
#[derive(Clone, Debug)]
pub struct Copy {
    pub epoch: i32,
    pub bytes: Bytes,
}

#[derive(Debug, Default)]
pub struct Plugin {
    pub store: BTreeMap<String, Copy>,
    calls: HashMap<CallId, Call>,
    lanes: HashMap<String, VecDeque<CallId>>,
    next: CallId,
}

const MUTATION_FAULTS: &[Fault] = &[
    Fault::Permanent,
    Fault::Transient,
    Fault::TransientDone,
    Fault::Contract,
    Fault::Fatal,
    Fault::LateSuccess,
    Fault::LateFailure,
    Fault::LateRefusal,
    Fault::PluginCrash,
];

impl Plugin {
    /// Puts a mutation into its group's lane; its id.
    pub fn enter(&mut self, mutation: Mutation) -> CallId {
        self.next += 1;
        let lane = self.lanes.entry(mutation.group.clone()).or_default();
        if let Some(last) = lane.back().map(|id| self.calls[id].mutation.sequence) {
            assert!(last < mutation.sequence, "mutations enter a lane in the order of their sequences");
        }
        lane.push_back(self.next);
        self.calls.insert(self.next, Call { mutation, course: None, timed_out: false });
        self.next
    }

    /// Starts the call at the head of a lane; when it will end.
    pub fn start_head(&mut self, group: &str, plan: &mut Plan, dice: &mut Dice) -> Option<(CallId, i64)> {
        let id = *self.lanes.get(group)?.front()?;
        let call = self.calls.get_mut(&id)?;
        if call.course.is_some() {
            return None;
        }
        let course = course(plan.fault(dice, MUTATION_FAULTS), dice);
        let ends_after = course.ends_after;
        call.course = Some(course);
        Some((id, ends_after))
    }

    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.get(&id)
    }

    /// The deadline of a call has come: TimedOut if it runs (it keeps its lane), Busy if it was never made.
    pub fn deadline(&mut self, id: CallId) -> Option<PluginFailure> {
        let call = self.calls.get_mut(&id)?;
        if call.course.is_some() {
            call.timed_out = true;
            return Some(PluginFailure::TimedOut);
        }
        let group = call.mutation.group.clone();
        self.calls.remove(&id);
        self.leave(&group, id);
        Some(PluginFailure::Busy)
    }

    /// What the call does to the store, if anything.
    pub fn take_effect(&mut self, id: CallId) {
        let Some(call) = self.calls.get(&id) else { return };
        if call.course.as_ref().is_some_and(|course| course.takes_effect) {
            apply(&mut self.store, &call.mutation);
        }
    }

    /// The call is over: its verdict, and whether the answer was out before.
    pub fn end(&mut self, id: CallId) -> Option<(Mutation, Verdict, bool)> {
        let call = self.calls.remove(&id)?;
        self.leave(&call.mutation.group, id);
        let verdict = call.course.map_or(Err(PluginFailure::Crashed), |course| course.verdict);
        Some((call.mutation, verdict, call.timed_out))
    }

    fn leave(&mut self, group: &str, id: CallId) {
        if let Some(lane) = self.lanes.get_mut(group) {
            lane.retain(|other| *other != id);
            if lane.is_empty() {
                self.lanes.remove(group);
            }
        }
    }

    /// The process is killed: calls that run have done their work or not.
    pub fn kill(&mut self, dice: &mut Dice) {
        let mut running: Vec<_> = self.calls.drain().filter(|(_, call)| call.course.is_some()).collect();
        running.sort_by_key(|(id, _)| *id);
        for (_, call) in running {
            if dice.chance(50) {
                apply(&mut self.store, &call.mutation);
            }
        }
        self.lanes.clear();
    }

    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    pub fn list(&self) -> Vec<(std::sync::Arc<str>, i32)> {
        self.store.iter().map(|(group, copy)| (group.as_str().into(), copy.epoch)).collect()
    }

    /// What an honest read finds.
    pub fn get(&self, group: &str, epoch: i32) -> Option<Bytes> {
        self.store.get(group).filter(|copy| copy.epoch == epoch).map(|copy| copy.bytes.clone())
    }
}

fn apply(store: &mut BTreeMap<String, Copy>, mutation: &Mutation) {
    match &mutation.set {
        Some((epoch, bytes)) => {
            let copy = Copy { epoch: *epoch, bytes: bytes.clone() };
            store.insert(mutation.group.clone(), copy);
        }
        None => drop(store.remove(&mutation.group)),
    }
}

fn course(fault: Option<Fault>, dice: &mut Dice) -> Course {
    let soon = dice.between(1, 2_000);
    let late = dice.between(10_001, 40_000);
    let transient = || Err(PluginFailure::Transient { message: None, retry_after_ms: None });
    let permanent = || Err(PluginFailure::Permanent { message: None });
    let (verdict, takes_effect, ends_after) = match fault {
        None => (Ok(()), true, soon),
        Some(Fault::Permanent) => (permanent(), false, soon),
        Some(Fault::TransientDone) => (transient(), true, soon),
        Some(Fault::Contract) => (Err(PluginFailure::Contract), false, soon),
        Some(Fault::Fatal) => (Err(PluginFailure::Fatal), false, soon),
        Some(Fault::LateSuccess) => (Ok(()), true, late),
        Some(Fault::LateFailure) => (transient(), dice.chance(50), late),
        Some(Fault::LateRefusal) => (permanent(), false, late),
        Some(Fault::PluginCrash) => (Err(PluginFailure::Crashed), dice.chance(50), soon),
        Some(_) => (transient(), false, soon),
    };
    Course { verdict, takes_effect, ends_after }
}
