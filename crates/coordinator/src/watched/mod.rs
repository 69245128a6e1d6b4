//! What do a broker's answers tell about its groups?
//!
//! Beside a broker membership is the broker's. Every heartbeat that it answered and every entry that it described is
//! looked at here, and what they tell is kept per group: E, the fingerprint of the assignment topology, which making of
//! the group id it is, the members that are heard. Nothing is asked or changed here: that is `broker`'s, from these facts.
//!
//! | module | what it holds |
//! |---|---|
//! | [`view`] | what is known of a group and of its members |
//! | [`beat`] | what an answered heartbeat tells |
//! | [`described`] | what a described entry tells: facts, a pusher's standing, a deleter's verdict |
//! | [`gone`] | groups that went: deleted, described as missing, out of sight |

pub mod beat;
pub mod described;
pub mod gone;
pub mod view;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use streamside_wire::messages::streams_group_heartbeat::Topology;

pub use described::{DeleteVerdict, delete_verdict, standing};
pub use view::{KeptFacts, Kin, Question, Reported, SeenMember, View};

use crate::config::Config;
use crate::description::Mark;
use crate::facts::GroupFacts;
use crate::input::Millis;
use crate::record::{GroupId, MemberId, Record, Volatile};
use view::WatchedGroup;

/// A heartbeat counts as recent for so many intervals.
const RECENT_INTERVALS: Millis = 3;

/// How often what is kept learns that its group was seen.
pub(crate) const KEPT_SEEN_MS: Millis = 3_600_000;

/// A volatile change of what is known of watched groups.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum WatchedChange {
    /// What is known of the group, as a whole.
    View { group: GroupId, view: Box<View> },
    /// Nothing is known any more.
    Forgotten { group: GroupId },
    /// A member; `None`: it left, or the broker does not know it.
    Member { group: GroupId, member: MemberId, value: Option<Box<SeenMember>> },
    /// A known member was answered without error.
    Seen { group: GroupId, member: MemberId, at: Millis, epoch: i32, version: i16, connection: u64 },
    /// A heartbeat of a known member failed, or it left for a while.
    Unsettled { group: GroupId, member: MemberId },
    /// Members that were not heard since are no members.
    Silent { group: GroupId, since: Millis },
}

/// One copy of a task's state, as a process reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// The process that holds the copy.
    pub process: Arc<str>,
    /// Of the task.
    pub subtopology: String,
    /// Of the task.
    pub partition: i32,
    /// Sum of next offsets, when reported.
    pub offset: Option<i64>,
    /// Sum of last offsets, when reported.
    pub end: Option<i64>,
    /// When.
    pub at: Millis,
}

/// All groups of one shard that a broker's answers told of.
#[derive(Debug, Default)]
pub struct Watched {
    groups: HashMap<GroupId, WatchedGroup>,
    /// Since when this process watches.
    since: Millis,
    /// Journal position of the latest durable record about a group that is not there.
    gone_position: u64,
}

/// For how long a member counts as live after its latest heartbeat: the session that brokers give by default, since
/// sooner they let no group go.
fn horizon(config: &Config, interval_ms: i32) -> Millis {
    Millis::from(config.session_timeout_ms).max(RECENT_INTERVALS.saturating_mul(Millis::from(interval_ms)))
}

fn change(change: WatchedChange) -> Record {
    Record::Volatile(Volatile::Watched(change))
}

impl Watched {
    /// Applies a volatile change.
    pub fn apply(&mut self, change: WatchedChange) {
        match change {
            WatchedChange::View { group, view } => match self.groups.get_mut(&group) {
                Some(known) => {
                    // A describe is a sign of the group as good as a member's.
                    known.seen_at = known.seen_at.max(view.described_at.unwrap_or(Millis::MIN));
                    known.view = *view;
                }
                None => {
                    self.groups.insert(group, WatchedGroup::new(*view));
                }
            },
            WatchedChange::Forgotten { group } => {
                if let Some(gone) = self.groups.remove(&group) {
                    self.gone_position = self.gone_position.max(gone.position);
                }
            }
            WatchedChange::Member { group, member, value } => {
                if let Some(known) = self.groups.get_mut(&group) {
                    match value {
                        Some(value) => {
                            known.seen_at = known.seen_at.max(value.seen_at);
                            known.members.insert(member, *value);
                        }
                        None => {
                            known.members.remove(&member);
                        }
                    }
                }
            }
            WatchedChange::Seen { group, member, at, epoch, version, connection } => {
                if let Some(known) = self.groups.get_mut(&group) {
                    known.seen_at = known.seen_at.max(at);
                    if let Some(member) = known.members.get_mut(&member) {
                        member.seen_at = at;
                        member.epoch = epoch;
                        member.version = version;
                        member.connection = Some(connection);
                    }
                }
            }
            WatchedChange::Unsettled { group, member } => {
                if let Some(member) = self.groups.get_mut(&group).and_then(|known| known.members.get_mut(&member)) {
                    member.connection = None;
                }
            }
            WatchedChange::Silent { group, since } => {
                if let Some(known) = self.groups.get_mut(&group) {
                    known.members.retain(|_, member| member.seen_at >= since);
                    known.members.shrink_to(known.members.len().saturating_mul(2));
                }
            }
        }
    }

    /// Applies what the journal holds; for a group that is not known it is all that is known.
    pub fn apply_kept(&mut self, group: &GroupId, kept: Option<KeptFacts>) {
        match (self.groups.get_mut(group), kept) {
            (Some(known), kept) => known.kept = kept,
            (None, Some(kept)) => {
                let mut known = WatchedGroup::new(View::kept(&kept));
                known.kept = Some(kept);
                self.groups.insert(Arc::clone(group), known);
            }
            (None, None) => {}
        }
    }

    /// The journal position of the group's latest durable record.
    pub fn journalled(&mut self, group: &str, position: u64) {
        match self.groups.get_mut(group) {
            Some(known) => known.position = position,
            None => self.gone_position = self.gone_position.max(position),
        }
    }

    /// What [`Self::journalled`] was told; for a group that is not there the latest of any such group.
    #[must_use]
    pub fn position(&self, group: &str) -> u64 {
        self.groups.get(group).map_or(self.gone_position, |known| known.position)
    }

    /// After all of the journal was applied. A mark that an older folder holds without facts is taken as it stands.
    pub(crate) fn loaded<'m>(&mut self, at: Millis, marks: impl Iterator<Item = (&'m GroupId, &'m Mark)>) {
        self.since = at;
        for (group, mark) in marks {
            if !self.groups.contains_key(group) {
                self.groups.insert(Arc::clone(group), WatchedGroup::new(View::of_mark(mark)));
            }
        }
    }

    /// Keeps what a reload from the journal must not forget: what the broker told is not ours to lose.
    pub fn carry_over(&mut self, mut old: Self) {
        self.since = old.since;
        for (group, known) in &mut self.groups {
            if let Some(before) = old.groups.remove(group) {
                known.view = before.view;
                known.members = before.members;
                known.seen_at = before.seen_at;
            }
        }
        self.groups.extend(old.groups.into_iter().map(|(group, mut known)| {
            (known.kept, known.position) = (None, 0);
            (group, known)
        }));
    }

    /// The group as `description` may know it.
    #[must_use]
    pub fn facts(&self, config: &Config, at: Millis, group: &str) -> Option<GroupFacts> {
        let known = self.groups.get(group).filter(|known| !known.view.gone)?;
        Some(known.view.facts(!known.is_live(at, horizon(config, known.view.interval_ms))))
    }

    /// What is known of a group.
    #[must_use]
    pub fn view(&self, group: &str) -> Option<&View> {
        self.groups.get(group).map(|known| &known.view)
    }

    /// When there was last a sign of a group.
    #[must_use]
    pub fn seen_at(&self, group: &str) -> Option<Millis> {
        self.groups.get(group).map(|known| known.seen_at)
    }

    /// The shared id of a group that is known.
    #[must_use]
    pub fn group_id(&self, group: &str) -> Option<GroupId> {
        self.groups.get_key_value(group).map(|(id, _)| Arc::clone(id))
    }

    /// The heartbeat's own topology: a coarse picture for groups whose members cannot push.
    #[must_use]
    pub fn coarse(&self, group: &str) -> Option<&Arc<Topology>> {
        self.groups.get(group)?.view.coarse.as_ref()
    }

    /// Whether all members that are heard speak version 0 and so can never push. False without members.
    #[must_use]
    pub fn only_version_0(&self, group: &str) -> bool {
        self.groups
            .get(group)
            .is_some_and(|known| !known.members.is_empty() && known.members.values().all(|member| member.version == 0))
    }

    /// The members that are heard, in no order.
    pub fn members(&self, group: &str) -> impl Iterator<Item = (&MemberId, &SeenMember)> {
        self.groups.get(group).into_iter().flat_map(|known| &known.members)
    }

    /// A known member.
    #[must_use]
    pub fn member(&self, group: &str, member: &str) -> Option<&SeenMember> {
        self.groups.get(group)?.members.get(member)
    }

    /// Whether a good heartbeat of this member on this connection came within three intervals, and the group's facts are
    /// certain: then a push needs no question to the broker.
    #[must_use]
    pub fn is_recent(&self, at: Millis, group: &str, member: &str, connection: u64) -> bool {
        self.groups.get(group).is_some_and(|known| {
            let patience = RECENT_INTERVALS.saturating_mul(Millis::from(known.view.interval_ms));
            known.view.verified
                && known.view.topology_epoch.is_some()
                && known.members.get(member).is_some_and(|member| {
                    member.connection == Some(connection) && at.saturating_sub(member.seen_at) <= patience
                })
        })
    }

    /// Offsets of task copies by process: the newest report of each copy wins, whoever owns the task.
    #[must_use]
    pub fn task_reports(&self, group: &str) -> Vec<TaskReport> {
        let mut newest: BTreeMap<(&str, &str, i32), TaskReport> = BTreeMap::new();
        let mut told: Vec<_> = self
            .members(group)
            .filter_map(|(_, member)| Some((member.process.as_ref()?, member.reported.as_deref()?)))
            .collect();
        told.sort_by_key(|(_, reported)| reported.at);
        for (process, reported) in told {
            let offsets = reported.offsets.iter().map(|task| (task, Some(task.offset), None));
            let ends = reported.ends.iter().map(|task| (task, None, Some(task.offset)));
            for (task, offset, end) in offsets.chain(ends) {
                let report =
                    newest.entry((process, &task.subtopology_id, task.partition)).or_insert_with(|| TaskReport {
                        process: Arc::clone(process),
                        subtopology: task.subtopology_id.clone(),
                        partition: task.partition,
                        offset: None,
                        end: None,
                        at: reported.at,
                    });
                if report.at < reported.at {
                    (report.offset, report.end, report.at) = (None, None, reported.at);
                }
                report.offset = offset.or(report.offset);
                report.end = end.or(report.end);
            }
        }
        newest.into_values().collect()
    }

    /// All groups and how many of their members are heard.
    pub fn sizes(&self) -> impl Iterator<Item = (&GroupId, usize)> {
        self.groups.iter().map(|(group, known)| (group, known.members.len()))
    }

    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// How many members there are in all groups.
    #[must_use]
    pub fn member_count(&self) -> usize {
        self.groups.values().map(|known| known.members.len()).sum()
    }

    /// A few of the group's members, `came` included, for what is kept. A group that was lost from sight has the kin from
    /// before.
    pub(crate) fn kin_to_keep<'m>(&'m self, group: &str, view: &View, came: impl Iterator<Item = &'m str>) -> Kin {
        if view.lost {
            return view.kin.to_keep(&Kin::default());
        }
        Kin::of(self.members(group).map(|(member, _)| &**member).chain(came)).to_keep(&view.kin)
    }

    pub(crate) fn kept(&self, group: &str) -> Option<&KeptFacts> {
        self.groups.get(group)?.kept.as_ref()
    }
}
