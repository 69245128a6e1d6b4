//! What is decided beside a broker, where membership is the broker's and `watched` tells what its answers say.

use std::sync::Arc;

use smallvec::SmallVec;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::streams_group_describe::DescribedGroup;

use crate::config::{Compat, Membership};
use crate::coordinator::{Coordinator, replied};
use crate::decision::{Decision, Reply};
use crate::description::Mark;
use crate::description::delete::GroupNow;
use crate::description::describe::{NOT_REQUESTED, NOT_STORED};
use crate::description::push::Push;
use crate::facts::Standing;
use crate::input::{Millis, Now, OpId, PluginFailure};
use crate::record::{Durable, GroupId, Record, Volatile};
use crate::watched::beat::Beat;
use crate::watched::{KEPT_SEEN_MS, KeptFacts, Kin, View, WatchedChange};

type Records = SmallVec<[Record; 2]>;

fn change(change: WatchedChange) -> Record {
    Record::Volatile(Volatile::Watched(change))
}

impl Coordinator {
    pub(crate) fn beat<'a>(&self, now: Now, beat: Beat<'_>) -> Decision<'a> {
        let group = &*beat.request.group_id;
        let marked = self.descriptions.mark(group).and_then(Mark::incarnation);
        let seen = self.watched.decide_beat(&self.config, now, beat, marked);
        let mut decision = Decision { records: seen.records, ..Decision::default() };
        decision.now.extend(seen.limit);
        if seen.begun {
            self.end_window(group, &mut decision.records);
        }
        let ask = seen.facts.and_then(|facts| {
            let member = &*beat.request.member_id;
            self.descriptions.solicit(&self.config, now, group, member, seen.interval_ms, &facts)
        });
        let asked = ask.is_some();
        if let Some(ask) = ask {
            decision.records.push(ask.record);
            decision.now.push(ask.log);
        }
        decision.reply = Some(Reply::Beat { ask: asked, describe: seen.describe });
        self.keep(now, &mut decision.records);
        decision
    }

    pub(crate) fn broker_described<'a>(
        &self,
        now: Now,
        entry: &DescribedGroup,
        asked_at: Millis,
        include_description: bool,
    ) -> Decision<'a> {
        let group = &*entry.group_id;
        let marked = self.descriptions.mark(group).and_then(Mark::incarnation);
        let told = self.watched.decide_described(&self.config, now, entry, asked_at, marked);
        let mut decision = Decision { records: told.records, ..Decision::default() };
        if told.begun {
            self.end_window(group, &mut decision.records);
        }
        if told.gone {
            self.depart(now, group, &mut decision.records);
        }
        let (mut status, mut read) = (NOT_REQUESTED, None);
        if include_description && let Some(facts) = told.facts {
            status = NOT_STORED;
            if entry.topology.is_some() {
                read = self.descriptions.read_for(&self.config, &Arc::from(group), &facts);
            }
        }
        self.keep(now, &mut decision.records);
        Decision { reply: Some(Reply::Entry { status, read }), ..decision }
    }

    pub(crate) fn verified_push<'a>(&self, now: Now, push: Push<'_>, standing: Standing) -> Decision<'a> {
        let facts = self.facts(now.at, push.group);
        let standing = match standing {
            // Nobody told E so far, so nothing can be said against the push, nor for it.
            Standing::Member if facts.as_ref().is_none_or(|facts| facts.topology_epoch < 0) => Standing::Unknown,
            told => told,
        };
        let mut decision = self.descriptions.decide_push(&self.config, now, push, facts.as_ref(), standing);
        self.keep(now, &mut decision.records);
        decision
    }

    pub(crate) fn verified_delete<'a>(&self, now: Now, op: OpId, group: &str) -> Decision<'a> {
        let held = |mark: &Mark| View::of_mark(mark).facts(true);
        let facts = self.facts(now.at, group).or_else(|| self.descriptions.mark(group).map(held));
        // The group itself is the broker's to remove.
        let mut decision =
            self.descriptions.decide_delete(&self.config, now, op, group, facts.as_ref(), Ok(Records::new()));
        self.keep(now, &mut decision.records);
        decision
    }

    /// What became of a delete call: of a DeleteGroups, or of the cleanup cycle.
    pub(crate) fn watched_delete_outcome<'a>(
        &self,
        now: Now,
        op: OpId,
        result: Result<(), PluginFailure>,
        late: bool,
    ) -> Decision<'a> {
        let group = self.descriptions.operation(op).map(|operation| Arc::clone(&operation.group));
        let deleted = result.is_ok();
        let facts = group.as_ref().and_then(|group| {
            let view = self.watched.view(group)?;
            Some(view.facts(true))
        });
        let group_now = GroupNow { facts, tombstones: Ok(Records::new()) };
        let mut decision = self.descriptions.decide_delete_outcome(&self.config, op, result, late, group_now);
        // With its copy the last that we know of a group goes that is gone.
        if let Some(group) = group.filter(|group| deleted && self.watched.is_gone(&self.config, now.at, group)) {
            let mark = mark_after(&decision.records, &group).unwrap_or_else(|| self.descriptions.mark(&group));
            let holds = mark.is_some_and(|mark| mark.may_hold());
            if !holds {
                if mark.is_some() {
                    let group = Arc::clone(&group);
                    decision.records.push(Record::Durable(Durable::Mark { group, value: None }));
                }
                self.end_window(&group, &mut decision.records);
                decision.records.push(change(WatchedChange::Forgotten { group }));
            }
        }
        self.keep(now, &mut decision.records);
        decision
    }

    pub(crate) fn broker_deleted<'a>(&self, now: Now, group: &str, error_code: i16, asked_at: Millis) -> Decision<'a> {
        let mut decision = replied(Reply::Done);
        let code = ErrorCode(error_code);
        let heard = self.watched.heard_after(group, asked_at);
        match code {
            // Whoever was heard since is of the making after it.
            ErrorCode::NONE if heard => self.orphan_older(group, &mut decision.records),
            ErrorCode::NONE => self.depart(now, group, &mut decision.records),
            ErrorCode::GROUP_ID_NOT_FOUND if !heard => self.depart(now, group, &mut decision.records),
            _ => {}
        }
        self.keep(now, &mut decision.records);
        decision
    }

    pub(crate) fn watched_cleanup<'a>(&self, now: Now, first_op: OpId) -> Decision<'a> {
        let departed = self.watched.departed(&self.config, now.at);
        let mut decision = self.descriptions.decide_cleanup(&self.config, now, first_op, departed);
        self.keep(now, &mut decision.records);
        decision
    }

    pub(crate) fn watched_sweep<'a>(&self, now: Now) -> Decision<'a> {
        let mut decision = replied(Reply::Done);
        let held = |group: &str| self.descriptions.mark(group).is_some();
        decision.records.extend(self.watched.decide_sweep(&self.config, now.at, held));
        let stays = |group: &str| view_after(&decision.records, group).unwrap_or_else(|| self.watched.view(group));
        let exists = |group: &str| stays(group).is_some_and(|view| !view.gone);
        let windows = self.descriptions.stale_windows(self.config.compat, now, exists);
        decision.records.extend(windows);
        decision
    }

    /// The group is gone. What the plugin holds of it is owed a delete.
    fn depart(&self, now: Now, group: &str, records: &mut Records) {
        let id = self.watched.group_id(group);
        let mark = self.descriptions.mark(group);
        let Some(id) = id.or_else(|| mark.map(|_| Arc::from(group))) else {
            self.end_window(group, records);
            return;
        };
        let left = mark.map(|mark| mark.orphaned(None)).filter(Mark::may_hold);
        let owed = left.is_some();
        if owed && mark == left.as_ref() && self.watched.view(group).is_some_and(|view| view.gone && view.owed) {
            return;
        }
        if mark != left.as_ref() {
            records.push(mark_record(&id, left));
        }
        self.end_window(group, records);
        if owed {
            let view = Box::new(self.watched.view_when_gone(now, group, owed));
            records.push(change(WatchedChange::View { group: Arc::clone(&id), view }));
            records.push(change(WatchedChange::Silent { group: id, since: Millis::MAX }));
        } else {
            records.push(change(WatchedChange::Forgotten { group: id }));
        }
    }

    /// An older making is gone, the present one is not: its copies are owed a delete unless a newer one is over them.
    fn orphan_older(&self, group: &str, records: &mut Records) {
        let (Some(mark), Some(view), Some(id)) =
            (self.descriptions.mark(group), self.watched.view(group), self.watched.group_id(group))
        else {
            return;
        };
        let left = mark.orphaned(Some(view.incarnation));
        if left == *mark {
            return;
        }
        if left.is_bare() {
            let view = Box::new(View { owed: true, ..view.clone() });
            records.push(change(WatchedChange::View { group: Arc::clone(&id), view }));
        }
        records.push(mark_record(&id, Some(left).filter(|left| !left.is_blank())));
    }

    fn end_window(&self, group: &str, records: &mut Records) {
        if self.config.compat == Compat::Streamside {
            records.extend(self.descriptions.window_ended_of(group));
        }
    }

    /// Beside a broker, a decision with what is kept in the journal about its groups.
    pub(crate) fn kept<'a>(&self, now: Now, mut decision: Decision<'a>) -> Decision<'a> {
        if self.config.membership == Membership::Broker {
            self.keep(now, &mut decision.records);
        }
        decision
    }

    /// Makes what is kept in the journal say what the records say: a group with a mark has its facts kept.
    fn keep(&self, now: Now, records: &mut Records) {
        let mut touched: SmallVec<[GroupId; 1]> = SmallVec::new();
        for record in &*records {
            let group = match record {
                Record::Durable(Durable::Mark { group, .. })
                | Record::Volatile(Volatile::Watched(
                    WatchedChange::View { group, .. } | WatchedChange::Forgotten { group },
                )) => group,
                _ => continue,
            };
            if !touched.contains(group) {
                touched.push(Arc::clone(group));
            }
        }
        for group in touched {
            self.keep_one(now, &group, records);
        }
    }

    fn keep_one(&self, now: Now, group: &GroupId, records: &mut Records) {
        let before = self.watched.kept(group);
        let mark = mark_after(records, group).unwrap_or_else(|| self.descriptions.mark(group));
        let view = view_after(records, group).unwrap_or_else(|| self.watched.view(group));
        let owed = view.is_some_and(|view| view.owed) && mark.is_some_and(Mark::is_bare);
        let settled = view.filter(|view| view.owed && !owed).map(|view| Box::new(View { owed, ..view.clone() }));
        let came = records.iter().filter_map(|record| match record {
            Record::Volatile(Volatile::Watched(WatchedChange::Member { group: of, member, value: Some(_) }))
                if of == group =>
            {
                Some(&**member)
            }
            _ => None,
        });
        let next = mark.and(view).map(|view| KeptFacts {
            kin: self.watched.kin_to_keep(group, view, came),
            ..self.to_keep(now, group, view, owed)
        });
        if let Some(view) = settled {
            records.push(change(WatchedChange::View { group: Arc::clone(group), view }));
        }
        if before != next.as_ref() {
            records.push(Record::Durable(Durable::Watched { group: Arc::clone(group), value: next }));
        }
    }

    fn to_keep(&self, now: Now, group: &str, view: &View, owed: bool) -> KeptFacts {
        let before = self.watched.kept(group);
        let seen_at = self.watched.seen_at(group).unwrap_or(now.at);
        KeptFacts {
            incarnation: view.incarnation,
            group_epoch: view.group_epoch,
            topology_epoch: view.topology_epoch,
            fingerprint: view.fingerprint,
            seen_at: before.map_or(seen_at, |kept| match seen_at.saturating_sub(kept.seen_at) {
                0..KEPT_SEEN_MS => kept.seen_at,
                _ => seen_at,
            }),
            owed,
            kin: Kin::default(),
        }
    }
}

fn mark_record(group: &GroupId, mark: Option<Mark>) -> Record {
    Record::Durable(Durable::Mark { group: Arc::clone(group), value: mark.map(Box::new) })
}

/// The mark that the records leave; outer `None`: they say nothing.
fn mark_after<'r>(records: &'r [Record], group: &str) -> Option<Option<&'r Mark>> {
    records.iter().rev().find_map(|record| match record {
        Record::Durable(Durable::Mark { group: of, value }) if **of == *group => Some(value.as_deref()),
        _ => None,
    })
}

/// The view that the records leave.
fn view_after<'r>(records: &'r [Record], group: &str) -> Option<Option<&'r View>> {
    records.iter().rev().find_map(|record| match record {
        Record::Volatile(Volatile::Watched(WatchedChange::View { group: of, view })) if **of == *group => {
            Some(Some(&**view))
        }
        Record::Volatile(Volatile::Watched(WatchedChange::Forgotten { group: of })) if **of == *group => Some(None),
        _ => None,
    })
}
