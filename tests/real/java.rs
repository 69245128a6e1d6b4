//! Unmodified Kafka from Maven: its jars, its tools, and our probe over its Admin client.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, process};

use streamside_testkit::topologies::tests_folder;

/// The Kafka version whose tools and Admin client judge us.
pub const KAFKA: &str = "4.4.0";

/// What every JVM is started with: names need not be ASCII, and starting fast counts more than running fast.
pub const JVM: [&str; 4] =
    ["-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

const STREAMS_GROUPS: &str = "org.apache.kafka.tools.streams.StreamsGroupCommand";

fn cache() -> PathBuf {
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let base = base.unwrap_or_else(|| PathBuf::from(env::var_os("HOME").expect("HOME")).join(".cache"));
    base.join("streamside-real")
}

/// Runs what has to succeed.
pub fn must(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}{}", utf8(&output.stdout), utf8(&output.stderr));
    output
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Held while the cache is looked at or filled: tests may run side by side.
static CACHE: Mutex<()> = Mutex::new(());

/// Fills a folder of the cache once: made aside, put in place as a whole, so that two runs cannot meet half of it.
fn once(folder: &Path, fill: impl FnOnce(&Path)) {
    if folder.is_dir() {
        return;
    }
    let aside = folder.with_extension(format!("{}.tmp", process::id()));
    let _ = fs::remove_dir_all(&aside);
    fs::create_dir_all(&aside).unwrap();
    fill(&aside);
    if fs::rename(&aside, folder).is_err() {
        assert!(folder.is_dir(), "{} cannot be put in place", folder.display());
        fs::remove_dir_all(&aside).unwrap();
    }
}

fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// A folder of the cache with what a POM names; Maven resolves it once per content of the file.
fn resolved(pom: &str, folder: &Path, more: &[String]) {
    let _held = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let pom = tests_folder().join("real").join(pom);
    let stamp = folder.join("pom.hash");
    let wanted = hash(&fs::read_to_string(&pom).unwrap());
    if fs::read_to_string(&stamp).is_ok_and(|had| had == wanted) {
        return;
    }
    let _ = fs::remove_dir_all(folder);
    once(folder, |aside| {
        must(
            Command::new("mvn")
                .args(["-q", "-B", "-f"])
                .arg(&pom)
                .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
                .args(more)
                .arg(format!("-DoutputDirectory={}", aside.display())),
        );
        fs::write(aside.join("pom.hash"), &wanted).unwrap();
    });
}

/// A folder of the cache, filled once under its name.
pub fn cached(name: &str, fill: impl FnOnce(&Path)) -> PathBuf {
    let _held = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = cache().join(name);
    once(&folder, fill);
    folder
}

/// The folder with the jars of a Kafka version.
pub fn jars(version: &str) -> PathBuf {
    let folder = cache().join(version).join("jars");
    resolved("pom.xml", &folder, &[format!("-Dkafka.version={version}")]);
    folder
}

/// The class path of a Kafka version.
pub fn class_path(version: &str) -> String {
    format!("{}/*", jars(version).display())
}

fn own_class_path() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| class_path(KAFKA))
}

/// What a program did.
#[derive(Debug)]
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Runs it to its end.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let code = output.status.code().unwrap_or(-1);
        Self { code, out: utf8(&output.stdout), err: utf8(&output.stderr) }
    }

    /// The first line of standard error; empty when there is none.
    pub fn complaint(&self) -> &str {
        self.err.lines().next().unwrap_or_default()
    }
}

/// A Java command; only errors are logged.
pub fn jvm(class_path: &str) -> Command {
    let mut java = Command::new("java");
    java.args(JVM).args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path]).env("LC_ALL", "C.UTF-8");
    java
}

/// The stock `kafka-streams-groups`.
pub fn streams_groups<A: AsRef<OsStr>>(bootstrap: &str, args: impl IntoIterator<Item = A>) -> Ran {
    Ran::of(jvm(own_class_path()).args([STREAMS_GROUPS, "--bootstrap-server", bootstrap]).args(args))
}

/// The class path of our Java programs, compiled once per content: theirs, Kafka's, Kafka Streams'.
pub fn programs() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let streams = cache().join(KAFKA).join("streams");
        resolved("streams.pom.xml", &streams, &["-DincludeArtifactIds=kafka-streams,rocksdbjni".to_owned()]);
        let path = format!("{}:{}/*", own_class_path(), streams.display());
        let folder = tests_folder().join("real/src");
        let mut sources: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        sources.sort();
        let text: String = sources.iter().map(|source| fs::read_to_string(source).unwrap()).collect();
        let classes = cache().join(KAFKA).join(format!("programs-{}", hash(&text)));
        let _held = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        once(&classes, |aside| {
            must(Command::new("javac").args(["-nowarn", "-cp", &path, "-d"]).arg(aside).args(&sources));
        });
        format!("{}:{path}", classes.display())
    })
}

/// `AdminProbe` with its actions; the `name=value` lines that it printed.
pub fn admin_probe(bootstrap: &str, group: &str, actions: &[&str]) -> Vec<String> {
    let ran = Ran::of(jvm(programs()).args(["AdminProbe", bootstrap, group]).args(actions));
    assert_eq!(ran.code, 0, "AdminProbe {actions:?}: {}{}", ran.out, ran.err);
    ran.out.lines().map(str::to_owned).collect()
}
