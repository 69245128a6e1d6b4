//! Where values come from: a file (`.properties` or TOML), the environment, `--override`; the later weighs more.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{keys, properties};

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: the default.
    Default,
    /// A file, with the line where the format tells it.
    File(PathBuf, Option<usize>),
    /// An environment variable.
    Environment(String),
    /// The command line.
    Override,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, Some(line)) => write!(f, "{} line {line}", path.display()),
            Self::File(path, None) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Override => f.write_str("--override"),
        }
    }
}

/// A key with what it amounts to. Its `Debug` shows what may be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Effective {
    /// The key.
    pub key: String,
    /// The value after `${file:…}` and `${env:…}`; never shown for secrets.
    pub value: String,
    /// The value as it may be shown.
    pub shown: String,
    /// Where it was given.
    pub origin: Origin,
}

impl fmt::Debug for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?} ({})", self.key, self.shown, self.origin)
    }
}

/// One value before it is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// As written.
    pub text: String,
    /// Where.
    pub origin: Origin,
}

/// What was asked for at the command line, with the environment.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// `--override`, as `key=value`.
    pub overrides: Vec<String>,
    /// The environment: name and value. Given by the caller, so that tests need not change their own.
    pub environment: Vec<(String, String)>,
}

impl Sources {
    /// With this process's environment. Variables that are not UTF-8 are left out.
    pub fn new(file: Option<PathBuf>, overrides: Vec<String>) -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { file, overrides, environment }
    }
}

/// Something that cannot be taken: where, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key, or the file, variable or argument itself.
    pub subject: String,
    /// The value as it may be shown.
    pub value: Option<String>,
    /// Where it was given.
    pub origin: Origin,
    /// What is allowed, or what is wrong.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        if let Some(value) = &self.value {
            write!(f, "={value}")?;
        }
        write!(f, " (from {}): {}", self.origin, self.problem)
    }
}

/// Largest configuration file, and largest file behind `${file:…}`.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// All layers laid over each other.
pub fn gather(sources: &Sources, mistakes: &mut Vec<Mistake>, warnings: &mut Vec<String>) -> BTreeMap<String, Raw> {
    let mut layers = BTreeMap::new();
    if let Some(path) = &sources.file {
        read_file(path, &mut layers, mistakes, warnings);
    }
    for (name, value) in &sources.environment {
        if let Some(key) = environment_key(name, value) {
            layers.insert(key, Raw { text: value.clone(), origin: Origin::Environment(name.clone()) });
        }
    }
    for item in &sources.overrides {
        match item.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                let raw = Raw { text: value.trim().to_owned(), origin: Origin::Override };
                layers.insert(key.trim().to_owned(), raw);
            }
            _ => mistakes.push(Mistake {
                subject: item.clone(),
                value: None,
                origin: Origin::Override,
                problem: "an override is written as key=value".to_owned(),
            }),
        }
    }
    layers
}

fn read_file(path: &Path, layers: &mut BTreeMap<String, Raw>, mistakes: &mut Vec<Mistake>, warnings: &mut Vec<String>) {
    let mut fail = |line: Option<usize>, problem: String| {
        mistakes.push(Mistake {
            subject: "configuration file".to_owned(),
            value: None,
            origin: Origin::File(path.to_owned(), line),
            problem,
        });
    };
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(problem) => return fail(None, problem),
    };
    let toml = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"));
    let entries = if toml {
        match toml::from_str::<toml::Table>(&text) {
            Ok(table) => {
                let mut flat = Vec::new();
                if let Err(problem) = flatten("", &table, &mut flat) {
                    return fail(None, problem);
                }
                flat.into_iter().map(|(key, value)| (None, key, value)).collect::<Vec<_>>()
            }
            Err(error) => {
                let line = error.span().map(|s| text.get(..s.start).unwrap_or_default().matches('\n').count() + 1);
                return fail(line, format!("not TOML: {}", error.message().replace('\n', " ")));
            }
        }
    } else {
        match properties::parse(&text) {
            Ok(entries) => entries.into_iter().map(|(line, key, value)| (Some(line), key, value)).collect(),
            Err((line, problem)) => return fail(Some(line), problem),
        }
    };
    for (line, key, value) in entries {
        let origin = Origin::File(path.to_owned(), line);
        let raw = Raw { text: value.trim().to_owned(), origin: origin.clone() };
        if let Some(old) = layers.insert(key.clone(), raw) {
            warnings.push(format!("{key} stands twice: {} and {origin}; the second counts", old.origin));
        }
    }
}

/// Reads a file of bounded size as UTF-8.
pub fn read_bounded(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("larger than {MAX_FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}

/// Tables flatten to dotted keys; lists become comma lists.
fn flatten(prefix: &str, table: &toml::Table, out: &mut Vec<(String, String)>) -> Result<(), String> {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, out)?,
            toml::Value::Array(items) => {
                let items: Option<Vec<String>> = items.iter().map(scalar).collect();
                let items = items.ok_or_else(|| format!("{key}: a list may hold only plain values"))?;
                out.push((key, items.join(",")));
            }
            plain => out.push((key.clone(), scalar(plain).ok_or_else(|| format!("{key}: not a plain value"))?)),
        }
    }
    Ok(())
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        toml::Value::Datetime(when) => Some(when.to_string()),
        toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

/// The key that an environment variable stands for; `None` for variables that are not ours.
///
/// `STREAMSIDE_` and the key in capitals without a leading `streamside.`; `_` is a dot, `__` an underscore, `___` a
/// dash. Kubernetes puts variables of its own beside ours when a service is named `streamside…`; they are ignored.
pub fn environment_key(name: &str, value: &str) -> Option<String> {
    let rest = name.strip_prefix("STREAMSIDE_").filter(|rest| !rest.is_empty())?;
    let mut short = String::with_capacity(rest.len());
    let mut run = 0;
    for c in rest.chars().chain(std::iter::once('\0')) {
        if c == '_' {
            run += 1;
            continue;
        }
        // Longest first: four underscores are a dash and a dot.
        short.push_str(&"-".repeat(run / 3));
        short.push_str(match run % 3 {
            1 => ".",
            2 => "_",
            _ => "",
        });
        run = 0;
        if c != '\0' {
            short.extend(c.to_lowercase());
        }
    }
    if keys::find(&short).is_some() {
        return Some(short);
    }
    let ours = format!("streamside.{short}");
    if keys::find(&ours).is_some() {
        return Some(ours);
    }
    (!is_service_link(rest, value)).then_some(ours)
}

/// Whether the rest of a variable's name has the shape of a Kubernetes service link.
fn is_service_link(rest: &str, value: &str) -> bool {
    let protocols = ["TCP", "UDP", "SCTP"];
    let parts: Vec<&str> = rest.split('_').collect();
    let port_and_protocol = parts.windows(3).any(|w| {
        matches!(w, ["PORT", number, protocol]
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && protocols.contains(protocol))
    });
    let service = parts.windows(2).any(|w| matches!(w, ["SERVICE", "HOST" | "PORT"]));
    let link = parts.last() == Some(&"PORT")
        && protocols.iter().any(|p| value.strip_prefix(&p.to_lowercase()).is_some_and(|v| v.starts_with("://")));
    port_and_protocol || service || link
}

/// Writes a value so that [`substitute`] gives it back: `$${` stands for `${`.
pub fn quote(value: &str) -> String {
    value.replace("${", "$${")
}

/// Replaces `${file:PATH}` and `${env:NAME}`; `$${` stands for a plain `${`. Gives the value and whether anything was
/// replaced.
pub fn substitute(text: &str, environment: &[(String, String)]) -> Result<(String, bool), String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut replaced = false;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let (inner, tail) = after.split_once('}').ok_or("${ is not closed")?;
        if let Some(path) = inner.strip_prefix("file:") {
            let content = read_bounded(Path::new(path)).map_err(|problem| format!("the file {path} {problem}"))?;
            out.push_str(content.trim_end_matches(['\r', '\n']));
        } else if let Some(name) = inner.strip_prefix("env:") {
            let (_, value) = environment
                .iter()
                .find(|(n, _)| n == name)
                .ok_or_else(|| format!("the environment variable {name} is not set"))?;
            out.push_str(value);
        } else {
            return Err(format!("${{{inner}}} is neither ${{file:PATH}} nor ${{env:NAME}}"));
        }
        replaced = true;
        rest = tail;
    }
    out.push_str(rest);
    Ok((out, replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_names_map_to_keys() {
        for (name, key) in [
            ("STREAMSIDE_LISTENERS", "listeners"),
            ("STREAMSIDE_DATA_DIR", "streamside.data.dir"),
            ("STREAMSIDE_HTTP_LISTEN", "streamside.http.listen"),
            ("STREAMSIDE_GROUP_STREAMS_SESSION_TIMEOUT_MS", "group.streams.session.timeout.ms"),
            ("STREAMSIDE_PLUGIN_CONFIG_A__B___C", "streamside.plugin.config.a_b-c"),
            ("STREAMSIDE_NODE_PORTS", "streamside.node.ports"),
            ("STREAMSIDE_SEED", "streamside.seed"),
        ] {
            assert_eq!(environment_key(name, "x").as_deref(), Some(key), "{name}");
        }
        assert_eq!(environment_key("STREAMSIDE_", "x"), None);
        assert_eq!(environment_key("PATH", "x"), None);
    }

    #[test]
    fn kubernetes_service_links_are_ignored() {
        for (name, value) in [
            ("STREAMSIDE_SERVICE_HOST", "10.0.0.1"),
            ("STREAMSIDE_SERVICE_PORT", "9092"),
            ("STREAMSIDE_SERVICE_PORT_KAFKA", "9092"),
            ("STREAMSIDE_PORT", "tcp://10.0.0.1:9092"),
            ("STREAMSIDE_PORT_9092_TCP", "tcp://10.0.0.1:9092"),
            ("STREAMSIDE_PORT_9092_TCP_ADDR", "10.0.0.1"),
            ("STREAMSIDE_HTTP_PORT_13310_TCP_PROTO", "tcp"),
            ("STREAMSIDE_HTTP_SERVICE_HOST", "10.0.0.1"),
        ] {
            assert_eq!(environment_key(name, value), None, "{name}");
        }
    }

    #[test]
    fn toml_tables_flatten_to_dotted_keys() {
        let table = toml::from_str::<toml::Table>(
            "listeners = 'PLAINTEXT://[::1]:1'\n\"a.b\" = [1, 'x']\n[streamside]\nhttp.listen = 'off'\n[streamside.log]\nlevel = 'debug'\nf = true",
        )
        .unwrap();
        let mut flat = Vec::new();
        flatten("", &table, &mut flat).unwrap();
        flat.sort();
        let expected = [
            ("a.b", "1,x"),
            ("listeners", "PLAINTEXT://[::1]:1"),
            ("streamside.http.listen", "off"),
            ("streamside.log.f", "true"),
            ("streamside.log.level", "debug"),
        ];
        assert_eq!(flat, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        let nested = toml::from_str::<toml::Table>("a = [{b = 1}]").unwrap();
        assert!(flatten("", &nested, &mut Vec::new()).is_err());
    }

    #[test]
    fn references_are_replaced_and_missing_ones_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "s3cret\n").unwrap();
        let environment = vec![("USER_NAME".to_owned(), "ada".to_owned())];
        let text = format!("${{env:USER_NAME}}:${{file:{}}}!", path.display());
        assert_eq!(substitute(&text, &environment), Ok(("ada:s3cret!".to_owned(), true)));
        assert_eq!(substitute("plain $x", &environment), Ok(("plain $x".to_owned(), false)));
        assert_eq!(substitute("a$${env:X}b", &environment), Ok(("a${env:X}b".to_owned(), false)));
        assert_eq!(substitute(&quote("${env:X}${"), &environment), Ok(("${env:X}${".to_owned(), false)));
        assert!(substitute("${env:NOPE}", &environment).unwrap_err().contains("NOPE"));
        assert!(substitute("${file:/does/not/exist}", &environment).unwrap_err().contains("/does/not/exist"));
        assert!(substitute("${vault:x}", &environment).is_err());
        assert!(substitute("${env:X", &environment).is_err());
    }
}
