//! Any answers that carry addresses of leaders.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use streamside_wire::messages::{fetch, produce, share_acknowledge, share_fetch};
use streamside_wire::{Message, Tags};

/// Answers with a list of leaders' addresses.
pub trait Leaders: for<'a> Message<'a> + Clone + PartialEq + std::fmt::Debug {
    /// Versions that have the list.
    const WITH: std::ops::RangeInclusive<i16>;
    /// Key, for what is no method of a generic trait.
    const KEY: i16;
    fn any(version: i16) -> BoxedStrategy<Self>;
    /// One leader.
    fn push(&mut self, node_id: i32, host: &str, port: i32, rack: Option<&str>);
    fn leaders(&self) -> usize;
    /// Takes the leaders and the last tag section out.
    fn strip(&mut self) -> Tags;
}

macro_rules! leaders {
    ($module:ident::$answer:ident, $with:expr, $key:literal, $any:ident) => {
        impl Leaders for $module::$answer {
            const WITH: std::ops::RangeInclusive<i16> = $with;
            const KEY: i16 = $key;

            fn any(version: i16) -> BoxedStrategy<Self> {
                $any(version)
            }

            fn push(&mut self, node_id: i32, host: &str, port: i32, rack: Option<&str>) {
                let (host, rack) = (host.to_owned(), rack.map(str::to_owned));
                self.node_endpoints.push($module::NodeEndpoint { node_id, host, port, rack, tags: Tags::default() });
            }

            fn leaders(&self) -> usize {
                self.node_endpoints.len()
            }

            fn strip(&mut self) -> Tags {
                self.node_endpoints.clear();
                std::mem::take(&mut self.tags)
            }
        }
    };
}

leaders!(produce::ProduceResponse, 10..=13, 0, any_produce);
leaders!(fetch::FetchResponse, 16..=18, 1, any_fetch);
leaders!(share_fetch::ShareFetchResponse, 1..=2, 78, any_share_fetch);
leaders!(share_acknowledge::ShareAcknowledgeResponse, 1..=2, 79, any_share_acknowledge);

fn text() -> impl Strategy<Value = Option<String>> {
    option::of("[a-z]{0,200}")
}

/// Unknown tagged fields, numbered from `first` on.
fn tags(first: u32) -> impl Strategy<Value = Tags> {
    let some = vec((1u32..300, vec(any::<u8>(), 0..200)), 1..4).prop_map(move |fields| {
        let (mut tags, mut number) = (Tags::default(), first - 1);
        for (step, bytes) in fields {
            number += step;
            tags.push(number, &bytes);
        }
        tags
    });
    prop_oneof![4 => Just(Tags::default()), 1 => some]
}

fn any_produce(version: i16) -> BoxedStrategy<produce::ProduceResponse> {
    use produce::{BatchIndexAndErrorMessage, LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse};
    let error = (any::<i32>(), text(), tags(1)).prop_map(|(batch_index, message, tags)| BatchIndexAndErrorMessage {
        batch_index,
        batch_index_error_message: message,
        tags,
    });
    let leader = prop_oneof![
        Just(LeaderIdAndEpoch::default()),
        any::<i32>().prop_map(|leader_id| LeaderIdAndEpoch { leader_id, ..Default::default() })
    ];
    let partition = (any::<(i32, i16, i64, i64)>(), vec(error, 0..3), text(), leader, tags(1)).prop_map(
        |((index, error_code, base_offset, log_start_offset), record_errors, error_message, current_leader, tags)| {
            PartitionProduceResponse {
                index,
                error_code,
                base_offset,
                log_start_offset,
                record_errors,
                error_message,
                current_leader,
                tags,
                ..Default::default()
            }
        },
    );
    let topic = ("[a-z]{0,150}", any::<[u8; 16]>(), vec(partition, 0..4), tags(1)).prop_map(
        move |(name, topic_id, partition_responses, tags)| {
            let (name, topic_id) = if version >= 13 { (String::new(), topic_id) } else { (name, [0; 16]) };
            TopicProduceResponse { name, topic_id, partition_responses, tags }
        },
    );
    (vec(topic, 0..4), any::<i32>(), tags(1))
        .prop_map(|(responses, throttle_time_ms, tags)| produce::ProduceResponse {
            responses,
            throttle_time_ms,
            tags,
            ..Default::default()
        })
        .boxed()
}

fn any_fetch(_: i16) -> BoxedStrategy<fetch::FetchResponse> {
    use fetch::{
        AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData, SnapshotId,
    };
    let aborted = (any::<(i64, i64)>(), tags(1)).prop_map(|((producer_id, first_offset), tags)| AbortedTransaction {
        producer_id,
        first_offset,
        tags,
    });
    let tagged = any::<(bool, bool, bool, i32)>().prop_map(|(diverging, leader, snapshot, n)| {
        let (diverging, leader) = (if diverging { n } else { -1 }, if leader { n } else { -1 });
        (
            EpochEndOffset { epoch: diverging, ..Default::default() },
            LeaderIdAndEpoch { leader_id: leader, ..Default::default() },
            SnapshotId { epoch: if snapshot { n } else { -1 }, ..Default::default() },
        )
    });
    let records = option::of(vec(any::<u8>(), 0..600).prop_map(Bytes::from));
    let partition = (any::<(i32, i16, i64, i64, i32)>(), option::of(vec(aborted, 0..3)), records, tagged, tags(3))
        .prop_map(|(numbers, aborted_transactions, records, (diverging_epoch, current_leader, snapshot_id), tags)| {
            PartitionData {
                partition_index: numbers.0,
                error_code: numbers.1,
                high_watermark: numbers.2,
                last_stable_offset: numbers.3,
                preferred_read_replica: numbers.4,
                aborted_transactions,
                records,
                diverging_epoch,
                current_leader,
                snapshot_id,
                tags,
                ..Default::default()
            }
        });
    let topic = (any::<[u8; 16]>(), vec(partition, 0..4), tags(1)).prop_map(|(topic_id, partitions, tags)| {
        FetchableTopicResponse { topic_id, partitions, tags, ..Default::default() }
    });
    (any::<(i32, i16, i32)>(), vec(topic, 0..4), tags(1))
        .prop_map(|((throttle_time_ms, error_code, session_id), responses, tags)| fetch::FetchResponse {
            throttle_time_ms,
            error_code,
            session_id,
            responses,
            tags,
            ..Default::default()
        })
        .boxed()
}

fn any_share_fetch(_: i16) -> BoxedStrategy<share_fetch::ShareFetchResponse> {
    use share_fetch::{AcquiredRecords, LeaderIdAndEpoch, PartitionData, ShareFetchableTopicResponse};
    let acquired =
        (any::<(i64, i64, i16)>(), tags(1)).prop_map(|((first_offset, last_offset, delivery_count), tags)| {
            AcquiredRecords { first_offset, last_offset, delivery_count, tags }
        });
    let leader = (any::<(i32, i32)>(), tags(1)).prop_map(|((leader_id, leader_epoch), tags)| LeaderIdAndEpoch {
        leader_id,
        leader_epoch,
        tags,
    });
    let records = vec(any::<u8>(), 0..600).prop_map(Bytes::from);
    let partition = (any::<(i32, i16, i16)>(), text(), text(), leader, records, vec(acquired, 0..4), tags(1)).prop_map(
        |(numbers, error_message, acknowledge_error_message, current_leader, records, acquired_records, tags)| {
            PartitionData {
                partition_index: numbers.0,
                error_code: numbers.1,
                error_message,
                acknowledge_error_code: numbers.2,
                acknowledge_error_message,
                current_leader,
                records: Some(records),
                acquired_records,
                tags,
            }
        },
    );
    let topic = (any::<[u8; 16]>(), vec(partition, 0..4), tags(1))
        .prop_map(|(topic_id, partitions, tags)| ShareFetchableTopicResponse { topic_id, partitions, tags });
    (any::<(i32, i16, i32)>(), text(), vec(topic, 0..4), tags(1))
        .prop_map(|(numbers, error_message, responses, tags)| share_fetch::ShareFetchResponse {
            throttle_time_ms: numbers.0,
            error_code: numbers.1,
            acquisition_lock_timeout_ms: numbers.2,
            error_message,
            responses,
            tags,
            ..Default::default()
        })
        .boxed()
}

fn any_share_acknowledge(version: i16) -> BoxedStrategy<share_acknowledge::ShareAcknowledgeResponse> {
    use share_acknowledge::{LeaderIdAndEpoch, PartitionData, ShareAcknowledgeTopicResponse};
    let leader = (any::<(i32, i32)>(), tags(1)).prop_map(|((leader_id, leader_epoch), tags)| LeaderIdAndEpoch {
        leader_id,
        leader_epoch,
        tags,
    });
    let partition = (any::<(i32, i16)>(), text(), leader, tags(1)).prop_map(
        |((partition_index, error_code), error_message, current_leader, tags)| PartitionData {
            partition_index,
            error_code,
            error_message,
            current_leader,
            tags,
        },
    );
    let topic = (any::<[u8; 16]>(), vec(partition, 0..4), tags(1))
        .prop_map(|(topic_id, partitions, tags)| ShareAcknowledgeTopicResponse { topic_id, partitions, tags });
    (any::<(i32, i16, i32)>(), text(), vec(topic, 0..4), tags(1))
        .prop_map(move |(numbers, error_message, responses, tags)| share_acknowledge::ShareAcknowledgeResponse {
            throttle_time_ms: numbers.0,
            error_code: numbers.1,
            acquisition_lock_timeout_ms: if version >= 2 { numbers.2 } else { 0 },
            error_message,
            responses,
            tags,
            ..Default::default()
        })
        .boxed()
}
