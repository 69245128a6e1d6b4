//! One coordinator with its members, a clock that stands still, and a journal, all played by hand.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use streamside_coordinator::decision::Read;
use streamside_coordinator::description::{PreparedPush, ReadToken};
use streamside_coordinator::{
    ClientContext, Compat, Config, Coordinator, Durable, Effect, Input, LogLine, Millis, Now, OpId, PluginFailure,
    Record, Reply, Sensor,
};
use streamside_wire::messages::streams_group_describe::DescribedGroup;
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, Subtopology, Topology};
use streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest;
use streamside_wire::messages::topology_description::{self as wire, TopologyDescription};

pub const G: &str = "g";
pub const M: &str = "m1";

/// A description of one source node.
pub fn description(name: &str) -> TopologyDescription {
    let node = wire::Node {
        name: name.to_owned(),
        node_type: 1,
        source_topics: vec!["in".to_owned()],
        ..wire::Node::default()
    };
    let subtopology =
        wire::Subtopology { subtopology_id: "0".to_owned(), nodes: vec![node], ..wire::Subtopology::default() };
    TopologyDescription { subtopologies: vec![subtopology], ..TopologyDescription::default() }
}

/// Its canonical bytes.
pub fn encoded(name: &str) -> Bytes {
    streamside_topology::Description::from_wire(&description(name)).unwrap().encode()
}

pub fn transient() -> PluginFailure {
    PluginFailure::Transient { message: Some("not now".to_owned()), retry_after_ms: None }
}

pub fn permanent() -> PluginFailure {
    PluginFailure::Permanent { message: Some("never".to_owned()) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    pub asked: bool,
    pub error: i16,
    pub message: Option<String>,
    pub statuses: Vec<i8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: i16,
    pub message: Option<String>,
    pub reason: Option<&'static str>,
}

/// What a push or a delete comes to at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Answered(Answer),
    /// The plugin is to be called once the records are durable.
    Called(Call),
    /// Nobody waits for an answer.
    Nothing,
}

impl Step {
    pub fn call(self) -> Call {
        match self {
            Self::Called(call) => call,
            other => panic!("no plugin call but {other:?}"),
        }
    }

    pub fn answer(self) -> Answer {
        match self {
            Self::Answered(answer) => answer,
            other => panic!("no answer but {other:?}"),
        }
    }

    pub fn code(self) -> i16 {
        self.answer().code
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub op: OpId,
    pub group: String,
    /// Absent for a delete.
    pub set: Option<(i32, Bytes)>,
    pub sequence: u64,
}

pub struct World {
    pub coordinator: Coordinator,
    pub now: Millis,
    pub jitter: u32,
    pub journal: BTreeMap<Vec<u8>, Vec<u8>>,
    pub log: Vec<LogLine>,
    pub sensors: HashMap<Sensor, u64>,
    pub settled: Vec<&'static str>,
    pub limits_hit: Vec<&'static str>,
    pub changed: Vec<String>,
    /// Durable and volatile records of the latest decision.
    pub durable: usize,
    pub volatile: usize,
    next_op: u64,
    epochs: HashMap<(String, String), i32>,
}

impl World {
    pub fn new(compat: Compat) -> Self {
        Self::with(Config { compat, ..Config::default() })
    }

    pub fn with(config: Config) -> Self {
        Self {
            coordinator: Coordinator::new(config),
            now: 1_000_000_000,
            // The middle of the jitter: a window is exactly its base.
            jitter: u32::MAX / 2 + 1,
            journal: BTreeMap::new(),
            log: Vec::new(),
            sensors: HashMap::new(),
            settled: Vec::new(),
            limits_hit: Vec::new(),
            changed: Vec::new(),
            durable: 0,
            volatile: 0,
            next_op: 0,
            epochs: HashMap::new(),
        }
    }

    /// With one member, asked already.
    pub fn joined(compat: Compat) -> Self {
        let mut world = Self::new(compat);
        assert!(world.join(G, M).asked);
        world
    }

    /// With one member and a stored description `a`.
    pub fn stored(compat: Compat) -> Self {
        let mut world = Self::joined(compat);
        world.store(G, M, "a");
        world
    }

    /// As `stored`, and the member has left.
    pub fn abandoned(compat: Compat) -> Self {
        let mut world = Self::stored(compat);
        world.leave(G, M);
        world
    }

    pub fn config(&self) -> &Config {
        self.coordinator.config()
    }

    fn at(&self) -> Now {
        Now { at: self.now, jitter: self.jitter }
    }

    pub fn pass(&mut self, ms: Millis) {
        self.now += ms;
    }

    pub fn op(&mut self) -> OpId {
        self.next_op += 1;
        OpId(self.next_op)
    }

    fn carry(&mut self, effect: Effect, calls: &mut Vec<Call>) {
        match effect {
            Effect::Record(sensor, n) => *self.sensors.entry(sensor).or_default() += n,
            Effect::Log(line) => self.log.push(line),
            Effect::PushSettled(result) => self.settled.push(result),
            Effect::LimitHit(limit) => self.limits_hit.push(limit),
            Effect::TopologyChanged(group) => self.changed.push(group.to_string()),
            Effect::PluginSet { op, group, epoch, description, sequence } => {
                calls.push(Call { op, group: group.to_string(), set: Some((epoch, description)), sequence });
            }
            Effect::PluginDelete { op, group, sequence } => {
                calls.push(Call { op, group: group.to_string(), set: None, sequence });
            }
        }
    }

    /// Decides, journals, applies and carries out.
    pub fn play<'a>(&mut self, input: Input<'a>) -> (Option<Reply<'a>>, Vec<Call>) {
        let decision = self.coordinator.decide(self.at(), input);
        (self.durable, self.volatile) = (0, 0);
        for record in decision.records {
            match &record {
                Record::Durable(durable) => {
                    self.durable += 1;
                    match durable.value() {
                        Some(value) => self.journal.insert(durable.key(), value),
                        None => self.journal.remove(&durable.key()),
                    };
                }
                Record::Volatile(_) => self.volatile += 1,
            }
            self.coordinator.apply(record);
        }
        let mut calls = Vec::new();
        for effect in decision.now.into_iter().chain(decision.after_durable) {
            self.carry(effect, &mut calls);
        }
        (decision.reply, calls)
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        let (reply, mut calls) = self.play(input);
        match (reply, calls.pop()) {
            (None, Some(call)) => Step::Called(call),
            (Some(Reply::Push { error_code, error_message, reason, .. }), None) => {
                Step::Answered(Answer { code: error_code, message: error_message, reason })
            }
            (Some(Reply::Deleted { error_code, error_message, .. }), None) => {
                Step::Answered(Answer { code: error_code, message: error_message, reason: None })
            }
            (Some(Reply::Done), None) => Step::Nothing,
            other => panic!("unexpected {other:?}"),
        }
    }

    /// A start from what the journal holds.
    pub fn restart(&mut self) {
        self.restart_with(self.coordinator.config().clone());
    }

    /// The same with other settings.
    pub fn restart_with(&mut self, config: Config) {
        let durables = self.journal.iter().map(|(key, value)| Durable::decode(key, value).unwrap());
        let now = self.at();
        self.coordinator = Coordinator::restore(config, now, durables);
    }

    pub fn heartbeat(&mut self, request: &StreamsGroupHeartbeatRequest<'_>, version: i16) -> Beat {
        let client = ClientContext { client_id: "c", client_host: "/127.0.0.1" };
        let (reply, calls) = self.play(Input::Heartbeat { request, version, client });
        assert!(calls.is_empty());
        let Some(Reply::Heartbeat(response)) = reply else { panic!("no heartbeat response but {reply:?}") };
        if response.error_code == 0 {
            let key = (request.group_id.to_string(), request.member_id.to_string());
            self.epochs.insert(key, response.member_epoch);
        }
        Beat {
            asked: response.topology_description_required,
            error: response.error_code,
            message: response.error_message.clone(),
            statuses: response.status.iter().flatten().map(|s| s.status_code).collect(),
        }
    }

    pub fn join(&mut self, group: &str, member: &str) -> Beat {
        self.heartbeat(&join_request(group, member, 0), 1)
    }

    /// A later heartbeat.
    pub fn beat(&mut self, group: &str, member: &str) -> Beat {
        self.beat_in(group, member, 1)
    }

    pub fn beat_in(&mut self, group: &str, member: &str, version: i16) -> Beat {
        let epoch = self.epochs[&(group.to_owned(), member.to_owned())];
        self.heartbeat(&request(group, member, epoch), version)
    }

    pub fn leave(&mut self, group: &str, member: &str) -> Beat {
        self.heartbeat(&request(group, member, -1), 1)
    }

    pub fn push_raw(&mut self, group: &str, member: &str, epoch: i32, description: TopologyDescription) -> Step {
        let request = StreamsGroupTopologyDescriptionUpdateRequest {
            group_id: group.to_owned(),
            member_id: member.to_owned(),
            topology_epoch: epoch,
            topology_description: description,
            ..StreamsGroupTopologyDescriptionUpdateRequest::default()
        };
        let config = self.coordinator.config();
        let payload = PreparedPush::prepare(&request, &config.limits, config.compat);
        let op = self.op();
        self.step(Input::Push { op, group, member, topology_epoch: epoch, payload })
    }

    pub fn push(&mut self, group: &str, member: &str, name: &str) -> Step {
        self.push_raw(group, member, 0, description(name))
    }

    pub fn outcome(&mut self, call: &Call, result: Result<(), PluginFailure>) -> Step {
        self.step(match call.set {
            Some(_) => Input::SetOutcome { op: call.op, result, late: false },
            None => Input::DeleteOutcome { op: call.op, result, late: false },
        })
    }

    pub fn late(&mut self, call: &Call, result: Result<(), PluginFailure>) {
        let step = self.step(match call.set {
            Some(_) => Input::SetOutcome { op: call.op, result, late: true },
            None => Input::DeleteOutcome { op: call.op, result, late: true },
        });
        assert_eq!(step, Step::Nothing, "a late outcome answers nobody");
    }

    /// A push that the plugin takes.
    pub fn store(&mut self, group: &str, member: &str, name: &str) {
        let call = self.push(group, member, name).call();
        assert_eq!(self.outcome(&call, Ok(())).code(), 0);
    }

    /// A push that the plugin answers so.
    pub fn fail(&mut self, group: &str, member: &str, name: &str, failure: PluginFailure) -> Answer {
        let call = self.push(group, member, name).call();
        self.outcome(&call, Err(failure)).answer()
    }

    pub fn describe(&mut self, group: &str, include: bool) -> (DescribedGroup, Option<Read>) {
        let (reply, calls) = self.play(Input::Describe { group, include_description: include });
        assert!(calls.is_empty());
        match reply {
            Some(Reply::Described { entry, read }) => (*entry, read),
            other => panic!("no entry but {other:?}"),
        }
    }

    pub fn read(&mut self, group: &str) -> Option<Read> {
        self.describe(group, true).1
    }

    pub fn got(&mut self, token: ReadToken, result: Result<Option<Bytes>, PluginFailure>) -> (i8, Option<Bytes>, bool) {
        let (reply, _) = self.play(Input::GetOutcome { group: G, epoch: 0, token, result });
        match reply {
            Some(Reply::Attached { status, description, fatal }) => (status, description, fatal),
            other => panic!("nothing attached but {other:?}"),
        }
    }

    /// The status of a describe whose read, if there is one, ends so.
    pub fn status(&mut self, result: Result<Option<Bytes>, PluginFailure>) -> i8 {
        match self.read(G) {
            Some(read) => self.got(read.token, result).0,
            None => 1,
        }
    }

    pub fn delete(&mut self, group: &str) -> Step {
        let op = self.op();
        self.step(Input::Delete { op, group })
    }

    pub fn cleanup(&mut self) -> Vec<Call> {
        let first_op = OpId(self.next_op + 1);
        let (reply, calls) = self.play(Input::CleanupCycle { first_op });
        assert!(matches!(reply, Some(Reply::Done)));
        self.next_op += calls.len() as u64;
        calls
    }

    pub fn sweep(&mut self) {
        let (reply, calls) = self.play(Input::Sweep);
        assert!(matches!(reply, Some(Reply::Done)) && calls.is_empty());
    }

    pub fn exists(&mut self, group: &str) -> bool {
        self.describe(group, false).0.error_code == 0
    }

    /// Kafka's S and F.
    pub fn s_and_f(&self) -> (i32, i32) {
        self.coordinator.mark(G).map_or((-1, -1), |mark| (mark.stored_epoch(), mark.failed_epoch()))
    }

    pub fn s(&self) -> i32 {
        self.s_and_f().0
    }

    /// How long from now until the window of the group ends; `None`: there is none.
    pub fn window(&self) -> Option<Millis> {
        self.coordinator.descriptions().window(G).map(|window| window.until - self.now)
    }

    pub fn sensor(&self, sensor: Sensor) -> u64 {
        self.sensors.get(&sensor).copied().unwrap_or(0)
    }

    pub fn logged(&self, level: fn(String) -> LogLine, text: &str) -> bool {
        self.log.contains(&level(text.to_owned()))
    }

    /// The only log line of that level so far that contains all words.
    pub fn logs_with(&self, words: &[&str]) -> usize {
        let text = |line: &LogLine| match line {
            LogLine::Info(text) | LogLine::Warn(text) | LogLine::Error(text) => text.clone(),
        };
        self.log.iter().map(text).filter(|text| words.iter().all(|word| text.contains(word))).count()
    }

    pub fn sizes(&self) -> HashMap<&'static str, usize> {
        self.coordinator.maps_len().into_iter().collect()
    }
}

pub fn request<'a>(group: &'a str, member: &'a str, epoch: i32) -> StreamsGroupHeartbeatRequest<'a> {
    StreamsGroupHeartbeatRequest {
        group_id: Cow::Borrowed(group),
        member_id: Cow::Borrowed(member),
        member_epoch: epoch,
        ..StreamsGroupHeartbeatRequest::default()
    }
}

pub fn join_request<'a>(group: &'a str, member: &'a str, topology_epoch: i32) -> StreamsGroupHeartbeatRequest<'a> {
    let subtopology =
        Subtopology { subtopology_id: "0".to_owned(), source_topics: vec!["in".to_owned()], ..Subtopology::default() };
    StreamsGroupHeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        topology: Some(Topology { epoch: topology_epoch, subtopologies: vec![subtopology], ..Topology::default() }),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        process_id: Some(Cow::Borrowed("p")),
        ..request(group, member, 0)
    }
}

/// Both sets of rules, for what holds in either.
pub const BOTH: [Compat; 2] = [Compat::Streamside, Compat::Kafka];
