//! The transition table of marks, printed and compared with the checked-in one (spec kip1331 §§4.3-4.4, H1-H4).
//! `STREAMSIDE_WRITE_SNAPSHOTS=1 cargo test` writes it anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fmt::Write;
use std::sync::Arc;

use streamside_coordinator::Compat;
use streamside_coordinator::description::Reason;
use streamside_coordinator::description::mark::{Bounds, Handed, Mark, MarkState, Refusal};
use streamside_topology::DescriptionHash;

/// The call that the mark speaks of; older and newer ones are around it.
const PRESENT: u64 = 10;

fn handed(sequence: u64) -> Handed {
    Handed { epoch: 0, hash: DescriptionHash([1; 32]), fingerprint: None, incarnation: 1, sequence }
}

fn refusal() -> Refusal {
    Refusal {
        epoch: 0,
        hash: DescriptionHash([2; 32]),
        fingerprint: None,
        incarnation: 1,
        plugin: Arc::from("disk"),
        bounds: Bounds { bytes: 1, nodes: 1, name_bytes: 1 },
        reason: Reason::PluginPermanent,
        message: None,
    }
}

/// A mark in each state that the rules can bring about.
fn states(compat: Compat) -> Vec<(&'static str, Mark)> {
    let base = |uncertain, served: bool, pending: bool, failed: bool| Mark {
        served: served.then(|| handed(if pending { PRESENT - 5 } else { PRESENT })),
        pending: pending.then(|| handed(PRESENT)),
        uncertain,
        failed: failed.then(refusal),
        sequence: PRESENT,
        ..Mark::default()
    };
    let mut states = vec![
        ("nothing", Mark::default()),
        ("refused", base(false, false, false, true)),
        ("uncertain", base(true, false, false, false)),
        ("uncertain, refused", base(true, false, false, true)),
        ("stored", base(false, true, false, false)),
        ("stored, refused", base(false, true, false, true)),
    ];
    if compat == Compat::Streamside {
        states.extend([
            ("uncertain, new copy", base(true, false, true, false)),
            ("uncertain, new copy, refused", base(true, false, true, true)),
            ("uncertain, old and new copy", base(true, true, true, false)),
            ("uncertain, old and new copy, refused", base(true, true, true, true)),
            ("uncertain, old copy", base(true, true, false, false)),
        ]);
    }
    states
}

fn name(mark: &Mark) -> String {
    let mut name = match (mark.uncertain, mark.served.is_some(), mark.pending.is_some()) {
        (false, false, _) => "nothing",
        (false, true, _) => "stored",
        (true, false, false) => "uncertain",
        (true, false, true) => "uncertain, new copy",
        (true, true, true) => "uncertain, old and new copy",
        (true, true, false) => "uncertain, old copy",
    }
    .to_owned();
    if mark.failed.is_some() {
        name.push_str(", refused");
    }
    name.replace("nothing, refused", "refused")
}

type Event = (&'static str, fn(Compat, &Mark) -> Mark);

const EVENTS: [Event; 12] = [
    ("set begun", |compat, mark| mark.set_begun(compat, handed(PRESENT + 1), &Arc::from("disk"), 0)),
    ("set taken, the newest call", |compat, mark| mark.set_succeeded(compat, handed(PRESENT))),
    ("set taken, an older call", |compat, mark| mark.set_succeeded(compat, handed(PRESENT - 1))),
    ("set taken, a delete came after it", |compat, mark| {
        let mark = Mark { cleared: PRESENT, ..mark.clone() };
        mark.set_succeeded(compat, handed(PRESENT - 1))
    }),
    ("set refused for good", |_, mark| mark.refused(refusal())),
    ("set not made", |compat, mark| {
        let begun = mark.set_begun(compat, handed(PRESENT + 1), &Arc::from("disk"), 0);
        begun.withdrawn(PRESENT + 1, mark)
    }),
    ("delete begun", |_, mark| mark.delete_begun(PRESENT + 1, 0)),
    ("deleted, the newest call", |compat, mark| mark.delete_succeeded(compat, PRESENT)),
    ("deleted, an older call", |compat, mark| mark.delete_succeeded(compat, PRESENT - 1)),
    ("delete not made", |_, mark| mark.delete_begun(PRESENT + 1, 0).withdrawn(PRESENT + 1, mark)),
    ("copy lost", |_, mark| mark.lost()),
    ("retry", |_, mark| mark.retried()),
];

/// Events that cannot meet a mark in this state: losses are of certain copies, and of ours alone.
fn possible(compat: Compat, event: &str, mark: &Mark) -> bool {
    match event {
        "copy lost" => compat == Compat::Streamside && !mark.uncertain && mark.served.is_some(),
        "set not made" | "delete not made" => compat == Compat::Streamside,
        _ => true,
    }
}

fn table() -> String {
    let mut text = String::from("What a mark becomes. S is -1 for nothing, -2 for uncertain, the epoch for stored.\n");
    for compat in [Compat::Kafka, Compat::Streamside] {
        writeln!(text, "\n{compat:?}").unwrap();
        for (state, mark) in states(compat) {
            writeln!(text, "  {state}").unwrap();
            for (event, act) in EVENTS.iter().filter(|(event, _)| possible(compat, event, &mark)) {
                let next = act(compat, &mark);
                let becomes = if name(&next) == name(&mark) { "=".to_owned() } else { name(&next) };
                writeln!(text, "    {event:<36} {becomes}").unwrap();
            }
        }
    }
    text
}

#[test]
fn k4_4_transitions_are_those_of_the_snapshot() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/marks.txt");
    let table = table();
    if std::env::var_os("STREAMSIDE_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(table, kept, "the table changed; see {path}");
}

#[test]
fn states_cover_every_kind() {
    let kinds: std::collections::HashSet<MarkState> =
        states(Compat::Streamside).iter().map(|(_, mark)| mark.state()).collect();
    assert_eq!(kinds.len(), 8);
    assert!(states(Compat::Streamside).iter().all(|(state, mark)| name(mark) == *state));
}
