//! Sessions, rebalance time-outs and initial delays (spec kip1071 §7.1).
//!
//! Each member stands once in the queue. A heartbeat only moves the end of its session; when its place in the queue
//! comes up too early it is put where its earliest deadline now is.

use std::collections::{BTreeSet, HashMap};

use super::change::GroupChange;
use super::state::Group;
use super::tasks::MemberState;
use super::{Groups, leave, settings, target};
use crate::config::Config;
use crate::input::{Millis, Now};
use crate::record::{GroupId, MemberId, Record, Volatile};

/// How many timers one tick looks at; the caller ticks again while there are more.
const TIMERS_PER_TICK: usize = 256;

/// Pending timers: of a member, or of a group's initial delay.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Millis, GroupId, Option<MemberId>)>);

impl Timers {
    pub(super) fn first(&self) -> Option<Millis> {
        self.0.first().map(|(at, ..)| *at)
    }

    pub(super) fn insert(&mut self, at: Millis, group: &GroupId, member: Option<&MemberId>) {
        self.0.insert((at, group.clone(), member.cloned()));
    }

    pub(super) fn remove(&mut self, at: Millis, group: &GroupId, member: Option<&MemberId>) {
        self.0.remove(&(at, group.clone(), member.cloned()));
    }

    fn due(&self, now: Millis) -> impl Iterator<Item = (&GroupId, Option<&MemberId>)> {
        self.0.iter().take_while(move |(at, ..)| *at <= now).take(TIMERS_PER_TICK).map(|(_, g, m)| (g, m.as_ref()))
    }
}

impl Groups {
    /// Applies a volatile change.
    pub(super) fn apply_change(&mut self, change: &GroupChange) {
        let id = match change {
            GroupChange::Seen { group, .. }
            | GroupChange::Revoking { group, .. }
            | GroupChange::Rearmed { group, .. }
            | GroupChange::Delayed { group, .. }
            | GroupChange::ShutdownRequested { group, .. }
            | GroupChange::EndpointEpoch { group, .. }
            | GroupChange::Offsets { group, .. }
            | GroupChange::Configured { group, .. } => group,
        };
        let Self { groups, timers, .. } = self;
        let Some(group) = groups.get_mut(id).map(super::GroupKind::streams_mut) else { return };
        match change {
            GroupChange::Seen { member, until, .. } => {
                if let Some(m) = group.members.get_mut(member) {
                    m.session_until = Some(*until);
                    if m.armed_at.is_none_or(|at| at > *until) {
                        rearm(timers, group, member);
                    }
                }
            }
            GroupChange::Revoking { member, until, .. } => {
                if let Some(m) = group.members.get_mut(member) {
                    m.revoking = *until;
                    if let Some((until, _)) = until
                        && m.armed_at.is_none_or(|at| at > *until)
                    {
                        rearm(timers, group, member);
                    }
                }
            }
            GroupChange::Rearmed { member, .. } => rearm(timers, group, member),
            GroupChange::Delayed { until, .. } => {
                if let Some(at) = group.delayed_until {
                    timers.remove(at, &group.id, None);
                }
                if let Some(at) = until {
                    timers.insert(*at, &group.id, None);
                }
                group.delayed_until = *until;
            }
            _ => group.apply_untimed(change),
        }
    }

    /// Spec kip1071 §11.2: after a start all sessions and rebalance time-outs run in full.
    pub(super) fn arm_all(&mut self, now: Millis) {
        let (usual, bounds) = (self.session_timeout_ms, self.session_bounds);
        for group in self.groups.values_mut().map(super::GroupKind::streams_mut) {
            let session = i64::from(settings::session_timeout_ms(group.settings.as_deref(), usual, bounds));
            for member in group.members.values_mut() {
                member.session_until = Some(now.saturating_add(session));
                member.revoking = (member.current.state == MemberState::UnrevokedTasks).then(|| {
                    let timeout = i64::from(member.metadata.rebalance_timeout_ms);
                    (now.saturating_add(timeout), member.current.member_epoch)
                });
                if let Some(at) = member.armed_at.take() {
                    self.timers.remove(at, &group.id, Some(&member.id));
                }
                member.armed_at = member.deadline();
                if let Some(at) = member.armed_at {
                    self.timers.insert(at, &group.id, Some(&member.id));
                }
            }
        }
    }

    /// Decides on what is due.
    pub(super) fn due(&self, config: &Config, now: Now) -> Vec<Record> {
        let mut records = Vec::new();
        // Groups that an earlier timer of this tick has changed: their epoch and how many members went.
        let mut fenced: HashMap<&GroupId, leave::Fences> = HashMap::new();
        for (id, member) in self.timers.due(now.at) {
            let Some(group) = self.groups.get(id).map(super::GroupKind::streams) else { continue };
            let Some(member) = member else {
                // A fence of this tick changes what an assignment must be computed from: the next tick does it.
                if !fenced.contains_key(id) {
                    records.push(volatile(GroupChange::Delayed { group: id.clone(), until: None }));
                    target::after_delay(self.assignor.as_ref(), group, config, now, &mut records);
                }
                continue;
            };
            let Some(m) = group.members.get(member) else { continue };
            let over = m.session_until.is_some_and(|until| until <= now.at)
                || m.revoking.is_some_and(|(until, epoch)| until <= now.at && epoch == m.current.member_epoch);
            if over {
                fenced.entry(id).or_insert_with(|| leave::Fences::of(group)).fence(m, &mut records);
                continue;
            }
            if m.revoking.is_some_and(|(until, _)| until <= now.at) {
                records.push(volatile(GroupChange::Revoking { group: id.clone(), member: m.id.clone(), until: None }));
            }
            records.push(volatile(GroupChange::Rearmed { group: id.clone(), member: m.id.clone() }));
        }
        records
    }
}

/// Puts a member where its earliest deadline is.
fn rearm(timers: &mut Timers, group: &mut Group, member: &str) {
    let Some(m) = group.members.get_mut(member) else { return };
    if let Some(at) = m.armed_at {
        timers.remove(at, &group.id, Some(&m.id));
    }
    m.armed_at = m.deadline();
    if let Some(at) = m.armed_at {
        timers.insert(at, &group.id, Some(&m.id));
    }
}

fn volatile(change: GroupChange) -> Record {
    Record::Volatile(Volatile::Group(change))
}
