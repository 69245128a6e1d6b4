//! Keys and values of the journal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use streamside_coordinator::Durable;
use streamside_coordinator::description::Reason;
use streamside_coordinator::description::mark::{Bounds, Handed, Mark, Refusal};
use streamside_coordinator::group::{
    CurrentAssignment, GroupMetadata, GroupSettings, MemberMetadata, TargetMetadata, Tasks,
};
use streamside_coordinator::record::RecordError;
use streamside_coordinator::watched::{KeptFacts, Kin};
use streamside_topology::{DescriptionHash, Fingerprint};

fn mark() -> Mark {
    let handed = |sequence| Handed {
        epoch: 3,
        hash: DescriptionHash([0xab; 32]),
        fingerprint: Some(Fingerprint([0xcd; 16])),
        incarnation: u64::MAX,
        sequence,
    };
    Mark {
        served: Some(handed(7)),
        pending: Some(handed(9)),
        uncertain: true,
        failed: Some(Refusal {
            epoch: 3,
            hash: DescriptionHash([1; 32]),
            fingerprint: None,
            incarnation: 1,
            plugin: Arc::from("disk"),
            bounds: Bounds { bytes: 1, nodes: 2, name_bytes: 3 },
            reason: Reason::TooLarge,
            message: Some("no".to_owned()),
        }),
        plugin: Arc::from("disk"),
        sequence: 9,
        cleared: 2,
        last_seen: 1_700_000_000_000,
    }
}

fn all() -> Vec<Durable> {
    let (group, member): (Arc<str>, Arc<str>) = (Arc::from("g"), Arc::from("m"));
    let id = || (Arc::clone(&group), Arc::clone(&member));
    vec![
        Durable::Group { group: id().0, value: Some(GroupMetadata::default()) },
        Durable::Member { group: id().0, member: id().1, value: Some(MemberMetadata::default()) },
        Durable::TargetMetadata { group: id().0, value: Some(TargetMetadata::default()) },
        Durable::TargetMember { group: id().0, member: id().1, value: Some(Tasks::default()) },
        Durable::CurrentAssignment { group: id().0, member: id().1, value: Some(CurrentAssignment::default()) },
        Durable::Mark { group: id().0, value: Some(Box::new(mark())) },
        Durable::Watched {
            group: id().0,
            value: Some(KeptFacts {
                incarnation: 7,
                group_epoch: 12,
                topology_epoch: Some(0),
                fingerprint: Some(Fingerprint([0xcd; 16])),
                seen_at: 1_700_000_000_000,
                owed: true,
                kin: Kin::default(),
            }),
        },
        Durable::Settings {
            group: id().0,
            value: Some(Arc::new(GroupSettings::from(BTreeMap::from([(
                "streams.num.standby.replicas".to_owned(),
                "1".to_owned(),
            )])))),
        },
    ]
}

#[test]
fn every_kind_comes_back() {
    for durable in all() {
        let read = Durable::decode(&durable.key(), &durable.value().unwrap()).unwrap();
        assert_eq!(read, durable);
        assert_eq!(&**durable.group(), "g");
    }
}

#[test]
fn keys_hold_kind_length_group_and_member() {
    let key = Durable::Mark { group: Arc::from("gr"), value: None }.key();
    assert_eq!(key, b"\x04\x00\x00\x00\x00\x02gr");
    let of = |group: &str, member: &str| {
        Durable::TargetMember { group: Arc::from(group), member: Arc::from(member), value: None }.key()
    };
    assert_eq!(of("g", "m"), b"\x00\x15\x00\x00\x00\x01gm");
    assert_ne!(of("ab", "c"), of("a", "bc"), "the length keeps ids apart");
}

#[test]
fn a_tombstone_has_no_value() {
    assert_eq!(Durable::Mark { group: Arc::from("g"), value: None }.value(), None);
    let key = Durable::Mark { group: Arc::from("g"), value: None }.key();
    assert!(matches!(Durable::decode(&key, b""), Err(RecordError::Empty(1024))));
}

#[test]
fn what_a_newer_release_wrote_is_refused_in_words() {
    let durable = Durable::Mark { group: Arc::from("g"), value: Some(Box::new(mark())) };
    let mut value = durable.value().unwrap();
    value[0] = 1;
    let error = Durable::decode(&durable.key(), &value).unwrap_err();
    assert_eq!(error.to_string(), "journal value of kind 1024 has version 1, this release reads up to 0");
    let mut key = durable.key();
    key[0] = 0x7f;
    let error = Durable::decode(&key, &value).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), ("kind", "journal entry of unknown kind 32512"));
}

#[test]
fn torn_entries_are_refused() {
    for durable in all() {
        let (key, value) = (durable.key(), durable.value().unwrap());
        for cut in 0..key.len().min(6) {
            assert!(Durable::decode(&key[..cut], &value).is_err());
        }
        for cut in 0..value.len() {
            assert!(Durable::decode(&key, &value[..cut]).is_err(), "{durable:?} cut at {cut}");
        }
    }
    let mut key = Durable::Mark { group: Arc::from("g"), value: None }.key();
    key.extend_from_slice(b"member");
    assert!(Durable::decode(&key, b"\x00").is_err(), "a mark has no member");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(key in proptest::collection::vec(any::<u8>(), 0..64),
                                     value in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = Durable::decode(&key, &value);
    }

    #[test]
    fn any_value_of_a_known_kind_is_read_or_refused(
        which in 0_usize..8,
        value in proptest::collection::vec(any::<u8>(), 0..256),
    ) {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&value);
        let _ = Durable::decode(&all()[which].key(), &bytes);
    }
}
