//! Plays scenarios against a server and compares every answer.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::codec::{hex, unhex};
use crate::connection::{Answer, Connection, ConnectionError, Shape, api};
use crate::expectation::{self, Variables, at_path, difference, substitute};
use crate::scenario::Scenario;

/// Answers that mean "the coordinator is not there yet".
const COORDINATOR_NOT_THERE: [i64; 3] = [14, 15, 16];

/// Where and how patiently scenarios are played.
#[derive(Debug, Clone)]
pub struct Player {
    /// Host of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Time limit of a step that names none.
    pub step: Duration,
}

/// What became of many scenarios.
#[derive(Debug, Default)]
pub struct Report {
    /// Names of those that passed.
    pub passed: Vec<String>,
    /// Names of those that failed, and the step and difference.
    pub failed: BTreeMap<String, String>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, why) in &self.failed {
            writeln!(f, "FAIL {name}: {why}")?;
        }
        write!(f, "{} passed, {} failed", self.passed.len(), self.failed.len())
    }
}

fn coordinator_is_away(body: &Value) -> bool {
    let entries = ["Groups", "Results", "Coordinators"].iter().filter_map(|name| body.get(name)?.as_array()).flatten();
    entries.chain([body]).filter_map(|e| e.get("ErrorCode")?.as_i64()).any(|code| COORDINATOR_NOT_THERE.contains(&code))
}

fn names_coordinator_error(expected: &Value) -> bool {
    match expected {
        Value::Array(items) => items.iter().any(names_coordinator_error),
        Value::Object(map) => map.iter().any(|(name, value)| {
            (name == "ErrorCode" && value.as_i64().is_some_and(|c| COORDINATOR_NOT_THERE.contains(&c)))
                || names_coordinator_error(value)
        }),
        _ => false,
    }
}

impl Player {
    /// A player with ten seconds a step.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self { host: "127.0.0.1".to_owned(), port, step: Duration::from_secs(10) }
    }

    /// Waits until the server answers and its group coordinator is up.
    ///
    /// # Errors
    /// What the last attempt met, after a minute.
    pub fn warm_up(&self) -> Result<(), ConnectionError> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.try_once() {
                Ok(()) => return Ok(()),
                Err(e) if Instant::now() > deadline => return Err(e),
                Err(_) => sleep(Duration::from_millis(50)),
            }
        }
    }

    fn try_once(&self) -> Result<(), ConnectionError> {
        let mut connection = Connection::open((self.host.as_str(), self.port), "warm-up")?;
        for (name, version, body) in [
            ("FindCoordinator", 4, json!({"KeyType": 0, "CoordinatorKeys": ["warm-up"]})),
            ("DescribeGroups", 5, json!({"Groups": ["warm-up"]})),
        ] {
            if coordinator_is_away(&connection.call(name, version, &body, Duration::from_secs(5))?) {
                return Err(ConnectionError::Timeout);
            }
        }
        Ok(())
    }

    /// Plays many, at most `jobs` at a time, in threads.
    #[must_use]
    pub fn play_all(&self, scenarios: &[Scenario], jobs: usize) -> Report {
        let next = AtomicUsize::new(0);
        let report = Mutex::new(Report::default());
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, scenarios.len().max(1)) {
                scope.spawn(|| {
                    while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = self.play(scenario);
                        let mut report = report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        match result {
                            Ok(()) => report.passed.push(scenario.name.clone()),
                            Err(why) => drop(report.failed.insert(scenario.name.clone(), why)),
                        }
                    }
                });
            }
        });
        report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Plays one.
    ///
    /// # Errors
    /// The step and what differed.
    pub fn play(&self, scenario: &Scenario) -> Result<(), String> {
        let mut play =
            Play { player: self, variables: Variables::new(), connections: BTreeMap::new(), pending: BTreeMap::new() };
        play.variables.insert("run".to_owned(), Value::from(unique()));
        for (name, value) in &scenario.vars {
            let value = substitute(value, &play.variables);
            play.variables.insert(name.clone(), value);
        }
        for (n, step) in scenario.steps.iter().enumerate() {
            let note = step.get("note").and_then(Value::as_str).map(|note| format!(" ({note})")).unwrap_or_default();
            play.step(step).map_err(|why| format!("step {}{note}: {why}", n + 1))?;
        }
        Ok(())
    }
}

/// A word that no other play of any process uses.
fn unique() -> String {
    static PLAYS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let seed =
        now ^ u64::from(std::process::id()).rotate_left(40) ^ PLAYS.fetch_add(1, Ordering::Relaxed).rotate_left(52);
    format!("r{:010x}", seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24)
}

struct Play<'p> {
    player: &'p Player,
    variables: Variables,
    connections: BTreeMap<String, Connection>,
    pending: BTreeMap<String, (String, i32)>,
}

#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("{0}")]
    Failed(String),
}

fn failed<T>(text: impl Into<String>) -> Result<T, StepError> {
    Err(StepError::Failed(text.into()))
}

fn millis(step: &Value, name: &str) -> Option<Duration> {
    step.get(name).and_then(Value::as_u64).map(Duration::from_millis)
}

fn bytes(step: &Value, name: &str, variables: &Variables) -> Result<Option<Vec<u8>>, StepError> {
    let Some(value) = step.get(name) else {
        return Ok(None);
    };
    match substitute(value, variables).as_str().and_then(unhex) {
        Some(bytes) => Ok(Some(bytes)),
        None => failed(format!("{name} is not hex")),
    }
}

impl Play<'_> {
    fn step(&mut self, step: &Value) -> Result<(), StepError> {
        if let Some(time) = millis(step, "sleep_ms") {
            sleep(time);
            return Ok(());
        }
        let name = step.get("conn").and_then(Value::as_str).unwrap_or("c").to_owned();
        if step.get("close").and_then(Value::as_bool).unwrap_or(false) {
            self.connections.remove(&name);
            return Ok(());
        }
        let timeout = millis(step, "within_ms").unwrap_or(self.player.step);
        if let Some(id) = step.get("await").and_then(Value::as_str) {
            let Some((name, correlation)) = self.pending.remove(id) else {
                return failed(format!("nothing awaits as {id}"));
            };
            return match millis(step, "expect_none_ms") {
                Some(time) => self.expect_none(&name, correlation, time),
                None => self.expect_answer(step, &name, correlation, timeout),
            };
        }
        if let Some(raw) = bytes(step, "raw", &self.variables)? {
            return self.raw(step, &name, &raw, timeout);
        }
        if step.get("expect_close").and_then(Value::as_bool).unwrap_or(false) {
            self.send(step, &name)?;
            return self.expect_close(&name, timeout);
        }
        if let Some(id) = step.get("async").and_then(Value::as_str) {
            let correlation = self.send(step, &name)?;
            self.pending.insert(id.to_owned(), (name, correlation));
            return Ok(());
        }
        if let Some(time) = millis(step, "expect_none_ms") {
            let correlation = self.send(step, &name)?;
            return self.expect_none(&name, correlation, time);
        }
        if let Some(time) = millis(step, "for_ms") {
            let end = Instant::now() + time;
            loop {
                let correlation = self.send(step, &name)?;
                self.expect_answer(step, &name, correlation, timeout)?;
                if Instant::now() >= end {
                    return Ok(());
                }
                sleep(millis(step, "every_ms").unwrap_or(Duration::from_millis(200)));
            }
        }
        self.until(step, &name, timeout)
    }

    fn connection(&mut self, step: &Value, name: &str) -> Result<&mut Connection, StepError> {
        let offset = step.get("port_offset").and_then(Value::as_u64).and_then(|o| u16::try_from(o).ok()).unwrap_or(0);
        let (host, port) = (&self.player.host, self.player.port.saturating_add(offset));
        Ok(match self.connections.entry(name.to_owned()) {
            std::collections::btree_map::Entry::Occupied(slot) => slot.into_mut(),
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(Connection::open((host.as_str(), port), name)?)
            }
        })
    }

    fn send(&mut self, step: &Value, name: &str) -> Result<i32, StepError> {
        let api = api(&step["api"])?;
        let version = |name: &str| step.get(name).and_then(Value::as_i64).and_then(|v| i16::try_from(v).ok());
        let request = step.get("request").map(|r| substitute(r, &self.variables)).unwrap_or_else(|| json!({}));
        let shape = Shape {
            body: bytes(step, "body_hex", &self.variables)?,
            truncate: step.get("truncate").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
            append: bytes(step, "append_hex", &self.variables)?.unwrap_or_default(),
            response_version: version("response_version"),
            header: step.get("header").map(|h| substitute(h, &self.variables)),
        };
        let Some(version) = version("version") else {
            return failed("the step names no version");
        };
        Ok(self.connection(step, name)?.send(api, version, &request, &shape)?)
    }

    fn receive(&mut self, name: &str, correlation: i32, timeout: Duration) -> Result<Answer, StepError> {
        match self.connections.get_mut(name) {
            Some(connection) => Ok(connection.receive(correlation, timeout)?),
            None => failed(format!("connection {name} is closed")),
        }
    }

    fn raw(&mut self, step: &Value, name: &str, raw: &[u8], timeout: Duration) -> Result<(), StepError> {
        let connection = self.connection(step, name)?;
        connection.send_raw(raw)?;
        if step.get("expect_close").and_then(Value::as_bool).unwrap_or(false) {
            return self.expect_close(name, timeout);
        }
        if let Some(wanted) = bytes(step, "expect_raw", &self.variables)? {
            let got = self.connection(step, name)?.read_frame(timeout)?;
            if got != wanted {
                return failed(format!("expected bytes {}, got {}", hex(&wanted), hex(&got)));
            }
        }
        Ok(())
    }

    /// Sends again while the coordinator is away, and where the step says so until its condition holds.
    fn until(&mut self, step: &Value, name: &str, timeout: Duration) -> Result<(), StepError> {
        let deadline = Instant::now() + millis(step, "deadline_ms").unwrap_or(Duration::from_secs(15));
        let expects_away = step.get("expect").is_some_and(names_coordinator_error);
        loop {
            let correlation = self.send(step, name)?;
            let answer = self.receive(name, correlation, timeout)?;
            let body = answer.body().map_err(ConnectionError::from)?;
            if !expects_away && coordinator_is_away(&body) && Instant::now() < deadline {
                sleep(Duration::from_millis(200));
                continue;
            }
            let Some(why) = step.get("repeat_until").and_then(|condition| self.unmet(step, condition, &answer, &body))
            else {
                return self.check(step, &answer, &body);
            };
            if Instant::now() >= deadline {
                return failed(format!("never became true: {why}"));
            }
            sleep(millis(step, "every_ms").unwrap_or(Duration::from_millis(100)));
        }
    }

    fn unmet(&self, step: &Value, condition: &Value, answer: &Answer, body: &Value) -> Option<String> {
        let message = &answer.api.response;
        if condition == "expect" {
            let expected =
                step.get("expect").map(|e| substitute(e, &self.variables)).unwrap_or_else(|| Value::from("<any>"));
            return difference(&expected, body, expectation::Shape::of(message, answer.version), "$");
        }
        substitute(condition, &self.variables).as_object()?.iter().find_map(|(path, wanted)| {
            match at_path(body, path) {
                None => Some(format!("{path} is absent, wanted {wanted}")),
                Some(found) => difference(wanted, found, expectation::Shape::plain(message, answer.version), path),
            }
        })
    }

    fn expect_answer(
        &mut self,
        step: &Value,
        name: &str,
        correlation: i32,
        timeout: Duration,
    ) -> Result<(), StepError> {
        let answer = self.receive(name, correlation, timeout)?;
        let body = answer.body().map_err(ConnectionError::from)?;
        self.check(step, &answer, &body)
    }

    fn check(&mut self, step: &Value, answer: &Answer, body: &Value) -> Result<(), StepError> {
        let wanted_bytes = bytes(step, "expect_hex", &self.variables)?;
        if let Some(wanted) = &wanted_bytes
            && *wanted != answer.bytes
        {
            return failed(format!("expected body bytes {}, got {}", hex(wanted), hex(&answer.bytes)));
        }
        match step.get("expect") {
            Some(expected) => {
                let expected = substitute(expected, &self.variables);
                let shape = expectation::Shape::of(&answer.api.response, answer.version);
                if let Some(why) = difference(&expected, body, shape, "$") {
                    return failed(why);
                }
            }
            None if wanted_bytes.is_none() => return failed("the step has no expectation"),
            None => {}
        }
        if let Some(saves) = step.get("save").and_then(Value::as_object) {
            for (name, path) in saves {
                let Some(value) = path.as_str().and_then(|path| at_path(body, path)) else {
                    return failed(format!("{path} is absent, cannot be saved"));
                };
                self.variables.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }

    fn expect_close(&mut self, name: &str, timeout: Duration) -> Result<(), StepError> {
        let Some(connection) = self.connections.get_mut(name) else {
            return Ok(());
        };
        match connection.read_frame(timeout) {
            Err(ConnectionError::Closed(_)) => Ok(()),
            Err(ConnectionError::Timeout) => failed("expected the server to close the connection; it stayed open"),
            Err(e) => Err(e.into()),
            Ok(frame) => failed(format!("expected the server to close the connection, got the answer {}", hex(&frame))),
        }
    }

    fn expect_none(&mut self, name: &str, correlation: i32, time: Duration) -> Result<(), StepError> {
        match self.receive(name, correlation, time) {
            Err(StepError::Connection(ConnectionError::Timeout)) => Ok(()),
            Err(e) => Err(e),
            Ok(answer) => failed(format!("expected no answer, got {}", hex(&answer.bytes))),
        }
    }
}
