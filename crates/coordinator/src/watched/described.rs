//! What a described entry tells.

use std::collections::HashSet;
use std::sync::Arc;

use smallvec::SmallVec;
use streamside_topology::Fingerprint;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::streams_group_describe::{DescribedGroup, Topology as DescribedTopology};
use streamside_wire::messages::streams_group_heartbeat::{Subtopology, Topology};

use super::view::{Kin, View, WatchedGroup, incarnation};
use super::{Watched, WatchedChange, change, horizon};
use crate::config::Config;
use crate::facts::{GroupFacts, Standing};
use crate::input::{Millis, Now};
use crate::record::{GroupId, Record};

/// Kafka's numbers of operations, as bits of `AuthorizedOperations`.
const READ: i32 = 1 << 3;
const DELETE: i32 = 1 << 6;
/// Nobody asked for the operations, or nobody may know them.
const NOT_TOLD: i32 = i32::MIN;

/// What an entry tells about its group.
#[derive(Debug, Default)]
pub struct EntryDecision {
    /// State changes.
    pub records: SmallVec<[Record; 2]>,
    /// Another making of the group began since it was last looked at.
    pub begun: bool,
    /// There is no such streams group any more.
    pub gone: bool,
    /// The group as this entry shows it, for a read of its description; absent on an entry with an error.
    pub facts: Option<GroupFacts>,
}

impl Watched {
    /// What an entry tells about its group. `marked`: of which making the group's mark speaks, if there is one.
    #[must_use]
    pub fn decide_described(
        &self,
        config: &Config,
        now: Now,
        entry: &DescribedGroup,
        asked_at: Millis,
        marked: Option<u64>,
    ) -> EntryDecision {
        let mut decided = EntryDecision::default();
        let known = self.groups.get_key_value(&*entry.group_id);
        match ErrorCode(entry.error_code) {
            ErrorCode::NONE => {}
            ErrorCode::GROUP_ID_NOT_FOUND => {
                decided.gone = known.is_none_or(|(_, known)| {
                    known.view.learnt_at <= asked_at && known.members.values().all(|member| member.seen_at < asked_at)
                });
                return decided;
            }
            // Loading, moved, not allowed: the broker did not say (K21).
            _ => return decided,
        }
        let group: GroupId = known.map_or_else(|| Arc::from(&*entry.group_id), |(group, _)| Arc::clone(group));
        let before = known.map(|(_, known)| &known.view);
        let mut view = match before {
            Some(view) => view.clone(),
            None => View::new(marked.unwrap_or_else(|| incarnation(now)), asked_at),
        };
        if let Some((_, known)) = known
            && !known.is_live(asked_at, horizon(config, known.view.interval_ms))
        {
            known.lose(&mut view);
        }
        decided.begun = learn(config, now, entry, asked_at, &mut view, known.map(|(_, known)| known));
        decided.facts = Some(GroupFacts {
            topology_epoch: entry.topology.as_ref().map_or(-1, |topology| topology.epoch),
            fingerprint: entry.topology.as_ref().and_then(Fingerprint::of_described),
            ..view.facts(entry.members.is_empty())
        });
        if before.is_none() && self.groups.len() >= config.limits.max_groups {
            return decided;
        }
        if before != Some(&view) {
            decided.records.push(change(WatchedChange::View { group: Arc::clone(&group), view: Box::new(view) }));
        }
        // Who is not in the entry and was not heard since is no member.
        let described: HashSet<&str> = entry.members.iter().map(|member| &*member.member_id).collect();
        let members = known.into_iter().flat_map(|(_, known)| &known.members);
        for (member, _) in members.filter(|(id, seen)| seen.seen_at < asked_at && !described.contains(&***id)) {
            let (group, member) = (Arc::clone(&group), Arc::clone(member));
            decided.records.push(change(WatchedChange::Member { group, member, value: None }));
        }
        decided
    }
}

/// Whether another making of the group began.
fn learn(
    config: &Config,
    now: Now,
    entry: &DescribedGroup,
    asked_at: Millis,
    view: &mut View,
    known: Option<&WatchedGroup>,
) -> bool {
    let topology = entry.topology.as_ref().filter(|topology| topology.epoch >= 0);
    let epoch = topology.map(|topology| topology.epoch);
    let fingerprint = topology.and_then(Fingerprint::of_described);
    let lower = entry.group_epoch < view.group_epoch;
    let differs = |told: bool, equal: bool| told && !equal;
    let contradicts = lower
        || differs(epoch.is_some() && view.topology_epoch.is_some(), epoch == view.topology_epoch)
        || differs(fingerprint.is_some() && view.fingerprint.is_some(), fingerprint == view.fingerprint);
    // An entry from before what is known cannot speak against it.
    if contradicts && asked_at < view.learnt_at {
        return false;
    }
    let strangers = are_strangers(entry, asked_at, view, known);
    if lower || strangers {
        view.begin(now);
    }
    if epoch.is_some() && epoch != view.topology_epoch {
        (view.topology_epoch, view.fingerprint) = (epoch, None);
        (view.learnt_at, view.coarse) = (asked_at, None);
    }
    if fingerprint.is_some() && fingerprint != view.fingerprint {
        view.fingerprint = fingerprint;
        (view.learnt_at, view.coarse) = (asked_at, None);
    }
    if entry.group_epoch > view.group_epoch {
        view.group_epoch = entry.group_epoch;
        view.learnt_at = view.learnt_at.max(asked_at);
    }
    if view.coarse.is_none() {
        view.coarse = topology.and_then(|topology| coarse(config, topology)).map(Arc::new);
    }
    view.verified = true;
    if !entry.members.is_empty() {
        view.kin = Kin::of(entry.members.iter().map(|member| &*member.member_id));
        view.lost = false;
    }
    view.gone = false;
    view.question = None;
    view.described_at = Some(now.at);
    lower || strangers
}

/// Whether the group has members and none of them is one that was known. Member ids are made anew with each process, so
/// it may be another group.
fn are_strangers(entry: &DescribedGroup, asked_at: Millis, view: &View, known: Option<&WatchedGroup>) -> bool {
    let Some(known) = known.filter(|_| !entry.members.is_empty()) else { return false };
    if view.lost {
        return entry.members.iter().all(|member| !view.kin.has(&member.member_id));
    }
    let somebody = !known.members.is_empty() || !view.kin.is_empty();
    // Whoever was heard since the question joined after it, perhaps.
    somebody
        && known.members.values().all(|member| member.seen_at < asked_at)
        && entry
            .members
            .iter()
            .all(|member| !view.kin.has(&member.member_id) && !known.members.contains_key(&*member.member_id))
}

/// A heartbeat's topology from what a describe shows of it.
fn coarse(config: &Config, topology: &DescribedTopology) -> Option<Topology> {
    let subtopologies = topology.subtopologies.as_ref()?.iter().map(|s| Subtopology {
        subtopology_id: s.subtopology_id.clone(),
        source_topics: s.source_topics.clone(),
        state_changelog_topics: s.state_changelog_topics.clone(),
        repartition_sink_topics: s.repartition_sink_topics.clone(),
        repartition_source_topics: s.repartition_source_topics.clone(),
        ..Subtopology::default()
    });
    let coarse = Topology { epoch: topology.epoch, subtopologies: subtopologies.collect(), ..Topology::default() };
    (super::beat::weight(&coarse) <= config.limits.watched_topology_bytes).then_some(coarse)
}

/// A pusher's standing by the entry of its group, described with authorized operations on its own connection: READ on the
/// group (spec kip1331 §4.1 step 2), the group and its type (8, 9), membership (10).
#[must_use]
pub fn standing(entry: &DescribedGroup, member: &str) -> Standing {
    let message = entry.error_message.clone();
    match ErrorCode(entry.error_code) {
        ErrorCode::NONE if entry.authorized_operations == NOT_TOLD => Standing::Unknown,
        ErrorCode::NONE if entry.authorized_operations & READ == 0 => {
            Standing::Refused { error_code: ErrorCode::GROUP_AUTHORIZATION_FAILED.0, message: None }
        }
        ErrorCode::NONE if entry.members.iter().any(|m| m.member_id == member) => Standing::Member,
        ErrorCode::NONE => Standing::NotMember,
        ErrorCode::GROUP_ID_NOT_FOUND => Standing::NoGroup { message },
        ErrorCode::INVALID_GROUP_ID => Standing::NoGroup { message: None },
        code @ (ErrorCode::GROUP_AUTHORIZATION_FAILED
        | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        | ErrorCode::COORDINATOR_NOT_AVAILABLE
        | ErrorCode::NOT_COORDINATOR) => Standing::Refused { error_code: code.0, message },
        _ => Standing::Unknown,
    }
}

/// Who goes first when a group is deleted that we hold something for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteVerdict {
    /// The caller may delete the group and it is Empty: the plugin ([`crate::Input::VerifiedDelete`]), then the broker.
    PluginFirst,
    /// The broker will refuse, or has no such group: its answer is the client's, the plugin is not called.
    BrokerAlone,
    /// Nobody could say: the broker, and after its 0 the plugin, by the cleanup cycle.
    BrokerFirst,
}

/// The verdict by the entry of a group, described with authorized operations on the caller's connection.
#[must_use]
pub fn delete_verdict(entry: &DescribedGroup) -> DeleteVerdict {
    match ErrorCode(entry.error_code) {
        ErrorCode::NONE if entry.authorized_operations == NOT_TOLD => DeleteVerdict::BrokerFirst,
        ErrorCode::NONE if entry.authorized_operations & DELETE == 0 => DeleteVerdict::BrokerAlone,
        ErrorCode::NONE if entry.group_state == "Empty" && entry.members.is_empty() => DeleteVerdict::PluginFirst,
        ErrorCode::NONE | ErrorCode::GROUP_ID_NOT_FOUND => DeleteVerdict::BrokerAlone,
        _ => DeleteVerdict::BrokerFirst,
    }
}
