//! What a heartbeat, a push and a describe cost, beside a bare echo of the same bytes in the same run; JSON on stdout.
//!
//! `cargo run --release -p streamside-testkit --example bench [-- --quick] [--only NAME] [--binary PATH]`
//!
//! Builds the release binary unless one is given. CPU is the server process' own, over the measured window alone. A
//! figure says something about the server only beside the echo's: both see the same machine in turn.

mod echo;
mod heartbeats;
mod load;
mod pushes;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::process;
use streamside_testkit::server::{Server, Setup};

/// Anything that ends the run, in words.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long and how often.
struct Plan {
    binary: PathBuf,
    quick: bool,
    only: Option<String>,
}

impl Plan {
    fn rounds(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    fn window(&self) -> Duration {
        if self.quick { Duration::from_secs(1) } else { Duration::from_secs(3) }
    }

    fn runs(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    fn setup(&self) -> Setup {
        Setup::new(&self.binary)
            .set("streamside.worker.threads", echo::workers())
            .set("group.streams.initial.rebalance.delay.ms", 0)
            .set("group.streams.assignment.interval.ms", 0)
            .set("group.streams.session.timeout.ms", 60_000)
            .set("group.streams.max.session.timeout.ms", 60_000)
            .set("group.streams.max.size", 10_000)
    }
}

fn built() -> Outcome<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .current_dir(&root)
        .args(["build", "--release", "--quiet", "--package", "streamside", "--bin", "streamside"])
        .status()?;
    if !status.success() {
        return Err("the release binary does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/streamside").canonicalize()?)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, port, answer] = arguments.as_slice()
        && word == "echo"
    {
        return echo::serve(port.parse()?, answer);
    }
    let value = |name: &str| arguments.iter().skip_while(|a| *a != name).nth(1).cloned();
    let plan = Plan {
        binary: value("--binary").map_or_else(built, |b| Ok(PathBuf::from(b).canonicalize()?))?,
        quick: arguments.iter().any(|a| a == "--quick"),
        only: value("--only"),
    };
    let _ = process::raise_open_files(24_000);
    let mut figures = Map::new();
    figures.insert("machine".to_owned(), machine());
    if plan.runs("start") {
        figures.insert("start".to_owned(), start(&plan)?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if plan.runs("heartbeats") {
        figures.insert("heartbeats".to_owned(), heartbeats::flat_out(&plan, &runtime)?);
    }
    if plan.runs("paced") {
        figures.insert("paced".to_owned(), heartbeats::paced(&plan, &runtime)?);
    }
    if plan.runs("pushes") {
        figures.insert("pushes_and_describes".to_owned(), pushes::all(&plan)?);
    }
    println!("{}", serde_json::to_string_pretty(&figures)?);
    Ok(())
}

fn machine() -> Value {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    json!({"processors": processors, "load_1_min": load.split(' ').next().and_then(|l| l.parse::<f64>().ok())})
}

/// Time to the first answer, memory without and with connections.
fn start(plan: &Plan) -> Outcome<Value> {
    let mut times = Vec::new();
    let mut idle = 0;
    for _ in 0..if plan.quick { 3 } else { 10 } {
        let before = Instant::now();
        let server = plan.setup().start()?;
        Client::open(server.port, "bench")?.versions()?;
        times.push(before.elapsed().as_secs_f64() * 1000.0);
        std::thread::sleep(Duration::from_millis(300));
        idle = server.resident_bytes();
    }
    let server = plan.setup().start()?;
    Ok(json!({
        "first_answer_ms": round(load::median(&mut times)),
        "idle_rss_mib": round(mib(idle)),
        "rss_bytes_per_connection": per_connection(&server, if plan.quick { 500 } else { 2000 })?,
    }))
}

fn per_connection(server: &Server, count: usize) -> Outcome<u64> {
    Client::open(server.port, "bench")?.versions()?;
    let before = server.resident_bytes();
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = Client::open(server.port, "bench")?;
        client.versions()?;
        held.push(client);
    }
    Ok(server.resident_bytes().saturating_sub(before) / count as u64)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Three digits after the point are more than the machine can hold still.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
