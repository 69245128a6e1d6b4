//! The real binary as a child: free ports, a folder of its own, its log, signals, restarts on the same folder.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process;

/// How long a server may take until its Kafka port answers.
const START: Duration = Duration::from_secs(20);

/// The settings that the recorded scenarios rely on.
pub const RECORDED: [(&str, &str); 6] = [
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.assignment.interval.ms", "0"),
    ("group.streams.min.session.timeout.ms", "1000"),
    ("group.streams.session.timeout.ms", "8000"),
    ("group.streams.min.heartbeat.interval.ms", "100"),
    ("group.streams.heartbeat.interval.ms", "1000"),
];

/// A server that did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The system refused a file, a port, a process.
    #[error("{0}")]
    System(#[from] std::io::Error),
    /// It ended instead of listening.
    #[error("the server ended at start ({status}): {log}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// Its log.
        log: String,
    },
    /// It did not listen in time.
    #[error("the server did not listen in {START:?}: {0}")]
    Silent(String),
    /// It did not end in time.
    #[error("the server did not end in {0:?}")]
    Lingers(Duration),
    /// What came back over HTTP is no answer.
    #[error("no HTTP answer: {0}")]
    Http(String),
}

impl ServerError {
    /// Word for reports.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::System(_) => "system",
            Self::Ended { .. } => "ended",
            Self::Silent(_) => "silent",
            Self::Lingers(_) => "lingers",
            Self::Http(_) => "http",
        }
    }
}

/// A free port below the ephemeral range (a connect loop to a free ephemeral port can meet itself), not given out
/// twice by one process.
///
/// # Errors
/// No port is free.
pub fn free_port() -> std::io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..5000 {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let spread = std::process::id().wrapping_mul(7919).wrapping_add(n.wrapping_mul(13));
        let port = 12_000 + (spread % 19_000) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(std::io::ErrorKind::AddrInUse.into())
}

/// A program of `crates/server/examples`, beside the server's binary. Built when it is missing or older: `cargo test`
/// builds examples, `cargo test --test NAME` does not.
///
/// # Errors
/// It does not build.
pub fn example(binary: &str, name: &str) -> std::io::Result<PathBuf> {
    let binary = Path::new(binary);
    let program = binary.with_file_name("examples").join(name);
    let modified = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    if modified(&program).is_none_or(|built| modified(binary) > Some(built)) {
        let mut build = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        build.args(["build", "--quiet", "--package", "streamside", "--example", name]);
        if binary.parent().is_some_and(|folder| folder.ends_with("release")) {
            build.arg("--release");
        }
        if !build.status()?.success() {
            return Err(std::io::Error::other(format!("the example {name} does not build")));
        }
    }
    Ok(program)
}

/// How a server is started.
#[derive(Debug, Clone)]
pub struct Setup {
    binary: PathBuf,
    overrides: BTreeMap<String, String>,
    protocol: &'static str,
    file_blocks: Option<u64>,
}

impl Setup {
    /// The binary with nothing but ports and folder set.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into(), overrides: BTreeMap::new(), protocol: "PLAINTEXT", file_blocks: None }
    }

    /// With the settings that the recorded scenarios rely on.
    #[must_use]
    pub fn recorded(binary: impl Into<PathBuf>) -> Self {
        RECORDED.iter().fold(Self::new(binary), |setup, (key, value)| setup.set(key, value))
    }

    /// One more `--override`.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.overrides.insert(key.to_owned(), value.to_string());
        self
    }

    /// What its listener speaks below the Kafka protocol, by Kafka's name; else PLAINTEXT.
    #[must_use]
    pub fn protocol(mut self, name: &'static str) -> Self {
        self.protocol = name;
        self
    }

    /// No file of the server may grow beyond so many blocks of 512 bytes: a disk that is full.
    #[must_use]
    pub fn file_blocks(mut self, blocks: u64) -> Self {
        self.file_blocks = Some(blocks);
        self
    }

    /// Starts on free ports in a new folder and waits until the Kafka port answers.
    ///
    /// # Errors
    /// It did not come up.
    pub fn start(self) -> Result<Server, ServerError> {
        let port = free_port()?;
        self.start_at(port)
    }

    /// As [`Self::start`], with this Kafka port.
    ///
    /// # Errors
    /// It did not come up.
    pub fn start_at(mut self, port: u16) -> Result<Server, ServerError> {
        let (folder, http) = (TempDir::with_prefix("streamside-test-")?, free_port()?);
        self.overrides.insert("listeners".to_owned(), format!("{}://127.0.0.1:{port}", self.protocol));
        self.overrides.insert("streamside.http.listen".to_owned(), format!("127.0.0.1:{http}"));
        let data = folder.path().join("data").display().to_string();
        self.overrides.entry("streamside.data.dir".to_owned()).or_insert(data);
        let child = self.spawn(folder.path())?;
        let mut server = Server { setup: self, folder, child, port, http, started_in: Duration::ZERO };
        server.wait()?;
        Ok(server)
    }

    /// Starts without waiting, for starts that are meant to fail; output goes to the folder's `log`.
    ///
    /// # Errors
    /// The system refused.
    pub fn spawn(&self, folder: &Path) -> std::io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
        let mut command = match self.file_blocks {
            None => Command::new(&self.binary),
            Some(blocks) => {
                // The signal would end the process before a write could fail.
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -S -f {blocks}; exec \"$0\" \"$@\"")]).arg(&self.binary);
                shell
            }
        };
        command.arg("serve");
        for (key, value) in &self.overrides {
            command.arg("--override").arg(format!("{key}={value}"));
        }
        command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
    }
}

/// A server under test. Killed when it goes out of scope.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    folder: TempDir,
    child: Child,
    /// Its Kafka port on 127.0.0.1.
    pub port: u16,
    /// Its HTTP port on 127.0.0.1.
    pub http: u16,
    /// From start to the first accepted connection.
    pub started_in: Duration,
}

impl Server {
    fn wait(&mut self) -> Result<(), ServerError> {
        let start = Instant::now();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        while start.elapsed() < START {
            if let Some(status) = self.child.try_wait()? {
                return Err(ServerError::Ended { status, log: self.log() });
            }
            if TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
                self.started_in = start.elapsed();
                return Ok(());
            }
            sleep(Duration::from_millis(2));
        }
        Err(ServerError::Silent(self.log()))
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder that holds its data folder and its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How it was started.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// All that it printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        let mut text = Vec::new();
        if let Ok(mut file) = File::open(self.folder.path().join("log")) {
            let _ = file.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Resident memory in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        process::resident_bytes(self.pid()).unwrap_or(0)
    }

    /// `kill -9`, and waits for the end.
    ///
    /// # Errors
    /// The system refused.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts again with the same ports on the same folder, after [`Self::kill`] or [`Self::stop`].
    ///
    /// # Errors
    /// It did not come up.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.child = self.setup.spawn(self.folder.path())?;
        self.wait()
    }

    /// As [`Self::restart`], with one setting changed.
    ///
    /// # Errors
    /// It did not come up.
    pub fn restart_with(&mut self, key: &str, value: impl ToString) -> Result<(), ServerError> {
        self.setup = self.setup.clone().set(key, value);
        self.restart()
    }

    /// Lifts [`Setup::file_blocks`] under the running server, and for later starts.
    ///
    /// # Errors
    /// The system refused.
    pub fn lift_file_limit(&mut self) -> Result<(), ServerError> {
        self.setup.file_blocks = None;
        Ok(process::lift_file_size(self.pid())?)
    }

    /// SIGTERM alone.
    ///
    /// # Errors
    /// The process is gone.
    pub fn terminate(&self) -> Result<(), ServerError> {
        Ok(process::terminate(self.pid())?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It goes on beyond `limit`.
    pub fn ended(&mut self, limit: Duration) -> Result<ExitStatus, ServerError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(ServerError::Lingers(limit));
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM, and waits at most 25 seconds.
    ///
    /// # Errors
    /// It did not end.
    pub fn stop(&mut self) -> Result<ExitStatus, ServerError> {
        self.terminate()?;
        self.ended(Duration::from_secs(25))
    }

    /// GET over HTTP: status and body.
    ///
    /// # Errors
    /// No answer.
    pub fn get(&self, path: &str) -> Result<(u16, String), ServerError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.http));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\r\n", self.http)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| ServerError::Http(answer.to_string()))?;
        let status =
            head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| ServerError::Http(head.to_owned()))?;
        Ok((status, body.to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
