//! What an answered heartbeat tells.

use std::sync::Arc;

use smallvec::SmallVec;
use streamside_topology::Fingerprint;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::streams_group_heartbeat::{
    CopartitionGroup, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Subtopology, TaskOffset, TopicInfo,
    Topology,
};

use super::view::{Question, Reported, SeenMember, View, WatchedGroup, incarnation};
use super::{KEPT_SEEN_MS, Watched, WatchedChange, change, horizon};
use crate::config::{Compat, Config};
use crate::decision::Effect;
use crate::facts::HeartbeatFacts;
use crate::input::{Millis, Now};
use crate::record::{GroupId, MemberId, Record};

/// Status of a member whose topology is older than its group's.
const STALE_TOPOLOGY: i8 = 0;
/// The longest wait before the broker is asked about a group again.
const QUESTION_CAP_MS: Millis = 300_000;

/// A heartbeat and the broker's answer.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Beat<'a> {
    pub request: &'a StreamsGroupHeartbeatRequest<'a>,
    pub version: i16,
    pub answer: &'a StreamsGroupHeartbeatResponse<'a>,
    pub connection: u64,
}

/// What it tells.
#[derive(Debug, Default)]
pub struct BeatDecision {
    /// State changes.
    pub records: SmallVec<[Record; 2]>,
    /// For solicitation; `None`: nobody is to be asked.
    pub facts: Option<HeartbeatFacts>,
    /// The heartbeat interval, in ms.
    pub interval_ms: i32,
    /// A describe of ours is wanted.
    pub describe: bool,
    /// Another making of the group began with this heartbeat.
    pub begun: bool,
    /// A limit that was met.
    pub limit: Option<Effect>,
}

impl Beat<'_> {
    fn is_join(&self) -> bool {
        self.request.member_epoch == 0
    }

    fn is_stale(&self) -> bool {
        self.answer.status.iter().flatten().any(|status| status.status_code == STALE_TOPOLOGY)
    }
}

impl Watched {
    /// What a heartbeat tells about its group. `marked`: of which making the group's mark speaks, if there is one.
    #[must_use]
    pub fn decide_beat(&self, config: &Config, now: Now, beat: Beat<'_>, marked: Option<u64>) -> BeatDecision {
        let known = self.groups.get_key_value(&*beat.request.group_id);
        if beat.answer.error_code != 0 || beat.request.member_epoch < 0 {
            return known.map(|(group, known)| unsettled(config, now, beat, group, known)).unwrap_or_default();
        }
        let (group, known) = match known {
            Some((group, known)) => (Arc::clone(group), Some(known)),
            None if self.groups.len() >= config.limits.max_groups => {
                return BeatDecision { limit: Some(Effect::LimitHit("groups")), ..BeatDecision::default() };
            }
            None => (Arc::from(&*beat.request.group_id), None),
        };
        let mut decided = BeatDecision::default();
        let view = self.view_after(config, now, beat, (known, marked), &mut decided);
        decided.interval_ms = view.interval_ms;
        let mut facts = view.facts(false);
        if !view.verified {
            // What is not certain is not asked about.
            facts.topology_epoch = -1;
        }
        decided.facts = Some(HeartbeatFacts {
            group: facts,
            leaving: false,
            stale: beat.is_stale(),
            error_code: 0,
            version: beat.version,
            begun: decided.begun && config.compat == Compat::Streamside,
        });
        let worth_keeping = known
            .and_then(|known| known.kept.as_ref())
            .is_some_and(|kept| now.at.saturating_sub(kept.seen_at) >= KEPT_SEEN_MS);
        if worth_keeping || known.is_none_or(|known| known.view != view) {
            decided.records.push(change(WatchedChange::View { group: Arc::clone(&group), view: Box::new(view) }));
        }
        member_seen(config, now, beat, &group, known, &mut decided);
        decided
    }

    fn view_after(
        &self,
        config: &Config,
        now: Now,
        beat: Beat<'_>,
        (known, marked): (Option<&WatchedGroup>, Option<u64>),
        decided: &mut BeatDecision,
    ) -> View {
        let mut view = match known {
            Some(known) => known.view.clone(),
            None => View::new(marked.unwrap_or_else(|| incarnation(now)), now.at),
        };
        let answer = beat.answer;
        let live = known.is_some_and(|known| is_live(config, now, beat, known));
        if beat.is_join() && !live {
            view.verified = false;
            if known.is_some() || marked.is_some() {
                // A join when no live member is known: it may be another group of this name (H12).
                view.begin(now);
                decided.begun = true;
            }
        } else if let Some(known) = known
            && (!live || is_stranger(config, beat, known))
        {
            known.lose(&mut view);
        }
        view.gone = false;
        if beat.is_join()
            && !beat.is_stale()
            && let Some(topology) = &beat.request.topology
        {
            let fingerprint = Some(Fingerprint::of_heartbeat(topology));
            if view.topology_epoch != Some(topology.epoch) || view.fingerprint != fingerprint {
                (view.topology_epoch, view.fingerprint) = (Some(topology.epoch), fingerprint);
                view.learnt_at = now.at;
                view.coarse = None;
            }
            if view.coarse.is_none() && weight(topology) <= config.limits.watched_topology_bytes {
                view.coarse = Some(Arc::new(topology.clone()));
            }
            // Whether it is still the same group a describe has yet to say.
            view.verified = !view.lost;
        }
        if answer.member_epoch > view.group_epoch {
            view.group_epoch = answer.member_epoch;
            view.learnt_at = now.at;
        }
        view.interval_ms =
            if answer.heartbeat_interval_ms > 0 { answer.heartbeat_interval_ms } else { config.heartbeat_interval_ms };
        // Who can never be asked needs no answer about it.
        if beat.version > 0 || marked.is_some() {
            decided.describe = wants_describe(config, now, &mut view);
        }
        view
    }
}

/// A failed heartbeat, or a leave.
fn unsettled(config: &Config, now: Now, beat: Beat<'_>, group: &GroupId, known: &WatchedGroup) -> BeatDecision {
    let mut decided = BeatDecision::default();
    let code = ErrorCode(beat.answer.error_code);
    let unknown = [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::GROUP_ID_NOT_FOUND].contains(&code);
    if let Some((member, seen)) = known.members.get_key_value(&*beat.request.member_id) {
        let (group, member) = (Arc::clone(group), Arc::clone(member));
        if unknown || (code == ErrorCode::NONE && beat.request.member_epoch == -1) {
            decided.records.push(change(WatchedChange::Member { group, member, value: None }));
        } else if seen.connection.is_some() {
            decided.records.push(change(WatchedChange::Unsettled { group, member }));
        }
    }
    // Never from a heartbeat alone: a describe says what became of the group.
    if code == ErrorCode::GROUP_ID_NOT_FOUND && !known.view.gone {
        let mut view = known.view.clone();
        view.verified = false;
        decided.describe = wants_describe(config, now, &mut view);
        decided.records.push(change(WatchedChange::View { group: Arc::clone(group), view: Box::new(view) }));
    }
    decided
}

/// Whether the broker is to be asked, and not again for a while.
fn wants_describe(config: &Config, now: Now, view: &mut View) -> bool {
    if config.plugin.is_none() || view.verified || view.question.is_some_and(|question| now.at < question.until) {
        return false;
    }
    let asked = view.question.map_or(0, |question| question.asked);
    let first = Millis::from(view.interval_ms.max(1));
    let wait = first.saturating_mul(1 << asked.min(16)).min(QUESTION_CAP_MS);
    view.question = Some(Question { until: now.at.saturating_add(wait), asked: asked.saturating_add(1) });
    true
}

/// Whether a live member of the group is known; looks at the sender first.
fn is_live(config: &Config, now: Now, beat: Beat<'_>, known: &WatchedGroup) -> bool {
    let horizon = horizon(config, known.view.interval_ms);
    let sender = known.members.get(&*beat.request.member_id);
    sender.is_some_and(|member| now.at.saturating_sub(member.seen_at) < horizon) || known.is_live(now.at, horizon)
}

/// Whether the sender joined where we do not look.
fn is_stranger(config: &Config, beat: Beat<'_>, known: &WatchedGroup) -> bool {
    let member = &*beat.request.member_id;
    !beat.is_join()
        && !known.members.contains_key(member)
        && known.members.len() < config.limits.watched_members
        && !known.view.kin.has(member)
}

fn member_seen(
    config: &Config,
    now: Now,
    beat: Beat<'_>,
    group: &GroupId,
    known: Option<&WatchedGroup>,
    decided: &mut BeatDecision,
) {
    let Beat { request, version, answer, connection } = beat;
    let before = known.and_then(|known| known.members.get_key_value(&*request.member_id));
    let reports = request.task_offsets.is_some() || request.task_end_offsets.is_some();
    if let (Some((member, _)), false, false) = (before, beat.is_join(), reports) {
        let (group, member) = (Arc::clone(group), Arc::clone(member));
        let (at, epoch) = (now.at, answer.member_epoch);
        decided.records.push(change(WatchedChange::Seen { group, member, at, epoch, version, connection }));
        return;
    }
    if before.is_none() && known.is_some_and(|known| known.members.len() >= config.limits.watched_members) {
        decided.limit = Some(Effect::LimitHit("watched_members"));
        return;
    }
    let member: MemberId = before.map_or_else(|| Arc::from(&*request.member_id), |(member, _)| Arc::clone(member));
    let old = before.map(|(_, seen)| seen).filter(|_| !beat.is_join());
    let value = SeenMember {
        seen_at: now.at,
        epoch: answer.member_epoch,
        version,
        connection: Some(connection),
        process: request.process_id.as_deref().map(Arc::from).or_else(|| old.and_then(|seen| seen.process.clone())),
        reported: reported(config, now, request, old.and_then(|seen| seen.reported.as_ref())),
    };
    let group = Arc::clone(group);
    decided.records.push(change(WatchedChange::Member { group, member, value: Some(Box::new(value)) }));
}

/// What the member has reported by now: a list that is absent says that nothing changed.
fn reported(
    config: &Config,
    now: Now,
    request: &StreamsGroupHeartbeatRequest<'_>,
    old: Option<&Arc<Reported>>,
) -> Option<Arc<Reported>> {
    if request.task_offsets.is_none() && request.task_end_offsets.is_none() {
        return old.cloned();
    }
    let bounded = |new: &Option<Vec<TaskOffset>>, old: &[TaskOffset]| match new {
        Some(tasks) => tasks.iter().take(config.limits.watched_tasks).cloned().collect(),
        None => old.to_vec(),
    };
    let none = Reported::default();
    let old = old.map_or(&none, |old| &**old);
    let next = Reported {
        offsets: bounded(&request.task_offsets, &old.offsets),
        ends: bounded(&request.task_end_offsets, &old.ends),
        at: now.at,
    };
    (!next.offsets.is_empty() || !next.ends.is_empty()).then(|| Arc::new(next))
}

/// Bytes of a topology's texts, roughly what keeping it costs.
pub(super) fn weight(topology: &Topology) -> usize {
    let topics = |names: &[String]| names.iter().map(|name| name.len() + size_of::<String>()).sum::<usize>();
    let configs = |topic: &TopicInfo| {
        topic.topic_configs.iter().map(|kv| kv.key.len() + kv.value.len() + size_of_val(kv)).sum::<usize>()
    };
    let internal = |topics: &[TopicInfo]| {
        topics.iter().map(|topic| topic.name.len() + size_of_val(topic) + configs(topic)).sum::<usize>()
    };
    let copartition = |group: &CopartitionGroup| {
        size_of_val(group) + 2 * (group.source_topics.len() + group.repartition_source_topics.len())
    };
    let one = |s: &Subtopology| {
        size_of_val(s)
            + topics(&s.source_topics)
            + topics(&s.repartition_sink_topics)
            + internal(&s.state_changelog_topics)
            + internal(&s.repartition_source_topics)
            + s.copartition_groups.iter().map(copartition).sum::<usize>()
    };
    topology.subtopologies.iter().map(one).sum()
}
