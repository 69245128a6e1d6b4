//! The four APIs, decided by the coordinator. So far nothing but the broker's own answers.

use std::sync::Arc;

use streamside_proxy::gateway::Questions;
use streamside_proxy::handler::BoxFuture;
use streamside_proxy::intercept::{Beat, Connection, Intercept, Observed, Refused};
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatResponse;
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use crate::config::Settings;
use crate::shell::core::Core;

/// What the proxy calls.
pub struct Interceptor {
    _core: Arc<Core>,
}

impl Interceptor {
    /// Over a running core.
    #[must_use]
    pub fn new(core: Arc<Core>, _settings: &Settings) -> Self {
        Self { _core: core }
    }

    /// Takes the settings that may change while running.
    pub fn retune(&self, _settings: &Settings) {}
}

impl Intercept for Interceptor {
    fn heartbeat(
        &self,
        _connection: &Arc<Connection>,
        _beat: &Beat<'_>,
        _answer: &mut StreamsGroupHeartbeatResponse<'_>,
    ) -> Observed {
        Observed::default()
    }

    fn push(
        &self,
        _connection: &Arc<Connection>,
        _client_id: &str,
        request: StreamsGroupTopologyDescriptionUpdateRequest,
        _wire_bytes: usize,
        mut questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupTopologyDescriptionUpdateResponse, Refused>> {
        Box::pin(async move { questions.push(&request).await.map_err(|e| e.to_string()) })
    }

    fn describe(
        &self,
        _connection: &Arc<Connection>,
        _client_id: &str,
        request: StreamsGroupDescribeRequest,
        _version: i16,
        mut questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupDescribeResponse, Refused>> {
        Box::pin(async move { questions.describe(&request).await.map_err(|e| e.to_string()) })
    }

    fn delete(
        &self,
        _connection: &Arc<Connection>,
        _client_id: &str,
        request: DeleteGroupsRequest,
        _version: i16,
        mut questions: Questions,
    ) -> BoxFuture<Result<DeleteGroupsResponse, Refused>> {
        Box::pin(async move { questions.delete(&request).await.map_err(|e| e.to_string()) })
    }

    fn member_heard(&self, _connection: &Arc<Connection>, _group: &str, _member: &str) {}

    fn client_host(&self, _group: &str, _member: &str) -> Option<Arc<str>> {
        None
    }
}
