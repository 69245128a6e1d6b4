//! A broker of streams groups, as far as its answers matter here: epochs, members, topologies, sessions, trouble.

use std::collections::BTreeMap;

use streamside_wire::messages::delete_groups::DeletableGroupResult;
use streamside_wire::messages::streams_group_describe as describe;
use streamside_wire::messages::streams_group_heartbeat::{
    Status, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Topology,
};

pub const INTERVAL: i32 = 5_000;
pub const SESSION: i64 = 45_000;
/// All operations that a group has: READ, DELETE, DESCRIBE and more.
pub const ALL_RIGHTS: i32 = 0b1_1100_0101_1000;
pub const READ: i32 = 1 << 3;
pub const DELETE: i32 = 1 << 6;

#[derive(Clone, Debug)]
pub struct Group {
    pub epoch: i32,
    pub topology: Topology,
    /// When each member was last heard.
    pub members: BTreeMap<String, i64>,
}

#[derive(Clone, Debug)]
pub struct Broker {
    pub groups: BTreeMap<String, Group>,
    /// Groups of another type.
    pub classic: Vec<String>,
    /// What every describe is answered with, if anything is wrong.
    pub describe_trouble: Option<i16>,
    /// What every heartbeat is answered with.
    pub heartbeat_trouble: Option<i16>,
    /// Describes show no topology (4.1 while a group is not ready).
    pub hides_topology: bool,
    /// What the caller of a describe may do.
    pub rights: i32,
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            classic: Vec::new(),
            describe_trouble: None,
            heartbeat_trouble: None,
            hides_topology: false,
            rights: ALL_RIGHTS,
        }
    }
}

fn answer(code: i16, member: &str, epoch: i32) -> StreamsGroupHeartbeatResponse<'static> {
    StreamsGroupHeartbeatResponse {
        error_code: code,
        member_id: member.to_owned().into(),
        member_epoch: if code == 0 { epoch } else { 0 },
        heartbeat_interval_ms: if code == 0 && epoch > 0 { INTERVAL } else { 0 },
        ..StreamsGroupHeartbeatResponse::default()
    }
}

impl Broker {
    pub fn heartbeat(
        &mut self,
        at: i64,
        request: &StreamsGroupHeartbeatRequest<'_>,
    ) -> StreamsGroupHeartbeatResponse<'static> {
        let member = &*request.member_id;
        if let Some(code) = self.heartbeat_trouble {
            return answer(code, member, 0);
        }
        let id = &*request.group_id;
        self.expire(at);
        if request.member_epoch == 0 {
            let topology = request.topology.clone().expect("a join has a topology");
            self.classic.retain(|classic| classic != id);
            let group = self.groups.entry(id.to_owned()).or_insert_with(|| Group {
                epoch: 0,
                topology: topology.clone(),
                members: BTreeMap::new(),
            });
            let stale = topology.epoch < group.topology.epoch;
            if !stale && topology != group.topology {
                return answer(42, member, 0);
            }
            if group.members.insert(member.to_owned(), at).is_none() {
                group.epoch += 1;
            }
            let mut good = answer(0, member, group.epoch);
            if stale {
                let status = Status { status_code: 0, ..Status::default() };
                good.status = Some(vec![status]);
            }
            return good;
        }
        let Some(group) = self.groups.get_mut(id) else { return answer(69, member, 0) };
        if !group.members.contains_key(member) {
            return answer(25, member, 0);
        }
        if request.member_epoch == -1 {
            group.members.remove(member);
            group.epoch += 1;
            return answer(0, member, -1);
        }
        group.members.insert(member.to_owned(), at);
        if request.member_epoch == -2 {
            return answer(0, member, -2);
        }
        answer(0, member, group.epoch)
    }

    /// Ends sessions.
    pub fn expire(&mut self, at: i64) {
        for group in self.groups.values_mut() {
            let before = group.members.len();
            group.members.retain(|_, heard| at - *heard < SESSION);
            if group.members.len() < before {
                group.epoch += 1;
            }
        }
    }

    pub fn describe(&mut self, at: i64, id: &str) -> describe::DescribedGroup {
        self.expire(at);
        let failed = |code: i16, message: Option<String>| describe::DescribedGroup {
            error_code: code,
            error_message: message,
            group_id: id.to_owned(),
            ..describe::DescribedGroup::default()
        };
        if let Some(code) = self.describe_trouble {
            return failed(code, None);
        }
        if self.classic.iter().any(|classic| classic == id) {
            return failed(69, Some(format!("Group {id} is not a streams group.")));
        }
        let Some(group) = self.groups.get(id) else { return failed(69, Some(format!("Group {id} not found."))) };
        let subtopologies = group.topology.subtopologies.iter().map(|s| describe::Subtopology {
            subtopology_id: s.subtopology_id.clone(),
            source_topics: s.source_topics.clone(),
            ..describe::Subtopology::default()
        });
        let topology = describe::Topology {
            epoch: group.topology.epoch,
            subtopologies: Some(subtopologies.collect()),
            ..describe::Topology::default()
        };
        describe::DescribedGroup {
            group_id: id.to_owned(),
            group_state: if group.members.is_empty() { "Empty" } else { "Stable" }.to_owned(),
            group_epoch: group.epoch,
            assignment_epoch: group.epoch,
            topology: (!self.hides_topology).then_some(topology),
            members: group
                .members
                .keys()
                .map(|member| describe::Member { member_id: member.clone(), ..describe::Member::default() })
                .collect(),
            authorized_operations: self.rights,
            ..describe::DescribedGroup::default()
        }
    }

    pub fn delete(&mut self, at: i64, id: &str) -> DeletableGroupResult {
        self.expire(at);
        let code = match self.groups.get(id) {
            _ if self.rights & DELETE == 0 => 30,
            None => 69,
            Some(group) if !group.members.is_empty() => 68,
            Some(_) => 0,
        };
        if code == 0 {
            self.groups.remove(id);
        }
        DeletableGroupResult { group_id: id.to_owned(), error_code: code, ..DeletableGroupResult::default() }
    }
}
