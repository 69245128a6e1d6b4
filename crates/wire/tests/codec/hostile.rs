//! Any bytes: no panic, no heap beyond a small multiple of the input, and Java's leniency and strictness.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use streamside_wire::messages::delete_groups::DeleteGroupsRequest;
use streamside_wire::messages::describe_cluster::DescribeClusterRequest;
use streamside_wire::messages::metadata::MetadataRequest;
use streamside_wire::messages::streams_group_heartbeat::{Endpoint, StreamsGroupHeartbeatRequest};
use streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest;
use streamside_wire::reader::{HEAP_BASE, HEAP_PER_BYTE};
use streamside_wire::{DecodeError, Malformed, Message, Reader};

use super::allocations::measure;
use super::every_message::{ALL, Codec, find};
use super::vectors::{self, Vector};

/// What decoding may hold at once by its own count, and twice that while a list moves to a larger place.
fn allowed(input: usize) -> usize {
    2 * (input * HEAP_PER_BYTE + HEAP_BASE)
}

fn probe(codec: &dyn Codec, bytes: &[u8], version: i16) -> Result<(), DecodeError> {
    let (result, _, peak) = measure(|| codec.probe(bytes, version, None));
    assert!(peak <= allowed(bytes.len()), "{} v{version}: {peak} bytes of heap for {bytes:02x?}", codec.name());
    result
}

/// Vectors small enough to be taken apart byte by byte.
fn small() -> Vec<(Vector, Vec<u8>)> {
    let all = vectors::all().into_iter().map(|vector| {
        let body = vector.frame[vectors::body_start(&vector)..].to_vec();
        (vector, body)
    });
    all.filter(|(_, body)| body.len() <= 1500).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_are_safe_in_every_message_and_version(bytes in vec(any::<u8>(), 0..400)) {
        for codec in ALL {
            for version in codec.versions() {
                let _ = probe(*codec, &bytes, version);
            }
        }
    }

    /// Small bytes are lengths that fit, so that reading gets far.
    #[test]
    fn bytes_that_look_like_lengths_are_safe(bytes in vec(prop_oneof![0u8..6, Just(0u8), Just(1u8), any::<u8>()], 0..400)) {
        for codec in ALL {
            for version in codec.versions() {
                let _ = probe(*codec, &bytes, version);
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Mutation {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index),
    Cut(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let lengths = prop_oneof![
        Just(vec![0xff; 4]),
        Just(vec![0x7f, 0xff, 0xff, 0xff]),
        Just(vec![0xff, 0xff, 0xff, 0xff, 0x07]),
        Just(vec![0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        vec(any::<u8>(), 1..5),
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<Index>(), lengths).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        any::<Index>().prop_map(Mutation::Remove),
        any::<Index>().prop_map(Mutation::Cut),
    ]
}

fn mutate(body: &mut Vec<u8>, mutation: &Mutation) {
    let length = body.len() + 1;
    match mutation {
        Mutation::Set(at, byte) => {
            let at = at.index(length);
            if let Some(place) = body.get_mut(at) {
                *place = *byte;
            }
        }
        Mutation::Insert(at, bytes) => {
            let at = at.index(length);
            body.splice(at..at, bytes.iter().copied());
        }
        Mutation::Remove(at) => {
            let at = at.index(length);
            if at < body.len() {
                body.remove(at);
            }
        }
        Mutation::Cut(at) => body.truncate(at.index(length)),
    }
}

#[test]
fn mutated_vectors_are_safe_and_what_is_read_can_be_written() {
    let vectors = small();
    let config = ProptestConfig { cases: 6000, failure_persistence: None, ..Default::default() };
    let (mut read, mut refused) = (0, 0);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let counts = std::cell::RefCell::new((&mut read, &mut refused));
    runner
        .run(&(any::<Index>(), vec(mutation(), 1..4)), |(which, mutations)| {
            let (vector, body) = which.get(&vectors);
            let codec = find(vector.api_key, vector.is_request);
            let mut body = body.clone();
            mutations.iter().for_each(|mutation| mutate(&mut body, mutation));
            let mut counts = counts.borrow_mut();
            if probe(codec, &body, vector.version).is_err() {
                *counts.1 += 1;
                return Ok(());
            }
            *counts.0 += 1;
            let decoded = codec.decode(&body, vector.version, None).unwrap();
            // Tags may have come twice or out of order, and mended text may be too long: such a message has no bytes.
            if let Ok(bytes) = decoded.encoded {
                let again = codec.decode(&bytes, vector.version, Some(usize::MAX)).unwrap();
                prop_assert_eq!(again.tree, decoded.tree);
                prop_assert_eq!(again.encoded.unwrap(), bytes);
            }
            Ok(())
        })
        .unwrap();
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

#[test]
fn settled_u7_every_shortened_body_is_refused() {
    for (vector, body) in small() {
        let codec = find(vector.api_key, vector.is_request);
        for length in 0..body.len() {
            assert!(probe(codec, &body[..length], vector.version).is_err(), "{} cut to {length}", vector.name);
        }
    }
}

#[test]
fn settled_u7_bytes_after_the_body_are_left_alone() {
    for (vector, body) in small() {
        let codec = find(vector.api_key, vector.is_request);
        let longer = [&body[..], b"junk"].concat();
        assert_eq!(codec.decode(&longer, vector.version, None).unwrap().left, 4, "{}", vector.name);
    }
}

#[test]
fn eight_gigabytes_promised_in_forty_bytes_cost_nothing() {
    let promises: [&[u8]; 5] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x3f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0x80, 0x80, 0x80, 0x80, 0x04],
        &[0x28, 0x28, 0x28, 0x28],
    ];
    for codec in ALL {
        for version in codec.versions() {
            let body = codec.encode_default(version).unwrap();
            for at in 0..=body.len().min(40) {
                for promise in promises {
                    let mut bytes = body[..at].to_vec();
                    bytes.extend_from_slice(promise);
                    bytes.resize(bytes.len().max(40), 0);
                    let (_, _, peak) = measure(|| codec.probe(&bytes, version, None));
                    assert!(peak < 8192, "{} v{version} at {at}: {peak}", codec.name());
                }
            }
        }
    }
}

#[test]
fn honest_messages_fit_the_heap_that_is_allowed_at_first() {
    // Empty strings are what takes most heap for its bytes.
    let mut body = vec![0x81, 0x80, 0x04];
    body.resize(body.len() + 65536 + 1, 1);
    *body.last_mut().unwrap() = 0;
    let request = DeleteGroupsRequest::decode(&mut Reader::new(&body), 3).unwrap();
    assert_eq!(request.groups_names.len(), 65536);
    let error = DeleteGroupsRequest::decode(&mut Reader::with_heap_limit(&body, 1_000_000), 3).unwrap_err();
    assert_eq!((error.reason, error.field), (Malformed::TooMuchMemory, "groups_names"));
    assert_eq!(error.to_string(), "message needs more memory than allowed at `groups_names`");
}

#[test]
fn settled_u7_what_closes_a_connection() {
    let refused = |bytes: &[u8], version| DeleteGroupsRequest::decode(&mut Reader::new(bytes), version).unwrap_err();
    for (bytes, version, kind) in [
        (&b""[..], 3, "truncated"),
        (&[0], 3, "null"),
        (&[0xff, 0xff, 0xff, 0xff], 0, "null"),
        (&[0x80, 0, 0, 0], 0, "null"),
        (&[2, 0, 0], 3, "null"),
        (&[0, 0, 0, 1, 0xff, 0xff], 0, "null"),
        (&[3, 1], 3, "too_many_elements"),
        (&[1, 0x80, 0x80, 0x80, 0x80, 8], 3, "too_many_elements"),
        (&[0x80, 0x80, 0x80, 0x80, 0x80, 0], 3, "varint_too_long"),
        (&[2, 0x81, 0x80, 0x02], 3, "string_too_long"),
        (&[2, 0x80, 0x80, 0x02], 3, "truncated"),
        (&[2, 1, 1, 5], 3, "truncated"),
    ] {
        let error = refused(bytes, version);
        assert_eq!(error.kind(), kind, "{bytes:02x?}: {error}");
    }
    assert_eq!(refused(&[2, 0, 0], 3).field, "groups_names");
    assert_eq!(refused(&[1, 2, 5], 3).field, "tags");
}

#[test]
fn counts_above_kafkas_own_maxima_are_refused() {
    let names = |count: usize| [&(count as i32).to_be_bytes()[..], &vec![0; 2 * count]].concat();
    assert!(DeleteGroupsRequest::decode(&mut Reader::new(&names(1_000_000)), 0).is_ok());
    let error = DeleteGroupsRequest::decode(&mut Reader::new(&names(1_000_001)), 0).unwrap_err();
    assert_eq!((error.reason, error.field), (Malformed::OverMaximum(1_000_001), "groups_names"));

    let tags = |low: u8| [&[1, low, 0xce, 0][..], &[7, 0].repeat(10_001)].concat();
    assert!(DeleteGroupsRequest::decode(&mut Reader::new(&tags(0x90)), 3).is_ok());
    let error = DeleteGroupsRequest::decode(&mut Reader::new(&tags(0x91)), 3).unwrap_err();
    assert_eq!((error.reason, error.field), (Malformed::OverMaximum(10_001), "tags"));
}

#[test]
fn settled_u7_lenient_where_java_is() {
    // Any byte but zero is true.
    let request = DescribeClusterRequest::decode(&mut Reader::new(&[0x80, 0]), 0).unwrap();
    assert!(request.include_cluster_authorized_operations);

    // Any negative length is null where null is allowed.
    let request = MetadataRequest::decode(&mut Reader::new(&[0x80, 0, 0, 0]), 1).unwrap();
    assert_eq!(request.topics, None);
    let bytes = [0x81, 0x80, 0x80, 0x80, 0x08, 1, 0, 0];
    let request = MetadataRequest::decode(&mut Reader::new(&bytes), 11).unwrap();
    assert_eq!(request.topics, None);
    let bytes = [0x80, 0x80, 0x80, 0x80, 0x08, 1, 0, 0];
    let error = MetadataRequest::decode(&mut Reader::new(&bytes), 11).unwrap_err();
    assert_eq!(error.kind(), "too_many_elements");

    // Bits of a length beyond the 32nd are lost.
    let request = DeleteGroupsRequest::decode(&mut Reader::new(&[0x81, 0x80, 0x80, 0x80, 0x70, 0]), 3).unwrap();
    assert_eq!(request.groups_names.len(), 0);

    // Unknown tags are kept, with their order.
    let request = DeleteGroupsRequest::decode(&mut Reader::new(&[1, 2, 9, 1, b'x', 3, 0]), 3).unwrap();
    assert_eq!(request.tags.iter().collect::<Vec<_>>(), [(9, &b"x"[..]), (3, &b""[..])]);

    // Text that is none is mended.
    let request = DeleteGroupsRequest::decode(&mut Reader::new(&[2, 4, b'a', 0xed, 0xa0, 0, 0]), 3).unwrap();
    assert_eq!(request.groups_names, ["a\u{fffd}"]);
}

#[test]
fn settled_1_1_the_marker_of_a_struct_that_may_be_null() {
    let ends = find(88, true).encode_default(1).unwrap();
    // Before the marker: two empty names, two numbers, two nulls, a number, topology, three lists, process id.
    let marker = 1 + 1 + 4 + 4 + 1 + 1 + 4 + 1 + 3 + 1;
    for (byte, present) in [(0xff, false), (0x80, false), (0xfe, false), (0, true), (1, true), (0x7f, true)] {
        let mut bytes = ends[..marker].to_vec();
        bytes.push(byte);
        if present {
            bytes.extend_from_slice(&[2, b'h', 0xff, 0xfe, 0]);
        }
        bytes.extend_from_slice(&ends[marker + 1..]);
        let request = StreamsGroupHeartbeatRequest::decode(&mut Reader::new(&bytes), 1).unwrap();
        let endpoint = Endpoint { host: "h".into(), port: 65534, ..Default::default() };
        assert_eq!(request.user_endpoint, present.then_some(endpoint), "{byte:#x}");
    }
}

#[test]
fn kip1331_1_1_a_description_that_must_be_there_has_no_marker() {
    let bytes = [2, b'g', 2, b'm', 0, 0, 0, 0, 1, 1, 0, 0];
    let request = StreamsGroupTopologyDescriptionUpdateRequest::decode(&mut Reader::new(&bytes), 0).unwrap();
    assert_eq!((request.group_id.as_str(), request.topology_description.subtopologies.len()), ("g", 0));
}
