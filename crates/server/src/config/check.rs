//! Values against the table, then against each other. All mistakes are collected.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use streamside_coordinator::{Compat, SettingBounds};

use super::ConfigError;
use super::address::{HostPort, Protocol, parse_listener};
use super::keys::{self, Built, Key, Kind};
use super::near::nearest;
use super::secured::{self, TlsSettings, UpstreamSecurity};
use super::settings::{GroupSettings, HttpSettings, LogFormat, LogSettings, PluginSettings, Settings};
use super::source::{Effective, Mistake, Origin, Raw, substitute};
use super::upstream::{self, Addressing, Mode, NodePorts, PushMode, UpstreamSettings};

const PLUGIN_CLASS: &str = "group.streams.topology.description.plugin.class";
const HIDDEN: &str = "[hidden]";
/// The default of `listeners` with a cluster behind us.
const GATEWAY_LISTENER: &str = "PLAINTEXT://127.0.0.1:19092";

struct Checker<'a> {
    layers: &'a BTreeMap<String, Raw>,
    environment: &'a [(String, String)],
    mistakes: Vec<Mistake>,
    effective: Vec<Effective>,
}

/// Checks everything. `mistakes` are those of the sources; no settings are given if there is any.
pub(super) fn check(
    layers: &BTreeMap<String, Raw>,
    environment: &[(String, String)],
    mistakes: Vec<Mistake>,
    warnings: &mut Vec<String>,
) -> Result<Settings, ConfigError> {
    let mut checker = Checker { layers, environment, mistakes, effective: Vec::new() };
    for key in keys::KEYS {
        match key.name.strip_suffix('*') {
            Some(prefix) => {
                let of_this = |name: &&String| {
                    name.starts_with(prefix) && keys::find(name).is_some_and(|found| found.name == key.name)
                };
                for name in layers.keys().filter(of_this) {
                    checker.take(key, name);
                }
            }
            None => checker.take(key, key.name),
        }
    }
    for (name, raw) in layers {
        if keys::find(name).is_none()
            && let Some(known) = nearest(name)
        {
            warnings.push(format!("{name} (from {}) is not a key and is ignored; is {known} meant?", raw.origin));
        }
    }
    let settings = checker.settings();
    if let Some(upstream) = &settings.upstream {
        let loopback = settings.listener.is_loopback();
        warnings.extend(secured::advice(settings.protocol, loopback, &upstream.security));
    }
    if checker.mistakes.is_empty() { Ok(settings) } else { Err(ConfigError { mistakes: checker.mistakes }) }
}

impl Checker<'_> {
    /// Takes one key's value and checks it by the table. A wrong value leaves the default in its place, so that the
    /// other checks can go on.
    fn take(&mut self, key: &Key, name: &str) {
        let raw = self.layers.get(name);
        let origin = raw.map_or(Origin::Default, |raw| raw.origin.clone());
        let written = raw.map_or(key.default, |raw| raw.text.as_str());
        let secret = keys::is_secret(name);
        let (value, replaced, mut problem) = match substitute(written, self.environment) {
            Ok((value, replaced)) => (value, replaced, None),
            Err(problem) => (key.default.to_owned(), false, Some(problem)),
        };
        let allowed = || format!("must be {}", key.kind.allowed());
        if problem.is_none() {
            problem = match key.kind {
                Kind::Integer { min, max } => {
                    let number = value.parse::<i64>().ok().filter(|n| (min..=max).contains(n));
                    number.is_none().then(allowed)
                }
                Kind::Boolean => {
                    let good = value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false");
                    (!good).then(allowed)
                }
                Kind::OneOf(words) => (!words.contains(&value.as_str())).then(allowed),
                Kind::Text(_) => None,
            };
        }
        if problem.is_none() && key.built == Built::Later && (value != key.default || key.name.ends_with('*')) {
            let instead = if key.name.ends_with('*') {
                "leave it out".to_owned()
            } else {
                format!(
                    "only its default can be given ({})",
                    if key.default.is_empty() { "empty" } else { key.default }
                )
            };
            problem = Some(format!("not in this build; {instead}"));
        }
        let shown = if secret && !value.is_empty() {
            HIDDEN.to_owned()
        } else if replaced {
            // What stands behind a reference may be a secret whatever the key is called.
            written.to_owned()
        } else {
            value.clone()
        };
        let value = if let Some(problem) = problem {
            let shown = if secret { HIDDEN.to_owned() } else { written.to_owned() };
            self.mistakes.push(Mistake {
                subject: name.to_owned(),
                value: Some(shown),
                origin: origin.clone(),
                problem,
            });
            key.default.to_owned()
        } else {
            value
        };
        self.effective.push(Effective { key: name.to_owned(), value, shown, origin });
    }

    fn text(&self, name: &str) -> String {
        self.effective.iter().find(|e| e.key == name).map(|e| e.value.clone()).unwrap_or_default()
    }

    fn number<T: TryFrom<i64> + Default>(&self, name: &str) -> T {
        self.text(name).parse::<i64>().ok().and_then(|n| T::try_from(n).ok()).unwrap_or_default()
    }

    fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }

    fn list(&self, name: &str) -> Vec<String> {
        self.text(name).split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    fn wrong(&mut self, name: &str, problem: impl Into<String>) {
        let entry = self.effective.iter().find(|e| e.key == name);
        let mistake = Mistake {
            subject: name.to_owned(),
            value: entry.map(|e| e.shown.clone()),
            origin: entry.map_or(Origin::Default, |e| e.origin.clone()),
            problem: problem.into(),
        };
        // The table's own complaint about the same key is enough.
        if !self.mistakes.iter().any(|m| m.subject == name) {
            self.mistakes.push(mistake);
        }
    }

    fn settings(&mut self) -> Settings {
        self.gateway_default();
        let (protocol, listener, advertised) = self.listeners();
        let (tls, security) = self.secured(protocol);
        let groups = self.groups();
        let topics = self.topics();
        let data_dir = self.data_dir();
        let http = self.http(&data_dir);
        let upstream = self.upstream(&listener, &http, security);
        let plugin = self.plugin();
        let log = self.log();
        let cluster_name = Some(self.text("streamside.cluster.name")).filter(|name| !name.is_empty());
        if cluster_name.as_ref().is_some_and(|name| name.chars().count() > 255 || name.chars().any(char::is_control)) {
            self.wrong(
                "streamside.cluster.name",
                "must be a name of at most 255 characters, none of them a control character",
            );
        }
        let idle: i64 = self.number("connections.max.idle.ms");
        let threads: usize = self.number("streamside.worker.threads");
        Settings {
            listener,
            advertised,
            protocol,
            tls,
            max_connections: self.number("max.connections"),
            max_connections_per_ip: self.number("max.connections.per.ip"),
            connections_max_idle: u64::try_from(idle).ok().map(Duration::from_millis),
            request_max_bytes: self.number("socket.request.max.bytes"),
            frame_timeout: self.millis("streamside.frame.timeout.ms"),
            connect_timeout: self.millis("streamside.connect.timeout.ms"),
            shutdown_timeout: self.millis("streamside.shutdown.timeout.ms"),
            worker_threads: if threads == 0 { (processors() / 2).max(1) } else { threads },
            groups,
            offsets_retention: Duration::from_secs(60 * self.number::<u64>("offsets.retention.minutes")),
            offsets_retention_check_interval: self.millis("offsets.retention.check.interval.ms"),
            topics,
            compat: if self.text("streamside.compat") == "kafka" { Compat::Kafka } else { Compat::Streamside },
            plugin,
            description_max_bytes: self.number("streamside.description.max.bytes"),
            description_max_nodes: self.number("streamside.description.max.nodes"),
            description_max_name_bytes: self.number("streamside.description.max.name.bytes"),
            max_groups: self.number("streamside.max.groups"),
            upstream,
            data_dir,
            cluster_name,
            http,
            log,
            metrics_per_group: self.text("streamside.metrics.per.group").eq_ignore_ascii_case("true"),
            effective: self.effective.clone(),
        }
    }

    /// Before a cluster the default listener leaves the broker's own port free.
    fn gateway_default(&mut self) {
        if self.text("streamside.upstream").is_empty() {
            return;
        }
        if let Some(entry) = self.effective.iter_mut().find(|e| e.key == "listeners" && e.origin == Origin::Default) {
            entry.value = GATEWAY_LISTENER.to_owned();
            entry.shown = GATEWAY_LISTENER.to_owned();
        }
    }

    fn upstream(
        &mut self,
        listener: &HostPort,
        http: &HttpSettings,
        security: UpstreamSecurity,
    ) -> Option<UpstreamSettings> {
        let bootstrap = upstream::bootstrap(&self.text("streamside.upstream")).unwrap_or_else(|problem| {
            self.wrong("streamside.upstream", format!("{problem}; must be a list of HOST:PORT, as 127.0.0.1:9092"));
            Vec::new()
        });
        let node_ports = NodePorts::parse(&self.text("streamside.node.ports")).unwrap_or_else(|problem| {
            let allowed = "must be BASE+id, as 19100+id, or a list of ID:PORT or ID:PORT=HOST:PORT";
            self.wrong("streamside.node.ports", format!("{problem}; {allowed}"));
            NodePorts::AfterListener
        });
        let taken =
            [("listeners", Some(listener.port)), ("streamside.http.listen", http.listen.as_ref().map(|l| l.port))];
        for (id, port) in node_ports.reserved() {
            if let Some((key, _)) = taken.iter().find(|(_, taken)| *taken == Some(port)) {
                self.wrong("streamside.node.ports", format!("node {id} has the port {port}, which is that of {key}"));
            }
        }
        let gone_after = match self.text("streamside.upstream.gone.after") {
            text if text.is_empty() => {
                Duration::from_secs(60 * self.number::<u64>("offsets.retention.minutes") + 86_400)
            }
            text => upstream::duration(&text).unwrap_or_else(|problem| {
                self.wrong("streamside.upstream.gone.after", format!("{problem}; must be a duration, as 8d or 12h"));
                Duration::ZERO
            }),
        };
        if bootstrap.is_empty() {
            return None;
        }
        let addresses = match self.text("streamside.addresses").as_str() {
            "advertised" => Addressing::Advertised,
            _ => Addressing::Gateway,
        };
        if addresses == Addressing::Advertised && bootstrap.len() > 1 {
            self.wrong("streamside.upstream", "with streamside.addresses=advertised must be one broker");
        }
        if let Some(own) = bootstrap.iter().find(|address| *address == listener) {
            self.wrong("streamside.upstream", format!("{own} is our own listener; must be the cluster behind us"));
        }
        Some(UpstreamSettings {
            bootstrap,
            security,
            mode: if self.text("streamside.mode") == "relay" { Mode::Relay } else { Mode::Full },
            addresses,
            node_ports,
            push: match self.text("streamside.upstream.push").as_str() {
                "own" => PushMode::Own,
                "tee" => PushMode::Tee,
                "off" => PushMode::Off,
                _ => PushMode::Auto,
            },
            gone_after,
            restore_client_host: self.text("streamside.upstream.client.host") != "pass",
            redact_hidden_topics: self.text("streamside.describe.hidden.topics") == "redact",
        })
    }

    fn listeners(&mut self) -> (Protocol, HostPort, HostPort) {
        let fallback = (Protocol::Plaintext, HostPort { host: "127.0.0.1".to_owned(), port: 9092 });
        let (protocol, listener) = match parse_listener(&self.text("listeners")) {
            Ok(listener) => listener,
            Err(problem) => {
                self.wrong(
                    "listeners",
                    format!("{problem}; must be one listener, as PLAINTEXT://127.0.0.1:9092 or PLAINTEXT://[::1]:9092"),
                );
                fallback
            }
        };
        let text = self.text("advertised.listeners");
        if text.is_empty() {
            if listener.is_wildcard() {
                self.wrong(
                    "listeners",
                    "listens on all addresses, which can't be told to clients; set advertised.listeners to a host that clients can reach, as PLAINTEXT://kafka.example.org:9092",
                );
            }
            return (protocol, listener.clone(), listener);
        }
        let (told, advertised) = match parse_listener(&text) {
            Ok(advertised) => advertised,
            Err(problem) => {
                self.wrong(
                    "advertised.listeners",
                    format!("{problem}; must be one listener, as PLAINTEXT://kafka.example.org:9092"),
                );
                return (protocol, listener.clone(), listener);
            }
        };
        if told != protocol {
            let problem = format!("must have the protocol of listeners, {}", protocol.name());
            self.wrong("advertised.listeners", problem);
        }
        if advertised.is_wildcard() {
            self.wrong("advertised.listeners", "a wildcard can't be advertised; name a host that clients can reach");
        }
        if advertised.port == 0 && listener.port != 0 {
            self.wrong("advertised.listeners", "port 0 can be advertised only when the listener's port is 0 too");
        }
        (protocol, listener, advertised)
    }

    fn secured(&mut self, listener: Protocol) -> (Option<TlsSettings>, UpstreamSecurity) {
        let values: BTreeMap<String, String> =
            self.effective.iter().map(|e| (e.key.clone(), e.value.clone())).collect();
        let given: Vec<&str> =
            self.effective.iter().filter(|e| e.origin != Origin::Default).map(|e| e.key.as_str()).collect();
        let nothing = UpstreamSecurity { protocol: Protocol::Plaintext, tls: None, login: None };
        let mut found = Vec::new();
        let mut tell = |(key, problem): (String, String)| found.push((key, problem));
        let tls = listener.encrypted().then(|| secured::listener(&values).map_err(&mut tell).ok()).flatten();
        let upstream = secured::upstream(&values, &given).map_err(&mut tell).ok();
        if let Some(upstream) = &upstream
            && tls.is_some() == listener.encrypted()
        {
            let standalone = self.text("streamside.upstream").trim().is_empty();
            let accept = self.text("streamside.upstream.shared.identity") == "accept";
            if let Err(problem) = secured::fit(listener, tls.as_ref(), upstream, standalone, accept) {
                tell(problem);
            }
        }
        for (key, problem) in found {
            self.wrong(&key, problem);
        }
        (tls, upstream.unwrap_or(nothing))
    }

    /// Kafka's rules between the keys (spec kip1331 §9.1, kip1071 §7.2).
    fn groups(&mut self) -> GroupSettings {
        let name = |part: &str| format!("group.streams.{part}");
        for timer in ["session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"] {
            let [value, min, max] = [name(timer), name(&format!("min.{timer}")), name(&format!("max.{timer}"))];
            let [v, lo, hi] = [&value, &min, &max].map(|key| self.number::<i64>(key));
            if hi < lo {
                self.wrong(&max, format!("must be at least {min}, which is {lo}"));
            } else if !(lo..=hi).contains(&v) {
                self.wrong(&value, format!("must be from {lo} to {hi} ({min} and {max})"));
            }
        }
        let session: i64 = self.number("group.streams.session.timeout.ms");
        let heartbeat: i64 = self.number("group.streams.heartbeat.interval.ms");
        if heartbeat >= session {
            let problem = format!("must be less than group.streams.session.timeout.ms, which is {session}");
            self.wrong("group.streams.heartbeat.interval.ms", problem);
        }
        for kind in ["standby", "warmup"] {
            let [value, max] = ["num", "max"].map(|end| name(&format!("{end}.{kind}.replicas")));
            let [number, most] = [&value, &max].map(|key| self.number::<i64>(key));
            if number > most {
                self.wrong(&value, format!("must be at most {max}, which is {most}"));
            }
        }
        let least: i64 = self.number("group.streams.min.task.offset.interval.ms");
        if self.number::<i64>("group.streams.task.offset.interval.ms") < least {
            let problem = format!("must be at least group.streams.min.task.offset.interval.ms, which is {least}");
            self.wrong("group.streams.task.offset.interval.ms", problem);
        }
        let assignors = self.list("group.streams.assignors");
        if assignors != ["sticky"] {
            self.wrong("group.streams.assignors", "must be sticky, the only assignor in this build");
        }
        let tags = self.list("group.streams.rack.aware.assignment.tags");
        if tags.iter().enumerate().any(|(at, tag)| tags.get(..at).is_some_and(|before| before.contains(tag))) {
            self.wrong("group.streams.rack.aware.assignment.tags", "names a tag twice; must name each once");
        }
        let number = |part: &str| self.number::<i32>(&name(part));
        let ends = |timer: &str| (number(&format!("min.{timer}")), number(&format!("max.{timer}")));
        let bounds = SettingBounds {
            session_timeout_ms: ends("session.timeout.ms"),
            heartbeat_interval_ms: ends("heartbeat.interval.ms"),
            assignment_interval_ms: ends("assignment.interval.ms"),
            max_standby_replicas: number("max.standby.replicas"),
            max_warmup_replicas: number("max.warmup.replicas"),
            min_task_offset_interval_ms: number("min.task.offset.interval.ms"),
        };
        GroupSettings {
            session_timeout_ms: self.number("group.streams.session.timeout.ms"),
            heartbeat_interval_ms: self.number("group.streams.heartbeat.interval.ms"),
            max_size: self.number("group.streams.max.size"),
            initial_rebalance_delay_ms: self.number("group.streams.initial.rebalance.delay.ms"),
            assignment_interval_ms: self.number("group.streams.assignment.interval.ms"),
            num_standby_replicas: self.number("group.streams.num.standby.replicas"),
            num_warmup_replicas: self.number("group.streams.num.warmup.replicas"),
            task_offset_interval_ms: self.number("group.streams.task.offset.interval.ms"),
            acceptable_recovery_lag: self.number("group.streams.acceptable.recovery.lag"),
            assignor: "sticky".to_owned(),
            rack_aware_assignment_tags: tags,
            bounds,
        }
    }

    fn topics(&mut self) -> BTreeMap<String, i32> {
        let mut topics = BTreeMap::new();
        for item in self.list("streamside.topics") {
            match topic(&item) {
                Ok((name, partitions)) => {
                    if topics.insert(name, partitions).is_some() {
                        self.wrong("streamside.topics", format!("{item}: the topic is named twice"));
                    }
                }
                Err(problem) => {
                    self.wrong("streamside.topics", format!("{item}: {problem}; must be a list of NAME:PARTITIONS"))
                }
            }
        }
        topics
    }

    fn data_dir(&mut self) -> PathBuf {
        let text = self.text("streamside.data.dir");
        if text.is_empty() {
            self.wrong("streamside.data.dir", "must name a folder");
        }
        PathBuf::from(text)
    }

    fn http(&mut self, data_dir: &std::path::Path) -> HttpSettings {
        let text = self.text("streamside.http.listen");
        let plaintext = self.text("streamside.http.plaintext") == "accept";
        let listen = if text == "off" {
            None
        } else {
            match HostPort::parse(&text) {
                Ok(address) => Some(address),
                Err(problem) => {
                    self.wrong(
                        "streamside.http.listen",
                        format!("{problem}; must be HOST:PORT, as 127.0.0.1:13310 or [::1]:13310, or off"),
                    );
                    None
                }
            }
        };
        if listen.as_ref().is_some_and(|address| !address.is_loopback()) && !plaintext {
            self.wrong(
                "streamside.http.listen",
                "is reachable from other machines and TLS is not in this build; set streamside.http.plaintext=accept, or listen on 127.0.0.1",
            );
        }
        let token_file = Some(self.text("streamside.http.token.file")).filter(|path| !path.is_empty());
        let token_file = token_file.map_or_else(|| data_dir.join("http-token"), PathBuf::from);
        HttpSettings { listen, token_file, plaintext }
    }

    fn plugin(&mut self) -> PluginSettings {
        let class = self.text(PLUGIN_CLASS);
        // H10: only an explicitly empty value or `none` means none.
        let class = Some(class).filter(|class| !class.is_empty() && class != "none");
        let prefix = "streamside.plugin.config.";
        let strip = |e: &Effective| Some((e.key.strip_prefix(prefix)?.to_owned(), e.value.clone()));
        PluginSettings {
            class,
            config: self.effective.iter().filter_map(strip).collect(),
            call_timeout: self.millis("streamside.plugin.call.timeout.ms"),
            max_in_flight: self.number("streamside.plugin.max.in.flight"),
            history_max_versions: self.number("streamside.history.max.versions"),
            history_max_age: Duration::from_secs(86_400 * self.number::<u64>("streamside.history.max.age.days")),
        }
    }

    fn log(&mut self) -> LogSettings {
        let format = if self.text("streamside.log.format") == "json" { LogFormat::Json } else { LogFormat::Text };
        let level = self.text("streamside.log.level");
        if let Err(problem) = crate::logging::parse_level(&level) {
            self.wrong("streamside.log.level", problem);
        }
        LogSettings { format, level }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// `NAME:PARTITIONS`, the name by Kafka's rules for topics.
fn topic(item: &str) -> Result<(String, i32), String> {
    let (name, partitions) = item.rsplit_once(':').ok_or("no partition count")?;
    let legal = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if name.is_empty() || name.len() > 249 || name == "." || name == ".." || !legal {
        return Err(format!("{name:?} is not a topic name"));
    }
    let count = partitions.parse::<i32>().ok().filter(|count| (1..=1_000_000).contains(count));
    Ok((name.to_owned(), count.ok_or_else(|| format!("{partitions:?} is not a partition count from 1 to 1000000"))?))
}
