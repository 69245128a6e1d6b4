use std::collections::HashMap;
use std::future::{pending, poll_fn, ready};
use std::sync::Mutex;
use std::task::Poll;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::*;
use crate::api::Config;
use crate::error::PluginError;

type Gate = oneshot::Receiver<Result<(), Failure>>;

/// Does what the group id says: `hold…` waits for its gate, `slow…` a second, `panic…` panics in the call, `crash…` in
/// the future, `grave…` when the future is dropped; all else is ready at once. Notes every call.
#[derive(Default)]
struct Scripted {
    gates: Mutex<HashMap<String, Vec<Gate>>>,
    calls: Arc<Mutex<Vec<String>>>,
}

struct Grave;
impl Drop for Grave {
    fn drop(&mut self) {
        panic!("panic in the grave");
    }
}

impl Scripted {
    /// The next call for `group` waits until the sender is used.
    fn hold(&self, group: &str) -> oneshot::Sender<Result<(), Failure>> {
        let (open, gate) = oneshot::channel();
        self.gates.lock().unwrap().entry(group.to_owned()).or_default().insert(0, gate);
        open
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn act<T: Send + 'static>(&self, operation: &str, group: &str, value: T) -> Call<T> {
        let name = format!("{operation} {group}");
        self.calls.lock().unwrap().push(name.clone());
        let calls = self.calls.clone();
        let gate = self.gates.lock().unwrap().get_mut(group).and_then(Vec::pop);
        if let Some(gate) = gate {
            return Box::pin(async move {
                let result = gate.await.unwrap_or(Ok(()));
                calls.lock().unwrap().push(format!("{name} done"));
                result.map(|()| value)
            });
        }
        match group {
            g if g.starts_with("panic") => panic!("panic in the call"),
            g if g.starts_with("crash") => {
                Box::pin(poll_fn(|_| -> Poll<Result<T, Failure>> { panic!("panic in the future") }))
            }
            g if g.starts_with("grave") => {
                let (grave, mut value) = (Grave, Some(value));
                Box::pin(poll_fn(move |_| {
                    let _in_here = &grave;
                    value.take().map_or(Poll::Pending, |v| Poll::Ready(Ok(v)))
                }))
            }
            g if g.starts_with("slow") => Box::pin(async move {
                sleep(Duration::from_secs(1)).await;
                Ok(value)
            }),
            g if g.starts_with("hang") => Box::pin(pending()),
            g if g.starts_with("corrupt") => {
                Box::pin(ready(Err(Failure::Corrupt { message: "its hash does not fit".to_owned() })))
            }
            _ => Box::pin(ready(Ok(value))),
        }
    }
}

impl TopologyPlugin for Scripted {
    fn configure(&self, _config: &Config) -> Result<(), PluginError> {
        Ok(())
    }
    fn set(&self, group: &str, epoch: i32, _description: Bytes, _stamp: Stamp) -> Call<()> {
        self.act(&format!("set{epoch}"), group, ())
    }
    fn get(&self, group: &str, _epoch: i32) -> Call<Option<Bytes>> {
        self.act("get", group, Some(Bytes::from_static(b"stored")))
    }
    fn delete(&self, group: &str, _stamp: Stamp) -> Call<()> {
        self.act("delete", group, ())
    }
    fn close(&self) {
        panic!("panic in close");
    }
    fn list(&self) -> Option<Call<Vec<(String, i32)>>> {
        panic!("panic in list");
    }
}

struct Bench {
    plugin: Arc<Scripted>,
    runner: Runner,
    late: mpsc::UnboundedReceiver<Late>,
}

fn bench(change: impl FnOnce(&mut RunnerConfig)) -> Bench {
    let plugin = Arc::new(Scripted::default());
    let (tell, late) = mpsc::unbounded_channel();
    let mut config = RunnerConfig {
        on_late: Arc::new(move |l| {
            let _ = tell.send(l);
        }),
        ..RunnerConfig::default()
    };
    change(&mut config);
    Bench { runner: Runner::new(plugin.clone(), config), plugin, late }
}

impl Bench {
    fn set(&self, op: u64, group: &str) -> impl Future<Output = Outcome<()>> + Send + use<> {
        self.runner.set(op, group, op as i32, Bytes::from_static(b"d"), Stamp::default())
    }
    fn delete(&self, op: u64, group: &str) -> impl Future<Output = Outcome<()>> + Send + use<> {
        self.runner.delete(op, group, Stamp::default())
    }
    fn idle(&self) {
        assert_eq!(self.runner.stats(), RunnerStats::default());
    }
}

const TICK: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn h3_mutations_of_one_group_run_in_the_order_of_their_calls_whoever_polls_first() {
    let bench = bench(|_| {});
    let open = bench.plugin.hold("g");
    let first = bench.set(1, "g");
    let second = bench.delete(2, "g");
    let third = bench.set(3, "g");
    // Polled in another order than called.
    let third = tokio::spawn(third);
    let second = tokio::spawn(second);
    let first = tokio::spawn(first);
    sleep(TICK).await;
    assert_eq!(bench.plugin.calls(), ["set1 g"]);
    assert_eq!(bench.runner.stats().waiting, 2);
    assert_eq!(bench.set(4, "other").await, Outcome::Ok(()));
    open.send(Ok(())).unwrap();
    assert_eq!(
        (first.await.unwrap(), second.await.unwrap(), third.await.unwrap()),
        (Outcome::Ok(()), Outcome::Ok(()), Outcome::Ok(()))
    );
    assert_eq!(bench.plugin.calls(), ["set1 g", "set4 other", "set1 g done", "delete g", "set3 g"]);
    bench.idle();
}

#[tokio::test(start_paused = true)]
async fn h3_a_call_that_timed_out_keeps_its_lane_until_it_settles() {
    let mut bench = bench(|_| {});
    let open = bench.plugin.hold("g");
    let queued_set = {
        let first = tokio::spawn(bench.set(1, "g"));
        sleep(Duration::from_secs(9)).await;
        let queued = tokio::spawn(bench.set(2, "g"));
        assert_eq!(first.await.unwrap(), Outcome::TimedOut);
        queued
    };
    assert_eq!(queued_set.await.unwrap(), Outcome::Busy, "a set does not wait behind a hung call");
    assert_eq!(bench.set(3, "g").await, Outcome::Busy);
    let began = Instant::now();
    assert_eq!(bench.delete(4, "g").await, Outcome::Busy);
    assert_eq!(began.elapsed().as_secs(), 10, "a delete waits up to its deadline");
    assert_eq!(bench.runner.get("g", 0).await.map(|b| b.is_some()), Outcome::Ok(true));
    let stats = bench.runner.stats();
    assert_eq!((stats.in_flight, stats.hung, stats.lanes), (0, 1, 1));

    let waiting_delete = tokio::spawn(bench.delete(5, "g"));
    sleep(TICK).await;
    open.send(Ok(())).unwrap();
    assert_eq!(waiting_delete.await.unwrap(), Outcome::Ok(()));
    let late = bench.late.recv().await.unwrap();
    let expected =
        Late { op: 1, group: "g".into(), operation: Operation::Set, epoch: Some(1), result: Outcome::Ok(()) };
    assert_eq!(late, expected);
    assert_eq!(bench.plugin.calls(), ["set1 g", "get g", "set1 g done", "delete g"]);
    bench.idle();
}

#[tokio::test(start_paused = true)]
async fn h3_an_older_mutation_is_as_if_it_had_come_before_but_not_behind_a_failed_one() {
    let bench = bench(|_| {});
    let set = |sequence: u64| {
        let stamp = Stamp { sequence, at: 0 };
        bench.runner.set(sequence, "g", sequence as i32, Bytes::new(), stamp)
    };
    assert_eq!(set(5).await, Outcome::Ok(()));
    assert_eq!(set(4).await, Outcome::Ok(()));
    let failing = bench.plugin.hold("g");
    failing.send(Err(Failure::transient("not now"))).unwrap();
    assert!(!set(9).await.is_ok());
    assert_eq!(set(8).await, Outcome::Ok(()));
    // A late success counts.
    let open = bench.plugin.hold("g");
    assert_eq!(set(11).await, Outcome::TimedOut);
    open.send(Ok(())).unwrap();
    sleep(TICK).await;
    assert_eq!(bench.runner.delete(1, "g", Stamp { sequence: 10, at: 0 }).await, Outcome::Ok(()));
    let made: Vec<String> = bench.plugin.calls().into_iter().filter(|c| !c.ends_with("done")).collect();
    assert_eq!(made, ["set5 g", "set9 g", "set8 g", "set11 g"]);
}

#[tokio::test(start_paused = true)]
async fn h3_a_late_failure_is_reported_too() {
    let mut bench = bench(|_| {});
    let open = bench.plugin.hold("g");
    assert_eq!(bench.delete(7, "g").await, Outcome::TimedOut);
    open.send(Err(Failure::transient("too late"))).unwrap();
    let late = bench.late.recv().await.unwrap();
    assert_eq!((late.op, late.operation, late.epoch), (7, Operation::Delete, None));
    assert_eq!(late.result, Outcome::Failure(Failure::transient("too late")));
    sleep(TICK).await;
    bench.idle();
}

#[tokio::test(start_paused = true)]
async fn h3_a_caller_that_goes_away_leaves_the_call_in_its_lane() {
    let mut bench = bench(|_| {});
    let open = bench.plugin.hold("g");
    let caller = tokio::spawn(bench.set(1, "g"));
    sleep(TICK).await;
    let queued = tokio::spawn(bench.set(2, "g"));
    let given_up = tokio::spawn(bench.set(3, "g"));
    sleep(TICK).await;
    given_up.abort();
    caller.abort();
    sleep(TICK).await;
    assert_eq!(bench.runner.stats().waiting, 1);
    assert_eq!(bench.plugin.calls(), ["set1 g"]);
    open.send(Ok(())).unwrap();
    assert_eq!(queued.await.unwrap(), Outcome::Ok(()));
    assert_eq!(bench.late.recv().await.unwrap().op, 1);
    assert_eq!(bench.plugin.calls(), ["set1 g", "set1 g done", "set2 g"]);
    bench.idle();

    // Nobody waits for this one and it hangs: it is counted from its deadline on.
    let open = bench.plugin.hold("g");
    let caller = tokio::spawn(bench.set(4, "g"));
    sleep(TICK).await;
    caller.abort();
    sleep(Duration::from_secs(9)).await;
    assert_eq!((bench.runner.stats().in_flight, bench.runner.stats().hung), (1, 0));
    sleep(Duration::from_secs(2)).await;
    assert_eq!((bench.runner.stats().in_flight, bench.runner.stats().hung), (0, 1));
    open.send(Ok(())).unwrap();
    assert_eq!(bench.late.recv().await.unwrap().op, 4);
    sleep(TICK).await;
    bench.idle();
}

#[tokio::test(start_paused = true)]
async fn h3_a_panic_costs_the_call_that_met_it() {
    let bench = bench(|_| {});
    for (group, text) in [("panic", "panic in the call"), ("crash", "panic in the future")] {
        assert_eq!(bench.set(1, group).await, Outcome::Crashed(text.to_owned()));
        assert_eq!(bench.delete(2, group).await, Outcome::Crashed(text.to_owned()));
        assert_eq!(bench.runner.get(group, 0).await, Outcome::Crashed(text.to_owned()));
    }
    assert_eq!(bench.set(1, "grave").await, Outcome::Ok(()));
    assert_eq!(bench.runner.list().await, Some(Outcome::Crashed("panic in list".to_owned())));
    assert_eq!(bench.runner.health().await, None);
    bench.runner.close();
    assert_eq!(bench.set(3, "g").await, Outcome::Ok(()));
    bench.idle();
}

#[tokio::test(start_paused = true)]
async fn h3_hung_calls_leave_the_limit_in_flight_until_their_cap() {
    let bench = Arc::new(bench(|config| {
        config.max_in_flight = Some(2);
        config.max_hung = 3;
    }));
    let hang = |n: u64| {
        let bench = bench.clone();
        tokio::spawn(async move { bench.set(n, &format!("hang{n}")).await })
    };
    for n in [0, 2] {
        let (a, b) = (hang(n), hang(n + 1));
        assert_eq!((a.await.unwrap(), b.await.unwrap()), (Outcome::TimedOut, Outcome::TimedOut));
    }
    // Three hang apart; the fourth keeps its place, so one place is left.
    let stats = bench.runner.stats();
    assert_eq!((stats.in_flight, stats.hung), (1, 3));
    assert_eq!(bench.set(8, "g").await, Outcome::Ok(()));
    assert_eq!(hang(4).await.unwrap(), Outcome::TimedOut);
    let began = Instant::now();
    assert_eq!(bench.set(9, "g").await, Outcome::Busy);
    assert_eq!(bench.runner.get("g", 0).await, Outcome::Busy);
    assert_eq!(began.elapsed().as_secs(), 20);
    assert_eq!(bench.runner.stats().lanes, 5);
}

#[tokio::test(start_paused = true)]
async fn h3_reads_have_no_lane_wait_for_their_turn_and_one_groups_hang_is_its_own() {
    let bench = Arc::new(bench(|config| config.max_in_flight = Some(2)));
    let began = Instant::now();
    let reads: Vec<_> = (0..6)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move { bench.runner.get("slow", 0).await.is_ok() })
        })
        .collect();
    sleep(TICK).await;
    assert_eq!((bench.runner.stats().in_flight, bench.runner.stats().waiting), (2, 4));
    for read in reads {
        assert!(read.await.unwrap());
    }
    assert_eq!(began.elapsed().as_secs(), 3);
    bench.idle();

    for _ in 0..crate::limits::MAX_HUNG_READS_PER_GROUP {
        assert_eq!(bench.runner.get("hang", 0).await, Outcome::TimedOut);
    }
    assert_eq!(bench.runner.get("hang", 0).await, Outcome::Busy);
    assert!(bench.runner.get("g", 0).await.is_ok());
    assert_eq!(bench.set(1, "hangs not").await, Outcome::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn h1_a_damaged_copy_reads_as_nothing_but_in_compat() {
    let bench = bench(|_| {});
    assert_eq!(bench.runner.get("corrupt", 0).await, Outcome::Ok(None));
    assert_eq!(bench.runner.stats().corrupt_reads, 1);
    let kafka = Runner::new(bench.plugin.clone(), RunnerConfig::kafka());
    assert!(matches!(kafka.get("corrupt", 0).await, Outcome::Failure(Failure::Corrupt { .. })));
}

#[tokio::test(start_paused = true)]
async fn design_5_in_compat_every_call_just_runs() {
    let bench = bench(|config| {
        let on_late = config.on_late.clone();
        *config = RunnerConfig { on_late, ..RunnerConfig::kafka() };
    });
    let open = bench.plugin.hold("g");
    let first = tokio::spawn(bench.set(1, "g"));
    sleep(Duration::from_secs(100_000)).await;
    assert_eq!(bench.set(2, "g").await, Outcome::Ok(()));
    let never_polled = bench.set(3, "g");
    assert_eq!(bench.plugin.calls(), ["set1 g", "set2 g", "set3 g"]);
    drop(never_polled);
    open.send(Ok(())).unwrap();
    assert_eq!(first.await.unwrap(), Outcome::Ok(()));
    for _ in 0..200 {
        drop(tokio::spawn(bench.set(9, "hang")));
    }
    sleep(TICK).await;
    assert_eq!(bench.runner.stats().in_flight, 200);
    assert_eq!(bench.set(10, "g").await, Outcome::Ok(()));
}

#[tokio::test(start_paused = true)]
async fn lanes_and_queues_are_bounded_and_shrink_back_to_nothing() {
    let bench = bench(|_| {});
    let open = bench.plugin.hold("g");
    let first = tokio::spawn(bench.set(0, "g"));
    sleep(TICK).await;
    let waiting: Vec<_> = (0..crate::limits::MAX_WAITING).map(|n| bench.set(n as u64, "g")).collect();
    assert_eq!(bench.runner.stats().waiting, crate::limits::MAX_WAITING);
    assert_eq!(bench.set(1, "g").await, Outcome::Busy);
    assert_eq!(bench.set(1, "not in that lane").await, Outcome::Ok(()), "a free lane needs no queue");
    drop(waiting);
    open.send(Ok(())).unwrap();
    first.await.unwrap();
    bench.idle();

    let many: Vec<_> = (0..20_000).map(|n| bench.set(n, &format!("g{n}"))).collect();
    assert_eq!(bench.runner.stats().lanes, 20_000);
    for call in many {
        assert_eq!(call.await, Outcome::Ok(()));
    }
    bench.idle();
    assert_eq!(bench.runner.core.lanes.capacity(), 0);
}

#[test]
fn reason_words_are_those_of_the_names() {
    let words: Vec<&str> = [
        Outcome::Ok(()),
        Outcome::Failure(Failure::permanent("x")),
        Outcome::Failure(Failure::transient("x")),
        Outcome::Failure(Failure::Contract),
        Outcome::TimedOut,
        Outcome::Busy,
        Outcome::Crashed(String::new()),
    ]
    .iter()
    .map(Outcome::kind)
    .collect();
    assert_eq!(
        words,
        [
            "ok",
            "plugin_permanent",
            "plugin_transient",
            "plugin_contract",
            "plugin_timeout",
            "plugin_busy",
            "plugin_crashed"
        ]
    );
}

/// Takes a random time, fails or panics at random, and notes how many mutations of a group it is in at once.
struct Moody {
    random: Arc<Mutex<Random>>,
    inside: Arc<Mutex<HashMap<String, usize>>>,
    overlaps: Arc<Mutex<usize>>,
}

struct Random(u64);
impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

impl Moody {
    fn act<T: Send + 'static>(&self, group: &str, mutates: bool, value: T) -> Call<T> {
        let (seconds, mood) = {
            let mut random = self.random.lock().unwrap();
            ([0, 0, 1, 9, 11, 40][random.below(6) as usize], random.below(10))
        };
        assert!(mood != 0, "panic in the call");
        let (inside, overlaps, group) = (self.inside.clone(), self.overlaps.clone(), group.to_owned());
        Box::pin(async move {
            if mutates {
                let mut inside = inside.lock().unwrap();
                let here = inside.entry(group.clone()).or_default();
                *here += 1;
                *overlaps.lock().unwrap() += usize::from(*here > 1);
            }
            if seconds > 0 {
                sleep(Duration::from_secs(seconds)).await;
            }
            if mutates {
                *inside.lock().unwrap().get_mut(&group).unwrap() -= 1;
            }
            assert!(mood != 1, "panic in the future");
            if mood == 2 { Err(Failure::transient("moody")) } else { Ok(value) }
        })
    }
}

impl TopologyPlugin for Moody {
    fn configure(&self, _config: &Config) -> Result<(), PluginError> {
        Ok(())
    }
    fn set(&self, group: &str, _epoch: i32, _description: Bytes, _stamp: Stamp) -> Call<()> {
        self.act(group, true, ())
    }
    fn get(&self, group: &str, _epoch: i32) -> Call<Option<Bytes>> {
        self.act(group, false, None)
    }
    fn delete(&self, group: &str, _stamp: Stamp) -> Call<()> {
        self.act(group, true, ())
    }
}

#[tokio::test(start_paused = true)]
async fn h3_under_any_schedule_lanes_hold_each_mutation_is_told_once_and_all_is_given_back() {
    std::panic::set_hook(Box::new(|info| {
        // The plugin's panics are many and meant.
        if !info.to_string().contains("panic in the") {
            eprintln!("{info}");
        }
    }));
    let (mut answered, mut told_late, mut busy) = (0, 0, 0);
    for seed in 1..=60_u64 {
        let random = Arc::new(Mutex::new(Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))));
        let plugin = Arc::new(Moody { random: random.clone(), inside: Arc::default(), overlaps: Arc::default() });
        let told: Arc<Mutex<HashMap<u64, usize>>> = Arc::default();
        let late = told.clone();
        let config = RunnerConfig {
            max_in_flight: Some(4),
            max_hung: 6,
            on_late: Arc::new(move |l| *late.lock().unwrap().entry(l.op).or_default() += 1),
            ..RunnerConfig::default()
        };
        let runner = Arc::new(Runner::new(plugin.clone(), config));
        let mut callers = Vec::new();
        for op in 0..120_u64 {
            let (kind, group, pause, gives_up) = {
                let mut r = random.lock().unwrap();
                (r.below(4), format!("g{}", r.below(5)), r.below(900), r.below(8) == 0)
            };
            sleep(Duration::from_millis(pause)).await;
            let (runner, told) = (runner.clone(), told.clone());
            let caller = tokio::spawn(async move {
                let outcome = match kind {
                    0 => {
                        runner.get(&group, 0).await;
                        return None;
                    }
                    1 => runner.delete(op, &group, Stamp::default()).await,
                    _ => runner.set(op, &group, 0, Bytes::new(), Stamp::default()).await,
                };
                if outcome != Outcome::TimedOut {
                    *told.lock().unwrap().entry(op).or_default() += 1;
                }
                Some(outcome)
            });
            if gives_up {
                sleep(Duration::from_secs(1)).await;
                caller.abort();
            }
            callers.push((op, caller));
        }
        let mut timed_out = Vec::new();
        for (op, caller) in callers {
            match caller.await {
                Ok(Some(Outcome::TimedOut)) => timed_out.push(op),
                Ok(Some(Outcome::Busy)) => busy += 1,
                Ok(Some(_)) => answered += 1,
                _ => {}
            }
        }
        sleep(Duration::from_secs(100)).await;
        let told = told.lock().unwrap();
        for op in timed_out {
            assert_eq!(told.get(&op), Some(&1), "seed {seed}: call {op} timed out and is told once");
            told_late += 1;
        }
        assert!(told.values().all(|n| *n == 1), "seed {seed}: {told:?}");
        assert_eq!(*plugin.overlaps.lock().unwrap(), 0, "seed {seed}: two mutations of a group at once");
        assert_eq!(runner.stats(), RunnerStats::default(), "seed {seed}");
    }
    let _ = std::panic::take_hook();
    assert!(answered > 1_000 && told_late > 200 && busy > 500, "{answered} {told_late} {busy}");
}
