//! Questions of ours on a caller's connection, timed.

use std::sync::Arc;

use streamside_proxy::gateway::{AskError, Questions};
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::metadata::{MetadataRequest, MetadataResponse};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use crate::metrics::{Api, Metrics};

type Answer<T> = Result<T, AskError>;

/// What may be asked of the broker with the caller's rights. Nothing behind the request is forwarded while this lives.
pub trait Ask: Send {
    /// StreamsGroupDescribe; the answer in version 1 shape.
    fn describe(
        &mut self,
        request: &StreamsGroupDescribeRequest,
    ) -> impl Future<Output = Answer<StreamsGroupDescribeResponse>> + Send;

    /// DeleteGroups; the answer in version 3 shape.
    fn delete(&mut self, request: &DeleteGroupsRequest) -> impl Future<Output = Answer<DeleteGroupsResponse>> + Send;

    /// Metadata.
    fn metadata(&mut self, request: &MetadataRequest) -> impl Future<Output = Answer<MetadataResponse>> + Send;

    /// A push passed on.
    fn push(
        &mut self,
        request: &StreamsGroupTopologyDescriptionUpdateRequest,
    ) -> impl Future<Output = Answer<StreamsGroupTopologyDescriptionUpdateResponse>> + Send;
}

/// The proxy's questions with the time that each takes upstream.
pub struct Timed {
    questions: Questions,
    metrics: Arc<Metrics>,
}

impl Timed {
    /// Over the proxy's.
    #[must_use]
    pub fn new(questions: Questions, metrics: &Arc<Metrics>) -> Self {
        Self { questions, metrics: Arc::clone(metrics) }
    }
}

impl Ask for Timed {
    async fn describe(&mut self, request: &StreamsGroupDescribeRequest) -> Answer<StreamsGroupDescribeResponse> {
        let began = self.metrics.start();
        let answer = self.questions.describe(request).await;
        self.metrics.upstream_request(Api::StreamsGroupDescribe, began);
        answer
    }

    async fn delete(&mut self, request: &DeleteGroupsRequest) -> Answer<DeleteGroupsResponse> {
        let began = self.metrics.start();
        let answer = self.questions.delete(request).await;
        self.metrics.upstream_request(Api::DeleteGroups, began);
        answer
    }

    async fn metadata(&mut self, request: &MetadataRequest) -> Answer<MetadataResponse> {
        let began = self.metrics.start();
        let answer = self.questions.metadata(request).await;
        self.metrics.upstream_request(Api::Metadata, began);
        answer
    }

    async fn push(
        &mut self,
        request: &StreamsGroupTopologyDescriptionUpdateRequest,
    ) -> Answer<StreamsGroupTopologyDescriptionUpdateResponse> {
        let began = self.metrics.start();
        let answer = self.questions.push(request).await;
        self.metrics.upstream_request(Api::StreamsGroupTopologyDescriptionUpdate, began);
        answer
    }
}
