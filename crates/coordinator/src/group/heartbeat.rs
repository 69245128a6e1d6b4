//! The heartbeat of a member that joins or stays (spec kip1071 §2.4, in its order).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use streamside_wire::messages::streams_group_heartbeat::{
    Status, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, TaskIds, TaskOffset,
};

use super::assign::Assignor;
use super::change::{GroupChange, TaskOffsets};
use super::hash_order::ordered;
use super::member::{self, Subject};
use super::metadata::{GroupMetadata, MemberMetadata};
use super::reconcile::{self, Target, Who};
use super::refusal::Refusal;
use super::settings;
use super::state::Group;
use super::stored_topology::StoredTopology;
use super::target::{self, Plan, STANDBYS, TAGS, Updated};
use super::tasks::{CurrentAssignment, MemberState, Tasks, active_to_wire, to_wire};
use super::topics::{self, Configured};
use super::validate::{self, JOIN};
use super::{Changes, Groups, HeartbeatDecision, Records, endpoints, leave, refused};
use crate::config::{Compat, Config};
use crate::facts::{GroupFacts, HeartbeatFacts};
use crate::input::{ClientContext, Millis, Now};
use crate::record::{Durable, MemberId, Record, Volatile};

/// Status codes of the answer (spec kip1071 §3.3); those of topics are in [`topics`].
const STALE_TOPOLOGY: i8 = 0;
const SHUTDOWN_APPLICATION: i8 = 4;
const ASSIGNMENT_DELAYED: i8 = 5;
const MISSING_CLIENT_TAGS: i8 = 6;
/// The first version whose members know [`MISSING_CLIENT_TAGS`]; others throw on it.
const CLIENT_TAGS_VERSION: i16 = 1;

static NO_TASKS: Tasks = Tasks { active: BTreeMap::new(), standby: BTreeMap::new(), warmup: BTreeMap::new() };

/// Decides on a heartbeat of any member epoch.
pub(super) fn decide<'a>(
    groups: &Groups,
    config: &Config,
    now: Now,
    request: &'a StreamsGroupHeartbeatRequest<'_>,
    version: i16,
    client: ClientContext<'_>,
) -> Result<HeartbeatDecision<'a>, Refusal> {
    validate::check(request, config.compat)?;
    let known = groups.streams(&request.group_id);
    if request.member_epoch < JOIN {
        return leave::decide(known, request, version);
    }
    // S1
    let fresh;
    let group = match known {
        Some(group) => group,
        None if request.member_epoch > JOIN => return Err(unknown_group(request, config.compat)),
        None if groups.len() >= config.limits.max_groups => return Err(Refusal::TooManyGroups),
        None => {
            let settings = groups.settings(&request.group_id).cloned();
            fresh = Group::new(Arc::from(request.group_id.as_ref()), settings);
            &fresh
        }
    };
    let beat =
        Beat { assignor: groups.assignor.as_ref(), group, created: known.is_none(), config, now, request, client };
    beat.decide(version)
}

/// G3. An unknown group is 69 in Kafka, which ends every Java thread; 25 only makes the member join again (D11).
fn unknown_group(request: &StreamsGroupHeartbeatRequest<'_>, compat: Compat) -> Refusal {
    let group = request.group_id.as_ref().to_owned();
    match compat {
        Compat::Kafka => Refusal::StreamsGroupNotFound(group),
        Compat::Streamside => Refusal::UnknownMember { group, member: request.member_id.as_ref().to_owned() },
    }
}

/// A heartbeat being decided: everything is read from the group as it is before.
struct Beat<'g, 'a, 'r> {
    assignor: &'g dyn Assignor,
    group: &'g Group,
    /// The group is made by this heartbeat.
    created: bool,
    config: &'g Config,
    now: Now,
    request: &'a StreamsGroupHeartbeatRequest<'r>,
    client: ClientContext<'g>,
}

/// Why tasks may be late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delay {
    Initial,
    Interval,
}

/// Which target the member is to go to.
struct Course {
    epoch: i32,
    /// Just computed; else what is stored.
    computed: Option<Arc<Tasks>>,
    delay: Option<Delay>,
}

/// What the topics say.
struct Readiness {
    configured: Arc<Configured>,
    validated_epoch: i32,
    bump: bool,
}

impl<'a> Beat<'_, 'a, '_> {
    fn decide(&self, version: i16) -> Result<HeartbeatDecision<'a>, Refusal> {
        let (group, request, config) = (self.group, self.request, self.config);
        let settings = group.effective(config);
        let mut records = Records::new();
        let mut changes = Changes::new();
        // S2, S3
        let subject = member::resolve(group, request, config, &mut records)?;
        // S4, S5
        let (metadata, mut bump) = self.metadata(&subject, &mut records)?;
        // S6
        let topology = self.topology(&mut records)?;
        let stale = group.topology.as_ref().filter(|t| t.epoch > metadata.topology_epoch).map(|t| t.epoch);
        // S7, S8
        let ready = self.readiness(&topology, &mut changes)?;
        bump |= ready.bump;
        if ready.configured.trouble.is_none() {
            self.check_owned(&ready.configured)?;
        }
        let offsets = self.offsets(&subject.id, &mut changes)?;
        // S9, S11
        bump = bump || !self.same_settings();
        let group_epoch = if bump { group.metadata.epoch.saturating_add(1) } else { group.metadata.epoch };
        if bump {
            let value = Some(self.group_metadata(group_epoch, &ready));
            records.push(Record::Durable(Durable::Group { group: group.id.clone(), value }));
        }
        // S12: a group that was empty waits for more members.
        let mut delayed = group.delayed_until.is_some();
        if group.members.is_empty() && settings.initial_rebalance_delay_ms() > 0 && !delayed {
            delayed = true;
            let until = Some(self.after(settings.initial_rebalance_delay_ms()));
            changes.push(GroupChange::Delayed { group: group.id.clone(), until });
        }
        // S13
        let plan = Plan {
            assignor: self.assignor,
            group,
            updated: Some(Updated {
                id: &subject.id,
                metadata: &metadata,
                current: &subject.current,
                replaces: subject.replaces.map(|old| &old.id),
                offsets: offsets.as_deref().or_else(|| subject.stored.and_then(|m| m.offsets.as_deref())),
            }),
            configured: &ready.configured,
            standbys: settings.num_standby_replicas(),
            ties: config.compat,
            epoch: group_epoch,
        };
        let course = self.course(&plan, delayed, &mut records)?;
        // S14
        // As Kafka does, what the member says it has is not even read while it has arrived.
        let arrived = subject.current.state == MemberState::Stable && subject.current.member_epoch == course.epoch;
        let owned = if arrived && config.compat == Compat::Kafka { None } else { member::owned_tasks(request)? };
        let next = if arrived { None } else { self.reconcile(&subject, &metadata, &course, owned.as_ref())? };
        if let Some(next) = &next {
            self.record_current(&subject, &metadata, next, &mut records, &mut changes);
        }
        let current = next.as_ref().unwrap_or(&subject.current);
        // S15
        let (g, m) = (group.id.clone(), subject.id.clone());
        changes.push(GroupChange::Seen { group: g, member: m, until: self.after(settings.session_timeout_ms()) });
        let asks = group.shutdown_by.is_none() && request.shutdown_application;
        if asks {
            let (group, member) = (group.id.clone(), subject.id.clone());
            changes.push(GroupChange::ShutdownRequested { group, member });
        }
        let shutdown_by = group.shutdown_by.as_ref().or_else(|| asks.then_some(&subject.id));
        // S16
        // Without a new state there is nothing to compare, which matters at every steady heartbeat.
        let tasks_changed = next.as_ref().is_some_and(|next| next.assigned != subject.current.assigned);
        let mut response = self.response(&subject, current, owned.as_ref(), tasks_changed);
        let mut statuses = self.statuses(stale, &metadata, &course, &ready.configured, shutdown_by, current);
        if version >= CLIENT_TAGS_VERSION
            && let Some(status_detail) = settings::missing_tags(settings.tags(), &metadata.client_tags)
        {
            statuses.push(Status { status_code: MISSING_CLIENT_TAGS, status_detail, ..Status::default() });
        }
        response.status = Some(statuses);
        let around = endpoints::Around {
            group,
            created: self.created,
            member: &subject.id,
            replaces: subject.replaces.map(|old| &old.id),
            metadata: &metadata,
            current,
            configured: &ready.configured,
        };
        let moved = subject.metadata.user_endpoint != metadata.user_endpoint
            || (tasks_changed && metadata.user_endpoint.is_some());
        let filled = around.fill(request.endpoint_information_epoch, moved, config.compat, &mut response, &mut changes);

        if self.created && config.compat == Compat::Kafka {
            // D14: Kafka decides the heartbeat that makes a group on an object that it throws away.
            changes.retain(|change| !change.is_told());
        }
        let changes = changes.into_iter().map(|change| Record::Volatile(Volatile::Group(change)));
        if let Err(refusal) = filled {
            // Kafka fails this late: what was to be written is not, but what it only remembers stays.
            let records = if self.created { Records::new() } else { changes.collect() };
            return Ok(HeartbeatDecision { records, response: refused(&refusal), facts: None, now: Vec::new() });
        }
        records.extend(changes);
        let facts = HeartbeatFacts {
            group: GroupFacts {
                topology_epoch: topology.epoch,
                fingerprint: Some(topology.fingerprint),
                incarnation: self.incarnation(),
                guessed: false,
                empty: false,
            },
            leaving: false,
            stale: stale.is_some(),
            error_code: 0,
            version,
            begun: false,
        };
        Ok(HeartbeatDecision { records, response, facts: Some(facts), now: Vec::new() })
    }

    fn after(&self, ms: i32) -> Millis {
        self.now.at.saturating_add(i64::from(ms))
    }

    /// Which making of the group this is: the time of it and chance, so that no two are alike.
    fn incarnation(&self) -> u64 {
        if self.created {
            (self.now.at.cast_unsigned() << 22) | u64::from(self.now.jitter & 0x3f_ffff)
        } else {
            self.group.metadata.incarnation
        }
    }

    /// What is known about the member from now on, and whether the group epoch advances for it.
    fn metadata<'s>(
        &self,
        subject: &'s Subject<'_>,
        records: &mut Records,
    ) -> Result<(Cow<'s, MemberMetadata>, bool), Refusal> {
        // Kafka: two values of one tag collide in a map. Ours has refused them in words.
        if self.request.client_tags.as_deref().and_then(validate::double_client_tag).is_some() {
            return Err(Refusal::Unexpected);
        }
        let merged = member::merged(&subject.metadata, self.request, self.client);
        let Some(metadata) = merged else {
            if subject.new {
                self.record_member(&subject.id, &subject.metadata, records);
            }
            return Ok((Cow::Borrowed(&subject.metadata), subject.new));
        };
        self.record_member(&subject.id, &metadata, records);
        let is_static = self.request.instance_id.is_some();
        let bump = subject.new || member::bumps(&subject.metadata, &metadata, is_static, self.config.compat);
        Ok((Cow::Owned(metadata), bump))
    }

    fn record_member(&self, id: &MemberId, metadata: &MemberMetadata, records: &mut Records) {
        let (group, member) = (self.group.id.clone(), id.clone());
        records.push(Record::Durable(Durable::Member { group, member, value: Some(metadata.clone()) }));
    }

    /// The group's topology from now on (spec kip1071 §3.1).
    fn topology(&self, records: &mut Records) -> Result<Arc<StoredTopology>, Refusal> {
        let compat = self.config.compat;
        let Some(told) = &self.request.topology else {
            return self.group.topology.clone().ok_or_else(|| match compat {
                Compat::Kafka => Refusal::Unexpected,
                // A member that joins again brings its topology.
                Compat::Streamside => Refusal::UnknownMember {
                    group: self.group.id.as_ref().to_owned(),
                    member: self.request.member_id.as_ref().to_owned(),
                },
            });
        };
        // Kafka fails on these without a word (spec kip1071 §1.2); ours were refused in words before.
        if told.epoch < 0 || validate::double(told.subtopologies.iter().map(|s| s.subtopology_id.as_str())).is_some() {
            return Err(Refusal::Unexpected);
        }
        let Some(stored) = &self.group.topology else {
            let topology = Arc::new(StoredTopology::from_wire(told));
            let (group, value) = (self.group.id.clone(), Some(topology.clone()));
            records.push(Record::Durable(Durable::Topology { group, value }));
            return Ok(topology);
        };
        if told.epoch < stored.epoch {
            return Ok(stored.clone());
        }
        let told = StoredTopology::from_wire(told);
        let same = match compat {
            Compat::Kafka => stored.equals_in_order(&told),
            Compat::Streamside => stored.equals_normalised(&told),
        };
        if same { Ok(stored.clone()) } else { Err(Refusal::TopologyUpdate) }
    }

    /// Looks at the topics, if that was not done since they or the topology changed.
    fn readiness(&self, topology: &StoredTopology, changes: &mut Changes) -> Result<Readiness, Refusal> {
        let group = self.group;
        let configured = match &group.configured {
            Some(configured) if group.topology.is_some() => configured.clone(),
            _ => {
                let configured = Arc::new(topics::configure(topology, &self.config.topics, self.config.compat)?);
                let (group, configured) = (group.id.clone(), configured);
                changes.push(GroupChange::Configured { group, configured: configured.clone() });
                configured
            }
        };
        let validated_epoch = if configured.trouble.is_none() { topology.epoch } else { -1 };
        let bump = configured.hash != group.metadata.metadata_hash
            || validated_epoch != group.metadata.validated_topology_epoch;
        Ok(Readiness { configured, validated_epoch, bump })
    }

    /// O1, O2.
    fn check_owned(&self, configured: &Configured) -> Result<(), Refusal> {
        let Some(subtopologies) = &configured.subtopologies else { return Ok(()) };
        let check = |tasks: &TaskIds| {
            let id = tasks.subtopology_id.as_str();
            let count = subtopologies.get(id).ok_or_else(|| Refusal::UnknownSubtopology(id.to_owned()))?.tasks;
            match tasks.partitions.iter().find(|p| !(0..count).contains(*p)) {
                Some(p) => Err(Refusal::InvalidTask { subtopology: id.to_owned(), partition: *p, tasks: count }),
                None => Ok(()),
            }
        };
        let r = self.request;
        [&r.active_tasks, &r.standby_tasks, &r.warmup_tasks].into_iter().flatten().flatten().try_for_each(check)
    }

    /// Takes over reported offsets (O3); returns the ones that count from now on, if there are new ones.
    fn offsets(&self, id: &MemberId, changes: &mut Changes) -> Result<Option<Arc<TaskOffsets>>, Refusal> {
        let (told, end) = (&self.request.task_offsets, &self.request.task_end_offsets);
        if told.is_none() && end.is_none() {
            return Ok(None);
        }
        let offsets = told.as_deref().map(task_offsets).transpose()?.map(Arc::new);
        let end_offsets = end.as_deref().map(task_offsets).transpose()?.map(Arc::new);
        let (group, member) = (self.group.id.clone(), id.clone());
        changes.push(GroupChange::Offsets { group, member, offsets: offsets.clone(), end_offsets });
        Ok(offsets)
    }

    /// Whether the assignment settings are those of the last bump.
    fn same_settings(&self) -> bool {
        let last = &self.group.metadata.last_assignment_configs;
        let settings = self.group.effective(self.config);
        let tags = last.get(TAGS).map(String::as_str).unwrap_or_default();
        last.get(STANDBYS).and_then(|text| text.parse().ok()) == Some(settings.num_standby_replicas())
            && tags.split_terminator(',').eq(settings.tags().iter().map(String::as_str))
    }

    fn group_metadata(&self, epoch: i32, ready: &Readiness) -> GroupMetadata {
        let settings = self.group.effective(self.config);
        let standbys = (STANDBYS.to_owned(), settings.num_standby_replicas().to_string());
        let tags = (!settings.tags().is_empty()).then(|| (TAGS.to_owned(), settings.tags().join(",")));
        GroupMetadata {
            epoch,
            metadata_hash: ready.configured.hash,
            validated_topology_epoch: ready.validated_epoch,
            last_assignment_configs: [standbys].into_iter().chain(tags).collect(),
            incarnation: self.incarnation(),
        }
    }

    /// Spec kip1071 §5.1, first match wins.
    fn course(&self, plan: &Plan<'_>, delayed: bool, records: &mut Records) -> Result<Course, Refusal> {
        let last = self.group.target_metadata;
        let stored = |delay| Course { epoch: last.assignment_epoch, computed: None, delay };
        if delayed {
            return Ok(stored(Some(Delay::Initial)));
        }
        if last.assignment_epoch >= plan.epoch {
            return Ok(stored(None));
        }
        let interval = self.group.effective(self.config).assignment_interval_ms();
        if last.timestamp != 0 && interval != 0 && self.now.at < last.timestamp.saturating_add(i64::from(interval)) {
            return Ok(stored(Some(Delay::Interval)));
        }
        let own = target::compute(plan, self.now, records)?;
        Ok(Course { epoch: plan.epoch, computed: Some(own), delay: None })
    }

    fn reconcile(
        &self,
        subject: &Subject<'_>,
        metadata: &MemberMetadata,
        course: &Course,
        owned: Option<&Tasks>,
    ) -> Result<Option<CurrentAssignment>, Refusal> {
        let current = &subject.current;
        let tasks = match (&course.computed, course.delay) {
            (_, Some(Delay::Initial)) => &NO_TASKS,
            (Some(computed), _) => computed,
            (None, _) => self.group.target.get(subject.target_id()).map_or(&NO_TASKS, |tasks| tasks),
        };
        let who = Who { member: &subject.id, process: &metadata.process_id };
        let target = Target { epoch: course.epoch, tasks };
        reconcile::reconcile(who, current, owned, target, &self.group.owners)
    }

    /// The new state, and the time for giving up tasks: it starts anew with every such state.
    fn record_current(
        &self,
        subject: &Subject<'_>,
        metadata: &MemberMetadata,
        next: &CurrentAssignment,
        records: &mut Records,
        changes: &mut Changes,
    ) {
        let (group, member) = (self.group.id.clone(), subject.id.clone());
        let value = Some(next.clone());
        records.push(Record::Durable(Durable::CurrentAssignment {
            group: group.clone(),
            member: member.clone(),
            value,
        }));
        let until = (next.state == MemberState::UnrevokedTasks)
            .then(|| (self.after(metadata.rebalance_timeout_ms), next.member_epoch));
        if until.is_some() || subject.stored.is_some_and(|m| m.revoking.is_some()) {
            changes.push(GroupChange::Revoking { group, member, until });
        }
    }

    /// Spec kip1071 §1.6, statuses and endpoints aside.
    fn response(
        &self,
        subject: &Subject<'_>,
        current: &CurrentAssignment,
        owned: Option<&Tasks>,
        tasks_changed: bool,
    ) -> StreamsGroupHeartbeatResponse<'a> {
        let (config, settings) = (self.config, self.group.effective(self.config));
        let mut response = StreamsGroupHeartbeatResponse {
            member_id: Cow::Borrowed(self.request.member_id.as_ref()),
            member_epoch: current.member_epoch,
            heartbeat_interval_ms: settings.heartbeat_interval_ms(),
            task_offset_interval_ms: settings.task_offset_interval_ms(),
            acceptable_recovery_lag: settings.acceptable_recovery_lag(),
            ..StreamsGroupHeartbeatResponse::default()
        };
        debug_assert!(subject.id.as_ref() == self.request.member_id.as_ref(), "the answer names the member");
        // §6.5. D9: an answer that granted tasks may have been lost.
        let says_otherwise =
            config.compat == Compat::Streamside && owned.is_some_and(|owned| !current.assigned.same_tasks(owned));
        if self.request.member_epoch == JOIN || tasks_changed || says_otherwise {
            let assigned = &current.assigned;
            response.active_tasks = Some(listed(config.compat, active_to_wire(&assigned.active)));
            response.standby_tasks = Some(listed(config.compat, to_wire(&assigned.standby)));
            response.warmup_tasks = Some(listed(config.compat, to_wire(&assigned.warmup)));
        }
        response
    }

    /// In the order of spec kip1071 §1.6.
    fn statuses(
        &self,
        stale: Option<i32>,
        metadata: &MemberMetadata,
        course: &Course,
        configured: &Configured,
        shutdown_by: Option<&MemberId>,
        current: &CurrentAssignment,
    ) -> Vec<Status> {
        let mut statuses = Vec::new();
        let mut add = |status_code, status_detail| {
            statuses.push(Status { status_code, status_detail, ..Status::default() });
        };
        if let Some(epoch) = stale {
            let own = metadata.topology_epoch;
            add(
                STALE_TOPOLOGY,
                format!("The member's topology epoch {own} is behind the group's topology epoch {epoch}."),
            );
        }
        match course.delay {
            Some(Delay::Initial) => {
                add(ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.".to_owned())
            }
            // D7: the status makes a client stop working, which one that has tasks need not.
            Some(Delay::Interval) if self.config.compat == Compat::Kafka || current.assigned.is_empty() => {
                add(ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.".to_owned());
            }
            _ => {}
        }
        if let Some(trouble) = &configured.trouble {
            add(trouble.code, trouble.detail.clone());
        }
        if let Some(member) = shutdown_by {
            add(
                SHUTDOWN_APPLICATION,
                format!(
                    "Streams group member {member} encountered a fatal error and requested a shutdown for the entire \
                     application."
                ),
            );
        }
        statuses
    }
}

/// Tasks in the order in which an answer lists their subtopologies.
fn listed(compat: Compat, tasks: Vec<TaskIds>) -> Vec<TaskIds> {
    if compat == Compat::Streamside || tasks.len() < 2 {
        return tasks;
    }
    let ids = ordered(compat, tasks.iter().map(|t| t.subtopology_id.as_str()));
    let place: BTreeMap<String, usize> = ids.into_iter().map(str::to_owned).zip(0..).collect();
    let mut tasks = tasks;
    tasks.sort_by_key(|t| place.get(&t.subtopology_id).copied());
    tasks
}

/// Offsets by task; a task may be named once (O3).
fn task_offsets(told: &[TaskOffset]) -> Result<TaskOffsets, Refusal> {
    let mut seen = BTreeSet::new();
    if let Some(double) = told.iter().find(|t| !seen.insert((t.subtopology_id.as_str(), t.partition))) {
        return Err(Refusal::DoubleOffset { subtopology: double.subtopology_id.clone(), partition: double.partition });
    }
    Ok(told.iter().map(|t| ((Arc::from(t.subtopology_id.as_str()), t.partition), t.offset)).collect())
}
