//! Every key that Streamside knows: its type, default, bounds, and whether it may change while running.
//!
//! Kafka's own names keep Kafka's meaning, default and bounds (spec kip1331 §9.1, kip1071 §7.2). The table drives
//! parsing, `streamside config`, the near-miss warnings and `docs/configuration.md`.

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number, both bounds included.
    Integer {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// `true` or `false`, in any case.
    Boolean,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Free text, a path, an address or a list; its own parser says more.
    Text(&'static str),
}

impl Kind {
    /// What is allowed, as a phrase.
    pub fn allowed(&self) -> String {
        match self {
            Self::Integer { min, max } if *max == i64::MAX && *min == i64::MIN => "a whole number".to_owned(),
            Self::Integer { min, max } if *max == i64::MAX => format!("a whole number of at least {min}"),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Boolean => "true or false".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Text(what) => (*what).to_owned(),
        }
    }
}

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Only at the next start.
    Restart,
    /// At SIGHUP.
    Live,
}

/// Whether this build does what the key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// It does.
    Here,
    /// Not yet: only the default may be given.
    Later,
}

/// Which heading of the documentation the key stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Section {
    Listener,
    Tls,
    Groups,
    Plugin,
    Limits,
    Storage,
    Http,
    Logging,
    Upstream,
}

impl Section {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::Listener,
        Self::Tls,
        Self::Groups,
        Self::Plugin,
        Self::Limits,
        Self::Storage,
        Self::Http,
        Self::Logging,
        Self::Upstream,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Listener => "Listener and connections",
            Self::Tls => "TLS of the Kafka listener",
            Self::Groups => "Streams groups",
            Self::Plugin => "Topology description plugin",
            Self::Limits => "Limits",
            Self::Storage => "Storage and identity",
            Self::Http => "HTTP",
            Self::Logging => "Logs and metrics",
            Self::Upstream => "Beside a broker",
        }
    }
}

/// One known key. A name that ends in `.*` stands for every key with that prefix.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name.
    pub name: &'static str,
    /// Type and bounds.
    pub kind: Kind,
    /// Default, as it would be written in a file.
    pub default: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// When a change takes effect.
    pub reload: Reload,
    /// Hidden in every output.
    pub secret: bool,
    /// Whether this build does it.
    pub built: Built,
    /// Where it is documented.
    pub section: Section,
}

const fn key(section: Section, name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default, doc, reload: Reload::Restart, secret: false, built: Built::Here, section }
}

const fn secret(key: Key) -> Key {
    Key { secret: true, ..key }
}

const fn live(key: Key) -> Key {
    Key { reload: Reload::Live, ..key }
}

const fn later(key: Key) -> Key {
    Key { built: Built::Later, ..key }
}

const INT_MAX: i64 = i32::MAX as i64;

const fn int(min: i64) -> Kind {
    Kind::Integer { min, max: INT_MAX }
}

const fn within(min: i64, max: i64) -> Kind {
    Kind::Integer { min, max }
}

const fn long(min: i64) -> Kind {
    Kind::Integer { min, max: i64::MAX }
}

use Section::{Groups, Http, Limits, Listener, Logging, Plugin, Storage, Tls, Upstream};

/// The table.
pub const KEYS: &[Key] = &[
    // Listener and connections
    key(
        Listener,
        "listeners",
        Kind::Text("one listener, as PLAINTEXT://HOST:PORT or SSL://HOST:PORT"),
        "PLAINTEXT://127.0.0.1:9092",
        "Where Kafka clients connect; with `streamside.upstream` the default port is 19092. `SSL` and `SASL_SSL` speak TLS (`ssl.*`); with `SASL_PLAINTEXT` and `SASL_SSL` clients log in at the cluster behind us, so they need `streamside.upstream`. An IPv6 address stands in brackets; an empty host or `0.0.0.0` listens on all addresses; port 0 takes a free one.",
    ),
    key(
        Listener,
        "advertised.listeners",
        Kind::Text("one listener, as PLAINTEXT://HOST:PORT, with a host that clients can reach"),
        "",
        "What clients are told to connect to, by the same protocol; before a cluster the host stands for every node's port as well. Empty: the value of `listeners`. Needed when listening on all addresses, since a wildcard can't be advertised.",
    ),
    live(key(Listener, "max.connections", int(0), "2147483647", "Connections at one time; more are closed at once.")),
    live(key(Listener, "max.connections.per.ip", int(0), "2147483647", "Connections at one time from one address.")),
    live(key(
        Listener,
        "connections.max.idle.ms",
        long(i64::MIN),
        "600000",
        "A connection without a request for so long is closed. Negative: never.",
    )),
    key(
        Listener,
        "socket.request.max.bytes",
        int(1),
        "104857600",
        "Largest request; a frame that promises more closes its connection before a byte is reserved.",
    ),
    live(key(
        Listener,
        "streamside.frame.timeout.ms",
        within(1, 86_400_000),
        "30000",
        "A frame that has begun must be whole within this time, and a TLS handshake done.",
    )),
    key(
        Listener,
        "streamside.connect.timeout.ms",
        within(1, 3_600_000),
        "10000",
        "Time for a connection that we open ourselves, from the name to the end of the TLS handshake. A client whose upstream connection takes longer is closed.",
    ),
    live(key(
        Listener,
        "streamside.shutdown.timeout.ms",
        within(0, 3_600_000),
        "20000",
        "After the first SIGTERM or SIGINT connections get so long to end what is in flight.",
    )),
    key(
        Listener,
        "streamside.worker.threads",
        within(0, 1024),
        "0",
        "Threads that serve connections. 0: half the processors, at least one; a busy thread costs less than two idle ones.",
    ),
    // TLS of the Kafka listener
    live(key(
        Tls,
        "ssl.keystore.type",
        Kind::OneOf(&["JKS", "PKCS12", "PEM"]),
        "JKS",
        "Kafka's default is JKS; where a store is given this must be `PEM`. Other stores are refused with the command that converts them.",
    )),
    live(key(
        Tls,
        "ssl.keystore.location",
        Kind::Text("a file"),
        "",
        "PEM file with the private key and the certificate chain, our own certificate first. Read again at SIGHUP.",
    )),
    live(key(
        Tls,
        "ssl.keystore.certificate.chain",
        Kind::Text("PEM text"),
        "",
        "The chain itself instead of a file; line ends may be left out.",
    )),
    live(secret(key(
        Tls,
        "ssl.keystore.key",
        Kind::Text("PEM text"),
        "",
        "The private key that belongs to `ssl.keystore.certificate.chain`.",
    ))),
    live(secret(key(
        Tls,
        "ssl.keystore.password",
        Kind::Text("empty"),
        "",
        "Kafka's key for JKS and PKCS12; PEM has none, so it must be empty.",
    ))),
    live(secret(key(
        Tls,
        "ssl.key.password",
        Kind::Text("empty"),
        "",
        "Encrypted private keys are not read, so it must be empty; `openssl pkcs8` writes a key in the clear.",
    ))),
    live(key(Tls, "ssl.truststore.type", Kind::OneOf(&["JKS", "PKCS12", "PEM"]), "JKS", "As `ssl.keystore.type`.")),
    live(key(
        Tls,
        "ssl.truststore.location",
        Kind::Text("a file"),
        "",
        "PEM file with the certificates that may vouch for clients. Read again at SIGHUP.",
    )),
    live(key(Tls, "ssl.truststore.certificates", Kind::Text("PEM text"), "", "The same itself instead of a file.")),
    live(secret(key(
        Tls,
        "ssl.truststore.password",
        Kind::Text("empty"),
        "",
        "Kafka's key for JKS and PKCS12; PEM has none, so it must be empty.",
    ))),
    live(key(
        Tls,
        "ssl.client.auth",
        Kind::OneOf(&["none", "requested", "required"]),
        "none",
        "Whether clients must show a certificate. `requested`: they may; one that is shown must be good.",
    )),
    live(key(
        Tls,
        "ssl.enabled.protocols",
        Kind::Text("a list of TLSv1.3, TLSv1.2"),
        "TLSv1.2,TLSv1.3",
        "Versions of TLS that are spoken.",
    )),
    live(key(
        Tls,
        "ssl.cipher.suites",
        Kind::Text("a list of cipher suites, by IANA name"),
        "",
        "Cipher suites that are spoken. Empty: all that are known here.",
    )),
    later(key(Tls, "ssl.*", Kind::Text("any text"), "", "Kafka's other settings of TLS.")),
    // Streams groups
    live(key(
        Groups,
        "group.streams.session.timeout.ms",
        int(1),
        "45000",
        "A member that is silent for so long is removed. Within the min and max keys, and above the heartbeat interval.",
    )),
    live(key(Groups, "group.streams.min.session.timeout.ms", int(1), "45000", "Least session timeout.")),
    live(key(Groups, "group.streams.max.session.timeout.ms", int(1), "60000", "Greatest session timeout.")),
    live(key(
        Groups,
        "group.streams.heartbeat.interval.ms",
        int(1),
        "5000",
        "How often members are told to send heartbeats. Within the min and max keys.",
    )),
    live(key(Groups, "group.streams.min.heartbeat.interval.ms", int(1), "5000", "Least heartbeat interval.")),
    live(key(Groups, "group.streams.max.heartbeat.interval.ms", int(1), "15000", "Greatest heartbeat interval.")),
    live(key(
        Groups,
        "group.streams.max.size",
        int(1),
        "2147483647",
        "Members in one group; one more is answered GROUP_MAX_SIZE_REACHED.",
    )),
    live(key(
        Groups,
        "group.streams.initial.rebalance.delay.ms",
        int(0),
        "3000",
        "Wait for more members before the first assignment of an empty group.",
    )),
    live(key(
        Groups,
        "group.streams.assignment.interval.ms",
        int(0),
        "1000",
        "Least time between two assignments of one group. Within the min and max keys.",
    )),
    live(key(Groups, "group.streams.min.assignment.interval.ms", int(0), "0", "Least assignment interval.")),
    live(key(Groups, "group.streams.max.assignment.interval.ms", int(0), "15000", "Greatest assignment interval.")),
    live(key(
        Groups,
        "group.streams.num.standby.replicas",
        int(0),
        "0",
        "Standby tasks for each stateful task. At most `group.streams.max.standby.replicas`.",
    )),
    live(key(Groups, "group.streams.max.standby.replicas", int(0), "2", "Greatest number of standby replicas.")),
    live(key(
        Groups,
        "group.streams.num.warmup.replicas",
        int(0),
        "2",
        "Warm-up tasks at one time. At most `group.streams.max.warmup.replicas`.",
    )),
    live(key(Groups, "group.streams.max.warmup.replicas", int(0), "20", "Greatest number of warm-up replicas.")),
    live(key(
        Groups,
        "group.streams.task.offset.interval.ms",
        int(1),
        "60000",
        "How often members are told to report task offsets. At least `group.streams.min.task.offset.interval.ms`.",
    )),
    live(key(
        Groups,
        "group.streams.min.task.offset.interval.ms",
        int(1),
        "15000",
        "Least interval of reports of task offsets.",
    )),
    live(key(
        Groups,
        "group.streams.acceptable.recovery.lag",
        long(0),
        "10000",
        "Lag up to which a task counts as caught up.",
    )),
    key(Groups, "group.streams.assignors", Kind::Text("`sticky`"), "sticky", "Assignors, the first being the default."),
    key(
        Groups,
        "group.streams.assignor.offload.enable",
        Kind::Boolean,
        "true",
        "Kafka's key, taken for compatibility: assignments are always computed in place.",
    ),
    key(
        Groups,
        "group.streams.rack.aware.assignment.tags",
        Kind::Text("a list of client tags, each once"),
        "",
        "Client tags that members should have; one that lacks some is told so (status 6). The sticky assignor, as Kafka's, does not place tasks by them.",
    ),
    key(
        Groups,
        "offsets.retention.minutes",
        int(1),
        "10080",
        "Kafka's key, taken for compatibility. Standing alone no offsets are kept, so an empty group goes at the next check, as a group without offsets does in Kafka.",
    ),
    key(
        Groups,
        "offsets.retention.check.interval.ms",
        long(1),
        "600000",
        "How often expired groups and left-over descriptions are looked for.",
    ),
    key(
        Groups,
        "streamside.topics",
        Kind::Text("a list of NAME:PARTITIONS"),
        "",
        "The topics that groups may use, with their partition counts. Empty: no topic is known and groups stay NotReady.",
    ),
    key(
        Groups,
        "streamside.compat",
        Kind::OneOf(&["streamside", "kafka"]),
        "streamside",
        "`kafka` switches every difference from Kafka off.",
    ),
    // Plugin
    key(
        Plugin,
        "group.streams.topology.description.plugin.class",
        Kind::Text("a plugin: disk, memory, none"),
        "disk",
        "Where topology descriptions are kept. `disk`, `memory` (also under the name of Kafka's own in-memory class); empty or `none` switches the feature off.",
    ),
    key(
        Plugin,
        "streamside.plugin.config.*",
        Kind::Text("any text"),
        "",
        "Given to the plugin with the prefix taken off.",
    ),
    key(
        Plugin,
        "streamside.plugin.call.timeout.ms",
        within(1, 3_600_000),
        "10000",
        "A plugin call that takes longer is answered for as failed.",
    ),
    key(Plugin, "streamside.plugin.max.in.flight", within(1, 100_000), "64", "Plugin calls at one time."),
    later(key(
        Plugin,
        "streamside.plugin.allowed",
        Kind::Text("a list of plugins"),
        "",
        "What may be chosen over HTTP. Empty: the configured one.",
    )),
    later(key(
        Plugin,
        "streamside.plugin.java.class.path",
        Kind::Text("a class path"),
        "",
        "Class path of Java plugins.",
    )),
    later(key(
        Plugin,
        "streamside.plugin.java.command",
        Kind::Text("a command"),
        "java",
        "The command that starts Java.",
    )),
    // Limits
    live(key(
        Limits,
        "streamside.description.max.bytes",
        within(1, 104_857_600),
        "1048576",
        "Encoded bytes of one description; more is refused with `too_large`.",
    )),
    live(key(
        Limits,
        "streamside.description.max.nodes",
        within(1, 10_000_000),
        "5000",
        "Nodes of one description; more is refused with `too_many_nodes`.",
    )),
    live(key(
        Limits,
        "streamside.description.max.name.bytes",
        within(1, 32_767),
        "32767",
        "Bytes of one name in a description; more is refused with `name_too_long`.",
    )),
    live(key(Limits, "streamside.max.groups", within(1, 10_000_000), "100000", "Groups in all.")),
    key(
        Limits,
        "streamside.history.max.versions",
        within(1, 100_000),
        "50",
        "Versions of the description kept for one group.",
    ),
    key(Limits, "streamside.history.max.age.days", within(1, 36_500), "90", "How long an old version is kept."),
    // Storage and identity
    key(
        Storage,
        "streamside.data.dir",
        Kind::Text("a folder"),
        "./streamside-data",
        "Journal, identity and the built-in store. Made if absent; used by one process at a time.",
    ),
    key(
        Storage,
        "streamside.cluster.name",
        Kind::Text("a name of at most 255 characters"),
        "",
        "A label for people. Empty: the cluster id.",
    ),
    // HTTP
    key(
        Http,
        "streamside.http.listen",
        Kind::Text("HOST:PORT or off"),
        "127.0.0.1:13310",
        "Health, metrics and API. `off`: none.",
    ),
    key(
        Http,
        "streamside.http.token.file",
        Kind::Text("a file"),
        "",
        "Lines `viewer TOKEN` or `operator TOKEN`. Empty: `http-token` in the data folder. Made at the first start with mode 0600.",
    ),
    key(
        Http,
        "streamside.http.plaintext",
        Kind::OneOf(&["refuse", "accept"]),
        "refuse",
        "`accept`: HTTP without TLS beyond loopback.",
    ),
    later(key(Http, "streamside.http.ssl.*", Kind::Text("any text"), "", "TLS of the HTTP listener.")),
    // Logs and metrics
    key(
        Logging,
        "streamside.log.format",
        Kind::OneOf(&["text", "json"]),
        "text",
        "One line an event, in either format.",
    ),
    live(key(
        Logging,
        "streamside.log.level",
        Kind::Text("off, error, warn, info, debug or trace, or a list as info,streamside::shell=debug"),
        "info",
        "What is logged.",
    )),
    live(key(Logging, "streamside.metrics.per.group", Kind::Boolean, "false", "Adds metrics with a group label.")),
    // Beside a broker
    live(key(
        Upstream,
        "streamside.mode",
        Kind::OneOf(&["full", "relay"]),
        "full",
        "`relay`: addresses are rewritten, all else is off. A change lets every client reconnect once.",
    )),
    key(
        Upstream,
        "streamside.upstream",
        Kind::Text("a list of HOST:PORT"),
        "",
        "Bootstrap of the cluster behind us. Empty: standing alone.",
    ),
    key(
        Upstream,
        "streamside.upstream.security.protocol",
        Kind::OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        "PLAINTEXT",
        "What the cluster's listeners speak. Clients log in through us exactly where the cluster's protocol has SASL, so `listeners` must have it too.",
    ),
    live(key(
        Upstream,
        "streamside.upstream.ssl.truststore.type",
        Kind::OneOf(&["JKS", "PKCS12", "PEM"]),
        "JKS",
        "As `ssl.keystore.type`.",
    )),
    live(key(
        Upstream,
        "streamside.upstream.ssl.truststore.location",
        Kind::Text("a file"),
        "",
        "PEM file with the certificates that may vouch for the cluster. Empty: those that the system trusts. Read again at SIGHUP.",
    )),
    live(key(
        Upstream,
        "streamside.upstream.ssl.truststore.certificates",
        Kind::Text("PEM text"),
        "",
        "The same itself instead of a file.",
    )),
    live(key(
        Upstream,
        "streamside.upstream.ssl.keystore.type",
        Kind::OneOf(&["JKS", "PKCS12", "PEM"]),
        "JKS",
        "As `ssl.keystore.type`.",
    )),
    live(key(
        Upstream,
        "streamside.upstream.ssl.keystore.location",
        Kind::Text("a file"),
        "",
        "PEM file with our own key and certificate chain, for a cluster that asks for one. Read again at SIGHUP. See `streamside.upstream.shared.identity`.",
    )),
    live(key(
        Upstream,
        "streamside.upstream.ssl.keystore.certificate.chain",
        Kind::Text("PEM text"),
        "",
        "The chain itself instead of a file.",
    )),
    live(secret(key(
        Upstream,
        "streamside.upstream.ssl.keystore.key",
        Kind::Text("PEM text"),
        "",
        "The private key that belongs to it.",
    ))),
    secret(key(Upstream, "streamside.upstream.ssl.key.password", Kind::Text("empty"), "", "As `ssl.key.password`.")),
    live(key(
        Upstream,
        "streamside.upstream.ssl.endpoint.identification.algorithm",
        Kind::Text("https, or empty"),
        "https",
        "The certificate of each node must be for the host that the cluster tells for it. Empty: for any host.",
    )),
    later(key(Upstream, "streamside.upstream.ssl.*", Kind::Text("any text"), "", "Other settings of TLS.")),
    live(key(
        Upstream,
        "streamside.upstream.sasl.mechanism",
        Kind::Text("PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, or empty"),
        "",
        "How we log in ourselves, to learn the nodes before the first client has logged in. Empty: not at all. Clients may use any mechanism that names no host.",
    )),
    live(secret(key(
        Upstream,
        "streamside.upstream.sasl.jaas.config",
        Kind::Text("a login module with username and password"),
        "",
        "Our own credentials, as in Kafka's client settings.",
    ))),
    later(secret(key(Upstream, "streamside.upstream.sasl.*", Kind::Text("any text"), "", "Other settings of SASL."))),
    key(
        Upstream,
        "streamside.upstream.shared.identity",
        Kind::OneOf(&["refuse", "accept"]),
        "refuse",
        "With a certificate of ours towards the cluster every client has its rights. `refuse`: only with `ssl.client.auth=required`, so that none is a stranger. `accept`: without as well.",
    ),
    live(key(
        Upstream,
        "streamside.upstream.push",
        Kind::OneOf(&["auto", "own", "tee", "off"]),
        "auto",
        "Who answers a push: `own` we do, `tee` we do and pass it on, `off` nobody is asked, `auto` is `tee` once the cluster itself asks for descriptions, else `own`.",
    )),
    live(key(
        Upstream,
        "streamside.upstream.gone.after",
        Kind::Text("a duration, as 8d or 12h"),
        "",
        "A group that was not seen for so long, and that the cluster does not know, is gone. Empty: `offsets.retention.minutes` and a day.",
    )),
    live(key(
        Upstream,
        "streamside.upstream.client.host",
        Kind::OneOf(&["restore", "pass"]),
        "restore",
        "`pass`: describe answers keep the broker's view of client addresses.",
    )),
    key(
        Upstream,
        "streamside.addresses",
        Kind::OneOf(&["gateway", "advertised"]),
        "gateway",
        "`gateway`: each node of the cluster has a port here. `advertised`: one broker behind us that advertises our address; nothing is rewritten.",
    ),
    key(
        Upstream,
        "streamside.node.ports",
        Kind::Text("BASE+id, or a list of ID:PORT or ID:PORT=HOST:PORT"),
        "",
        "Ports that stand for the nodes behind us; an address after `=` says where the node is. Empty: the listener's port + 1 + node id, or the next free one.",
    ),
    live(key(
        Upstream,
        "streamside.describe.hidden.topics",
        Kind::OneOf(&["refuse", "redact"]),
        "refuse",
        "A topic that only the description names and the caller may not see: `refuse` hides the group's entry, `redact` the name.",
    )),
];

/// The key that this name is, exactly or by prefix.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name).or_else(|| {
        KEYS.iter().find(|key| {
            key.name.strip_suffix('*').is_some_and(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
        })
    })
}

/// Whether a value of this key is hidden in output: secret keys, and plugin settings that sound like secrets.
pub fn is_secret(name: &str) -> bool {
    let sounds = ["password", "secret", "token", "credential", "passphrase", "jaas", "private", "apikey", "api.key"];
    find(name).is_some_and(|key| key.secret)
        || (name != "streamside.http.token.file"
            && !name.ends_with(".file")
            && !name.ends_with(".location")
            && sounds.iter().any(|word| name.to_ascii_lowercase().contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_fit_their_bounds() {
        let mut seen = std::collections::BTreeSet::new();
        for key in KEYS {
            assert!(seen.insert(key.name), "{} stands twice", key.name);
            match key.kind {
                Kind::Integer { min, max } => {
                    let value: i64 = key.default.parse().unwrap();
                    assert!(min <= value && value <= max, "{}", key.name);
                }
                Kind::OneOf(words) => assert!(words.contains(&key.default), "{}", key.name),
                Kind::Boolean => assert!(["true", "false"].contains(&key.default)),
                Kind::Text(_) => {}
            }
        }
    }

    #[test]
    fn prefixes_cover_their_keys_and_not_themselves() {
        assert_eq!(find("streamside.plugin.config.path").map(|k| k.name), Some("streamside.plugin.config.*"));
        assert!(find("streamside.plugin.config.").is_none());
        assert!(find("streamside.plugin.config").is_none());
        assert_eq!(find("ssl.provider").map(|k| k.name), Some("ssl.*"));
        assert_eq!(find("ssl.keystore.location").map(|k| k.name), Some("ssl.keystore.location"));
    }

    #[test]
    fn secrets_are_known_by_key_and_by_sound() {
        assert!(is_secret("streamside.upstream.sasl.jaas.config"));
        assert!(is_secret("streamside.plugin.config.db.Password"));
        assert!(!is_secret("streamside.http.token.file"));
        assert!(!is_secret("listeners"));
    }
}
