//! The real binary in front of real brokers, and unmodified clients that go through it.

use std::env;
use std::thread::sleep;
use std::time::{Duration, Instant};

use streamside_testkit::server::{Server, Setup};

use crate::broker::Broker;

/// Whether clients go to the brokers directly, which shows that what is expected is what they see without us.
pub fn direct() -> bool {
    env::var_os("STREAMSIDE_REAL_DIRECT").is_some()
}

/// A sidecar in front of brokers; nothing at all with `STREAMSIDE_REAL_DIRECT` set.
pub struct Sidecar {
    server: Option<Server>,
    port: u16,
}

impl Sidecar {
    /// In front of a cluster, named by all of its nodes.
    pub fn new(brokers: &[&Broker]) -> Self {
        Self::with(brokers, &[])
    }

    /// As [`Self::new`], with more settings.
    pub fn with(brokers: &[&Broker], settings: &[(&str, &str)]) -> Self {
        if direct() {
            return Self { server: None, port: brokers[0].port };
        }
        let upstream: Vec<String> = brokers.iter().map(|broker| broker.bootstrap()).collect();
        let setup = Setup::new(env!("CARGO_BIN_EXE_streamside")).set("streamside.upstream", upstream.join(","));
        let server = settings.iter().fold(setup, |setup, (key, value)| setup.set(key, value)).start().unwrap();
        Self { port: server.port, server: Some(server) }
    }

    /// The port that clients are told.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that clients are told.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The process; there is none with `STREAMSIDE_REAL_DIRECT` set.
    pub fn server(&mut self) -> Option<&mut Server> {
        self.server.as_mut()
    }

    /// What it logged.
    pub fn log(&self) -> String {
        self.server.as_ref().map(Server::log).unwrap_or_default()
    }
}

/// Asks again until the answer is good; the last answer when time is up.
pub fn eventually<T>(limit: Duration, mut ask: impl FnMut() -> T, good: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let answer = ask();
        if good(&answer) || start.elapsed() > limit {
            return answer;
        }
        sleep(Duration::from_millis(100));
    }
}
