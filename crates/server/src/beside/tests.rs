//! The four APIs over a core of its own and a broker that is played.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use streamside_plugin::Registry;
use streamside_proxy::gateway::AskError;
use streamside_proxy::intercept::{Beat, Connection, Observed};
use streamside_wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::metadata::{MetadataRequest, MetadataResponse, MetadataResponseTopic};
use streamside_wire::messages::streams_group_describe::{
    DescribedGroup, DescriptionField, Member, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, TaskOffset,
    Topology as DescribedTopology,
};
use streamside_wire::messages::streams_group_heartbeat::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Topology,
};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};
use streamside_wire::messages::topology_description::{Node, Subtopology, TopologyDescription};

use super::ask::Ask;
use super::intercept::{Options, Shared};
use super::{delete, describe, heartbeat, push};
use crate::config::{self, Sources};
use crate::metrics::Metrics;
use crate::shell::core::Core;

/// All that an authorizer-less broker grants (recorded from Kafka 4.4.0).
const ALL: i32 = 3400;
const READ: i32 = 1 << 3;
const DELETE: i32 = 1 << 6;

/// A core in front of a broker that is played.
struct World {
    shared: Arc<Shared>,
    core: Arc<Core>,
    _folder: tempfile::TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.core.close();
    }
}

async fn world(overrides: &[&str]) -> World {
    let folder = tempfile::tempdir().unwrap();
    let mut all = vec!["streamside.upstream=127.0.0.1:1".to_owned(), "streamside.http.listen=off".to_owned()];
    all.push(format!("streamside.data.dir={}", folder.path().display()));
    all.push("group.streams.topology.description.plugin.class=memory".to_owned());
    all.extend(overrides.iter().map(|o| (*o).to_owned()));
    let settings = config::load(&Sources { overrides: all, ..Sources::default() }).unwrap().settings;
    let metrics = Arc::new(Metrics::new("sidecar", Some("memory"), "c"));
    let core = Core::start(&settings, &Registry::default(), folder.path(), metrics).await.unwrap();
    World { shared: Arc::new(Shared::new(&core, Options::of(&settings))), core, _folder: folder }
}

fn connection(id: u64) -> Arc<Connection> {
    Arc::new(Connection { id, peer: "192.0.2.7:1000".parse().unwrap(), node: Some(1) })
}

fn join<'a>(group: &'a str, member: &'a str) -> StreamsGroupHeartbeatRequest<'a> {
    StreamsGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: member.into(),
        topology: Some(Topology::default()),
        process_id: Some("p".into()),
        active_tasks: Some(vec![]),
        standby_tasks: Some(vec![]),
        warmup_tasks: Some(vec![]),
        ..StreamsGroupHeartbeatRequest::default()
    }
}

fn good_answer(member: &str) -> StreamsGroupHeartbeatResponse<'_> {
    StreamsGroupHeartbeatResponse {
        member_id: member.into(),
        member_epoch: 2,
        heartbeat_interval_ms: 5_000,
        ..StreamsGroupHeartbeatResponse::default()
    }
}

impl World {
    fn beat(
        &self,
        id: u64,
        version: i16,
        upstream_version: i16,
        request: &StreamsGroupHeartbeatRequest<'_>,
        answer: &mut StreamsGroupHeartbeatResponse<'_>,
    ) -> Observed {
        let beat = Beat { request, version, client_id: "app", upstream_version, sent: std::time::Instant::now() };
        heartbeat::observe(&self.shared, &connection(id), &beat, answer)
    }

    /// A member joins on a connection through a 4.4 client before a 4.3 broker; whether it is asked.
    fn joins(&self, id: u64, group: &str, member: &str) -> bool {
        let mut answer = good_answer(member);
        self.beat(id, 1, 0, &join(group, member), &mut answer);
        answer.topology_description_required
    }

    async fn push(
        &self,
        id: u64,
        group: &str,
        member: &str,
        broker: Broker,
    ) -> StreamsGroupTopologyDescriptionUpdateResponse {
        let request = pushed(group, member);
        push::push(Arc::clone(&self.shared), id, request, 100, broker).await.unwrap()
    }

    async fn describe(&self, groups: &[&str], version: i16, broker: Broker) -> Vec<DescribedGroup> {
        let request = StreamsGroupDescribeRequest {
            group_ids: groups.iter().map(|g| (*g).to_owned()).collect(),
            include_topology_description: version >= 1,
            ..StreamsGroupDescribeRequest::default()
        };
        describe::describe(Arc::clone(&self.shared), request, version, broker).await.unwrap().groups
    }

    async fn delete(&self, groups: &[&str], version: i16, broker: Broker) -> Vec<(String, i16, Option<String>)> {
        let request = DeleteGroupsRequest {
            groups_names: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..DeleteGroupsRequest::default()
        };
        let answer = delete::delete(Arc::clone(&self.shared), request, version, broker).await.unwrap();
        answer.results.into_iter().map(|r| (r.group_id, r.error_code, r.error_message)).collect()
    }
}

fn description(sink: &str) -> TopologyDescription {
    TopologyDescription {
        subtopologies: vec![Subtopology {
            nodes: vec![Node {
                name: "k".to_owned(),
                node_type: 3,
                sink_topic: Some(sink.to_owned()),
                ..Node::default()
            }],
            ..Subtopology::default()
        }],
        ..TopologyDescription::default()
    }
}

fn pushed(group: &str, member: &str) -> StreamsGroupTopologyDescriptionUpdateRequest {
    StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: group.to_owned(),
        member_id: member.to_owned(),
        topology_description: description("out"),
        ..StreamsGroupTopologyDescriptionUpdateRequest::default()
    }
}

/// A broker's entry of a group with these members.
fn entry(group: &str, members: &[&str]) -> DescribedGroup {
    let member =
        |id: &&str| Member { member_id: (*id).to_owned(), client_host: "/127.0.0.1".to_owned(), ..Member::default() };
    DescribedGroup {
        group_id: group.to_owned(),
        group_state: if members.is_empty() { "Empty" } else { "Stable" }.to_owned(),
        group_epoch: 2,
        assignment_epoch: 2,
        topology: Some(DescribedTopology { subtopologies: Some(vec![]), ..DescribedTopology::default() }),
        members: members.iter().map(member).collect(),
        authorized_operations: ALL,
        ..DescribedGroup::default()
    }
}

fn failed(group: &str, error_code: i16, message: Option<&str>) -> DescribedGroup {
    DescribedGroup {
        group_id: group.to_owned(),
        error_code,
        error_message: message.map(str::to_owned),
        ..DescribedGroup::default()
    }
}

/// Plays a broker: what it is asked is written down, what it answers was said before.
#[derive(Clone, Default)]
struct Broker {
    asked: Arc<Mutex<Vec<String>>>,
    entries: VecDeque<Vec<DescribedGroup>>,
    hidden: Vec<&'static str>,
    push: Option<i16>,
    delete: Vec<(&'static str, i16)>,
}

impl Broker {
    fn says(entries: impl IntoIterator<Item = DescribedGroup>) -> Self {
        Self { entries: [entries.into_iter().collect()].into(), ..Self::default() }
    }

    fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Ask for Broker {
    async fn describe(
        &mut self,
        request: &StreamsGroupDescribeRequest,
    ) -> Result<StreamsGroupDescribeResponse, AskError> {
        let rights = if request.include_authorized_operations { " with rights" } else { "" };
        self.note(format!("describe {}{rights}", request.group_ids.join(" ")));
        let groups = self.entries.pop_front().expect("a describe that nobody foresaw");
        Ok(StreamsGroupDescribeResponse { groups, ..StreamsGroupDescribeResponse::default() })
    }

    async fn delete(&mut self, request: &DeleteGroupsRequest) -> Result<DeleteGroupsResponse, AskError> {
        self.note(format!("delete {}", request.groups_names.join(" ")));
        let results = request.groups_names.iter().map(|group| DeletableGroupResult {
            group_id: group.clone(),
            error_code: self.delete.iter().find(|(id, _)| id == group).map_or(0, |(_, code)| *code),
            ..DeletableGroupResult::default()
        });
        Ok(DeleteGroupsResponse { results: results.collect(), ..DeleteGroupsResponse::default() })
    }

    async fn metadata(&mut self, request: &MetadataRequest) -> Result<MetadataResponse, AskError> {
        let names: Vec<String> = request.topics.iter().flatten().filter_map(|t| t.name.clone()).collect();
        self.note(format!("metadata {}", names.join(" ")));
        let topics = names.into_iter().map(|name| MetadataResponseTopic {
            error_code: if self.hidden.contains(&&*name) { 29 } else { 0 },
            name: Some(name),
            ..MetadataResponseTopic::default()
        });
        Ok(MetadataResponse { topics: topics.collect(), ..MetadataResponse::default() })
    }

    async fn push(
        &mut self,
        request: &StreamsGroupTopologyDescriptionUpdateRequest,
    ) -> Result<StreamsGroupTopologyDescriptionUpdateResponse, AskError> {
        self.note(format!("push {}", request.group_id));
        let error_code = self.push.ok_or(AskError::Unsupported(93))?;
        Ok(StreamsGroupTopologyDescriptionUpdateResponse { error_code, ..Default::default() })
    }
}

#[tokio::test]
async fn a_heartbeat_is_asked_for_a_description_once_and_gets_what_an_old_broker_lacks() {
    let world = world(&[]).await;
    let mut answer = good_answer("m");
    let observed = world.beat(1, 1, 0, &join("g", "m"), &mut answer);
    assert!(observed.changed && answer.topology_description_required);
    assert_eq!((answer.task_offset_interval_ms, answer.acceptable_recovery_lag), (60_000, 10_000));
    assert!(!world.joins(1, "g", "m2"), "one member is asked");
    // A broker of 4.4 names both itself.
    let mut answer = StreamsGroupHeartbeatResponse { task_offset_interval_ms: 7, ..good_answer("m") };
    world.beat(1, 1, 1, &join("h", "m"), &mut answer);
    assert_eq!((answer.task_offset_interval_ms, answer.acceptable_recovery_lag), (7, -1));
}

#[tokio::test]
async fn kip1331_3_2_the_flag_is_never_set_for_v0_clients_leaving_members_and_errors() {
    let world = world(&[]).await;
    let mut answer = good_answer("m");
    let observed = world.beat(1, 0, 0, &join("g", "m"), &mut answer);
    assert!(!observed.changed && answer == good_answer("m"));
    let leave = StreamsGroupHeartbeatRequest { member_epoch: -1, ..join("g", "m") };
    let mut answer = StreamsGroupHeartbeatResponse { member_epoch: -1, ..good_answer("m") };
    assert!(!world.beat(1, 1, 0, &leave, &mut answer).changed);
    let mut answer = StreamsGroupHeartbeatResponse { error_code: 30, ..good_answer("m") };
    assert!(!world.beat(1, 1, 0, &join("g", "m"), &mut answer).changed);
    assert!(world.joins(1, "g", "m"), "nothing of this armed a window");
}

#[tokio::test]
async fn push_modes_decide_whose_question_a_client_hears() {
    for (mode, before, after) in [("own", true, false), ("tee", true, true), ("off", false, true), ("auto", true, true)]
    {
        let world = world(&[&format!("streamside.upstream.push={mode}")]).await;
        let mut answer = good_answer("m");
        world.beat(1, 1, 1, &join("g", "m"), &mut answer);
        assert_eq!(answer.topology_description_required, before, "{mode}: ours");
        // Within our window only the upstream's is left.
        let mut answer = StreamsGroupHeartbeatResponse { topology_description_required: true, ..good_answer("m2") };
        world.beat(1, 1, 1, &join("g", "m2"), &mut answer);
        assert_eq!(answer.topology_description_required, after, "{mode}: theirs");
    }
}

#[tokio::test]
async fn a_push_after_a_good_heartbeat_on_its_connection_asks_nobody() {
    let world = world(&[]).await;
    assert!(world.joins(1, "g", "m"));
    let broker = Broker::default();
    let answer = world.push(1, "g", "m", broker.clone()).await;
    assert_eq!((answer.error_code, answer.error_message), (0, None));
    assert!(broker.asked().is_empty());
}

#[tokio::test]
async fn a_push_on_another_connection_or_after_a_failed_heartbeat_is_verified() {
    let world = world(&[]).await;
    world.joins(1, "g", "m");
    let broker = Broker::says([entry("g", &["m"])]);
    assert_eq!(world.push(2, "g", "m", broker.clone()).await.error_code, 0);
    assert_eq!(broker.asked(), ["describe g with rights"]);
    let mut fenced = StreamsGroupHeartbeatResponse { error_code: 110, ..good_answer("m") };
    world.beat(1, 1, 0, &StreamsGroupHeartbeatRequest { member_epoch: 1, ..join("g", "m") }, &mut fenced);
    let broker = Broker::says([entry("g", &[])]);
    assert_eq!(world.push(1, "g", "m", broker.clone()).await.error_code, 25);
    assert_eq!(broker.asked(), ["describe g with rights"]);
}

#[tokio::test]
async fn kip1331_4_1_a_push_is_judged_in_kafkas_order() {
    let world = world(&[]).await;
    let no_read = DescribedGroup { authorized_operations: ALL & !READ, ..entry("g", &["m"]) };
    let cases = [
        (failed("g", 30, None), 30, None),
        (no_read, 30, None),
        (failed("g", 69, Some("Group g not found.")), 69, Some("Group g not found.")),
        (failed("g", 69, Some("Group g is not a streams group.")), 69, Some("Group g is not a streams group.")),
        (failed("g", 14, None), 14, None),
        (failed("g", 15, None), 15, None),
        (failed("g", 16, None), 16, None),
        (entry("g", &["other"]), 25, Some("Member m is not a member of group g.")),
    ];
    for (said, code, message) in cases {
        let answer = world.push(1, "g", "m", Broker::says([said])).await;
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (code, message));
    }
    // Rights come before ids, ids before the group.
    assert_eq!(world.push(1, "g", "", Broker::says([failed("g", 30, None)])).await.error_code, 30);
    let answer = world.push(1, "g", "", Broker::says([failed("g", 69, None)])).await;
    assert_eq!((answer.error_code, answer.error_message.as_deref()), (42, Some("MemberId can't be empty.")));
    // Trouble of ours is never 14.
    let answer = world.push(1, "g", "m", Broker::says([])).await;
    assert_eq!(answer.error_code, 135);
    assert!(answer.error_message.is_some_and(|message| message.starts_with("not_verified: ")));
}

#[tokio::test]
async fn tee_gives_the_upstreams_answer_where_ours_is_good() {
    let world = world(&["streamside.upstream.push=tee"]).await;
    world.joins(1, "g", "m");
    for (theirs, code) in [(Some(0), 0), (Some(16), 16), (Some(135), 135), (Some(35), 0), (None, 0)] {
        let broker = Broker { push: theirs, ..Broker::default() };
        assert_eq!(world.push(1, "g", "m", broker.clone()).await.error_code, code, "{theirs:?}");
        assert_eq!(broker.asked(), ["push g"]);
    }
    // Who may not push to us is not passed on.
    let broker = Broker { push: Some(0), ..Broker::says([entry("g", &["m"])]) };
    assert_eq!(world.push(1, "g", "stranger", broker.clone()).await.error_code, 25);
    assert_eq!(broker.asked(), ["describe g with rights"]);
}

#[tokio::test]
async fn auto_passes_on_once_the_upstream_asks_itself_and_until_it_has_no_plugin() {
    let world = world(&[]).await;
    world.joins(1, "g", "m");
    let broker = Broker { push: Some(0), ..Broker::default() };
    world.push(1, "g", "m", broker.clone()).await;
    assert!(broker.asked().is_empty());
    let mut asked = StreamsGroupHeartbeatResponse { topology_description_required: true, ..good_answer("m") };
    world.beat(1, 1, 1, &join("g", "m"), &mut asked);
    assert!(asked.topology_description_required);
    world.push(1, "g", "m", broker.clone()).await;
    assert_eq!(broker.asked(), ["push g"]);
    let none = Broker { push: Some(35), ..Broker::default() };
    assert_eq!(world.push(1, "g", "m", none.clone()).await.error_code, 0);
    world.push(1, "g", "m", none.clone()).await;
    assert_eq!(none.asked(), ["push g"]);
}

#[tokio::test]
async fn off_records_what_the_upstream_took_and_nothing_else() {
    let world = world(&["streamside.upstream.push=off"]).await;
    world.joins(1, "g", "m");
    let refused = Broker { push: Some(135), ..Broker::default() };
    assert_eq!(world.push(1, "g", "m", refused).await.error_code, 135);
    assert_eq!(world.describe(&["g"], 1, Broker::says([entry("g", &["m"])])).await[0].topology_description_status, 1);
    let took = Broker { push: Some(0), ..Broker::default() };
    assert_eq!(world.push(1, "g", "m", took).await.error_code, 0);
    assert_eq!(world.describe(&["g"], 1, Broker::says([entry("g", &["m"])])).await[0].topology_description_status, 3);
}

#[tokio::test]
async fn kip1331_5_2_descriptions_are_attached_to_entries_without_an_error_for_those_who_asked() {
    let world = world(&[]).await;
    world.joins(1, "g", "m");
    world.push(1, "g", "m", Broker::default()).await;
    let said = || [entry("g", &["m"]), entry("bare", &["m"]), failed("no", 30, None), failed("gone", 69, None)];
    let entries = world.describe(&["g", "bare", "no", "gone"], 1, Broker::says(said())).await;
    assert_eq!(entries.iter().map(|e| e.topology_description_status).collect::<Vec<_>>(), [3, 1, 0, 0]);
    assert!(matches!(entries[0].topology_description, Some(DescriptionField::Encoded(_))));
    assert_eq!((entries[2].error_code, entries[3].error_code), (30, 69));
    // Version 0, or without the flag: the broker's answer as it is.
    let entries = world.describe(&["g", "bare", "no", "gone"], 0, Broker::says(said())).await;
    assert_eq!(entries, said());
}

#[tokio::test]
async fn an_upstreams_own_description_stays_where_we_have_none() {
    let world = world(&[]).await;
    world.joins(1, "g", "m");
    let theirs = DescribedGroup {
        topology_description: Some(DescriptionField::Decoded(description("theirs"))),
        topology_description_status: 3,
        ..entry("g", &["m"])
    };
    let entries = world.describe(&["g"], 1, Broker::says([theirs.clone()])).await;
    assert_eq!(entries, std::slice::from_ref(&theirs));
    world.push(1, "g", "m", Broker::default()).await;
    let entries = world.describe(&["g"], 1, Broker::says([theirs])).await;
    let ours = description("out").to_bytes().unwrap();
    assert_eq!(entries[0].topology_description, Some(DescriptionField::Encoded(ours)));
}

#[tokio::test]
async fn members_have_their_own_address_and_the_offsets_that_an_old_broker_does_not_keep() {
    let world = world(&[]).await;
    let offset = |offset| TaskOffset { subtopology_id: "0".to_owned(), offset, ..TaskOffset::default() };
    let request = StreamsGroupHeartbeatRequest {
        task_offsets: Some(vec![offset(48)]),
        task_end_offsets: Some(vec![offset(50)]),
        ..join("g", "m")
    };
    world.shared.hosts.heard(&connection(1), "g", "m");
    world.beat(1, 1, 0, &request, &mut good_answer("m"));
    let entries = world.describe(&["g"], 0, Broker::says([entry("g", &["m", "n"])])).await;
    let [m, n] = &entries[0].members[..] else { panic!("two members") };
    assert_eq!((&*m.client_host, &*n.client_host), ("/192.0.2.7", "/127.0.0.1"));
    assert_eq!((&m.task_offsets[..], &m.task_end_offsets[..]), (&[offset(48)][..], &[offset(50)][..]));
    assert!(n.task_offsets.is_empty());
    // What the broker gives is not ours to change.
    let mut said = entry("g", &["m"]);
    said.members[0].task_offsets = vec![offset(1)];
    assert_eq!(world.describe(&["g"], 0, Broker::says([said])).await[0].members[0].task_offsets, [offset(1)]);
}

#[tokio::test]
async fn h9_a_hidden_sink_refuses_the_entry_and_under_kafkas_rules_nobody_asks() {
    let stored = |overrides: &'static [&'static str]| async {
        let world = world(overrides).await;
        world.joins(1, "g", "m");
        world.push(1, "g", "m", Broker::default()).await;
        let broker = Broker { hidden: vec!["out"], ..Broker::says([entry("g", &["m"])]) };
        let entries = world.describe(&["g"], 1, broker.clone()).await;
        (entries[0].error_code, entries[0].topology_description_status, broker.asked())
    };
    assert_eq!(stored(&[]).await, (29, 0, vec!["describe g".to_owned(), "metadata out".to_owned()]));
    let (code, status, asked) = stored(&["streamside.describe.hidden.topics=redact"]).await;
    assert_eq!((code, status, asked.len()), (0, 3, 2));
    assert_eq!(stored(&["streamside.compat=kafka"]).await, (0, 3, vec!["describe g".to_owned()]));
}

#[tokio::test]
async fn a_delete_of_what_we_hold_nothing_for_is_just_passed_on() {
    let world = world(&[]).await;
    world.joins(1, "g", "m");
    let broker = Broker { delete: vec![("g", 68)], ..Broker::default() };
    let results = world.delete(&["c", "g", "c", ""], 3, broker.clone()).await;
    assert_eq!(broker.asked(), ["delete c g "]);
    assert_eq!(results.iter().map(|r| r.1).collect::<Vec<_>>(), [0, 68, 0]);
}

/// A world with the description of `g` stored.
async fn stored() -> World {
    let world = world(&[]).await;
    world.joins(1, "g", "m");
    assert_eq!(world.push(1, "g", "m", Broker::default()).await.error_code, 0);
    assert!(world.shared.shards.may_hold("g"));
    world
}

#[tokio::test]
async fn kip1331_6_1_the_plugin_goes_first_for_an_empty_group_that_may_be_deleted() {
    let world = stored().await;
    let broker = Broker::says([entry("g", &[])]);
    let results = world.delete(&["c", "g"], 3, broker.clone()).await;
    assert_eq!(broker.asked(), ["describe g with rights", "delete c g"]);
    assert_eq!(results.iter().map(|r| r.1).collect::<Vec<_>>(), [0, 0]);
    assert!(!world.shared.shards.may_hold("g"));
}

#[tokio::test]
async fn a_delete_that_the_broker_will_refuse_leaves_the_description() {
    let world = stored().await;
    let no_delete = DescribedGroup { authorized_operations: ALL & !DELETE, ..entry("g", &[]) };
    for (said, code) in [(entry("g", &["m"]), 68), (no_delete, 30)] {
        let broker = Broker { delete: vec![("g", code)], ..Broker::says([said]) };
        assert_eq!(world.delete(&["g"], 3, broker).await, [("g".to_owned(), code, None)]);
        assert!(world.shared.shards.may_hold("g"));
    }
}

#[tokio::test]
async fn kip1331_6_2_a_plugin_that_fails_keeps_the_group_upstream() {
    let world = world(&["group.streams.topology.description.plugin.class=disk"]).await;
    world.joins(1, "g", "m");
    world.push(1, "g", "m", Broker::default()).await;
    // Closed, it does nothing any more.
    world.core.runner.as_ref().unwrap().close();
    for (version, code, message) in
        [(3, 134, Some("Topology description plugin failed to delete the topology.")), (2, -1, None)]
    {
        let broker = Broker::says([entry("g", &[])]);
        let results = world.delete(&["g", "c"], version, broker.clone()).await;
        let expected = [("c".to_owned(), 0, None), ("g".to_owned(), code, message.map(str::to_owned))];
        assert_eq!(
            (results, broker.asked()),
            (expected.into(), vec!["describe g with rights".to_owned(), "delete c".to_owned()])
        );
    }
    // Nothing is left to ask the broker.
    let broker = Broker::says([entry("g", &[])]);
    assert_eq!(world.delete(&["g"], 3, broker.clone()).await[0].1, 134);
    assert_eq!(broker.asked(), ["describe g with rights"]);
}

#[tokio::test]
async fn without_a_verdict_the_broker_goes_first_and_the_plugin_after_its_0() {
    for code in [14, 15, 16, 29, 30] {
        let world = stored().await;
        let broker = Broker::says([failed("g", code, None)]);
        assert_eq!(world.delete(&["g"], 3, broker).await, [("g".to_owned(), 0, None)]);
        // Owed until the plugin took it, which is tried at once.
        for _ in 0..200 {
            if !world.shared.shards.may_hold("g") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert!(!world.shared.shards.may_hold("g"), "{code}");
    }
    let world = stored().await;
    let broker = Broker { delete: vec![("g", 16)], ..Broker::says([failed("g", 16, None)]) };
    assert_eq!(world.delete(&["g"], 3, broker).await, [("g".to_owned(), 16, None)]);
    assert!(world.shared.shards.may_hold("g"));
}
