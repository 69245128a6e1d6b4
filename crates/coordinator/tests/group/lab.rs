//! A shard of groups under test: requests in, answers and records out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use streamside_coordinator::group::settings::SettingRefusal;
use streamside_coordinator::group::tasks::{AssignedTasks, TaskSet};
use streamside_coordinator::group::{
    CurrentAssignment, GroupMetadata, Groups, MemberMetadata, MemberState, StoredTopology, TargetMetadata, Tasks,
};
use streamside_coordinator::{ClientContext, Compat, Config, Durable, HeartbeatFacts, Now, Record, Volatile};
use streamside_wire::messages::incremental_alter_configs::AlterableConfig;
use streamside_wire::messages::streams_group_heartbeat::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Subtopology, TaskIds, Topology,
};

pub type Request = StreamsGroupHeartbeatRequest<'static>;
pub type Response = StreamsGroupHeartbeatResponse<'static>;

/// Groups, their settings, and the time.
pub struct Lab {
    pub groups: Groups,
    pub config: Config,
    pub now: i64,
    /// Everything durable, in order.
    pub journal: Vec<Durable>,
    /// Durable records of the latest decision.
    pub records: Vec<Durable>,
    pub facts: Option<HeartbeatFacts>,
    /// Client address of the requests.
    pub client_host: &'static str,
}

impl Lab {
    /// Delay and interval 0, heartbeat 5000, session 45000, no topic known.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// The same with known topics.
    pub fn with(topics: &[(&str, i32)]) -> Self {
        let config = Config {
            initial_rebalance_delay_ms: 0,
            assignment_interval_ms: 0,
            topics: topics.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            ..Config::default()
        };
        Self {
            groups: Groups::new(&config),
            config,
            now: 1_700_000_000_000,
            journal: Vec::new(),
            records: Vec::new(),
            facts: None,
            client_host: "/127.0.0.1",
        }
    }

    /// Kafka's rules without our differences.
    pub fn kafka(mut self) -> Self {
        self.config.compat = Compat::Kafka;
        self.groups = Groups::new(&self.config);
        self
    }

    fn at(&self) -> Now {
        Now { at: self.now, jitter: 7 }
    }

    /// Sends a heartbeat of version 1.
    pub fn beat(&mut self, request: &Request) -> Response {
        self.beat_at(request, 1)
    }

    pub fn beat_at(&mut self, request: &Request, version: i16) -> Response {
        let client = ClientContext { client_id: "c", client_host: self.client_host };
        let decision = self.groups.decide_heartbeat(&self.config, self.at(), request, version, client);
        let response = Response {
            member_id: Cow::Owned(decision.response.member_id.clone().into_owned()),
            error_message: decision.response.error_message.clone(),
            status: decision.response.status.clone(),
            active_tasks: decision.response.active_tasks.clone(),
            standby_tasks: decision.response.standby_tasks.clone(),
            warmup_tasks: decision.response.warmup_tasks.clone(),
            partitions_by_user_endpoint: decision.response.partitions_by_user_endpoint.clone(),
            tags: decision.response.tags.clone(),
            ..decision.response
        };
        if response.error_code != 0 {
            // What Kafka cannot explain (-1) may have left what it only remembers.
            let silent = decision.records.iter().all(|r| response.error_code == -1 && matches!(r, Record::Volatile(_)));
            assert!(silent, "a refused heartbeat leaves a trace: {:?}", decision.records);
            assert!(decision.facts.is_none());
        }
        self.facts = decision.facts;
        self.apply_all(decision.records);
        response
    }

    /// Changes settings of group `g`; `None` takes one away.
    pub fn alter(&mut self, changes: &[(&str, Option<&str>)]) -> Result<(), SettingRefusal> {
        let changes: Vec<AlterableConfig> = changes.iter().map(|(name, value)| change(name, *value)).collect();
        let records = self.groups.decide_alter(&self.config, "g", &changes, false)?;
        self.apply_all(records);
        Ok(())
    }

    /// Moves the time forward and lets due timers fire. Returns the durable records of it.
    pub fn pass(&mut self, ms: i64) -> Vec<Durable> {
        self.now += ms;
        let mut fired = Vec::new();
        while self.groups.next_deadline().is_some_and(|at| at <= self.now) {
            let records = self.groups.decide_tick(&self.config, self.at());
            assert!(!records.is_empty(), "a due timer does nothing");
            self.apply_all(records);
            fired.append(&mut self.records);
        }
        fired
    }

    pub fn delete(&mut self, group: &str) -> Result<(), i16> {
        let records = self.groups.decide_delete(group).map_err(|code| code.0)?;
        self.apply_all(records);
        Ok(())
    }

    pub fn apply_all(&mut self, records: impl IntoIterator<Item = Record>) {
        self.records.clear();
        for record in records {
            match record {
                Record::Durable(record) => {
                    self.groups.apply_durable(&record);
                    self.journal.push(record.clone());
                    self.records.push(record);
                }
                Record::Volatile(Volatile::Group(change)) => self.groups.apply_volatile(&change),
                Record::Volatile(other) => panic!("not ours: {other:?}"),
            }
        }
    }

    /// Puts a record in place as if it had been decided.
    pub fn inject(&mut self, record: Durable) {
        self.groups.apply_durable(&record);
        self.journal.push(record);
    }

    /// A process that starts with what was journalled.
    pub fn restart(&mut self) {
        self.groups = Groups::new(&self.config);
        for record in &self.journal {
            self.groups.apply_durable(record);
        }
        let now = self.at();
        self.groups.loaded(now);
    }

    pub fn state(&self) -> &'static str {
        self.groups.state("g").map_or("absent", |state| state.name())
    }

    /// The latest journalled metadata of the group.
    pub fn metadata(&self) -> GroupMetadata {
        let found = self.journal.iter().rev().find_map(|r| match r {
            Durable::Group { value: Some(value), .. } => Some(value.clone()),
            _ => None,
        });
        found.expect("group metadata")
    }

    /// The member as it was last journalled.
    pub fn current(&self, member: &str) -> CurrentAssignment {
        let found = self.journal.iter().rev().find_map(|r| match r {
            Durable::CurrentAssignment { member: m, value: Some(value), .. } if m.as_ref() == member => {
                Some(value.clone())
            }
            _ => None,
        });
        found.expect("current assignment")
    }

    /// Moves group and assignment to `epoch`, with these targets.
    pub fn retarget(&mut self, epoch: i32, targets: &[(&str, Tasks)]) {
        let metadata = GroupMetadata { epoch, ..self.metadata() };
        self.inject(Durable::Group { group: "g".into(), value: Some(metadata) });
        for (member, tasks) in targets {
            let (member, value) = ((*member).into(), Some(tasks.clone()));
            self.inject(Durable::TargetMember { group: "g".into(), member, value });
        }
        let value = Some(TargetMetadata { assignment_epoch: epoch, timestamp: 0 });
        self.inject(Durable::TargetMetadata { group: "g".into(), value });
    }

    /// Puts a member in place that has these tasks, as if it had joined with [`join`].
    pub fn place(&mut self, member: &str, current: CurrentAssignment) {
        let id: Arc<str> = member.into();
        let metadata = MemberMetadata {
            client_id: "c".into(),
            client_host: self.client_host.into(),
            rebalance_timeout_ms: 12_000,
            topology_epoch: 0,
            process_id: format!("p-{member}").into(),
            ..MemberMetadata::default()
        };
        self.inject(Durable::Member { group: "g".into(), member: id.clone(), value: Some(metadata) });
        self.inject(Durable::CurrentAssignment { group: "g".into(), member: id, value: Some(current) });
    }
}

/// Sets `name`, or takes it away.
pub fn change(name: &str, value: Option<&str>) -> AlterableConfig {
    AlterableConfig {
        name: name.to_owned(),
        config_operation: i8::from(value.is_none()),
        value: value.map(str::to_owned),
        ..AlterableConfig::default()
    }
}

/// A group with two stateful subtopologies `a` and `b` over topics of six partitions, at group and assignment epoch 10.
pub fn two_subtopologies() -> Lab {
    let mut lab = Lab::with(&[("foo", 6), ("bar", 6)]);
    let mut request = join("seed");
    request.topology = Some(topology(&[("a", &["foo"]), ("b", &["bar"])]));
    assert_eq!(lab.beat(&request).error_code, 0);
    for record in [
        Durable::CurrentAssignment { group: "g".into(), member: "seed".into(), value: None },
        Durable::TargetMember { group: "g".into(), member: "seed".into(), value: None },
        Durable::Member { group: "g".into(), member: "seed".into(), value: None },
    ] {
        lab.inject(record);
    }
    lab.retarget(10, &[]);
    lab
}

/// A join of the group that [`two_subtopologies`] makes.
pub fn join_two(member: &str) -> Request {
    Request { topology: Some(topology(&[("a", &["foo"]), ("b", &["bar"])])), ..join(member) }
}

/// A valid first heartbeat with an empty topology.
pub fn join(member: &str) -> Request {
    Request {
        group_id: Cow::Borrowed("g"),
        member_id: Cow::Owned(member.to_owned()),
        member_epoch: 0,
        rebalance_timeout_ms: 12_000,
        topology: Some(Topology::default()),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        process_id: Some(Cow::Owned(format!("p-{member}"))),
        ..Request::default()
    }
}

/// A heartbeat that says nothing new.
pub fn steady(member: &str, epoch: i32) -> Request {
    Request {
        group_id: Cow::Borrowed("g"),
        member_id: Cow::Owned(member.to_owned()),
        member_epoch: epoch,
        ..Request::default()
    }
}

/// A heartbeat that says what the member has.
pub fn owning(member: &str, epoch: i32, active: &[(&str, &[i32])]) -> Request {
    Request {
        active_tasks: Some(ids(active)),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..steady(member, epoch)
    }
}

pub fn with_instance(request: Request, instance: &str) -> Request {
    Request { instance_id: Some(Cow::Owned(instance.to_owned())), ..request }
}

/// Subtopologies with source topics.
pub fn topology(subtopologies: &[(&str, &[&str])]) -> Topology {
    Topology {
        subtopologies: subtopologies
            .iter()
            .map(|(id, sources)| Subtopology {
                subtopology_id: (*id).to_owned(),
                source_topics: sources.iter().map(|s| (*s).to_owned()).collect(),
                ..Subtopology::default()
            })
            .collect(),
        ..Topology::default()
    }
}

pub fn stored(topology: &Topology) -> Arc<StoredTopology> {
    Arc::new(StoredTopology::from_wire(topology))
}

pub fn ids(tasks: &[(&str, &[i32])]) -> Vec<TaskIds> {
    tasks
        .iter()
        .map(|(id, partitions)| TaskIds {
            subtopology_id: (*id).to_owned(),
            partitions: partitions.to_vec(),
            ..TaskIds::default()
        })
        .collect()
}

pub fn set(tasks: &[(&str, &[i32])]) -> TaskSet {
    tasks.iter().map(|(id, partitions)| ((*id).into(), partitions.iter().copied().collect())).collect()
}

/// Active tasks, as a target has them.
pub fn active(tasks: &[(&str, &[i32])]) -> Tasks {
    Tasks { active: set(tasks), ..Tasks::default() }
}

/// Active tasks that were granted in `epoch`.
pub fn assigned(epoch: i32, tasks: &[(&str, &[i32])]) -> AssignedTasks {
    let active = tasks
        .iter()
        .map(|(id, partitions)| ((*id).into(), partitions.iter().map(|p| (*p, epoch)).collect::<BTreeMap<_, _>>()))
        .collect();
    AssignedTasks { active, ..AssignedTasks::default() }
}

/// A member that has active tasks since `epoch`.
pub fn stable(epoch: i32, tasks: &[(&str, &[i32])]) -> CurrentAssignment {
    CurrentAssignment {
        member_epoch: epoch,
        previous_member_epoch: epoch - 1,
        state: MemberState::Stable,
        assigned: assigned(epoch, tasks),
        pending: AssignedTasks::default(),
    }
}

/// Kinds and keys of records, as `22:m1` or `22:m1-` for a tombstone.
pub fn kinds(records: &[Durable]) -> Vec<String> {
    fn kind(number: u8, member: &str, tombstone: bool) -> String {
        let member = if member.is_empty() { String::new() } else { format!(":{member}") };
        format!("{number}{member}{}", if tombstone { "-" } else { "" })
    }
    records
        .iter()
        .map(|r| match r {
            Durable::Group { value, .. } => kind(17, "", value.is_none()),
            Durable::Member { member, value, .. } => kind(19, member, value.is_none()),
            Durable::TargetMetadata { value, .. } => kind(20, "", value.is_none()),
            Durable::TargetMember { member, value, .. } => kind(21, member, value.is_none()),
            Durable::CurrentAssignment { member, value, .. } => kind(22, member, value.is_none()),
            Durable::Topology { value, .. } => kind(23, "", value.is_none()),
            Durable::Mark { .. } => "mark".to_owned(),
            Durable::Watched { .. } => "watched".to_owned(),
            Durable::Settings { value, .. } => kind(25, "", value.is_none()).replacen("25", "1025", 1),
        })
        .collect()
}

/// Code and text of a refusal.
pub fn refusal(response: &Response) -> (i16, &str) {
    (response.error_code, response.error_message.as_deref().unwrap_or("(null)"))
}

/// Codes of the answer's statuses.
pub fn statuses(response: &Response) -> Vec<i8> {
    response.status.as_ref().expect("a list").iter().map(|s| s.status_code).collect()
}

pub fn status_text(response: &Response) -> &str {
    match response.status.as_deref() {
        Some([status]) => &status.status_detail,
        other => panic!("not one status: {other:?}"),
    }
}
