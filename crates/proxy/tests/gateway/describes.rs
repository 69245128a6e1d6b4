//! Hosts of members in describe answers of other kinds of groups.

use streamside_wire::Message;
use streamside_wire::messages::consumer_group_describe::{self as consumer, ConsumerGroupDescribeResponse};
use streamside_wire::messages::describe_groups::{self as classic, DescribeGroupsRequest, DescribeGroupsResponse};
use streamside_wire::messages::share_group_describe::{self as share, ShareGroupDescribeResponse};

use crate::captures::{first, read};
use crate::stage::{OLD, Stage, answer, broker, peek, read_answer, request};

/// Asks `asked` of a broker that answers with these bytes, with a host known for member m of group g.
async fn through(asked: &[u8], answered: Vec<u8>) -> Vec<u8> {
    let mut stage = Stage::new(broker(OLD, move |_| Some(answered.clone())));
    stage.watcher.hosts.lock().unwrap().insert(("g".into(), "m".into()), "/192.0.2.1".into());
    stage.ask(asked).await
}

/// An ordinary request of an API whose request we need not know.
fn asked(api_key: i16, version: i16) -> Vec<u8> {
    let mut body = request(5, 9, &DescribeGroupsRequest::default());
    body[..2].copy_from_slice(&api_key.to_be_bytes());
    body[2..4].copy_from_slice(&version.to_be_bytes());
    body
}

/// What the client gets for `own`, read again.
async fn told<A: for<'a> Message<'a>>(version: i16, own: &A) -> A {
    let told = through(&asked(A::API_KEY, version), answer(version, 9, own)).await;
    read_answer::<A>(&told, version).1
}

#[tokio::test]
async fn hosts_of_members_that_speak_through_us_are_put_back_in_every_kind() {
    let host = |n: usize| if n == 0 { "/192.0.2.1" } else { "/10.0.0.9" };
    for version in 0..=6 {
        let own = DescribeGroupsResponse {
            groups: vec![classic::DescribedGroup {
                group_id: "g".into(),
                members: ["m", "n"]
                    .map(|id| classic::DescribedGroupMember {
                        member_id: id.into(),
                        client_host: "/10.0.0.9".into(),
                        member_metadata: (&b"\xff\x00raw"[..]).into(),
                        ..Default::default()
                    })
                    .to_vec(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let mut expected = own.clone();
        for (n, member) in expected.groups[0].members.iter_mut().enumerate() {
            member.client_host = host(n).into();
        }
        assert_eq!(told(version, &own).await, expected);
    }
    for version in 0..=1 {
        let own = ConsumerGroupDescribeResponse {
            groups: vec![consumer::DescribedGroup {
                group_id: "g".into(),
                members: ["m", "n"]
                    .map(|id| consumer::Member {
                        member_id: id.into(),
                        client_host: "/10.0.0.9".into(),
                        ..Default::default()
                    })
                    .to_vec(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let told = told(version, &own).await;
        let hosts: Vec<_> = told.groups[0].members.iter().map(|member| &*member.client_host).collect();
        assert_eq!(hosts, [host(0), host(1)]);
    }
    let own = ShareGroupDescribeResponse {
        groups: vec![share::DescribedGroup {
            group_id: "g".into(),
            members: vec![share::Member {
                member_id: "m".into(),
                client_host: "/10.0.0.9".into(),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(told(1, &own).await.groups[0].members[0].client_host, "/192.0.2.1");
}

#[tokio::test]
async fn where_no_host_is_known_or_nothing_can_be_read_the_bytes_stay() {
    let mut recorded = 0;
    for conversation in ["tools", "routing-classic-2x1"].into_iter().flat_map(read) {
        for exchange in conversation.exchanges {
            if let (15 | 69, Some(answered)) = (exchange.api_key(), exchange.answer.clone()) {
                assert_eq!(through(&exchange.request, answered.clone()).await, answered);
                recorded += 1;
            }
        }
    }
    assert!(recorded > 3, "{recorded} describes are recorded");
    let long = ConsumerGroupDescribeResponse {
        groups: vec![consumer::DescribedGroup { group_state: "S".repeat(1000), ..Default::default() }; 100],
        ..Default::default()
    };
    assert_eq!(told(1, &long).await, long);
    let garbage = [&[0, 0, 0, 9], &[0xff; 40][..]].concat();
    assert_eq!(through(&asked(69, 1), garbage.clone()).await, garbage);
}

/// Assignments and members of the three kinds have the same names and other fields.
#[tokio::test]
async fn k12_messages_with_like_named_structs_keep_their_bytes_side_by_side() {
    let assignment = consumer::Assignment {
        topic_partitions: vec![consumer::TopicPartitions {
            topic_id: [7; 16],
            topic_name: "t".into(),
            partitions: vec![1, 2],
            ..Default::default()
        }],
        ..Default::default()
    };
    let member = consumer::Member { member_id: "m".into(), assignment: assignment.clone(), ..Default::default() };
    let consumers = ConsumerGroupDescribeResponse {
        groups: vec![consumer::DescribedGroup { group_id: "g".into(), members: vec![member], ..Default::default() }],
        ..Default::default()
    };
    let member = share::Member { member_id: "m".into(), assignment, ..Default::default() };
    let shares = ShareGroupDescribeResponse {
        groups: vec![share::DescribedGroup { group_id: "g".into(), members: vec![member], ..Default::default() }],
        ..Default::default()
    };
    let with_host = |mut own: ConsumerGroupDescribeResponse| {
        own.groups[0].members[0].client_host = "/192.0.2.1".into();
        own
    };
    assert_eq!(told(1, &consumers).await, with_host(consumers.clone()));
    let mut with = shares.clone();
    with.groups[0].members[0].client_host = "/192.0.2.1".into();
    assert_eq!(told(1, &shares).await, with);

    let streams = first("tools", 89, 1);
    let answered = streams.answer.unwrap();
    let own = answered.clone();
    let mut stage = Stage::new(broker(crate::stage::NEW, move |request| {
        let mut answered = own.clone();
        answered[..4].copy_from_slice(&peek(request).2.to_be_bytes());
        Some(answered)
    }));
    assert_eq!(stage.ask(&streams.request).await, answered);
}
