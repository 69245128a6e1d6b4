//! ListOffsets and OffsetFetch, as far as the stock tool's plain describe asks them: standalone, no record was ever
//! written and no offset committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::BytesMut;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use streamside_wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};

use super::cluster::topic_id;
use super::{Handled, Request, decode};
use crate::shell::context::Context;

/// Times that stand for a place in the log, and the version that brought each: the end, the begin, the largest time,
/// the begin of what is local, the end of what is remote, the begin of what is only local.
const PLACES: [(i64, i16); 6] = [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)];
/// Those of them that an empty log has.
const PLACES_OF_AN_EMPTY_LOG: [i64; 3] = [-1, -2, -4];
/// The largest isolation level.
const READ_COMMITTED: i8 = 1;

/// ListOffsets: known topics are empty, others do not exist. A partition that is asked twice is refused, once.
pub(super) fn list_offsets(context: &Arc<Context>, request: Request<'_>, output: &mut BytesMut) -> Handled {
    let body: ListOffsetsRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let version = request.version;
    if !(0..=READ_COMMITTED).contains(&body.isolation_level) {
        return request.answer_to().done(output, &refused_offsets(body));
    }
    let (mut seen, mut doubles) = (BTreeSet::new(), BTreeSet::new());
    for topic in &body.topics {
        for partition in &topic.partitions {
            let key = (topic.name.as_str(), partition.partition_index);
            if !seen.insert(key) {
                doubles.insert(key);
            }
        }
    }
    let mut topics: Vec<ListOffsetsTopicResponse> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &body.topics {
        let count = context.topics.get(&topic.name).copied();
        for asked in &topic.partitions {
            let key = (topic.name.as_str(), asked.partition_index);
            if !seen.remove(&key) {
                continue;
            }
            let answer = if doubles.contains(&key) {
                answer(asked, ErrorCode::INVALID_REQUEST)
            } else {
                offset(asked, count, version)
            };
            let place = *places.entry(topic.name.as_str()).or_insert(topics.len());
            match topics.get_mut(place) {
                Some(known) => known.partitions.push(answer),
                None => topics.push(ListOffsetsTopicResponse {
                    name: topic.name.clone(),
                    partitions: vec![answer],
                    ..Default::default()
                }),
            }
        }
    }
    request.answer_to().done(output, &ListOffsetsResponse { topics, ..Default::default() })
}

/// Kafka fails on an isolation level that there is not, and then tells every partition as it was asked.
fn refused_offsets(body: ListOffsetsRequest) -> ListOffsetsResponse {
    let topics = body.topics.into_iter().map(|topic| ListOffsetsTopicResponse {
        partitions: topic.partitions.iter().map(|asked| answer(asked, ErrorCode::UNKNOWN_SERVER_ERROR)).collect(),
        name: topic.name,
        ..Default::default()
    });
    ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
}

fn answer(asked: &ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse {
        partition_index: asked.partition_index,
        error_code: code.0,
        timestamp: -1,
        offset: -1,
        leader_epoch: -1,
        ..Default::default()
    }
}

/// One partition's place, in a topic of `count` empty partitions.
fn offset(asked: &ListOffsetsPartition, count: Option<i32>, version: i16) -> ListOffsetsPartitionResponse {
    let time = asked.timestamp;
    if time < 0 && !PLACES.iter().any(|(place, since)| *place == time && version >= *since) {
        return answer(asked, ErrorCode::UNSUPPORTED_VERSION);
    }
    if !(0..count.unwrap_or(0)).contains(&asked.partition_index) {
        return answer(asked, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    // Every partition has been led in epoch 0 alone; -1 means that the client does not know.
    match asked.current_leader_epoch {
        1.. => return answer(asked, ErrorCode::UNKNOWN_LEADER_EPOCH),
        ..-1 => return answer(asked, ErrorCode::FENCED_LEADER_EPOCH),
        _ => {}
    }
    let mut answer = answer(asked, ErrorCode::NONE);
    if PLACES_OF_AN_EMPTY_LOG.contains(&time) {
        answer.offset = 0;
        answer.leader_epoch = if version >= 4 { 0 } else { -1 };
    }
    answer
}

/// OffsetFetch: no offset is committed anywhere; a member that asks must be one, at its epoch.
pub(super) fn offset_fetch(context: &Arc<Context>, request: Request<'_>, output: &mut BytesMut) -> Handled {
    let body: OffsetFetchRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let response = if request.version >= 8 {
        let groups = body.groups.into_iter().map(|group| fetch_group(context, group, request.version));
        OffsetFetchResponse { groups: groups.collect(), ..Default::default() }
    } else {
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
        OffsetFetchResponse { topics: topics.collect(), ..Default::default() }
    };
    request.answer_to().done(output, &response)
}

fn fetch_group(context: &Arc<Context>, group: OffsetFetchRequestGroup, version: i16) -> OffsetFetchResponseGroup {
    let OffsetFetchRequestGroup { group_id, member_id, member_epoch, topics, .. } = group;
    let code = check_member(context, &group_id, member_id.as_deref(), member_epoch);
    if code != ErrorCode::NONE {
        return OffsetFetchResponseGroup { group_id, error_code: code.0, ..Default::default() };
    }
    let exists = |topic: &OffsetFetchRequestTopics| {
        version < 10 || context.topics.keys().any(|name| topic_id(name) == topic.topic_id)
    };
    // Topics by an id that there is not come last.
    let (known, unknown): (Vec<_>, Vec<_>) = topics.unwrap_or_default().into_iter().partition(exists);
    let known = known.into_iter().map(|topic| nothing_committed(topic, ErrorCode::NONE));
    let unknown = unknown.into_iter().map(|topic| nothing_committed(topic, ErrorCode::UNKNOWN_TOPIC_ID));
    OffsetFetchResponseGroup { group_id, topics: known.chain(unknown).collect(), ..Default::default() }
}

/// Spec kip1071 §10.3: a group that is not known commits nothing and refuses nobody.
fn check_member(context: &Arc<Context>, group: &str, member: Option<&str>, epoch: i32) -> ErrorCode {
    if member.is_none() && epoch < 0 {
        return ErrorCode::NONE;
    }
    let Some(known) = context.shards.member_epoch(group, member.unwrap_or_default()) else { return ErrorCode::NONE };
    match (member, known) {
        (None, _) => ErrorCode::UNKNOWN_SERVER_ERROR,
        (_, None) => ErrorCode::UNKNOWN_MEMBER_ID,
        (_, Some(known)) if known != epoch => ErrorCode::STALE_MEMBER_EPOCH,
        _ => ErrorCode::NONE,
    }
}

fn nothing_committed(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics {
    let partitions = topic.partition_indexes.into_iter().map(|partition_index| OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        metadata: Some(String::new()),
        error_code: code.0,
        ..Default::default()
    });
    OffsetFetchResponseTopics {
        partitions: partitions.collect(),
        name: topic.name,
        topic_id: topic.topic_id,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::offset;
    use streamside_wire::messages::list_offsets::ListOffsetsPartition;

    /// Error code, offset and leader epoch of partition 0 of a topic with one partition.
    fn asked(timestamp: i64, version: i16, current_leader_epoch: i32) -> (i16, i64, i32) {
        let asked = ListOffsetsPartition { timestamp, current_leader_epoch, ..ListOffsetsPartition::default() };
        let answer = offset(&asked, Some(1), version);
        (answer.error_code, answer.offset, answer.leader_epoch)
    }

    #[test]
    fn places_exist_from_their_version_on() {
        assert_eq!((asked(-1, 3, -1), asked(-2, 4, -1)), ((0, 0, -1), (0, 0, 0)));
        assert_eq!((asked(-3, 6, -1), asked(-3, 7, -1)), ((35, -1, -1), (0, -1, -1)));
        assert_eq!((asked(-4, 7, -1), asked(-4, 8, -1)), ((35, -1, -1), (0, 0, 0)));
        assert_eq!(
            (asked(-6, 10, -1), asked(-6, 11, -1), asked(-7, 11, -1)),
            ((35, -1, -1), (0, -1, -1), (35, -1, -1))
        );
        assert_eq!(asked(1_700_000_000_000, 11, -1), (0, -1, -1));
    }

    #[test]
    fn a_leader_epoch_that_never_was_is_told() {
        assert_eq!((asked(-1, 11, 0), asked(-1, 11, 1), asked(-1, 11, -2)), ((0, 0, 0), (75, -1, -1), (74, -1, -1)));
    }
}
