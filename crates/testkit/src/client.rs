//! The few calls that tests make again and again, over a [`Connection`].

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connection::{Connection, ConnectionError};

/// Time limit of a call.
const CALL: Duration = Duration::from_secs(15);

/// A member of streams groups, or a tool.
#[derive(Debug)]
pub struct Client {
    /// The connection, for calls of one's own.
    pub connection: Connection,
}

impl Client {
    /// Connects to a port on this machine.
    ///
    /// # Errors
    /// The connection could not be made.
    pub fn open(port: u16, client_id: &str) -> Result<Self, ConnectionError> {
        Ok(Self { connection: Connection::open(("127.0.0.1", port), client_id)? })
    }

    /// One call by name.
    ///
    /// # Errors
    /// A closed connection, no answer in 15 seconds, bytes that are not the answer.
    pub fn call(&mut self, api: &str, version: i16, body: &Value) -> Result<Value, ConnectionError> {
        self.connection.call(api, version, body, CALL)
    }

    /// `ApiVersions` at version 3, as clients greet.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn versions(&mut self) -> Result<Value, ConnectionError> {
        self.call("ApiVersions", 3, &json!({"ClientSoftwareName": "testkit", "ClientSoftwareVersion": "1"}))
    }

    fn heartbeat(&mut self, version: i16, body: &Value) -> Result<Value, ConnectionError> {
        self.call("StreamsGroupHeartbeat", version, body)
    }

    /// Joins with an empty topology at heartbeat version 1, as a client that can push does; tries again while the
    /// coordinator is not there yet (14, 15, 16), for at most 20 seconds.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn join(&mut self, group: &str, member: &str) -> Result<Value, ConnectionError> {
        self.join_with(1, group, member, &json!({"Epoch": 0, "Subtopologies": []}))
    }

    /// Joins with this heartbeat version and assignment topology.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn join_with(
        &mut self,
        version: i16,
        group: &str,
        member: &str,
        topology: &Value,
    ) -> Result<Value, ConnectionError> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let body = json!({"GroupId": group, "MemberId": member, "MemberEpoch": 0, "RebalanceTimeoutMs": 60_000,
            "Topology": topology, "ActiveTasks": [], "StandbyTasks": [], "WarmupTasks": [], "ProcessId": format!("p-{member}")});
        loop {
            let answer = self.heartbeat(version, &body)?;
            let away = answer["ErrorCode"].as_i64().is_some_and(|code| (14..=16).contains(&code));
            if !away || Instant::now() > deadline {
                return Ok(answer);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A steady heartbeat at version 1.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn beat(&mut self, group: &str, member: &str, epoch: i64) -> Result<Value, ConnectionError> {
        self.heartbeat(1, &json!({"GroupId": group, "MemberId": member, "MemberEpoch": epoch}))
    }

    /// Leaves for good.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn leave(&mut self, group: &str, member: &str) -> Result<Value, ConnectionError> {
        self.beat(group, member, -1)
    }

    /// Pushes a description for topology epoch 0.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn push(&mut self, group: &str, member: &str, description: &Value) -> Result<Value, ConnectionError> {
        self.push_at(group, member, 0, description)
    }

    /// Pushes a description for a topology epoch.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn push_at(
        &mut self,
        group: &str,
        member: &str,
        epoch: i32,
        description: &Value,
    ) -> Result<Value, ConnectionError> {
        let body =
            json!({"GroupId": group, "MemberId": member, "TopologyEpoch": epoch, "TopologyDescription": description});
        self.call("StreamsGroupTopologyDescriptionUpdate", 0, &body)
    }

    /// Describes groups with their descriptions; the entries of the answer.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn describe(&mut self, groups: &[&str]) -> Result<Vec<Value>, ConnectionError> {
        let body = json!({"GroupIds": groups, "IncludeTopologyDescription": true});
        Ok(entries(self.call("StreamsGroupDescribe", 1, &body)?, "Groups"))
    }

    /// Deletes groups at version 3; the entries of the answer.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn delete(&mut self, groups: &[&str]) -> Result<Vec<Value>, ConnectionError> {
        Ok(entries(self.call("DeleteGroups", 3, &json!({"GroupsNames": groups}))?, "Results"))
    }
}

fn entries(mut answer: Value, name: &str) -> Vec<Value> {
    match answer.get_mut(name).map(Value::take) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    }
}
