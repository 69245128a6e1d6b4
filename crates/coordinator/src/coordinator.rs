//! `group`, `watched` and `description` composed: one shard's coordinator. What is decided beside a broker stands in
//! `broker`.

use std::sync::Arc;

use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::incremental_alter_configs::AlterableConfig;
use streamside_wire::messages::streams_group_describe::DescribedGroup;

use crate::config::{Compat, Config, Membership};
use crate::decision::{Decision, Effect, Reply};
use crate::description::describe::{GetOutcome, NOT_STORED};
use crate::description::push::Push;
use crate::description::{Descriptions, Mark};
use crate::facts::{GroupFacts, Standing};
use crate::group::Groups;
use crate::input::{ClientContext, Input, Millis, Now};
use crate::record::{Durable, GroupId, Record, Volatile};
use crate::watched::Watched;
use crate::watched::beat::Beat;
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatRequest;

/// Counts for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Groups whose description is certain to be stored.
    pub full: usize,
    /// Groups of which nothing is stored.
    pub none: usize,
    /// Groups whose description the plugin, or a limit, refused for good.
    pub refused: usize,
    /// Groups of which the plugin may or may not hold something.
    pub uncertain: usize,
    /// Beside a broker, of those without: groups whose heartbeats told their assignment topology.
    pub coarse: usize,
    /// Members in all groups.
    pub members: usize,
}

/// All groups of one shard.
#[derive(Debug)]
pub struct Coordinator {
    pub(crate) config: Config,
    /// Groups whose members are ours; empty beside a broker.
    groups: Groups,
    /// Groups whose members are a broker's; empty standalone.
    pub(crate) watched: Watched,
    pub(crate) descriptions: Descriptions,
}

impl Coordinator {
    /// A coordinator without groups.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let groups = Groups::new(&config);
        Self { config, groups, watched: Watched::default(), descriptions: Descriptions::default() }
    }

    /// A coordinator with what the journal holds. Members' sessions start anew at `now`.
    #[must_use]
    pub fn restore(config: Config, now: Now, durables: impl IntoIterator<Item = Durable>) -> Self {
        let mut restored = Self::new(config);
        for durable in durables {
            restored.apply(Record::Durable(durable));
        }
        restored.groups.loaded(now);
        if restored.is_beside_a_broker() {
            restored.watched.loaded(now.at, restored.descriptions.marks());
        }
        restored
    }

    /// After a failed commit: what the journal holds, with the solicitation windows of before. Calls under way are
    /// forgotten; their outcomes are answered as `store_failed`.
    #[must_use]
    pub fn reloaded(self, config: Config, now: Now, durables: impl IntoIterator<Item = Durable>) -> Self {
        let mut restored = Self::restore(config, now, durables);
        restored.descriptions.carry_over(self.descriptions);
        restored.watched.carry_over(self.watched);
        restored
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes settings that may change while groups live ([`Config::retune`]). Timers that run keep their deadline
    /// (spec kip1071 §7.1).
    pub fn retune(&mut self, config: &Config) {
        self.config.retune(config);
        self.groups.retune(&self.config);
    }

    /// What should happen on `input`; changes nothing.
    #[must_use]
    pub fn decide<'a>(&self, now: Now, input: Input<'a>) -> Decision<'a> {
        match input {
            Input::Heartbeat { request, version, client } => self.heartbeat(now, request, version, client),
            Input::Push { op, group, member, topology_epoch, payload } => {
                let facts = self.groups.facts(group);
                let standing = match facts {
                    None => Standing::NoGroup { message: None },
                    Some(_) if self.groups.is_member(group, member) => Standing::Member,
                    Some(_) => Standing::NotMember,
                };
                let push = Push { op, group, member, topology_epoch, payload };
                self.descriptions.decide_push(&self.config, now, push, facts.as_ref(), standing)
            }
            Input::SetOutcome { op, result, late } => {
                let group = self.descriptions.operation(op).map(|operation| Arc::clone(&operation.group));
                let facts = group.and_then(|group| self.facts(now.at, &group));
                let decision =
                    self.descriptions.decide_set_outcome(&self.config, now, op, result, late, facts.as_ref());
                self.kept(now, decision)
            }
            Input::Describe { group, include_description } => self.describe(group, include_description),
            Input::GetOutcome { group, epoch, token, result } => {
                let outcome = GetOutcome { group, epoch, token, result };
                self.kept(now, self.descriptions.decide_get_outcome(&self.config, now, outcome))
            }
            Input::Delete { op, group } => {
                let facts = self.groups.facts(group);
                let tombstones = self.groups.decide_delete(group);
                self.descriptions.decide_delete(&self.config, now, op, group, facts.as_ref(), tombstones)
            }
            Input::DeleteOutcome { op, result, late } if self.is_beside_a_broker() => {
                self.watched_delete_outcome(now, op, result, late)
            }
            Input::DeleteOutcome { op, result, late } => {
                let group = self.descriptions.operation(op).map(|operation| Arc::clone(&operation.group));
                let facts = group.as_ref().and_then(|group| self.groups.facts(group));
                let tombstones = match &group {
                    Some(group) => self.groups.decide_delete(group),
                    None => Err(ErrorCode::GROUP_ID_NOT_FOUND),
                };
                let now_is = crate::description::delete::GroupNow { facts, tombstones };
                self.descriptions.decide_delete_outcome(&self.config, op, result, late, now_is)
            }
            Input::Alter { group, changes, validate_only } => self.alter(group, changes, validate_only),
            Input::Settings { group } => replied(Reply::Settings(self.groups.settings(group).cloned())),
            Input::List => replied(Reply::Listed(self.groups.list())),
            Input::Tick => {
                let mut decision = replied(Reply::Done);
                decision.records.extend(self.groups.decide_tick(&self.config, now));
                decision
            }
            Input::Sweep if self.is_beside_a_broker() => self.watched_sweep(now),
            Input::Sweep => self.sweep(now),
            Input::CleanupCycle { first_op } if self.is_beside_a_broker() => self.watched_cleanup(now, first_op),
            Input::CleanupCycle { first_op } => {
                let empty = self.groups.empty_groups().filter_map(|group| {
                    let facts = self.groups.facts(group)?;
                    Some((Arc::clone(group), facts.incarnation))
                });
                self.descriptions.decide_cleanup(&self.config, now, first_op, empty)
            }
            Input::PluginListed { entries } => {
                self.kept(now, self.descriptions.decide_listed(&self.config, now, &entries))
            }
            Input::Retry { group } => self.kept(now, self.descriptions.decide_retry(group)),
            Input::Beat { request, version, answer, connection } => {
                self.beat(now, Beat { request, version, answer, connection })
            }
            Input::BrokerDescribed { entry, asked_at, include_description } => {
                self.broker_described(now, entry, asked_at, include_description)
            }
            Input::VerifiedPush { op, group, member, topology_epoch, payload, standing } => {
                self.verified_push(now, Push { op, group, member, topology_epoch, payload }, standing)
            }
            Input::VerifiedDelete { op, group } => self.verified_delete(now, op, group),
            Input::BrokerDeleted { group, error_code, asked_at } => {
                self.broker_deleted(now, group, error_code, asked_at)
            }
        }
    }

    fn heartbeat<'a>(
        &self,
        now: Now,
        request: &'a StreamsGroupHeartbeatRequest<'a>,
        version: i16,
        client: ClientContext<'_>,
    ) -> Decision<'a> {
        let decided = self.groups.decide_heartbeat(&self.config, now, request, version, client);
        let mut decision =
            Decision { records: decided.records, now: decided.now, after_durable: Vec::new(), reply: None };
        let mut response = decided.response;
        let ask = decided.facts.and_then(|facts| {
            let interval_ms = response.heartbeat_interval_ms;
            self.descriptions.solicit(&self.config, now, &request.group_id, &request.member_id, interval_ms, &facts)
        });
        if let Some(ask) = ask {
            response.topology_description_required = true;
            decision.records.push(ask.record);
            decision.now.push(ask.log);
        }
        decision.reply = Some(Reply::Heartbeat(response));
        decision
    }

    /// One entry (spec kip1331 §5.1 steps 4 to 7).
    fn describe<'a>(&self, group: &str, include_description: bool) -> Decision<'a> {
        if group.is_empty() {
            return described(failed_entry(ErrorCode::INVALID_GROUP_ID, None, String::new()), None);
        }
        let Some(mut entry) = self.groups.describe(&self.config, group) else {
            let message = format!("Group {group} not found.");
            return described(failed_entry(ErrorCode::GROUP_ID_NOT_FOUND, Some(message), group.to_owned()), None);
        };
        let mut read = None;
        if include_description && entry.error_code == 0 {
            entry.topology_description_status = NOT_STORED;
            if let (Some(_), Some(facts), Some(id)) =
                (&entry.topology, self.groups.facts(group), self.groups.group_id(group))
            {
                read = self.descriptions.read_for(&self.config, &id, &facts);
            }
        }
        described(entry, read)
    }

    fn alter<'a>(&self, group: &str, changes: &[AlterableConfig], validate_only: bool) -> Decision<'a> {
        match self.groups.decide_alter(&self.config, group, changes, validate_only) {
            Ok(records) => Decision { records, ..replied(Reply::Altered { error_code: 0, error_message: None }) },
            Err(refusal) => {
                let (error_code, error_message) = (refusal.code().0, Some(refusal.client_message()));
                let now = refusal.limit().map(Effect::LimitHit).into_iter().collect();
                Decision { now, ..replied(Reply::Altered { error_code, error_message }) }
            }
        }
    }

    /// Spec kip1331 §7.2. No committed offsets are kept standalone.
    fn sweep<'a>(&self, now: Now) -> Decision<'a> {
        let mut decision = replied(Reply::Done);
        for group in self.groups.empty_groups() {
            if self.descriptions.defers_expiry(&self.config, group) {
                continue;
            }
            if let Ok(tombstones) = self.groups.decide_delete(group) {
                decision.records.extend(tombstones);
                decision.records.extend(self.descriptions.forgotten(&self.config, group));
            }
        }
        let exists = |group: &str| self.groups.group_id(group).is_some();
        decision.records.extend(self.descriptions.stale_windows(self.config.compat, now, exists));
        decision
    }

    /// The group as `description` may know it, whoever owns its members.
    pub(crate) fn facts(&self, at: Millis, group: &str) -> Option<GroupFacts> {
        match self.config.membership {
            Membership::Own => self.groups.facts(group),
            Membership::Broker => self.watched.facts(&self.config, at, group),
        }
    }

    fn is_beside_a_broker(&self) -> bool {
        self.config.membership == Membership::Broker
    }

    /// Applies one record of a decision.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Durable(Durable::Mark { group, value }) => {
                self.descriptions.apply_mark(&group, value.map(|mark| *mark))
            }
            // A folder may hold what was written in the other mode.
            Record::Durable(Durable::Watched { group, value }) => {
                if self.is_beside_a_broker() {
                    self.watched.apply_kept(&group, value);
                }
            }
            Record::Durable(durable) => {
                if !self.is_beside_a_broker() {
                    self.groups.apply_durable(&durable);
                }
            }
            Record::Volatile(Volatile::Watched(change)) => self.watched.apply(change),
            Record::Volatile(Volatile::Group(change)) => self.groups.apply_volatile(&change),
            Record::Volatile(Volatile::Description(change)) => self.descriptions.apply(change),
            Record::Volatile(Volatile::Journalled { group, position }) if self.is_beside_a_broker() => {
                self.watched.journalled(&group, position);
            }
            Record::Volatile(Volatile::Journalled { group, position }) => self.groups.journalled(&group, position),
        }
    }

    /// When [`Input::Tick`] is due; `None`: never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        self.groups.next_deadline()
    }

    /// The journal position up to which a reply about this group must wait; 0: none.
    #[must_use]
    pub fn position(&self, group: &str) -> u64 {
        match self.config.membership {
            Membership::Own => self.groups.position(group),
            Membership::Broker => self.watched.position(group),
        }
    }

    /// Counts for metrics; walks over all marks.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let counts = self.descriptions.counts();
        let known = counts.full + counts.refused + counts.uncertain;
        let groups = self.groups.len() + self.watched.len();
        let is_coarse = |word: &str| word == "coarse";
        let coarse = self.watched.sizes().filter(|(group, _)| is_coarse(self.word(group))).count();
        Stats {
            full: counts.full,
            refused: counts.refused,
            uncertain: counts.uncertain,
            coarse,
            none: groups.saturating_sub(known + coarse),
            members: self.groups.member_count() + self.watched.member_count(),
        }
    }

    /// What is known of a group's description in a word: `full`, `refused`, `uncertain`, `none`, and beside a broker
    /// `coarse` for a group of which only the assignment topology is known.
    #[must_use]
    pub fn word(&self, group: &str) -> &'static str {
        match self.mark(group).map_or("none", Mark::word) {
            "none" if self.watched.coarse(group).is_some() => "coarse",
            word => word,
        }
    }

    /// Groups as a broker's answers show them; empty standalone.
    #[must_use]
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Beside a broker: whether a push of this member on this connection needs no question to the broker
    /// ([`crate::Input::VerifiedPush`] with [`Standing::Member`]).
    #[must_use]
    pub fn is_recent_member(&self, now: Now, group: &str, member: &str, connection: u64) -> bool {
        self.watched.is_recent(now.at, group, member, connection)
    }

    /// Whether the plugin may hold something of the group, so that a delete has to tell it.
    #[must_use]
    pub fn may_hold(&self, group: &str) -> bool {
        self.config.plugin.is_some() && self.mark(group).is_some_and(Mark::may_hold)
    }

    /// All groups: id, members, and the word for what is known of the description.
    pub fn each_group(&self) -> impl Iterator<Item = (&GroupId, usize, &'static str)> {
        let all = self.groups.sizes().chain(self.watched.sizes());
        all.map(|(group, members)| (group, members, self.word(group)))
    }

    /// Groups with settings of their own, those included that are not there.
    pub fn groups_with_settings(&self) -> impl Iterator<Item = &GroupId> {
        self.groups.with_settings()
    }

    /// The mark of a group, for surfaces that explain.
    #[must_use]
    pub fn mark(&self, group: &str) -> Option<&Mark> {
        self.descriptions.mark(group)
    }

    /// The shared id of a group that there is.
    #[must_use]
    pub fn group_id(&self, group: &str) -> Option<GroupId> {
        self.groups.group_id(group).or_else(|| self.watched.group_id(group))
    }

    /// At which epoch a member is; `None`: there is no such member.
    #[must_use]
    pub fn member_epoch(&self, group: &str, member: &str) -> Option<i32> {
        self.groups.member_epoch(group, member).or_else(|| self.watched.member(group, member).map(|seen| seen.epoch))
    }

    /// What is known about descriptions, for surfaces that explain.
    #[must_use]
    pub fn descriptions(&self) -> &Descriptions {
        &self.descriptions
    }

    /// Name and size of every table, for tests against leaks.
    #[must_use]
    pub fn maps_len(&self) -> Vec<(&'static str, usize)> {
        let mut sizes = vec![
            ("groups", self.groups.len()),
            ("members", self.groups.member_count()),
            ("group settings", self.groups.settings_len()),
            ("watched groups", self.watched.len()),
            ("watched members", self.watched.member_count()),
        ];
        sizes.extend(self.descriptions.maps_len());
        sizes
    }

    /// Whose rules are played.
    #[must_use]
    pub fn compat(&self) -> Compat {
        self.config.compat
    }
}

pub(crate) fn replied<'a>(reply: Reply<'a>) -> Decision<'a> {
    Decision { reply: Some(reply), ..Decision::default() }
}

fn described<'a>(entry: DescribedGroup, read: Option<crate::decision::Read>) -> Decision<'a> {
    replied(Reply::Described { entry: Box::new(entry), read })
}

/// An entry that only carries an error.
fn failed_entry(code: ErrorCode, message: Option<String>, group: String) -> DescribedGroup {
    DescribedGroup { error_code: code.0, error_message: message, group_id: group, ..DescribedGroup::default() }
}
