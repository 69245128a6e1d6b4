//! A process that writes is killed with -9, again and again; nothing that it had been told is stored may be lost.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::*;

const FOLDER_VARIABLE: &str = "STREAMSIDE_CRASH_TEST_FOLDER";
const FIRST_VARIABLE: &str = "STREAMSIDE_CRASH_TEST_FIRST";
const ROUNDS: u64 = 25;
const GROUPS: u64 = 40;
const AT_ONCE: u64 = 8;

/// Change `n`: which group, and its description; `None`: the group is deleted.
fn change(n: u64) -> (String, Option<Bytes>) {
    let group = format!("group-{}", n % GROUPS);
    let size = (n * 7_919) % 6_000;
    let description = format!("change {n} {}", "KSTREAM-FILTER".repeat(size as usize / 14));
    (group, (!n.is_multiple_of(11)).then(|| Bytes::from(description)))
}

fn open(folder: &Path) -> DiskStore {
    let store = DiskStore::default();
    let folder = folder.to_str().unwrap().to_owned();
    let config = Config::from([(FOLDER.name.to_owned(), folder)]);
    store.configure(&config).unwrap();
    store
}

fn rt() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Not a test of its own: what the killed process does.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let first: u64 = std::env::var(FIRST_VARIABLE).unwrap().parse().unwrap();
    let (store, rt) = (open(Path::new(&folder)), rt());
    for from in (first..).step_by(AT_ONCE as usize) {
        let calls: Vec<_> = (from..from + AT_ONCE)
            .map(|n| {
                println!("begun {n}");
                let (group, description) = change(n);
                let call = match description {
                    Some(description) => store.set(&group, 0, description, Stamp::default()),
                    None => store.delete(&group, Stamp::default()),
                };
                (n, call)
            })
            .collect();
        for (n, call) in calls {
            rt.block_on(call).unwrap();
            println!("stored {n}");
        }
    }
}

#[test]
fn design_7_kill_9_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    // For each group: what is certain, and what may have come after it.
    let mut certain: BTreeMap<String, Option<Bytes>> = BTreeMap::new();
    let mut possible: BTreeMap<String, Vec<Option<Bytes>>> = BTreeMap::new();
    let (mut next, mut stored, mut unanswered) = (1, 0, 0);
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk::crash_test::child_that_writes_until_it_is_killed", "--nocapture"])
            .env(FOLDER_VARIABLE, folder.path())
            .env(FIRST_VARIABLE, next.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut kill_at = None;
        let mut begun = BTreeMap::new();
        // Lines that were written before the kill are read after it.
        for line in out.lines().map_while(Result::ok) {
            let mut words = line.split(' ');
            let (word, number) = (words.next().unwrap_or(""), words.next().and_then(|n| n.parse::<u64>().ok()));
            let Some(n) = number else { continue };
            match word {
                "begun" => {
                    begun.insert(n, ());
                    next = next.max(n + 1);
                }
                "stored" => {
                    begun.remove(&n);
                    stored += 1;
                    let (group, description) = change(n);
                    possible.remove(&group);
                    certain.insert(group, description);
                    kill_at.get_or_insert_with(|| Instant::now() + Duration::from_millis(5 + (round * 37) % 90));
                }
                _ => {}
            }
            if kill_at.is_some_and(|at| Instant::now() >= at) {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        unanswered += begun.len();
        for n in begun.into_keys() {
            let (group, description) = change(n);
            possible.entry(group).or_default().push(description);
        }

        let (store, rt) = (open(folder.path()), rt());
        let listed = rt.block_on(store.list().unwrap()).unwrap();
        for group in (0..GROUPS).map(|n| format!("group-{n}")) {
            let found = rt.block_on(store.get(&group, 0)).unwrap();
            let sure = certain.get(&group).cloned().flatten();
            let maybe = possible.get(&group).is_some_and(|all| all.contains(&found));
            assert!(found == sure || maybe, "round {round}, {group}: a change that was acknowledged is lost");
            assert_eq!(listed.iter().any(|(g, _)| *g == group), found.is_some(), "index and copy of {group}");
            // From here on this is what is certain.
            certain.insert(group.clone(), found);
            possible.remove(&group);
        }
    }
    println!("{ROUNDS} kills, {stored} changes acknowledged, {unanswered} under way when killed");
    assert!(stored > ROUNDS * AT_ONCE && unanswered > 0, "{stored} stored, {unanswered} unanswered");
}

const FULL_VARIABLE: &str = "STREAMSIDE_FULL_TEST_FOLDER";

/// Bytes that do not compress.
fn noise(seed: u64) -> Bytes {
    let mut state = seed + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..20_000).map(|_| next()).collect()
}

/// Not a test of its own: fills a disk that has little room.
#[test]
fn child_that_fills_the_disk() {
    let Some(folder) = std::env::var_os(FULL_VARIABLE) else { return };
    let (store, rt) = (open(Path::new(&folder)), rt());
    let set = |n: u64| rt.block_on(store.set(&format!("g{n}"), 0, noise(n), Stamp::default()));
    let refused = (0..2_000).find_map(|n| set(n).err().map(|e| (n, e)));
    let (n, failure) = refused.unwrap();
    assert_eq!(failure.kind(), "store_full", "{failure}");
    for again in n..n + 3 {
        assert_eq!(set(again).unwrap_err().kind(), "store_full");
    }
    // Reads go on, from the file.
    *store.running().as_ref().unwrap().shared.cache() = Cache::new(0);
    for n in 0..n {
        assert_eq!(rt.block_on(store.get(&format!("g{n}"), 0)).unwrap(), Some(noise(n)), "g{n} of the full disk");
    }
    assert!(rt.block_on(store.health().unwrap()).is_err());
    println!("refused {n} {failure}");
}

#[test]
fn a_file_that_may_not_grow_refuses_for_now_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "trap '' XFSZ; ulimit -f 2000; exec \"$0\" --exact disk::crash_test::child_that_fills_the_disk --nocapture";
    let out = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(FULL_VARIABLE, folder.path())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{shown}\n{}", String::from_utf8_lossy(&out.stderr));
    let line = shown.lines().find_map(|line| line.split_once("refused ")).unwrap().1;
    let (stored, text) = line.split_once(' ').unwrap();
    assert_eq!(text, "store_full: the disk store's file: File too large (os error 27)");
    let stored: u64 = stored.parse().unwrap();
    assert!((10..60).contains(&stored), "{stored} stored in about 1 MB");
    // With room again it goes on where it was.
    let (store, rt) = (open(folder.path()), rt());
    for n in 0..stored {
        assert_eq!(rt.block_on(store.get(&format!("g{n}"), 0)).unwrap(), Some(noise(n)));
    }
    rt.block_on(store.set("more", 0, noise(9), Stamp::default())).unwrap();
}
