//! Heartbeats and describes as recorded of Kafka 4.4.0, played against the group alone: topics come and go as the
//! scenario says, time is virtual. What belongs to descriptions is left out of the comparison.

use std::path::Path;

use bytes::BytesMut;
use serde_json::{Value, json};
use streamside_coordinator::group::Groups;
use streamside_coordinator::group::topics::configure;
use streamside_coordinator::{ClientContext, Compat, Durable, Now};
use streamside_testkit::codec;
use streamside_testkit::expectation::{Shape, Variables, at_path, difference, substitute};
use streamside_testkit::scenario::{self, Scenario};
use streamside_testkit::schema::{Api, Catalog};
use streamside_wire::Message;
use streamside_wire::messages::streams_group_describe::{DescribedGroup, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatRequest;
use streamside_wire::reader::Reader;
use streamside_wire::writer::Writer;

use crate::lab::{Lab, change};

/// What a scenario may use to be played here.
const APIS: [&str; 8] = [
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
    "StreamsGroupTopologyDescriptionUpdate",
    "CreateTopics",
    "CreatePartitions",
    "DeleteTopics",
    "Metadata",
    "IncrementalAlterConfigs",
];

/// Fields that are decided elsewhere.
const ELSEWHERE: [&str; 4] =
    ["TopologyDescriptionRequired", "TopologyDescription", "TopologyDescriptionStatus", "AuthorizedOperations"];

fn fits(scenario: &Scenario) -> bool {
    let apis = scenario.steps.iter().filter_map(|s| s.get("api")?.as_str());
    let odd = ["acl", "java", "classic", "expiry"].iter().any(|tag| scenario.tags.contains(*tag));
    let plain = scenario.steps.iter().all(|s| {
        ["body_hex", "raw", "truncate", "async", "response_version", "for_ms", "expect_none_ms"]
            .iter()
            .all(|key| s.get(key).is_none())
    });
    !odd && plain && scenario.needs.iter().all(|n| n != "none") && {
        let apis: Vec<&str> = apis.collect();
        apis.contains(&"StreamsGroupHeartbeat") && apis.iter().all(|api| APIS.contains(api))
    }
}

struct Play {
    lab: Lab,
    variables: Variables,
}

fn without(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !ELSEWHERE.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), without(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(all) => all.iter().map(without).collect(),
        other => other.clone(),
    }
}

impl Play {
    fn new() -> Self {
        let mut lab = Lab::new().kafka();
        lab.config.heartbeat_interval_ms = 1_000;
        lab.config.session_timeout_ms = 8_000;
        lab.groups = Groups::new(&lab.config);
        Self { lab, variables: Variables::from([("run".to_owned(), json!("r"))]) }
    }

    fn play(&mut self, scenario: &Scenario) -> Result<(), String> {
        for (n, step) in scenario.steps.iter().enumerate() {
            self.step(step).map_err(|why| format!("{}, step {}: {why}", scenario.name, n + 1))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        if let Some(ms) = step["sleep_ms"].as_i64() {
            self.lab.pass(ms);
            return Ok(());
        }
        let request = substitute(&step["request"], &self.variables);
        let name = step["api"].as_str().ok_or("no api")?;
        let api = Catalog::get().named(name).ok_or("unknown api")?;
        let version = i16::try_from(step["version"].as_i64().ok_or("no version")?).map_err(|e| e.to_string())?;
        match name {
            "StreamsGroupHeartbeat" | "StreamsGroupDescribe" => {}
            _ => return self.world(name, &request),
        }
        for _ in 0..100 {
            let answer = if name == "StreamsGroupHeartbeat" {
                self.heartbeat(api, version, &request, step["conn"].as_str().unwrap_or("c"))?
            } else {
                self.describe(api, version, &request)?
            };
            if step.get("repeat_until").is_some_and(|until| self.unmet(until, &answer, api, version)) {
                self.lab.pass(100);
                continue;
            }
            let expected = without(&substitute(&step["expect"], &self.variables));
            return difference(&expected, &answer, Shape::of(&api.response, version), "$").map_or(Ok(()), Err);
        }
        Err("never became true".to_owned())
    }

    fn unmet(&self, until: &Value, answer: &Value, api: &Api, version: i16) -> bool {
        let shape = Shape::plain(&api.response, version);
        substitute(until, &self.variables).as_object().into_iter().flatten().any(|(path, wanted)| {
            at_path(answer, path).is_none_or(|found| difference(wanted, found, shape, path).is_some())
        })
    }

    fn heartbeat(&mut self, api: &Api, version: i16, request: &Value, client: &str) -> Result<Value, String> {
        let bytes = codec::encode(&api.request, version, request).map_err(|e| e.to_string())?;
        let request =
            StreamsGroupHeartbeatRequest::decode(&mut Reader::new(&bytes), version).map_err(|e| e.to_string())?;
        let client = ClientContext { client_id: client, client_host: "/127.0.0.1" };
        let now = Now { at: self.lab.now, jitter: 0 };
        let decision = self.lab.groups.decide_heartbeat(&self.lab.config, now, &request, version, client);
        let mut out = BytesMut::new();
        decision.response.encode(&mut Writer::new(&mut out), version).map_err(|e| e.to_string())?;
        let lacking = decision.response.status.iter().flatten().any(|s| s.status_code == 3);
        let records = decision.records;
        self.lab.apply_all(records);
        if lacking {
            self.create_internal_topics(&request.group_id);
        }
        codec::decode(&api.response, version, &out).map_err(|e| e.to_string())
    }

    /// What the broker does on status 3.
    fn create_internal_topics(&mut self, group: &str) {
        let topology = self.lab.journal.iter().rev().find_map(|r| match r {
            Durable::Topology { group: g, value: Some(topology) } if g.as_ref() == group => Some(topology.clone()),
            _ => None,
        });
        let configured = configure(&topology.unwrap(), &self.lab.config.topics, Compat::Kafka).unwrap();
        for s in configured.subtopologies.unwrap().values() {
            for topic in s.repartition_source_topics.iter().chain(&s.state_changelog_topics) {
                self.lab.config.topics.insert(topic.name.clone(), topic.partitions);
            }
        }
        self.lab.groups.topics_changed();
    }

    fn describe(&self, api: &Api, version: i16, request: &Value) -> Result<Value, String> {
        let entry = |id: &str| match (id, self.lab.groups.describe(&self.lab.config, id)) {
            ("", _) => DescribedGroup { error_code: 24, ..DescribedGroup::default() },
            (_, Some(described)) => described,
            (id, None) => DescribedGroup {
                error_code: 69,
                error_message: Some(format!("Group {id} not found.")),
                group_id: id.to_owned(),
                ..DescribedGroup::default()
            },
        };
        let ids = request["GroupIds"].as_array().ok_or("no ids")?.iter().filter_map(Value::as_str);
        let response = StreamsGroupDescribeResponse {
            groups: ids.map(entry).collect(),
            ..StreamsGroupDescribeResponse::default()
        };
        let mut out = BytesMut::new();
        response.encode(&mut Writer::new(&mut out), version).map_err(|e| e.to_string())?;
        codec::decode(&api.response, version, &out).map_err(|e| e.to_string())
    }

    /// Topics and settings around the group.
    fn world(&mut self, api: &str, request: &Value) -> Result<(), String> {
        let config = &mut self.lab.config;
        let list = |name: &str| request[name].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let count = |value: &Value| i32::try_from(value.as_i64().unwrap_or(-1)).unwrap_or(-1);
        match api {
            "CreateTopics" => {
                config.topics.extend(list("Topics").iter().map(|t| (text(&t["Name"]), count(&t["NumPartitions"]))));
            }
            "CreatePartitions" => {
                config.topics.extend(list("Topics").iter().map(|t| (text(&t["Name"]), count(&t["Count"]))));
            }
            "DeleteTopics" => {
                let gone: Vec<String> = list("TopicNames").iter().map(text).collect();
                config.topics.retain(|name, _| !gone.contains(name));
            }
            "IncrementalAlterConfigs" => {
                for resource in list("Resources") {
                    let changes = resource["Configs"].as_array().cloned().unwrap_or_default();
                    let changes: Vec<_> =
                        changes.iter().map(|c| change(&text(&c["Name"]), c["Value"].as_str())).collect();
                    let group = text(&resource["ResourceName"]);
                    let records = self.lab.groups.decide_alter(&self.lab.config, &group, &changes, false);
                    self.lab.apply_all(records.map_err(|e| e.to_string())?);
                }
            }
            _ => {}
        }
        self.lab.groups.topics_changed();
        Ok(())
    }
}

#[test]
fn recorded_heartbeats_are_answered_as_kafka_answered_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let scenarios: Vec<Scenario> = scenario::load(&folder).unwrap().into_iter().filter(fits).collect();
    let failures: Vec<String> = scenarios.iter().filter_map(|s| Play::new().play(s).err()).collect();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), scenarios.len(), failures.join("\n"));
    assert!(scenarios.len() >= 60, "only {} scenarios were played", scenarios.len());
}
