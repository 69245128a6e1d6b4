//! A streams group's member, played by ourselves: joins, beats, pushes its description, leaves.

use std::borrow::Cow;
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use streamside_wire::Message as _;
use streamside_wire::api_key;
use streamside_wire::messages::streams_group_heartbeat::{
    Endpoint, KeyValue, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, TaskIds, Topology,
};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};
use streamside_wire::messages::topology_description::TopologyDescription;

use crate::cluster::{Cluster, Retry, is_worth_another_try, refusal};
use crate::error::Error;

/// The epoch of a member that joins.
const JOIN: i32 = 0;
/// The epoch of a member that leaves.
const LEAVE: i32 = -1;

/// Who joins, and with what.
#[derive(Debug, Clone, Default)]
pub struct MemberOptions {
    /// The group (the application id).
    pub group_id: String,
    /// The assignment topology that the join carries.
    pub topology: Topology,
    /// Where interactive queries would be answered.
    pub endpoint: Option<Endpoint>,
    /// Client tags.
    pub tags: Vec<KeyValue>,
    /// A static member's instance id.
    pub instance_id: Option<String>,
    /// How long a member may take to give tasks back, in milliseconds; 0 means Kafka's five minutes.
    pub rebalance_timeout_ms: i32,
}

/// A member of a streams group. It sends nothing by itself: call [`Member::beat`] every [`Member::interval`].
#[derive(Debug)]
pub struct Member {
    cluster: Cluster,
    options: MemberOptions,
    member_id: String,
    process_id: String,
    epoch: i32,
    endpoint_epoch: i32,
    interval: Duration,
    asked: bool,
    /// Active, standby and warm-up tasks that the next beat confirms; unchanged ones are not repeated.
    confirm: Option<[Vec<TaskIds>; 3]>,
}

impl Member {
    /// A member that has not joined; its ids are fresh UUIDs.
    #[must_use]
    pub fn new(cluster: Cluster, options: MemberOptions) -> Self {
        Self {
            cluster,
            options,
            member_id: uuid(),
            process_id: uuid(),
            epoch: JOIN,
            endpoint_epoch: -1,
            interval: Duration::from_secs(5),
            asked: false,
            confirm: None,
        }
    }

    /// Its id.
    #[must_use]
    pub fn member_id(&self) -> &str {
        &self.member_id
    }

    /// Its group.
    #[must_use]
    pub fn group_id(&self) -> &str {
        &self.options.group_id
    }

    /// The epoch that the coordinator gave last; 0 before the first join.
    #[must_use]
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// How often the coordinator wants a heartbeat.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// True when the coordinator has asked for the topology description and none was pushed since.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Sends one heartbeat: the join when it is no member yet or was thrown out, else a steady one.
    ///
    /// # Errors
    /// The coordinator's refusal, or why it can't be reached. After 25 and 110 the next call joins anew.
    pub async fn beat(&mut self) -> Result<StreamsGroupHeartbeatResponse<'static>, Error> {
        let joins = self.epoch == JOIN;
        let answer = match self.send(self.epoch, joins).await {
            Ok(answer) => answer,
            Err(error) => {
                use streamside_wire::error_code::ErrorCode;
                let gone = [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::FENCED_MEMBER_EPOCH];
                if error.code().is_some_and(|code| gone.contains(&code)) {
                    self.epoch = JOIN;
                    self.endpoint_epoch = -1;
                    self.confirm = None;
                }
                return Err(error);
            }
        };
        self.confirm = None;
        self.epoch = answer.member_epoch;
        self.endpoint_epoch = answer.endpoint_information_epoch;
        self.asked |= answer.topology_description_required;
        if let Ok(millis @ 1..) = u64::try_from(answer.heartbeat_interval_ms) {
            self.interval = Duration::from_millis(millis);
        }
        if let (Some(active), Some(standby), Some(warmup)) =
            (&answer.active_tasks, &answer.standby_tasks, &answer.warmup_tasks)
        {
            // An assignment is confirmed by owning it.
            self.confirm = Some([active.clone(), standby.clone(), warmup.clone()]);
        }
        Ok(answer)
    }

    /// Pushes the topology description, again while the coordinator loads or moves (kip1331 §12.3).
    ///
    /// # Errors
    /// The coordinator's refusal, or why it can't be reached.
    pub async fn push(&mut self, description: TopologyDescription) -> Result<(), Error> {
        let request = StreamsGroupTopologyDescriptionUpdateRequest {
            group_id: self.options.group_id.clone(),
            member_id: self.member_id.clone(),
            topology_epoch: self.options.topology.epoch,
            topology_description: description,
            ..Default::default()
        };
        let api = api_key::name(StreamsGroupTopologyDescriptionUpdateRequest::API_KEY);
        let mut retry = Retry::new(self.cluster.options());
        loop {
            let outcome = async {
                let connection = self.cluster.coordinator(&self.options.group_id).await?;
                let version = connection.version::<StreamsGroupTopologyDescriptionUpdateRequest>()?;
                let answer: StreamsGroupTopologyDescriptionUpdateResponse = connection.call(&request, version).await?;
                refusal(api, answer.error_code, answer.error_message).map_or(Ok(()), Err)
            };
            match outcome.await {
                Ok(()) => {
                    self.asked = false;
                    return Ok(());
                }
                Err(error) => {
                    self.cluster.forget_coordinator(&self.options.group_id);
                    if !is_worth_another_try(&error) || !retry.pause().await {
                        self.asked = false;
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Leaves the group; a member that never joined says nothing.
    ///
    /// # Errors
    /// The coordinator's refusal, or why it can't be reached.
    pub async fn leave(mut self) -> Result<(), Error> {
        if self.epoch != JOIN {
            self.confirm = None;
            self.send(LEAVE, false).await?;
        }
        Ok(())
    }

    async fn send(&self, epoch: i32, joins: bool) -> Result<StreamsGroupHeartbeatResponse<'static>, Error> {
        let api = api_key::name(StreamsGroupHeartbeatRequest::API_KEY);
        let request = self.request(epoch, joins);
        let mut retry = Retry::new(self.cluster.options());
        loop {
            let outcome = async {
                let connection = self.cluster.coordinator(&self.options.group_id).await?;
                let version = connection.version::<StreamsGroupHeartbeatRequest<'_>>()?;
                let answer = connection.ask(&request, version).await?;
                let answer = owned(answer.decode::<StreamsGroupHeartbeatResponse<'_>>()?);
                refusal(api, answer.error_code, answer.error_message.clone()).map_or(Ok(answer), Err)
            };
            match outcome.await {
                Err(error) if is_worth_another_try(&error) => {
                    self.cluster.forget_coordinator(&self.options.group_id);
                    if !retry.pause().await {
                        return Err(error);
                    }
                }
                settled => return settled,
            }
        }
    }

    /// Which fields a join, a steady beat and a leave carry: kip1071 §1.3.
    fn request(&self, epoch: i32, joins: bool) -> StreamsGroupHeartbeatRequest<'_> {
        let mut request = StreamsGroupHeartbeatRequest {
            group_id: Cow::Borrowed(&self.options.group_id),
            member_id: Cow::Borrowed(&self.member_id),
            member_epoch: epoch,
            endpoint_information_epoch: self.endpoint_epoch,
            instance_id: self.options.instance_id.as_deref().map(Cow::Borrowed),
            task_offsets: None,
            task_end_offsets: None,
            active_tasks: None,
            standby_tasks: None,
            warmup_tasks: None,
            client_tags: None,
            ..Default::default()
        };
        if joins {
            request.rebalance_timeout_ms = match self.options.rebalance_timeout_ms {
                0 => 300_000,
                given => given,
            };
            request.topology = Some(self.options.topology.clone());
            request.process_id = Some(Cow::Borrowed(&self.process_id));
            request.user_endpoint = self.options.endpoint.clone();
            request.client_tags = Some(self.options.tags.clone());
            request.active_tasks = Some(Vec::new());
            request.standby_tasks = Some(Vec::new());
            request.warmup_tasks = Some(Vec::new());
        } else if let Some([active, standby, warmup]) = self.confirm.clone() {
            request.active_tasks = Some(active);
            request.standby_tasks = Some(standby);
            request.warmup_tasks = Some(warmup);
        }
        request
    }
}

fn owned(a: StreamsGroupHeartbeatResponse<'_>) -> StreamsGroupHeartbeatResponse<'static> {
    StreamsGroupHeartbeatResponse {
        throttle_time_ms: a.throttle_time_ms,
        error_code: a.error_code,
        error_message: a.error_message,
        member_id: Cow::Owned(a.member_id.into_owned()),
        member_epoch: a.member_epoch,
        heartbeat_interval_ms: a.heartbeat_interval_ms,
        acceptable_recovery_lag_legacy: a.acceptable_recovery_lag_legacy,
        task_offset_interval_ms: a.task_offset_interval_ms,
        acceptable_recovery_lag: a.acceptable_recovery_lag,
        status: a.status,
        active_tasks: a.active_tasks,
        standby_tasks: a.standby_tasks,
        warmup_tasks: a.warmup_tasks,
        topology_description_required: a.topology_description_required,
        endpoint_information_epoch: a.endpoint_information_epoch,
        partitions_by_user_endpoint: a.partitions_by_user_endpoint,
        tags: a.tags,
    }
}

/// A random UUID (version 4) in its usual text form.
fn uuid() -> String {
    let mut bytes = [0_u8; 16];
    // Without randomness two members would be one; the coordinator would then tell.
    let _ = SystemRandom::new().fill(&mut bytes);
    let mut number = u128::from_be_bytes(bytes);
    number = (number & !(0xf << 76)) | (0x4 << 76);
    number = (number & !(0x3 << 62)) | (0x2 << 62);
    let hex = format!("{number:032x}");
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(from, to)| hex.get(from..to).unwrap_or_default()).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_form_of_version_4() {
        let (a, b) = (uuid(), uuid());
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        let marks: Vec<char> = [8, 13, 14, 18, 23].iter().filter_map(|&at| a.chars().nth(at)).collect();
        assert_eq!(marks, ['-', '-', '4', '-', '-']);
        assert!(a.chars().nth(19).is_some_and(|c| "89ab".contains(c)));
    }
}
