use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use tokio::runtime::Runtime;

use super::faults::{EIO, ENOSPC, EROFS, Faults, FaultyOpener};
use super::*;

const DAY: i64 = 86_400_000;

fn rt() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn config(folder: &Path, more: &[(&str, &str)]) -> Config {
    let mut config = Config::from([("streamside.data.dir".to_owned(), folder.to_str().unwrap().to_owned())]);
    config.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    config
}

struct Bench {
    rt: Runtime,
    store: DiskStore,
    faults: Arc<Faults>,
}

impl Bench {
    fn new(folder: &Path, more: &[(&str, &str)]) -> Bench {
        let faults = Faults::none();
        let store = DiskStore::default();
        store.start(&config(folder, more), Box::new(FaultyOpener(faults.clone()))).unwrap();
        Bench { rt: rt(), store, faults }
    }
    fn set(&self, group: &str, epoch: i32, description: &[u8], at: i64) -> Result<(), Failure> {
        let stamp = Stamp { sequence: 0, at };
        self.rt.block_on(self.store.set(group, epoch, Bytes::copy_from_slice(description), stamp))
    }
    fn get(&self, group: &str, epoch: i32) -> Result<Option<Bytes>, Failure> {
        self.rt.block_on(self.store.get(group, epoch))
    }
    fn delete(&self, group: &str) -> Result<(), Failure> {
        self.rt.block_on(self.store.delete(group, Stamp::default()))
    }
    fn history(&self, group: &str) -> Vec<Version> {
        self.rt.block_on(self.store.history(group, 1_000).unwrap()).unwrap()
    }
    fn list(&self) -> Vec<(String, i32)> {
        self.rt.block_on(self.store.list().unwrap()).unwrap()
    }
    fn health(&self) -> Result<(), Failure> {
        self.rt.block_on(self.store.health().unwrap())
    }
    fn shared(&self) -> Arc<Shared> {
        self.store.running().as_ref().unwrap().shared.clone()
    }
    /// Reads from now on go to the file.
    fn cold(&self) {
        *self.shared().cache() = Cache::new(0);
    }
}

fn some(description: &[u8]) -> Result<Option<Bytes>, Failure> {
    Ok(Some(Bytes::copy_from_slice(description)))
}

#[test]
fn what_was_stored_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(folder.path(), &[]);
    bench.set("g", 3, b"three", 1).unwrap();
    bench.set("other", 0, b"zero", 2).unwrap();
    bench.delete("other").unwrap();
    bench.delete("never there").unwrap();
    bench.store.close();
    assert_eq!(bench.get("g", 3).unwrap_err().to_string(), "store_failed: the disk store is closed");
    let bench = Bench::new(folder.path(), &[]);
    assert_eq!(bench.get("g", 3), some(b"three"));
    assert_eq!(bench.get("g", 2), Ok(None));
    assert_eq!(bench.get("other", 0), Ok(None));
    assert_eq!(bench.list(), [("g".to_owned(), 3)]);
    assert_eq!(bench.health(), Ok(()));
    assert!(bench.store.size_bytes().unwrap() > 4096);
}

#[test]
fn k26_the_same_bytes_again_change_nothing_and_cost_no_sync() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(folder.path(), &[]);
    bench.set("g", 0, b"bytes", 1).unwrap();
    let syncs = bench.faults.syncs.load(SeqCst);
    bench.set("g", 0, b"bytes", 2).unwrap();
    bench.delete("unknown").unwrap();
    assert_eq!(bench.faults.syncs.load(SeqCst), syncs);
    assert_eq!(bench.history("g").len(), 1);
    bench.set("g", 1, b"bytes", 3).unwrap();
    assert_eq!((bench.get("g", 0), bench.get("g", 1)), (Ok(None), some(b"bytes")));
    assert_eq!(bench.history("g").iter().map(|v| (v.at, v.epoch)).collect::<Vec<_>>(), [(3, 1), (1, 0)]);
}

#[test]
fn history_is_bounded_by_versions_and_outlives_its_group_until_its_age() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(
        folder.path(),
        &[("streamside.history.max.versions", "3"), ("streamside.history.max.age.days", "10")],
    );
    for n in 0..5_i64 {
        bench.set("g", 0, format!("description {n}").as_bytes(), 1_000 + n).unwrap();
    }
    let kept = bench.history("g");
    assert_eq!(kept.iter().map(|v| v.at).collect::<Vec<_>>(), [1_004, 1_003, 1_002]);
    assert_eq!(kept[2].description, "description 2");
    assert_eq!(kept[2].hash, layout::hash(b"description 2"));
    bench.set("stays", 0, b"served", 1_000).unwrap();
    bench.delete("g").unwrap();
    assert_eq!(bench.history("g").len(), 3);

    let shared = bench.shared();
    assert_eq!(writer::sweep(&shared, 1_003 + 10 * DAY), Ok(false));
    assert_eq!(bench.history("g").iter().map(|v| v.at).collect::<Vec<_>>(), [1_004, 1_003]);
    assert_eq!(writer::sweep(&shared, 1_005 + 10 * DAY), Ok(false));
    assert!(bench.history("g").is_empty());
    assert_eq!(bench.get("stays", 0), some(b"served"), "what is served has no age");
    bench.set("stays", 0, b"newer", 2_000 + 10 * DAY).unwrap();
    assert_eq!(bench.history("stays").len(), 1, "a set prunes its own group by age");
}

#[test]
fn h8_history_gives_way_before_a_description_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(folder.path(), &[("disk.max.bytes", "20000")]);
    let description = |seed: u64| {
        // Bytes that do not compress.
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let next = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        };
        std::iter::repeat_with(next).take(1_800).collect::<Vec<u8>>()
    };
    for n in 0..30 {
        bench.set("busy", 0, &description(n), 100 + n as i64).unwrap();
    }
    assert_eq!(bench.get("busy", 0), some(&description(29)));
    assert!((5..=10).contains(&bench.history("busy").len()), "{}", bench.history("busy").len());
    for n in 0..8 {
        bench.set(&format!("g{n}"), 0, &description(n), 1).unwrap();
    }
    let refused = (8..12).find_map(|n| bench.set(&format!("g{n}"), 0, &description(n), 1).err()).unwrap();
    assert_eq!(refused.kind(), "store_full");
    assert!(refused.to_string().ends_with("more do not fit (disk.max.bytes)"), "{refused}");
    assert_eq!(bench.history("busy").len(), 1);
    bench.cold();
    for n in 0..8 {
        assert_eq!(bench.get(&format!("g{n}"), 0), some(&description(n)));
    }
    bench.delete("g0").unwrap();
    bench.set("g0", 0, &description(40), 1).unwrap();
}

#[test]
fn h1_a_damaged_copy_is_told_apart_and_the_same_bytes_heal_it() {
    let folder = tempfile::tempdir().unwrap();
    let description = b"KSTREAM-SOURCE-0000000001".repeat(40);
    let bench = Bench::new(folder.path(), &[]);
    bench.set("g", 0, &description, 1).unwrap();
    bench.store.close();
    let db = redb::Database::open(folder.path().join(FILE_NAME)).unwrap();
    let txn = db.begin_write().unwrap();
    let mut body = txn.open_table(BODIES).unwrap().get(("g", 1)).unwrap().unwrap().value().to_vec();
    body[20] ^= 0x40;
    txn.open_table(BODIES).unwrap().insert(("g", 1), body.as_slice()).unwrap();
    txn.commit().unwrap();
    drop(db);

    let bench = Bench::new(folder.path(), &[]);
    assert!(matches!(bench.get("g", 0), Err(Failure::Corrupt { .. })), "{:?}", bench.get("g", 0));
    assert_eq!(bench.get("g", 1), Ok(None));
    assert!(bench.history("g").is_empty(), "a damaged version is no history");
    bench.set("g", 0, &description, 2).unwrap();
    bench.cold();
    assert_eq!(bench.get("g", 0), some(&description));
}

#[test]
fn h3_a_late_mutation_is_as_if_it_had_come_before() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(folder.path(), &[]);
    let set = |sequence, text: &'static str| {
        bench.rt.block_on(bench.store.set("g", 0, Bytes::from_static(text.as_bytes()), Stamp { sequence, at: 1 }))
    };
    let delete = |sequence| bench.rt.block_on(bench.store.delete("g", Stamp { sequence, at: 1 }));
    set(9, "new").unwrap();
    set(8, "old").unwrap();
    delete(7).unwrap();
    assert_eq!(bench.get("g", 0), some(b"new"));
    delete(10).unwrap();
    set(9, "late").unwrap();
    assert_eq!(bench.get("g", 0), Ok(None));
    // In one transaction, too.
    let calls = [(13, "thirteen"), (11, "eleven"), (12, "twelve")].map(|(sequence, text)| {
        bench.store.set("g", 0, Bytes::from_static(text.as_bytes()), Stamp { sequence, at: 1 })
    });
    for call in calls {
        bench.rt.block_on(call).unwrap();
    }
    assert_eq!(bench.get("g", 0), some(b"thirteen"));
    bench.store.close();
    // Numbers begin anew with the process and are never compared with old ones.
    let bench = Bench::new(folder.path(), &[]);
    bench.rt.block_on(bench.store.set("g", 0, Bytes::from_static(b"after"), Stamp { sequence: 1, at: 1 })).unwrap();
    assert_eq!(bench.get("g", 0), some(b"after"));
}

#[test]
fn group_commit_many_sets_share_few_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(folder.path(), &[]);
    let before = bench.faults.syncs.load(SeqCst);
    let calls: Vec<_> = (0..1_000)
        .map(|n| bench.store.set(&format!("g{n}"), 0, Bytes::from(format!("description {n}")), Stamp::default()))
        .collect();
    for call in calls {
        bench.rt.block_on(call).unwrap();
    }
    let syncs = bench.faults.syncs.load(SeqCst) - before;
    assert!(syncs < 250, "{syncs} syncs for 1,000 sets");
    assert_eq!(bench.list().len(), 1_000);
    bench.cold();
    assert_eq!(bench.get("g999", 0), some(b"description 999"));
}

#[test]
fn a_full_disk_refuses_for_now_keeps_reading_and_recovers() {
    for (errno, word, text) in [
        (ENOSPC, "store_full", "store_full: the disk store's file: No space left on device (os error 28)"),
        (EIO, "store_failed", "store_failed: the disk store's file: Input/output error (os error 5)"),
        (EROFS, "store_failed", "store_failed: the disk store's file: Read-only file system (os error 30)"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench::new(folder.path(), &[]);
        bench.set("g", 0, b"before", 1).unwrap();
        bench.faults.writes.store(errno, SeqCst);
        for n in 0..3 {
            let e = bench.set("h", 0, format!("during {n}").as_bytes(), 2).unwrap_err();
            assert_eq!((e.kind(), e.client_message().unwrap().as_str()), (word, text));
        }
        assert_eq!(bench.delete("g").unwrap_err().kind(), word);
        bench.cold();
        assert_eq!(bench.get("g", 0), some(b"before"), "errno {errno}: reads go on");
        assert_eq!(bench.health().unwrap_err().kind(), word);

        bench.faults.writes.store(0, SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(250));
        if errno != ENOSPC {
            assert_eq!(bench.health(), Ok(()), "errno {errno}: health comes back without a push");
        }
        bench.set("h", 0, b"after", 3).unwrap();
        assert_eq!(bench.health(), Ok(()));
        assert_eq!((bench.get("g", 0), bench.get("h", 0)), (some(b"before"), some(b"after")));
        bench.store.close();
        let bench = Bench::new(folder.path(), &[]);
        assert_eq!((bench.get("g", 0), bench.get("h", 0)), (some(b"before"), some(b"after")));
    }
}

#[test]
fn a_read_error_fails_that_read_and_is_over_when_the_disk_is_well() {
    let folder = tempfile::tempdir().unwrap();
    Bench::new(folder.path(), &[]).set("g", 0, b"kept", 1).unwrap();
    let bench = Bench::new(folder.path(), &[]);
    bench.faults.reads.store(EIO, SeqCst);
    // redb may answer from its page cache; a handle of its own must read.
    bench.shared().file.read(|_| Err::<(), _>(redb::Error::PreviousIo)).unwrap_err();
    assert_eq!(bench.get("g", 0).unwrap_err().kind(), "store_failed");
    bench.faults.reads.store(0, SeqCst);
    std::thread::sleep(std::time::Duration::from_millis(250));
    assert_eq!(bench.get("g", 0), some(b"kept"));
    bench.set("g", 1, b"written", 1).unwrap();
}

#[test]
fn whichever_write_fails_nothing_acknowledged_is_lost_and_the_store_goes_on() {
    let mut hit = 0;
    for nth in 0..32 {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench::new(folder.path(), &[]);
        let mut acknowledged = std::collections::BTreeMap::new();
        for n in 0..2 {
            bench.set(&format!("g{n}"), 0, format!("first {n}").as_bytes(), 1).unwrap();
            acknowledged.insert(format!("g{n}"), format!("first {n}"));
        }
        bench.faults.nth_write.store(nth, SeqCst);
        let mut uncertain = std::collections::BTreeMap::new();
        for n in 0..2 {
            let (group, text) = (format!("g{n}"), format!("second {n}"));
            match bench.set(&group, 0, text.as_bytes(), 2) {
                Ok(()) => acknowledged.insert(group, text),
                Err(_) => uncertain.insert(group, text),
            };
        }
        hit += usize::from(bench.faults.failed.load(SeqCst) > 0);
        bench.faults.nth_write.store(-1, SeqCst);
        bench.set("last", 0, b"works again", 3).unwrap_or_else(|e| panic!("write {nth}: {e}"));
        bench.store.close();
        let bench = Bench::new(folder.path(), &[]);
        assert_eq!(bench.get("last", 0), some(b"works again"));
        for (group, text) in &acknowledged {
            let found = bench.get(group, 0).unwrap().unwrap();
            let may_be = uncertain.get(group).is_some_and(|second| found == second.as_bytes());
            assert!(found == text.as_bytes() || may_be, "write {nth}: {group} is {found:?}, acknowledged {text}");
        }
    }
    assert!(hit >= 24, "only {hit} of the faults were met");
}

#[test]
fn a_file_that_is_taken_away_or_replaced_takes_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path(), &[]);
    bench.set("a", 0, b"one", 1).unwrap();
    let (file, away) = (dir.path().join("descriptions.redb"), dir.path().join("away"));
    std::fs::rename(&file, &away).unwrap();
    let refused = bench.set("b", 0, b"two", 2).unwrap_err();
    assert!(refused.to_string().contains("the store's file is gone or is another one"), "{refused}");
    assert!(bench.health().is_err());
    assert_eq!(bench.get("a", 0), some(b"one"), "what was read before is");
    std::fs::write(&file, b"").unwrap();
    assert!(bench.set("b", 0, b"two", 2).is_err());
    std::fs::rename(&away, &file).unwrap();
    bench.set("b", 0, b"two", 3).unwrap();
    assert_eq!((bench.get("b", 0), bench.health()), (some(b"two"), Ok(())));
}

#[test]
fn errors_at_start_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let open = |folder: &Path| {
        let store = DiskStore::default();
        let result = store.configure(&config(folder, &[]));
        result.map(|()| store)
    };
    let kind_and_text = |folder: &Path| {
        let e = open(folder).unwrap_err();
        (e.kind(), e.to_string())
    };
    let path = folder.path().join(FILE_NAME);
    let shown = path.display().to_string();

    let first = open(folder.path()).unwrap();
    assert_eq!(
        kind_and_text(folder.path()),
        (
            "locked",
            format!("{shown} is in use by another process; stop it, or give this one a streamside.data.dir of its own")
        )
    );
    drop(first);
    drop(open(folder.path()).unwrap());

    let db = redb::Database::open(&path).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(layout::META).unwrap().insert(layout::META_LAYOUT, 2).unwrap();
    txn.commit().unwrap();
    drop(db);
    let (kind, text) = kind_and_text(folder.path());
    assert_eq!(kind, "newer_layout");
    assert!(
        text.starts_with(&format!("{shown} has layout 2, this build reads up to 1; run the newer Streamside")),
        "{text}"
    );

    std::fs::write(&path, b"not a database, but long enough to have a header of some kind".repeat(100)).unwrap();
    let (kind, text) = kind_and_text(folder.path());
    assert_eq!(kind, "torn_file", "{text}");
    assert!(text.contains("is damaged or not a Streamside store"), "{text}");

    std::fs::remove_file(&path).unwrap();
    let db = redb::Database::create(&path).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(redb::TableDefinition::<u64, u64>::new("someone else's")).unwrap();
    txn.commit().unwrap();
    drop(db);
    assert_eq!(kind_and_text(folder.path()).0, "torn_file");

    let (kind, text) = kind_and_text(&path.join("below a file"));
    assert_eq!(kind, "not_writable", "{text}");
    assert!(text.contains("give the user that runs Streamside write access"), "{text}");

    let mut bad = config(folder.path(), &[("streamside.history.max.versions", "0")]);
    let e = DiskStore::default().configure(&bad).unwrap_err();
    assert_eq!(e.to_string(), "streamside.history.max.versions=0: allowed is a whole number from 1 to 100000");
    bad.insert("streamside.history.max.versions".to_owned(), "many".to_owned());
    assert_eq!(DiskStore::default().configure(&bad).unwrap_err().kind(), "bad_config");
}

#[test]
fn a_file_cut_off_anywhere_is_refused_in_words_or_read_right_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(folder.path(), &[]);
    for n in 0..20_u8 {
        let description = [n; 3_000].iter().enumerate().map(|(i, b)| b.wrapping_mul(i as u8)).collect::<Vec<_>>();
        bench.set(&format!("g{n}"), 0, &description, 1).unwrap();
    }
    bench.store.close();
    let path = folder.path().join(FILE_NAME);
    let whole = std::fs::read(&path).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for part in 1..40 {
        std::fs::write(&path, &whole[..whole.len() * part / 40]).unwrap();
        let store = DiskStore::default();
        match store.configure(&config(folder.path(), &[])) {
            Err(e) => kinds.insert(e.kind()),
            Ok(()) => {
                let rt = rt();
                let list = rt.block_on(store.list().unwrap());
                for (group, epoch) in list.unwrap_or_default() {
                    let _ = rt.block_on(store.get(&group, epoch));
                }
                false
            }
        };
    }
    assert!(kinds.contains("torn_file"), "{kinds:?}");
    assert!(kinds.is_subset(&["torn_file", "io"].into()), "{kinds:?}");
}
