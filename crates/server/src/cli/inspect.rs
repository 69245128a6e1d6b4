//! `streamside groups`, `members` and `topology`: questions to a cluster over the Kafka protocol, ours or any other.

use std::io::{self, IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use streamside_client::{Cluster, DescribedStreamsGroup, Error, Options};
use streamside_topology::text::{is_hostile, sanitize};
use streamside_topology::write::{Escape, Format};
use streamside_wire::ErrorCode;

mod coarse;
mod groups;
mod members;
mod topology;

pub(super) use groups::text as groups_text;
pub(super) use topology::text as topology_text;

/// Exit codes (docs/stability.md): the answer is yes.
const GOOD: u8 = 0;
/// The answer is no: nothing stored, no such group.
const NO: u8 = 1;
/// Wrong use.
const WRONG_USE: u8 = 2;
/// Could not reach the cluster.
const UNREACHABLE: u8 = 3;

/// Groups described in one step, so that thousands with large descriptions never sit in memory at once.
const STEP: usize = 100;
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Questions to a cluster.
#[derive(Debug, Subcommand)]
pub enum Inspect {
    /// List streams groups: state, members, epoch, whether a topology description is stored
    Groups(GroupsArgs),
    /// List the members of streams groups: client, host, epochs, tasks, endpoint
    Members(MembersArgs),
    /// Print the topology description of streams groups, or draw one from a file
    Topology(TopologyArgs),
}

/// Which cluster, and how to reach it.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// Addresses to start from, host:port,…
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    pub bootstrap_server: String,
    /// Connection settings, in the form that Kafka's own tools take
    #[arg(long, value_name = "FILE")]
    pub command_config: Option<PathBuf>,
    /// Longest time to wait, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout: u32,
}

/// Arguments of `groups`.
#[derive(Debug, Args)]
pub struct GroupsArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only this group (may be repeated)
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

/// Arguments of `members`.
#[derive(Debug, Args)]
pub struct MembersArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The group (may be repeated)
    #[arg(long, value_name = "GROUP", required = true)]
    group: Vec<String>,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

/// Arguments of `topology`.
#[derive(Debug, Args)]
pub struct TopologyArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The group (may be repeated)
    #[arg(long, value_name = "GROUP", required_unless_present_any = ["from", "all_groups"])]
    group: Vec<String>,
    /// Every streams group of the cluster
    #[arg(long, conflicts_with = "group")]
    all_groups: bool,
    /// Draw a topology in JSON from a file (- reads standard input) instead of asking a cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["group", "all_groups", "json"])]
    from: Option<PathBuf>,
    /// kafka: as the stock tool prints it; describe: as Topology#describe() prints it; json
    #[arg(long, default_value = "kafka", value_parser = format)]
    format: Format,
    /// Machine-readable output with each group's status; the format is then json
    #[arg(long)]
    json: bool,
}

fn format(name: &str) -> Result<Format, String> {
    name.parse::<Format>().map_err(|e| e.to_string())
}

/// Where a command writes, and what it may assume of it.
pub struct Screen<'a> {
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
    /// The terminal's width; none when the output is no terminal.
    pub width: Option<usize>,
}

impl Screen<'_> {
    fn say(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// One sentence to standard error; names inside it are made harmless.
    fn tell(&mut self, sentence: &str) -> io::Result<()> {
        writeln!(self.err, "{}", sanitize(sentence))
    }

    fn escape(&self) -> Escape {
        if self.width.is_some() { Escape::Terminal } else { Escape::Exact }
    }
}

/// Runs a command on the real screen; gives the exit code.
pub fn run(command: &Inspect) -> u8 {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let width = stdout.is_terminal().then(terminal_width);
    let mut screen = Screen { out: &mut stdout.lock(), err: &mut stderr.lock(), width };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = screen.tell(&format!("no runtime could be started: {error}"));
            return UNREACHABLE;
        }
    };
    runtime.block_on(run_on(command, &mut screen))
}

/// Runs a command on any screen; gives the exit code.
pub async fn run_on(command: &Inspect, screen: &mut Screen<'_>) -> u8 {
    let outcome = match command {
        Inspect::Groups(args) => groups::run(args, screen).await,
        Inspect::Members(args) => members::run(args, screen).await,
        Inspect::Topology(args) => match &args.from {
            Some(file) => topology::draw(file, args.format, screen),
            None => topology::run(args, screen).await,
        },
    };
    match outcome {
        Ok(code) => code,
        // Whoever reads us has seen enough.
        Err(Trouble::Screen(error)) if error.kind() == io::ErrorKind::BrokenPipe => GOOD,
        Err(Trouble::Screen(error)) => {
            let _ = screen.tell(&format!("the output can't be written: {error}"));
            UNREACHABLE
        }
        Err(Trouble::Cluster(error)) => {
            let _ = screen.tell(&error.to_string());
            exit_code(&error)
        }
        Err(Trouble::Use(sentence)) => {
            let _ = screen.tell(&sentence);
            WRONG_USE
        }
    }
}

/// Why a command ends early.
enum Trouble {
    Screen(io::Error),
    Cluster(Error),
    Use(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Screen(error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Cluster(error)
    }
}

fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Settings(_) => WRONG_USE,
        Error::Refused { .. } | Error::UnsupportedVersion { .. } => NO,
        _ => UNREACHABLE,
    }
}

fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(terminal_size::Width(columns), _)| columns.into())
}

async fn connect(args: &ClusterArgs) -> Result<Cluster, Trouble> {
    let text = match &args.command_config {
        None => String::new(),
        Some(path) => read(path)?,
    };
    let mut options = Options::from_properties(&text).map_err(|e| Trouble::Use(e.to_string()))?;
    options.call_timeout = Duration::from_millis(args.timeout.into());
    options.request_timeout = options.request_timeout.min(options.call_timeout);
    options.connect_timeout = options.connect_timeout.min(options.call_timeout);
    Ok(Cluster::connect(&args.bootstrap_server, options).await?)
}

fn read(path: &Path) -> Result<String, Trouble> {
    let failed = |error: io::Error| Trouble::Use(format!("{} can't be read: {error}", path.display()));
    let mut text = String::new();
    let mut source: Box<dyn io::Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(path).map_err(failed)?)
    };
    let read = source.by_ref().take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > MAX_FILE {
        return Err(Trouble::Use(format!("{} is longer than 16 MiB", path.display())));
    }
    Ok(text)
}

async fn streams_groups(cluster: &Cluster) -> Result<Vec<String>, Trouble> {
    let listed = cluster.list_groups(&["streams"]).await?;
    Ok(listed.into_iter().map(|group| group.group_id).collect())
}

/// Describes groups step by step and hands each answer on.
async fn describe(
    cluster: &Cluster,
    groups: &[String],
    with_description: bool,
    mut each: impl FnMut(&str, Result<DescribedStreamsGroup, Error>) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    for step in groups.chunks(STEP) {
        let ids: Vec<&str> = step.iter().map(String::as_str).collect();
        let answers = cluster.describe_streams_groups(&ids, with_description).await?;
        for (id, answer) in ids.into_iter().zip(answers) {
            each(id, answer)?;
        }
    }
    Ok(())
}

/// Whether a group's topology description can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Status {
    Available,
    NotStored,
    Error,
    /// A broker before 4.4.
    Unsupported,
    /// A number that we do not know, or a claim without its description.
    Unknown,
}

impl Status {
    /// kip1331 §5.2 and §11.1.
    fn of(described: &DescribedStreamsGroup) -> Self {
        let group = &described.group;
        match group.topology_description_status {
            _ if described.version < 1 => Self::Unsupported,
            1 => Self::NotStored,
            2 => Self::Error,
            3 if group.topology_description.is_some() => Self::Available,
            _ => Self::Unknown,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::NotStored => "not stored",
            Self::Error => "error",
            Self::Unsupported => "not available from this broker",
            Self::Unknown => "unknown",
        }
    }

    /// What to do when there is nothing to show.
    fn sentence(self, group: &str) -> String {
        match self {
            Self::Available => String::new(),
            Self::NotStored => format!(
                "No topology description is stored for streams group '{group}'. Its application must run Kafka Streams 4.4 or \
                 newer with group.protocol=streams, and sends it when the broker asks."
            ),
            Self::Error => format!(
                "The broker failed to fetch the topology description of streams group '{group}'; its log says why."
            ),
            Self::Unsupported => format!(
                "The broker that coordinates streams group '{group}' knows no topology descriptions; they come with Kafka 4.4 \
                 or with Streamside."
            ),
            Self::Unknown => {
                format!("The broker's answer about the topology description of streams group '{group}' makes no sense.")
            }
        }
    }
}

/// An error in machine-readable output.
#[derive(Debug, Serialize)]
struct ErrorJson {
    kind: &'static str,
    code: Option<i16>,
    message: String,
}

impl From<&Error> for ErrorJson {
    fn from(error: &Error) -> Self {
        Self { kind: error.kind(), code: error.code().map(|code| code.0), message: error.to_string() }
    }
}

/// The outermost object of machine-readable output.
#[derive(Serialize)]
struct GroupsJson<T> {
    groups: Vec<T>,
}

fn json<T: Serialize>(groups: Vec<T>) -> Result<String, Trouble> {
    let text = serde_json::to_string_pretty(&GroupsJson { groups }).map_err(io::Error::other)?;
    // Inside strings only; the escapes mean the same character.
    let mut safe = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c != '\n' && is_hostile(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    safe.push('\n');
    Ok(safe)
}

/// Tells once that a group has no answer, and remembers the worst exit code.
fn lost(screen: &mut Screen<'_>, code: &mut u8, group: &str, error: &Error) -> io::Result<()> {
    *code = (*code).max(exit_code(error));
    match error {
        Error::Refused { code: ErrorCode::GROUP_ID_NOT_FOUND, .. } => {
            screen.tell(&format!("There is no streams group '{group}'."))
        }
        Error::Refused { code: ErrorCode::GROUP_AUTHORIZATION_FAILED, .. } => screen.tell(&format!(
            "Streams group '{group}' may not be described by this user; it needs DESCRIBE on the group."
        )),
        other => screen.tell(&format!("Streams group '{group}': {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use streamside_wire::messages::streams_group_describe::{DescribedGroup, DescriptionField};

    #[test]
    fn kip1331_11_1_the_status_is_what_version_number_and_description_say_together() {
        let status = |version, number, present: bool| {
            let description = present.then(|| DescriptionField::Encoded(Default::default()));
            let group = DescribedGroup {
                topology_description_status: number,
                topology_description: description,
                ..DescribedGroup::default()
            };
            Status::of(&DescribedStreamsGroup { group, version })
        };
        assert_eq!(status(1, 3, true), Status::Available);
        assert_eq!(status(1, 1, false), Status::NotStored);
        assert_eq!(status(1, 2, true), Status::Error);
        assert_eq!(status(0, 0, false), Status::Unsupported);
        assert_eq!(status(0, 0, false).words(), "not available from this broker");
        // A claim without its description, a question not heard, a number from the future.
        for (number, present) in [(3, false), (0, false), (9, true)] {
            assert_eq!(status(1, number, present), Status::Unknown);
        }
    }

    #[test]
    fn machine_readable_output_cannot_harm_a_terminal() {
        let text = json(vec!["a\u{1b}[2J\u{202e}\u{e0041}\"b"]).ok().unwrap_or_default();
        assert_eq!(text, "{\n  \"groups\": [\n    \"a\\u001b[2J\\u202e\\udb40\\udc41\\\"b\"\n  ]\n}\n");
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["groups"][0], "a\u{1b}[2J\u{202e}\u{e0041}\"b");
    }
}
