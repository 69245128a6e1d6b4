//! The shell in a few lines: it asks the broker what the coordinator wants to know, and plays applications that push
//! when they are asked.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use streamside_coordinator::description::PreparedPush;
use streamside_coordinator::watched::{DeleteVerdict, delete_verdict, standing};
use streamside_coordinator::{
    Compat, Config, Coordinator, Durable, Effect, Input, LogLine, Membership, Now, OpId, PluginFailure, Record, Reply,
    Standing,
};
use streamside_wire::messages::streams_group_describe::DescribedGroup;
use streamside_wire::messages::streams_group_heartbeat::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Subtopology, Topology,
};
use streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest;
use streamside_wire::messages::topology_description::{self as wire, TopologyDescription};

use crate::broker::{Broker, INTERVAL};

pub const G: &str = "g";

/// One of our processes: its memory, its folder, its plugin.
pub struct Process {
    pub coordinator: Coordinator,
    pub journal: BTreeMap<Vec<u8>, Vec<u8>>,
    pub plugin: BTreeMap<String, Bytes>,
    /// Every call of the plugin: `set g`, `get g`, `delete g`.
    pub calls: Vec<String>,
    /// What the plugin fails with, if it does.
    pub failing: Option<PluginFailure>,
}

/// A member of an application.
#[derive(Clone, Debug)]
pub struct Client {
    pub group: String,
    pub epoch: i32,
    pub version: i16,
    pub willing: bool,
    /// The description that it pushes.
    pub description: String,
    pub topology: Topology,
    pub connection: u64,
    /// It was asked and has not pushed.
    pub asked: bool,
}

impl Client {
    pub fn new(group: &str, description: &str) -> Self {
        Self {
            group: group.to_owned(),
            epoch: 0,
            version: 1,
            willing: true,
            description: description.to_owned(),
            topology: topology("in"),
            connection: 0,
            asked: false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    pub asked: bool,
    pub described: bool,
    pub error: i16,
}

pub struct World {
    pub broker: Broker,
    pub processes: Vec<Process>,
    /// The process that clients reach.
    pub here: usize,
    pub now: i64,
    pub clients: BTreeMap<String, Client>,
    pub log: Vec<LogLine>,
    pub limits_hit: Vec<&'static str>,
    /// How often members were asked.
    pub asks: usize,
    /// How often the broker was asked by us behind a heartbeat.
    pub questions: usize,
    next: u64,
}

/// The assignment topology of an application: one subtopology that reads `topic`.
pub fn topology(topic: &str) -> Topology {
    topology_at(0, topic)
}

pub fn topology_at(epoch: i32, topic: &str) -> Topology {
    let subtopology =
        Subtopology { subtopology_id: "0".to_owned(), source_topics: vec![topic.to_owned()], ..Subtopology::default() };
    Topology { epoch, subtopologies: vec![subtopology], ..Topology::default() }
}

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

pub fn config(compat: Compat) -> Config {
    Config { compat, membership: Membership::Broker, ..Config::default() }
}

impl Process {
    pub fn new(config: Config, at: i64) -> Self {
        Self {
            coordinator: Coordinator::restore(config, Now { at, jitter: 1 }, []),
            journal: BTreeMap::new(),
            plugin: BTreeMap::new(),
            calls: Vec::new(),
            failing: None,
        }
    }
}

impl World {
    pub fn new(compat: Compat) -> Self {
        Self::with(config(compat))
    }

    pub fn with(config: Config) -> Self {
        let now = 1_700_000_000_000;
        Self {
            broker: Broker::default(),
            processes: vec![Process::new(config, now)],
            here: 0,
            now,
            clients: BTreeMap::new(),
            log: Vec::new(),
            limits_hit: Vec::new(),
            asks: 0,
            questions: 0,
            next: 0,
        }
    }

    /// One member `m`, its description stored.
    pub fn stored(compat: Compat) -> Self {
        let mut world = Self::new(compat);
        world.start("m", G, "a");
        world.round();
        assert_eq!(world.served(G).as_deref(), Some("a"));
        world
    }

    /// As `stored`, and everybody has left.
    pub fn abandoned(compat: Compat) -> Self {
        let mut world = Self::stored(compat);
        world.leave("m");
        world
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.processes[self.here]
    }

    pub fn coordinator(&self) -> &Coordinator {
        &self.processes[self.here].coordinator
    }

    pub fn calls(&self) -> Vec<&str> {
        self.processes[self.here].calls.iter().map(String::as_str).filter(|call| !call.starts_with("get")).collect()
    }

    fn at(&self) -> Now {
        Now { at: self.now, jitter: u32::MAX / 2 + 1 }
    }

    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn pass(&mut self, ms: i64) {
        self.now += ms;
    }

    /// Decides, journals, applies, carries out; the reply with what it borrowed.
    pub fn play<'a>(&mut self, input: Input<'a>) -> (Option<Reply<'a>>, Vec<Effect>) {
        let now = self.at();
        let process = &mut self.processes[self.here];
        let decision = process.coordinator.decide(now, input);
        for record in decision.records {
            if let Record::Durable(durable) = &record {
                match durable.value() {
                    Some(value) => process.journal.insert(durable.key(), value),
                    None => process.journal.remove(&durable.key()),
                };
            }
            process.coordinator.apply(record);
        }
        let mut calls = Vec::new();
        for effect in decision.now.into_iter().chain(decision.after_durable) {
            match effect {
                Effect::Log(line) => self.log.push(line),
                Effect::LimitHit(limit) => self.limits_hit.push(limit),
                Effect::PluginSet { .. } | Effect::PluginDelete { .. } => calls.push(effect),
                _ => {}
            }
        }
        (decision.reply, calls)
    }

    /// Carries out a plugin call and settles it; the answer, if somebody waits for one.
    fn call(&mut self, call: Effect) -> Option<(i16, Option<String>)> {
        let process = self.process();
        let result = match &process.failing {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        };
        let input = match call {
            Effect::PluginSet { op, group, description, .. } => {
                process.calls.push(format!("set {group}"));
                if result.is_ok() {
                    process.plugin.insert(group.to_string(), description);
                }
                Input::SetOutcome { op, result, late: false }
            }
            Effect::PluginDelete { op, group, .. } => {
                process.calls.push(format!("delete {group}"));
                if result.is_ok() {
                    process.plugin.remove(&*group);
                }
                Input::DeleteOutcome { op, result, late: false }
            }
            other => panic!("no call: {other:?}"),
        };
        let (reply, calls) = self.play(input);
        assert!(calls.is_empty());
        code_of(reply)
    }

    fn settle(&mut self, (reply, mut calls): (Option<Reply<'static>>, Vec<Effect>)) -> (i16, Option<String>) {
        match calls.pop() {
            None => code_of(reply),
            Some(call) => self.call(call),
        }
        .expect("an answer")
    }

    /// A start of the process that clients reach; without its folder it knows nothing.
    pub fn restart(&mut self, keeps_folder: bool) {
        let now = self.at();
        let process = self.process();
        let config = process.coordinator.config().clone();
        if !keeps_folder {
            process.journal.clear();
            process.plugin.clear();
        }
        let durables = process.journal.iter().map(|(key, value)| Durable::decode(key, value).unwrap());
        process.coordinator = Coordinator::restore(config, now, durables.collect::<Vec<_>>());
        for client in self.clients.values_mut() {
            self.next += 1;
            client.connection = self.next;
        }
    }

    /// After a commit that failed: memory is loaded from the folder.
    pub fn reload(&mut self) {
        let now = self.at();
        let process = self.process();
        let durables: Vec<_> =
            process.journal.iter().map(|(key, value)| Durable::decode(key, value).unwrap()).collect();
        let config = process.coordinator.config().clone();
        let old = std::mem::replace(&mut process.coordinator, Coordinator::new(config.clone()));
        process.coordinator = old.reloaded(config, now, durables);
    }

    /// Clients reach another process from now on, a new one if it is not there.
    pub fn move_to(&mut self, process: usize) {
        while self.processes.len() <= process {
            let config = self.coordinator().config().clone();
            self.processes.push(Process::new(config, self.now));
        }
        self.here = process;
        for client in self.clients.values_mut() {
            self.next += 1;
            client.connection = self.next;
        }
    }

    /// A member starts and joins; what it was answered.
    pub fn start(&mut self, member: &str, group: &str, description: &str) -> Beat {
        self.start_as(member, group, description, topology("in"), 1)
    }

    pub fn start_as(&mut self, member: &str, group: &str, description: &str, topology: Topology, version: i16) -> Beat {
        let client = Client { version, topology, connection: self.number(), ..Client::new(group, description) };
        self.clients.insert(member.to_owned(), client);
        self.beat(member)
    }

    pub fn client(&mut self, member: &str) -> &mut Client {
        self.clients.get_mut(member).expect("a client")
    }

    /// A heartbeat, joining or later; a question of ours behind it is asked and told.
    pub fn beat(&mut self, member: &str) -> Beat {
        let client = self.clients[member].clone();
        let mut request = request(&client.group, member, client.epoch);
        if client.epoch == 0 {
            request.topology = Some(client.topology.clone());
            request.process_id = Some(Cow::Owned(format!("p-{member}")));
        }
        self.send(&request, &client)
    }

    /// Any heartbeat of a client.
    pub fn send(&mut self, request: &StreamsGroupHeartbeatRequest<'_>, client: &Client) -> Beat {
        let answer = self.broker.heartbeat(self.now, request);
        let member = request.member_id.to_string();
        let (ask, describe) = self.observe(request, client.version, &answer, client.connection);
        assert!(!ask || client.version > 0, "a version 0 client can't be asked");
        if let Some(client) = self.clients.get_mut(&member) {
            client.asked |= ask;
            client.epoch = match answer.error_code {
                0 => answer.member_epoch,
                // The client starts anew.
                25 | 69 | 110 => 0,
                _ => client.epoch,
            };
        }
        self.asks += usize::from(ask);
        if describe {
            self.questions += 1;
            self.pass(1);
            self.look(&client.group);
        }
        Beat { asked: ask, described: describe, error: answer.error_code }
    }

    pub fn observe(
        &mut self,
        request: &StreamsGroupHeartbeatRequest<'_>,
        version: i16,
        answer: &StreamsGroupHeartbeatResponse<'_>,
        connection: u64,
    ) -> (bool, bool) {
        let (reply, calls) = self.play(Input::Beat { request, version, answer, connection });
        assert!(calls.is_empty());
        match reply {
            Some(Reply::Beat { ask, describe }) => (ask, describe),
            other => panic!("no beat but {other:?}"),
        }
    }

    pub fn leave(&mut self, member: &str) -> Beat {
        let client = self.clients.remove(member).expect("a client");
        self.send(&request(&client.group, member, -1), &client)
    }

    /// A member ends without a word.
    pub fn kill(&mut self, member: &str) {
        self.clients.remove(member).expect("a client");
    }

    /// One heartbeat interval: everybody sends one and pushes if asked.
    pub fn round(&mut self) {
        let members: Vec<String> = self.clients.keys().cloned().collect();
        for member in members {
            self.pass(1);
            if self.clients[&member].asked {
                self.answer_ask(&member);
            }
            self.beat(&member);
            if self.clients[&member].epoch == 0 {
                self.beat(&member);
            }
            if self.clients[&member].asked {
                self.answer_ask(&member);
            }
        }
        self.pass(i64::from(INTERVAL));
    }

    fn answer_ask(&mut self, member: &str) {
        self.client(member).asked = false;
        if self.clients[member].willing {
            self.push(member);
        }
    }

    pub fn push(&mut self, member: &str) -> (i16, Option<String>) {
        let client = self.clients[member].clone();
        self.push_as(member, &client.group, client.connection, client.topology.epoch, &client.description)
    }

    pub fn push_as(
        &mut self,
        member: &str,
        group: &str,
        connection: u64,
        epoch: i32,
        name: &str,
    ) -> (i16, Option<String>) {
        let standing = self.standing(member, group, connection);
        self.push_standing(member, group, epoch, name, standing)
    }

    /// As the shell finds it out.
    pub fn standing(&mut self, member: &str, group: &str, connection: u64) -> Standing {
        if self.coordinator().is_recent_member(self.at(), group, member, connection) {
            return Standing::Member;
        }
        self.pass(1);
        let entry = self.look(group);
        standing(&entry, member)
    }

    pub fn push_standing(
        &mut self,
        member: &str,
        group: &str,
        epoch: i32,
        name: &str,
        standing: Standing,
    ) -> (i16, Option<String>) {
        let request = StreamsGroupTopologyDescriptionUpdateRequest {
            group_id: group.to_owned(),
            member_id: member.to_owned(),
            topology_epoch: epoch,
            topology_description: description(name),
            ..StreamsGroupTopologyDescriptionUpdateRequest::default()
        };
        let config = self.coordinator().config();
        let payload = PreparedPush::prepare(&request, &config.limits, config.compat);
        let op = OpId(self.number());
        let input = Input::VerifiedPush { op, group, member, topology_epoch: epoch, payload, standing };
        let (reply, calls) = self.play(input);
        let step = (detached(reply), calls);
        self.settle(step)
    }

    /// A describe of ours, told.
    pub fn look(&mut self, group: &str) -> DescribedGroup {
        let asked_at = self.now;
        let entry = self.broker.describe(self.now, group);
        self.tell(&entry, asked_at, false);
        entry
    }

    pub fn tell(&mut self, entry: &DescribedGroup, asked_at: i64, include: bool) -> (i8, Option<Bytes>) {
        let input = Input::BrokerDescribed { entry, asked_at, include_description: include };
        let (reply, calls) = self.play(input);
        assert!(calls.is_empty());
        let Some(Reply::Entry { status, read }) = reply else { panic!("no entry but {reply:?}") };
        let Some(read) = read else { return (status, None) };
        let process = self.process();
        process.calls.push(format!("get {}", read.group));
        let result = match &process.failing {
            Some(failure) => Err(failure.clone()),
            None => Ok(process.plugin.get(&*read.group).cloned()),
        };
        let input = Input::GetOutcome { group: &read.group, epoch: read.epoch, token: read.token, result };
        match self.play(input).0 {
            Some(Reply::Attached { status, description, .. }) => (status, description),
            other => panic!("nothing attached but {other:?}"),
        }
    }

    /// What a client's describe shows: status and description.
    pub fn describe(&mut self, group: &str) -> (i8, Option<Bytes>) {
        let asked_at = self.now;
        let entry = self.broker.describe(self.now, group);
        self.tell(&entry, asked_at, true)
    }

    /// The name of the description that a client's describe shows.
    pub fn served(&mut self, group: &str) -> Option<String> {
        let (status, description) = self.describe(group);
        assert_eq!(status == 3, description.is_some());
        let named = |bytes: Bytes| {
            let description = streamside_topology::Description::decode(&bytes).unwrap().to_wire();
            description.subtopologies[0].nodes[0].name.clone()
        };
        description.map(named)
    }

    /// DeleteGroups for one group, as the shell carries it out.
    pub fn delete(&mut self, group: &str) -> i16 {
        if self.coordinator().may_hold(group) {
            self.pass(1);
            let entry = self.look(group);
            if delete_verdict(&entry) == DeleteVerdict::PluginFirst {
                let op = OpId(self.number());
                let (reply, calls) = self.play(Input::VerifiedDelete { op, group });
                let step = (detached(reply), calls);
                let (code, _) = self.settle(step);
                if code != 0 {
                    return code;
                }
            }
        }
        self.pass(1);
        let asked_at = self.now;
        let result = self.broker.delete(self.now, group);
        self.deleted(group, result.error_code, asked_at);
        result.error_code
    }

    pub fn deleted(&mut self, group: &str, error_code: i16, asked_at: i64) {
        let (reply, calls) = self.play(Input::BrokerDeleted { group, error_code, asked_at });
        assert!(matches!(reply, Some(Reply::Done)) && calls.is_empty());
    }

    /// DeleteGroups that passes us by.
    pub fn delete_behind_our_back(&mut self, group: &str) {
        assert_eq!(self.broker.delete(self.now, group).error_code, 0);
    }

    pub fn cleanup(&mut self) {
        self.next += 1_000_000;
        let first_op = OpId(self.next);
        self.next += 1_000_000;
        let (reply, calls) = self.play(Input::CleanupCycle { first_op });
        assert!(matches!(reply, Some(Reply::Done)));
        for call in calls {
            self.call(call);
        }
    }

    pub fn sweep(&mut self) {
        let (reply, calls) = self.play(Input::Sweep);
        assert!(matches!(reply, Some(Reply::Done)) && calls.is_empty());
    }

    pub fn sizes(&self) -> HashMap<&'static str, usize> {
        self.coordinator().maps_len().into_iter().collect()
    }

    /// Whether nothing at all is kept, in memory or in the journal.
    pub fn is_blank(&self) -> bool {
        self.sizes().values().all(|len| *len == 0) && self.processes[self.here].journal.is_empty()
    }

    /// Nobody is asked and nothing is called for a while.
    pub fn assert_quiet(&mut self, rounds: usize) {
        let (asks, calls) = (self.asks, self.calls().len());
        for _ in 0..rounds {
            self.round();
        }
        assert_eq!((self.asks, self.calls().len()), (asks, calls), "asked or called in vain");
    }
}

fn code_of(reply: Option<Reply<'_>>) -> Option<(i16, Option<String>)> {
    match reply {
        Some(Reply::Push { error_code, error_message, .. } | Reply::Deleted { error_code, error_message, .. }) => {
            Some((error_code, error_message))
        }
        Some(Reply::Done) => None,
        other => panic!("unexpected {other:?}"),
    }
}

fn detached(reply: Option<Reply<'_>>) -> Option<Reply<'static>> {
    match reply {
        Some(Reply::Push { op, error_code, error_message, reason }) => {
            Some(Reply::Push { op, error_code, error_message, reason })
        }
        Some(Reply::Deleted { op, error_code, error_message }) => {
            Some(Reply::Deleted { op, error_code, error_message })
        }
        Some(other) => panic!("unexpected {other:?}"),
        None => None,
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
