//! ListOffsets and OffsetFetch, as far as the stock tool's plain describe asks them: standalone, no record was ever
//! written and no offset committed.

use std::sync::Arc;

use bytes::BytesMut;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use streamside_wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

use super::{Handled, Request, decode};
use crate::shell::context::Context;

/// ListOffsets: known topics are empty, others do not exist.
pub(super) fn list_offsets(context: &Arc<Context>, request: Request<'_>, output: &mut BytesMut) -> Handled {
    let body: ListOffsetsRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let topics = body.topics.into_iter().map(|topic| {
        let count = context.topics.get(&topic.name).copied().unwrap_or(0);
        let partitions = topic.partitions.into_iter().map(|partition| {
            let known = (0..count).contains(&partition.partition_index);
            ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                error_code: if known { 0 } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0 },
                offset: if known { 0 } else { -1 },
                leader_epoch: if known { 0 } else { -1 },
                ..Default::default()
            }
        });
        ListOffsetsTopicResponse { partitions: partitions.collect(), name: topic.name, ..Default::default() }
    });
    request.answer_to().done(output, &ListOffsetsResponse { topics: topics.collect(), ..Default::default() })
}

/// OffsetFetch: no offset is committed anywhere.
pub(super) fn offset_fetch(_context: &Arc<Context>, request: Request<'_>, output: &mut BytesMut) -> Handled {
    let body: OffsetFetchRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let groups = body.groups.into_iter().map(|group| OffsetFetchResponseGroup {
        group_id: group.group_id,
        topics: group
            .topics
            .unwrap_or_default()
            .into_iter()
            .map(|topic| OffsetFetchResponseTopics {
                partitions: topic
                    .partition_indexes
                    .into_iter()
                    .map(|partition_index| OffsetFetchResponsePartitions {
                        partition_index,
                        committed_offset: -1,
                        metadata: Some(String::new()),
                        ..Default::default()
                    })
                    .collect(),
                name: topic.name,
                topic_id: topic.topic_id,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    let topics = body.topics.unwrap_or_default().into_iter().map(|topic| OffsetFetchResponseTopic {
        partitions: topic
            .partition_indexes
            .into_iter()
            .map(|partition_index| OffsetFetchResponsePartition {
                partition_index,
                committed_offset: -1,
                metadata: Some(String::new()),
                ..Default::default()
            })
            .collect(),
        name: topic.name,
        ..Default::default()
    });
    let response = if request.version >= 8 {
        OffsetFetchResponse { groups: groups.collect(), ..Default::default() }
    } else {
        OffsetFetchResponse { topics: topics.collect(), ..Default::default() }
    };
    request.answer_to().done(output, &response)
}
