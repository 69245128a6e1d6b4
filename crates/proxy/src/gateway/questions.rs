//! Typed questions to the upstream, in the client's name.

use std::sync::Arc;

use streamside_wire::Message;
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::metadata::{MetadataRequest, MetadataResponse};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use super::aside::aside;
use super::context::Context;
use super::frames;
use crate::bridge::groups::describe_request_to;
use crate::handler::Upstream;

/// Why a question of ours has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The connection pair is ending.
    #[error("the upstream connection ended before the answer came")]
    Lost,
    /// The upstream does not serve the API.
    #[error("the broker does not serve api {0}")]
    Unsupported(i16),
    /// The question cannot be said in the broker's version, or the answer cannot be read.
    #[error("the broker's answer to api {api_key} cannot be read: {reason}")]
    Malformed {
        /// Which question.
        api_key: i16,
        /// What is wrong.
        reason: String,
    },
}

impl AskError {
    /// One word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            AskError::Lost => "lost",
            AskError::Unsupported(_) => "unsupported",
            AskError::Malformed { .. } => "malformed",
        }
    }
}

/// Typed questions to the upstream of one connection, at one place in the order of requests. Nothing behind is forwarded
/// while it lives: drop it when no more is to be asked.
pub struct Questions {
    context: Arc<Context>,
    upstream: Upstream,
    client_id: Option<Arc<str>>,
    /// Number of the next question.
    next: i32,
}

impl Questions {
    pub(super) fn new(context: Arc<Context>, upstream: Upstream, client_id: Option<Arc<str>>) -> Self {
        Questions { context, upstream, client_id, next: 1 }
    }

    /// StreamsGroupDescribe in the highest version that both know; the answer is in version 1 shape. Descriptions are
    /// asked for only where the broker knows them.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn describe(
        &mut self,
        request: &StreamsGroupDescribeRequest,
    ) -> Result<StreamsGroupDescribeResponse, AskError> {
        let version = self.version::<StreamsGroupDescribeRequest>().await?;
        if version < 1 && request.include_topology_description {
            let mut request = request.clone();
            describe_request_to(&mut request, version);
            return self.ask(&request, version).await;
        }
        self.ask(request, version).await
    }

    /// DeleteGroups in the highest version that both know; the answer is in version 3 shape.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn delete(&mut self, request: &DeleteGroupsRequest) -> Result<DeleteGroupsResponse, AskError> {
        let version = self.version::<DeleteGroupsRequest>().await?;
        self.ask(request, version).await
    }

    /// Metadata, in the highest version that both know.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn metadata(&mut self, request: &MetadataRequest) -> Result<MetadataResponse, AskError> {
        let version = self.version::<MetadataRequest>().await?;
        self.ask(request, version).await
    }

    /// A push passed on to an upstream that takes it.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn push(
        &mut self,
        request: &StreamsGroupTopologyDescriptionUpdateRequest,
    ) -> Result<StreamsGroupTopologyDescriptionUpdateResponse, AskError> {
        let version = self.version::<StreamsGroupTopologyDescriptionUpdateRequest>().await?;
        self.ask(request, version).await
    }

    async fn version<Q: for<'q> Message<'q>>(&mut self) -> Result<i16, AskError> {
        let ranges = self.context.ask_versions(&mut self.upstream, self.client_id.as_deref()).await?;
        ranges.both(Q::API_KEY, *Q::VERSIONS.end()).ok_or(AskError::Unsupported(Q::API_KEY))
    }

    async fn ask<Q, A>(&mut self, request: &Q, version: i16) -> Result<A, AskError>
    where
        Q: for<'q> Message<'q>,
        A: for<'a> Message<'a> + Send + 'static,
    {
        let malformed = |reason| AskError::Malformed { api_key: Q::API_KEY, reason };
        let correlation_id = self.next;
        self.next = self.next.wrapping_add(1);
        let body = frames::request(request, version, correlation_id, self.client_id.as_deref()).map_err(malformed)?;
        let answer = self.upstream.ask(body).await.map_err(|_| AskError::Lost)?;
        let length = answer.len();
        let read = move || frames::read_answer(&answer, version).map(|(_, answer)| answer);
        aside(length, read).await.map_err(malformed)
    }
}
