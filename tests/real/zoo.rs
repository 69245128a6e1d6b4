//! What the stock tool says of running, stopped and deleted applications, beside what it says of Kafka 4.4.0 with its
//! in-memory plugin (`expected/`; each file lists its calls).

use std::fs;
use std::time::Duration;

use serde_json::json;
use streamside_testkit::topologies::tests_folder;

use crate::beside::eventually;
use crate::driver::Driver;
use crate::java::Ran;

/// Applications that run at the same time: no two share a topic.
pub const TOGETHER: [&str; 12] = [
    "wordcount",
    "papi-two-globals",
    "fk-join",
    "stream-stream-join",
    "branch-merge",
    "cogroup-plain",
    "window-tumbling",
    "named-operators",
    "multi-topic-source",
    "pipe",
    "global-store-papi",
    "global-ktable-join",
];

/// More that run together.
pub const FURTHER: [&str; 4] = ["papi-stores", "stream-table-join", "dynamic-sink", "suppress-final"];

/// Those that share topics with them.
pub const LAST: [&str; 2] = ["papi-diamond", "repartition-explicit"];

/// Columns that differ: epochs count what else went on while applications started together, on Kafka too.
const EPOCHS: [&str; 3] = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "MEMBER-EPOCH"];

/// The column that a broker before 4.4 leaves empty.
const OF_4_4: &str = "ASSIGNOR";

/// One call of an expected file: arguments and what it printed.
struct Call {
    args: Vec<String>,
    expected: String,
}

fn calls(application: &str, when: &str) -> Vec<Call> {
    let path = tests_folder().join("real/expected").join(application).join(format!("{when}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let blocks = text.split("\n\n").map(str::trim_start).filter(|block| !block.is_empty());
    blocks
        .map(|block| {
            let (call, expected) = block.split_once('\n').unwrap();
            let args = call.strip_prefix("$ ").unwrap().split(' ').map(str::to_owned).collect();
            let mut lines: Vec<&str> = expected.trim_end().lines().collect();
            if call.contains(" --export") {
                // Rows of a hash table.
                lines[1..].sort_unstable();
            }
            Call { args, expected: lines.join("\n") }
        })
        .collect()
}

/// What differs from run to run.
#[derive(Default)]
struct Volatile {
    members: Vec<String>,
    processes: Vec<String>,
}

impl Volatile {
    fn of(driver: &mut Driver, group: &str) -> Self {
        let Ok(said) = driver.describe(group) else { return Self::default() };
        let names = |key: &str| serde_json::from_value(said[key].clone()).unwrap();
        Self { members: names("members"), processes: names("processes") }
    }

    fn replaced(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for member in &self.members {
            line = line.replace(member, "<member>");
        }
        for (process, number) in self.processes.iter().zip(1..) {
            line = line.replace(process, &format!("<uuid-{number}>"));
        }
        let words = line.split(' ').map(|word| match word.strip_prefix("127.0.0.1:") {
            Some(port) if port.parse::<u16>().is_ok() => "<address>",
            _ => word,
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A row of a table with columns put aside: epochs, and in front of an old broker what only 4.4 fills.
fn without_columns(header: &str, row: &str, old: bool) -> String {
    let columns: Vec<&str> = header.split(' ').collect();
    let mut cells: Vec<&str> = row.split(' ').collect();
    if old && cells.len() + 1 == columns.len() {
        let assignor = columns.iter().position(|column| *column == OF_4_4);
        cells.insert(assignor.unwrap_or(cells.len()), "");
    }
    let kept = cells.iter().enumerate().map(|(i, cell)| match columns.get(i) {
        Some(column) if EPOCHS.contains(column) || (old && *column == OF_4_4) => "-",
        _ => cell,
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// A tool's answer in the shape of the expected files: `exit`, lines as they came, rows of tables sorted.
fn shaped(ran: &Ran, args: &[String], group: &str, volatile: &Volatile) -> String {
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let mut lines = vec![format!("exit {}", ran.code)];
    let mut rows = Vec::new();
    let mut table = false;
    for line in ran.out.lines() {
        let line = volatile.replaced(line);
        if has("--topology") {
            lines.push(format!("out|{line}"));
            continue;
        }
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if has("--export") {
            rows.push(format!("out|{line}"));
            continue;
        }
        if has("--list") && !line.starts_with("GROUP ") && line.split(' ').next() != Some(group) {
            continue;
        }
        if table && !line.is_empty() {
            rows.push(format!("row|{line}"));
            continue;
        }
        rows.sort();
        lines.append(&mut rows);
        table = line.starts_with("GROUP ") || line.starts_with("TOPIC ");
        lines.push(format!("out|{line}"));
    }
    rows.sort();
    lines.append(&mut rows);
    // Log lines and the inside of a stack trace are the client's own affair.
    let told = |line: &&str| line.starts_with("java.") || line.starts_with("Caused by: ");
    lines.extend(ran.err.lines().filter(told).map(|line| format!("err|{}", volatile.replaced(line))));
    lines.join("\n")
}

/// What has to agree.
fn reduced(text: &str, old: bool) -> String {
    let mut header = "";
    let lines = text.lines().map(|line| match line.strip_prefix("row|") {
        Some(row) => format!("row|{}", without_columns(header, row, old)),
        None => {
            header = line.strip_prefix("out|").unwrap_or_default();
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Makes the calls of one file; those that change nothing are repeated until they agree. What differs at the end.
fn compare(driver: &mut Driver, application: &str, when: &str, old: bool, volatile: &Volatile) -> Vec<String> {
    let group = format!("zoo-{application}");
    let mut differences = Vec::new();
    for call in calls(application, when) {
        let args: Vec<&str> = call.args.iter().map(String::as_str).collect();
        let changes = args.iter().any(|arg| matches!(*arg, "--delete" | "--execute"));
        let limit = if changes { Duration::ZERO } else { Duration::from_secs(10) };
        let wanted = reduced(&call.expected, old);
        let ask = || reduced(shaped(&driver.tool(&args), &call.args, &group, volatile).trim_end(), old);
        let got = eventually(limit, ask, |got| *got == wanted);
        if got != wanted {
            differences.push(format!("{application}, {when}: {}\nwanted {wanted}\ngot {got}\n", args.join(" ")));
        }
    }
    differences
}

/// Runs applications together and compares all that the tool says of them. `old`: the broker is one before 4.4.
pub fn play(driver: &mut Driver, applications: &[&str], old: bool) {
    let config = json!({"num.stream.threads": 1});
    for name in applications {
        driver.start(name, &format!("zoo-{name}"), name, &config);
        let topics = driver.ask(json!({"do": "topology", "topology": name}));
        let topics: Vec<&String> = topics.as_object().unwrap().keys().collect();
        driver.ask(json!({"do": "feed", "topics": topics, "count": 6}));
    }
    let mut differences = Vec::new();
    for name in applications {
        driver.running(name, Duration::from_secs(60));
        let volatile = Volatile::of(driver, &format!("zoo-{name}"));
        differences.extend(compare(driver, name, "running", old, &volatile));
    }
    for name in applications {
        driver.close(name);
    }
    for name in applications {
        differences.extend(compare(driver, name, "stopped", old, &Volatile::default()));
        differences.extend(compare(driver, name, "deleted", old, &Volatile::default()));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    clear(driver);
}

/// Takes away all topics but Kafka's own.
pub fn clear(driver: &mut Driver) {
    driver.ask(
        json!({"do": "delete-topics", "but": ["__consumer_offsets", "__transaction_state", "__share_group_state"]}),
    );
}
