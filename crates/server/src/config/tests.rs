use std::time::Duration;

use streamside_coordinator::Compat;

use super::*;

fn with(overrides: &[&str]) -> Sources {
    Sources { overrides: overrides.iter().map(|s| (*s).to_owned()).collect(), ..Sources::default() }
}

fn mistakes(overrides: &[&str]) -> Vec<String> {
    load(&with(overrides)).unwrap_err().mistakes.iter().map(ToString::to_string).collect()
}

fn one_mistake(overrides: &[&str], parts: &[&str]) {
    let told = mistakes(overrides);
    assert_eq!(told.len(), 1, "{told:?}");
    for part in parts {
        assert!(told[0].contains(part), "{part:?} is not in {:?}", told[0]);
    }
}

#[test]
fn defaults_are_kafkas_and_ours() {
    let settings = load(&Sources::default()).unwrap().settings;
    assert_eq!(settings.listener.to_string(), "127.0.0.1:9092");
    assert_eq!(settings.advertised, settings.listener);
    assert_eq!(settings.groups.session_timeout_ms, 45_000);
    assert_eq!(settings.groups.heartbeat_interval_ms, 5_000);
    assert_eq!(settings.groups.max_size, i32::MAX);
    assert_eq!(settings.groups.acceptable_recovery_lag, 10_000);
    assert_eq!(settings.offsets_retention, Duration::from_secs(7 * 86_400));
    assert_eq!(settings.offsets_retention_check_interval, Duration::from_secs(600));
    assert_eq!(settings.request_max_bytes, 104_857_600);
    assert_eq!(settings.connections_max_idle, Some(Duration::from_secs(600)));
    assert_eq!(settings.plugin.class.as_deref(), Some("disk"));
    assert_eq!(settings.http.token_file, std::path::Path::new("./streamside-data/http-token"));
    assert_eq!(settings.compat, Compat::Streamside);
    assert!(settings.worker_threads >= 1);
    let config = settings.coordinator_config(Some("disk".to_owned()));
    // Standing alone no group is gone by not being seen.
    let alone = streamside_coordinator::Config { gone_after_ms: i64::MAX, ..Default::default() };
    assert_eq!(config, alone);
}

#[test]
fn h10_no_plugin_named_is_disk_and_empty_or_none_is_off() {
    let class = "group.streams.topology.description.plugin.class";
    for off in ["", "none"] {
        let settings = load(&with(&[&format!("{class}={off}")])).unwrap().settings;
        assert_eq!(settings.plugin.class, None);
    }
}

#[test]
fn the_later_source_weighs_more() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.properties");
    std::fs::write(&file, "max.connections=1\nmax.connections.per.ip=1\nsocket.request.max.bytes=1\n").unwrap();
    let sources = Sources {
        file: Some(file.clone()),
        overrides: vec!["max.connections=3".to_owned()],
        environment: vec![
            ("STREAMSIDE_MAX_CONNECTIONS".to_owned(), "2".to_owned()),
            ("STREAMSIDE_MAX_CONNECTIONS_PER_IP".to_owned(), "2".to_owned()),
        ],
    };
    let settings = load(&sources).unwrap().settings;
    assert_eq!((settings.max_connections, settings.max_connections_per_ip, settings.request_max_bytes), (3, 2, 1));
    let origin = |name: &str| settings.effective.iter().find(|e| e.key == name).unwrap().origin.clone();
    assert_eq!(origin("max.connections"), Origin::Override);
    assert_eq!(origin("max.connections.per.ip"), Origin::Environment("STREAMSIDE_MAX_CONNECTIONS_PER_IP".to_owned()));
    assert_eq!(origin("socket.request.max.bytes"), Origin::File(file, Some(3)));
}

#[test]
fn a_toml_file_means_the_same_as_a_properties_file() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.toml"), dir.path().join("b.properties"));
    std::fs::write(&a, "listeners = \"PLAINTEXT://[::1]:0\"\n[group.streams]\nmax.size = 9\n[streamside]\ntopics = [\"in:2\", \"out:3\"]\nmetrics.per.group = true\n").unwrap();
    std::fs::write(&b, "listeners=PLAINTEXT://[::1]:0\ngroup.streams.max.size=9\nstreamside.topics=in:2, out:3\nstreamside.metrics.per.group=TRUE\n").unwrap();
    let read = |file| load(&Sources { file: Some(file), ..Sources::default() }).unwrap().settings;
    let (a, b) = (read(a), read(b));
    assert_eq!(a.topics, b.topics);
    assert_eq!(a.topics.get("out"), Some(&3));
    assert_eq!((a.groups.max_size, a.metrics_per_group, a.listener.port), (9, true, 0));
    assert_eq!((b.groups.max_size, b.metrics_per_group, b.listener), (9, true, a.listener));
}

#[test]
fn a_broken_file_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "a = 1\nb = = 2\n").unwrap();
    let error = load(&Sources { file: Some(file), ..Sources::default() }).unwrap_err().to_string();
    assert!(error.contains("c.toml line 2") && error.contains("not TOML"), "{error}");
    let absent = load(&Sources { file: Some("/no/such.properties".into()), ..Sources::default() }).unwrap_err();
    assert!(absent.to_string().contains("/no/such.properties"), "{absent}");
}

#[test]
fn every_mistake_is_told_at_once_with_key_value_origin_and_what_is_allowed() {
    let told = mistakes(&[
        "group.streams.max.size=0",
        "streamside.compat=Kafka",
        "streamside.metrics.per.group=yes",
        "listeners=9092",
        "nonsense",
    ]);
    assert_eq!(told.len(), 5, "{told:?}");
    let all = told.join("\n");
    assert!(
        all.contains("group.streams.max.size=0 (from --override): must be a whole number from 1 to 2147483647"),
        "{all}"
    );
    assert!(all.contains("streamside.compat=Kafka (from --override): must be one of streamside, kafka"), "{all}");
    assert!(all.contains("must be true or false"), "{all}");
    assert!(all.contains("nonsense (from --override): an override is written as key=value"), "{all}");
}

#[test]
fn bounds_hold_at_and_fail_beyond() {
    for good in [
        "group.streams.assignment.interval.ms=0",
        "group.streams.assignment.interval.ms=15000",
        "group.streams.num.warmup.replicas=20",
        "group.streams.task.offset.interval.ms=15000",
        "offsets.retention.minutes=2147483647",
        "max.connections=0",
        "connections.max.idle.ms=-1",
    ] {
        assert!(load(&with(&[good])).is_ok(), "{good}");
    }
    for bad in [
        "group.streams.assignment.interval.ms=-1",
        "group.streams.assignment.interval.ms=15001",
        "group.streams.num.warmup.replicas=21",
        "group.streams.task.offset.interval.ms=14999",
        "offsets.retention.minutes=0",
        "offsets.retention.minutes=2147483648",
        "max.connections=-1",
        "socket.request.max.bytes=0",
        "max.connections=",
    ] {
        assert_eq!(mistakes(&[bad]).len(), 1, "{bad}");
    }
    let never = load(&with(&["connections.max.idle.ms=-1"])).unwrap().settings;
    assert_eq!(never.connections_max_idle, None);
}

#[test]
fn kip1331_9_1_keys_hold_against_each_other() {
    one_mistake(&["group.streams.session.timeout.ms=44999"], &["must be from 45000 to 60000"]);
    one_mistake(&["group.streams.heartbeat.interval.ms=15001"], &["must be from 5000 to 15000"]);
    one_mistake(&["group.streams.max.session.timeout.ms=44999"], &["must be at least", "45000"]);
    one_mistake(&["group.streams.num.standby.replicas=3"], &["at most group.streams.max.standby.replicas"]);
    one_mistake(
        &["group.streams.min.session.timeout.ms=1000", "group.streams.session.timeout.ms=5000"],
        &["group.streams.heartbeat.interval.ms=5000", "less than group.streams.session.timeout.ms"],
    );
    let lab = [
        "group.streams.min.session.timeout.ms=1000",
        "group.streams.session.timeout.ms=8000",
        "group.streams.min.heartbeat.interval.ms=100",
        "group.streams.heartbeat.interval.ms=1000",
    ];
    assert!(load(&with(&lab)).is_ok());
}

#[test]
fn a_wildcard_is_never_advertised() {
    one_mistake(&["listeners=PLAINTEXT://0.0.0.0:9092"], &["set advertised.listeners"]);
    one_mistake(&["listeners=PLAINTEXT://[::]:9092"], &["set advertised.listeners"]);
    one_mistake(&["advertised.listeners=PLAINTEXT://[::]:9092"], &["a wildcard can't be advertised"]);
    let both = with(&["listeners=PLAINTEXT://:9092", "advertised.listeners=PLAINTEXT://kafka.example.org:19092"]);
    assert_eq!(load(&both).unwrap().settings.advertised.to_string(), "kafka.example.org:19092");
}

#[test]
fn http_beyond_loopback_needs_consent() {
    one_mistake(&["streamside.http.listen=0.0.0.0:1"], &["streamside.http.plaintext=accept"]);
    assert!(load(&with(&["streamside.http.listen=0.0.0.0:1", "streamside.http.plaintext=accept"])).is_ok());
    assert_eq!(load(&with(&["streamside.http.listen=off"])).unwrap().settings.http.listen, None);
    one_mistake(&["streamside.http.listen=8080"], &["or off"]);
}

#[test]
fn what_this_build_lacks_says_so_unless_it_is_the_default() {
    one_mistake(&["streamside.plugin.allowed=x"], &["not in this build"]);
    one_mistake(&["ssl.provider=BC"], &["not in this build"]);
    one_mistake(&["streamside.upstream.sasl.login.class=secret"], &["[hidden]", "not in this build"]);
    assert!(load(&with(&["streamside.mode=full", "streamside.upstream="])).is_ok());
}

#[test]
fn listener_and_cluster_are_secured_as_configured() {
    let login =
        "streamside.upstream.sasl.jaas.config=a.PlainLoginModule required username=\"u\" password=\"top secret\";";
    one_mistake(&[login], &["streamside.upstream.sasl.jaas.config=[hidden]", "has no meaning without"]);
    one_mistake(&["listeners=SSL://127.0.0.1:1"], &["ssl.keystore.location", "needs a certificate"]);
    one_mistake(
        &["listeners=SASL_SSL://127.0.0.1:1", "ssl.keystore.type=PEM", "ssl.keystore.location=/x"],
        &["listeners=", "needs streamside.upstream"],
    );
    one_mistake(
        &[
            "listeners=SSL://127.0.0.1:1",
            "ssl.keystore.type=PEM",
            "ssl.keystore.location=/x",
            "advertised.listeners=PLAINTEXT://a:1",
        ],
        &["must have the protocol of listeners, SSL"],
    );
    let protocol = "streamside.upstream.security.protocol=SASL_SSL";
    one_mistake(&["streamside.upstream=b:9092", protocol], &["write SASL_PLAINTEXT://"]);
    let passing = load(&with(&[
        "streamside.upstream=b:9092",
        protocol,
        "streamside.upstream.sasl.mechanism=PLAIN",
        login,
        "listeners=SASL_PLAINTEXT://10.0.0.1:1",
    ]));
    let loaded = passing.unwrap();
    let security = &loaded.settings.upstream.as_ref().unwrap().security;
    assert_eq!((security.protocol, security.tls.is_some(), security.can_ask()), (Protocol::SaslSsl, true, true));
    assert!(loaded.warnings.iter().any(|w| w.contains("passwords")), "{:?}", loaded.warnings);
    assert!(!format!("{loaded:?}").contains("top secret"));
}

#[test]
fn topics_are_named_with_their_partitions() {
    for (bad, part) in [
        ("a", "no partition count"),
        ("a:0", "not a partition count"),
        ("a b:1", "not a topic name"),
        ("a:1,a:2", "named twice"),
    ] {
        one_mistake(&[&format!("streamside.topics={bad}")], &[part]);
    }
}

#[test]
fn unknown_keys_warn_only_when_near() {
    let loaded = load(&with(&["broker.id=1", "streamside.data.dri=x", "some.plugin.key=1"])).unwrap();
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains("is streamside.data.dir meant?"));
}

#[test]
fn values_behind_references_and_secrets_are_not_shown() {
    let sources = Sources {
        overrides: vec![
            "streamside.plugin.config.url=${env:URL}".to_owned(),
            "streamside.plugin.config.password=hunter2".to_owned(),
        ],
        environment: vec![("URL".to_owned(), "postgres://u:p@h".to_owned())],
        ..Sources::default()
    };
    let settings = load(&sources).unwrap().settings;
    assert_eq!(settings.plugin.config.get("url").map(String::as_str), Some("postgres://u:p@h"));
    let text = show::effective(&settings, false);
    assert!(text.contains("${env:URL}") && !text.contains("postgres://"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_reload_takes_what_may_change_and_keeps_the_rest() {
    let before = load(
        &with(&["listeners=PLAINTEXT://127.0.0.1:0", "streamside.plugin.config.a=${env:X}"])
            .tap(|s| s.environment = vec![("X".to_owned(), "${literal".to_owned())]),
    )
    .unwrap()
    .settings;
    let sources = with(&["listeners=PLAINTEXT://127.0.0.1:1", "streamside.log.level=debug", "max.connections=5"]);
    let (change, _) = reload(&before, &sources).unwrap();
    assert_eq!(change.settings.listener.port, 0);
    assert_eq!(change.settings.log.level, "debug");
    assert_eq!(change.settings.max_connections, 5);
    assert_eq!(change.settings.plugin.config, before.plugin.config);
    let names = |list: &[(String, String)]| list.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>();
    assert_eq!(names(&change.changed), ["max.connections", "streamside.log.level"]);
    assert_eq!(names(&change.refused), ["listeners", "streamside.plugin.config.a"]);

    let (again, _) = reload(&change.settings, &sources).unwrap();
    assert!(again.changed.is_empty());
    assert!(reload(&change.settings, &with(&["max.connections=x"])).is_err());
}

trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Tap for Sources {}

#[test]
fn the_documentation_is_what_the_table_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let expected = show::documentation();
    if std::env::var_os("STREAMSIDE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/configuration.md is out of date: STREAMSIDE_WRITE_DOCS=1 cargo test -p streamside documentation"
    );
}

#[test]
fn the_samples_load_without_a_word() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    for name in ["standalone.properties", "standalone.toml", "sidecar.properties", "sidecar.toml"] {
        let loaded = load(&Sources { file: Some(folder.join(name)), ..Sources::default() }).unwrap();
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
    }
}

#[test]
fn before_a_cluster_the_listener_leaves_the_brokers_port_free() {
    let settings = load(&with(&["streamside.upstream=kafka-1:9092,kafka-2:9092"])).unwrap().settings;
    assert_eq!(settings.listener.to_string(), "127.0.0.1:19092");
    assert_eq!(settings.advertised, settings.listener);
    let upstream = settings.upstream.unwrap();
    assert_eq!(upstream.bootstrap.len(), 2);
    assert_eq!((upstream.mode, upstream.addresses), (upstream::Mode::Full, upstream::Addressing::Gateway));
    assert_eq!((upstream.push, upstream.gone_after), (upstream::PushMode::Auto, Duration::from_secs(8 * 86_400)));
    assert!(upstream.restore_client_host && !upstream.redact_hidden_topics);
    let given = with(&["streamside.upstream=kafka:9092", "listeners=PLAINTEXT://127.0.0.1:9092"]);
    assert_eq!(load(&given).unwrap().settings.listener.port, 9092);
    assert_eq!(load(&Sources::default()).unwrap().settings.upstream, None);
}

#[test]
fn an_upstream_that_cannot_be_meant_stops_the_start() {
    one_mistake(&["streamside.upstream=127.0.0.1:19092"], &["our own listener"]);
    one_mistake(&["streamside.upstream=kafka"], &["no port", "HOST:PORT"]);
    one_mistake(&["streamside.upstream=a:1,b:1", "streamside.addresses=advertised"], &["must be one broker"]);
    one_mistake(
        &["streamside.upstream=a:1", "streamside.node.ports=1:13310"],
        &["node 1", "13310", "streamside.http.listen"],
    );
    one_mistake(&["streamside.upstream=a:1", "streamside.node.ports=1:19092"], &["that of listeners"]);
    one_mistake(&["streamside.upstream=a:1", "streamside.node.ports=1"], &["BASE+id"]);
    one_mistake(&["streamside.upstream.gone.after=soon"], &["as 8d"]);
    one_mistake(&["streamside.upstream=a:1", "listeners=PLAINTEXT://0.0.0.0:19092"], &["set advertised.listeners"]);
}
