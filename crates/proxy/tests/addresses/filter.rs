//! Answers that are changed in place while they stream by.

use std::collections::BTreeSet;

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use streamside_proxy::addresses::EndpointFilter;
use streamside_proxy::handler::Filter;
use streamside_wire::header::ResponseHeader;
use streamside_wire::messages::fetch::FetchResponse;
use streamside_wire::messages::produce::ProduceResponse;
use streamside_wire::messages::share_acknowledge::ShareAcknowledgeResponse;
use streamside_wire::messages::share_fetch::ShareFetchResponse;
use streamside_wire::{Message, Reader, Tags};

use super::answers::Leaders;
use super::support::{body, read, vectors};

/// What comes out when the bytes come in chunks of these sizes, over and over.
fn pass(api_key: i16, version: i16, bytes: &[u8], sizes: &[usize]) -> Result<BytesMut, String> {
    let mut filter = EndpointFilter::new(api_key, version).unwrap();
    filter.begin(bytes.len());
    let mut out = BytesMut::from(bytes);
    let (mut at, mut sizes) = (0, sizes.iter().cycle());
    while at < out.len() {
        let size = (*sizes.next().unwrap()).clamp(1, out.len() - at);
        filter.pass(&mut out[at..at + size])?;
        at += size;
    }
    Ok(out)
}

/// The leaders are gone, everything else is as it was, and the length too.
fn only_leaders_are_gone<M: Leaders>(version: i16, upstream: &M, sizes: &[usize]) {
    let before = body(upstream, version);
    let after = pass(M::KEY, version, &before, sizes).unwrap();
    if upstream.leaders() == 0 {
        assert_eq!(after, before);
        return;
    }
    assert_eq!(after.len(), before.len());
    let mut rewritten: M = read(&after, version);
    assert_eq!(rewritten.leaders(), 0);
    let padding = rewritten.strip();
    assert!(padding.iter().all(|(tag, bytes)| tag >= 28 && *bytes == vec![0; bytes.len()]), "{padding:?}");
    assert!(padding.iter().map(|(tag, _)| tag).is_sorted_by(|a, b| a < b));
    let mut expected = upstream.clone();
    expected.strip();
    assert_eq!(rewritten, expected);
}

fn any_leaders() -> impl Strategy<Value = Vec<(i32, String, i32, Option<String>)>> {
    vec((any::<i32>(), "[a-z.]{0,200}", any::<i32>(), proptest::option::of("[a-z]{0,9}")), 0..5)
}

fn leaders_go_from<M: Leaders + 'static>() {
    let answers = M::WITH.prop_flat_map(|version| (Just(version), M::any(version)));
    let sizes = prop_oneof![vec(1usize..40, 1..20), Just(vec![1]), Just(vec![usize::MAX])];
    let config = Config { cases: 300, failure_persistence: None, ..Default::default() };
    TestRunner::new(config)
        .run(&(answers, any_leaders(), sizes), |((version, mut answer), leaders, sizes)| {
            for (node_id, host, port, rack) in leaders {
                answer.push(node_id, &host, port, rack.as_deref());
            }
            only_leaders_are_gone(version, &answer, &sizes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn k16_leaders_go_from_produce_answers() {
    leaders_go_from::<ProduceResponse>();
}

#[test]
fn k16_leaders_go_from_fetch_answers() {
    leaders_go_from::<FetchResponse>();
}

#[test]
fn k16_leaders_go_from_share_fetch_answers() {
    leaders_go_from::<ShareFetchResponse>();
}

#[test]
fn k16_leaders_go_from_share_acknowledge_answers() {
    leaders_go_from::<ShareAcknowledgeResponse>();
}

/// Where the length of the padding, or of the host, grows by a byte.
fn grows(host: &usize) -> bool {
    [100..140, 16_350..16_400].iter().any(|range| range.contains(host))
}

/// Sizes of a list with hosts of these lengths; a rack fills the places that a growing length leaves out.
fn sizes_fit<M: Leaders + Default>(hosts: impl Iterator<Item = usize>) -> BTreeSet<usize> {
    let version = *M::WITH.end();
    let empty = body(&M::default(), version).len();
    let mut sizes = BTreeSet::new();
    for host in hosts {
        for rack in [None, Some("x")].into_iter().take(if grows(&host) { 2 } else { 1 }) {
            let mut answer = M::default();
            answer.push(1, &"h".repeat(host), 9092, rack);
            sizes.insert(body(&answer, version).len() - empty);
            only_leaders_are_gone(version, &answer, &[4096]);
        }
    }
    sizes
}

#[test]
fn every_size_of_a_list_fits() {
    for (sizes, left_out) in [
        // A list in an array: none. In a tag: its own length grows too, by a byte that nothing fills.
        (sizes_fit::<ShareFetchResponse>(0..20_020), 0),
        (sizes_fit::<FetchResponse>(0..20_020), 2),
    ] {
        let (first, last) = (*sizes.first().unwrap(), *sizes.last().unwrap());
        assert!(first < 20 && last > 20_000, "{first} to {last}");
        assert_eq!(last - first + 1 - sizes.len(), left_out);
    }
    sizes_fit::<ShareAcknowledgeResponse>((0..20_020).filter(grows));
    sizes_fit::<ProduceResponse>((0..20_020).filter(grows));
}

fn with_tags<M: Leaders>(upstream: &M, tags: &[(u32, usize)]) -> BytesMut {
    let mut bytes = body(upstream, *M::WITH.end());
    // The last byte is the empty tag section.
    bytes.truncate(bytes.len() - 1);
    let mut section = Tags::default();
    tags.iter().for_each(|(tag, size)| section.push(*tag, &vec![b'u'; *size]));
    bytes.extend_from_slice(&[tags.len() as u8]);
    for (tag, value) in section.iter() {
        bytes.extend_from_slice(&[tag as u8, value.len() as u8]);
        bytes.extend_from_slice(value);
    }
    bytes
}

#[test]
fn tags_behind_the_leaders_go_with_them_and_stay_without() {
    // By hand, since here tag 0 need not be an address list.
    let answer = FetchResponse::default();
    for count in 1..=100u8 {
        let mut tags: Vec<_> = (0..count).map(|tag| (u32::from(tag), usize::from(tag % 3))).collect();
        let before = with_tags(&answer, &tags);
        let after = pass(1, 18, &before, &[1]).unwrap();
        let read: FetchResponse = read(&after, 18);
        assert_eq!(read.tags.iter().count(), usize::from(count));
        assert!(read.tags.iter().map(|(tag, _)| tag).is_sorted_by(|a, b| a < b));
        assert_eq!(read.tags.iter().last().unwrap().0, 127);
        tags.remove(0);
        let before = with_tags(&answer, &tags);
        assert_eq!(pass(1, 18, &before, &[1]).unwrap(), before);
    }
}

#[test]
fn an_address_list_out_of_its_place_ends_the_connection() {
    let answer = FetchResponse::default();
    for tags in [&[(5, 1), (0, 4)][..], &[(5, 1), (5, 1)], &[(9, 0), (8, 0)]] {
        assert!(pass(1, 18, &with_tags(&answer, tags), &[1]).is_err(), "{tags:?}");
    }
    // Zero in two bytes, which Java would read as zero.
    let mut long = with_tags(&answer, &[]);
    long.truncate(long.len() - 1);
    long.extend_from_slice(&[1, 0x80, 0, 1, 1]);
    assert_eq!(leaders_read(1, 18, &long), Some(0));
    assert!(pass(1, 18, &long, &[1]).is_err());
    // A filter that was not told the length passes no address.
    let mut named = answer;
    named.push(1, "b.upstream.test", 9092, None);
    let mut bytes = body(&named, 18);
    assert!(EndpointFilter::new(1, 18).unwrap().pass(&mut bytes).is_err());
}

#[test]
fn what_stands_behind_a_body_does_not_pass() {
    let before = body(&FetchResponse::default(), 18);
    let mut longer = before.clone();
    longer.extend_from_slice(b"b.upstream.test");
    let after = pass(1, 18, &longer, &[3]).unwrap();
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after[before.len()..], [0; 15]);
}

#[derive(Debug, Clone)]
enum Mutation {
    Set(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Remove(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => (any::<Index>(), prop_oneof![any::<u8>(), 0u8..4]).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        1 => any::<Index>().prop_map(Mutation::Cut),
        2 => (any::<Index>(), vec(any::<u8>(), 1..6)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        2 => any::<Index>().prop_map(Mutation::Remove),
    ]
}

fn mutate(body: &mut Vec<u8>, mutation: Mutation) {
    let length = body.len().max(1);
    match mutation {
        Mutation::Set(at, byte) => {
            if let Some(place) = body.get_mut(at.index(length)) {
                *place = byte;
            }
        }
        Mutation::Cut(at) => body.truncate(at.index(length)),
        Mutation::Insert(at, bytes) => {
            let at = at.index(length).min(body.len());
            body.splice(at..at, bytes);
        }
        Mutation::Remove(at) => {
            if at.index(length) < body.len() {
                body.remove(at.index(length));
            }
        }
    }
}

/// Leaders that a client would read from these bytes.
fn leaders_read(api_key: i16, version: i16, bytes: &[u8]) -> Option<usize> {
    fn count<M: Leaders>(version: i16, bytes: &[u8]) -> Option<usize> {
        let mut r = Reader::new(bytes);
        ResponseHeader::decode(&mut r, <M as Message<'static>>::API_KEY, version).ok()?;
        M::decode(&mut r, version).ok().map(|answer| answer.leaders())
    }
    match api_key {
        0 => count::<ProduceResponse>(version, bytes),
        1 => count::<FetchResponse>(version, bytes),
        78 => count::<ShareFetchResponse>(version, bytes),
        _ => count::<ShareAcknowledgeResponse>(version, bytes),
    }
}

#[test]
fn mutated_answers_never_panic_never_grow_and_never_name_a_leader() {
    let mut vectors = vectors();
    vectors.retain(|vector| EndpointFilter::new(vector.api_key, vector.version).is_some());
    assert!(vectors.len() > 50);
    let config = Config { cases: 4000, failure_persistence: None, ..Default::default() };
    let (named, passed, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0), std::cell::Cell::new(0));
    let add = |counter: &std::cell::Cell<u32>| counter.set(counter.get() + 1);
    TestRunner::new(config)
        .run(&(any::<Index>(), vec(mutation(), 0..4), vec(1usize..60, 1..9)), |(which, mutations, sizes)| {
            let vector = which.get(&vectors);
            let (key, version) = (vector.api_key, vector.version);
            let mut bytes = vector.body.clone();
            mutations.into_iter().for_each(|mutation| mutate(&mut bytes, mutation));
            if leaders_read(key, version, &bytes).is_some_and(|leaders| leaders > 0) {
                add(&named);
            }
            let whole = pass(key, version, &bytes, &[usize::MAX]);
            prop_assert_eq!(&pass(key, version, &bytes, &sizes), &whole);
            let Ok(out) = whole else {
                add(&refused);
                return Ok(());
            };
            add(&passed);
            prop_assert_eq!(out.len(), bytes.len());
            prop_assert_eq!(leaders_read(key, version, &out).unwrap_or(0), 0);
            // Without leaders nothing changes that a client reads.
            if leaders_read(key, version, &bytes) == Some(0) {
                prop_assert_eq!(leaders_read(key, version, &out), Some(0));
            }
            Ok(())
        })
        .unwrap();
    let counts = (named.get(), passed.get(), refused.get());
    assert!(counts.0 > 500 && counts.1 > 500 && counts.2 > 100, "{counts:?}");
}

proptest! {
    #![proptest_config(Config { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_are_safe(bytes in vec(prop_oneof![0u8..6, Just(0u8), any::<u8>()], 0..300), sizes in vec(1usize..20, 1..5)) {
        for (key, version) in [(0, 10), (0, 13), (1, 16), (78, 1), (79, 1), (79, 2)] {
            if let Ok(out) = pass(key, version, &bytes, &sizes) {
                prop_assert_eq!(out.len(), bytes.len());
                prop_assert_eq!(leaders_read(key, version, &out).unwrap_or(0), 0);
            }
        }
    }
}

#[test]
fn answers_without_addresses_need_no_filter() {
    for (key, version) in [(0, 9), (0, 14), (1, 15), (1, 19), (78, 0), (78, 3), (79, 0), (79, 3), (2, 5), (18, 4)] {
        assert!(EndpointFilter::new(key, version).is_none(), "{key} v{version}");
    }
}
