//! Secured clusters behind us: TLS on both sides, logins that pass, client certificates.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use streamside_client::{Cluster, Login, Mechanism, Member, MemberOptions, Options, Pem, Secret, TlsOptions};
use streamside_testkit::certificates::Authority;
use streamside_testkit::server::{Server, Setup as Ours, free_port};
use streamside_wire::messages::streams_group_heartbeat::{Subtopology, Topology};
use streamside_wire::messages::topology_description::{Node, Subtopology as DescribedSubtopology, TopologyDescription};
use tempfile::TempDir;

use crate::broker::{Broker, Setup};
use crate::driver::Driver;
use crate::java::{KAFKA, Ran, admin_probe, class_path, jvm, must, streams_groups};
use crate::stage::SETTINGS;

const MODULES: &str = "org.apache.kafka.common.security";
/// Everyone's password is the name and this.
pub const SECRET: &str = "hush-hush";

/// An authority, and what it signed: certificate and key of broker and sidecar, good for 127.0.0.1.
pub struct Keys {
    authority: Authority,
    folder: TempDir,
}

impl Keys {
    /// Made on the spot.
    pub fn new() -> Self {
        let keys = Self { authority: Authority::new().unwrap(), folder: TempDir::new().unwrap() };
        fs::write(keys.trust(), keys.authority.pem()).unwrap();
        keys.issue("broker");
        keys.issue("sidecar");
        keys
    }

    fn trust(&self) -> PathBuf {
        self.folder.path().join("trust.pem")
    }

    /// The file with the key and the certificate of someone.
    fn issue(&self, name: &str) -> PathBuf {
        let identity = self.authority.issue(name, &["127.0.0.1", "localhost"]).unwrap();
        identity.write(self.folder.path(), &format!("{name}.pem")).unwrap()
    }

    fn of(&self, name: &str) -> String {
        self.folder.path().join(format!("{name}.pem")).display().to_string()
    }

    /// A broker that trusts the authority and shows its certificate.
    pub fn broker(&self) -> Setup {
        SETTINGS
            .iter()
            .fold(Setup::default(), |setup, (key, value)| setup.set(key, value))
            .set("ssl.keystore.type", "PEM")
            .set("ssl.keystore.location", &self.of("broker"))
            .set("ssl.truststore.type", "PEM")
            .set("ssl.truststore.location", &self.trust().display().to_string())
    }

    /// A sidecar that trusts the authority on both sides, in front of a broker's port.
    pub fn sidecar(&self, protocol: &'static str, port: u16) -> Ours {
        Ours::new(env!("CARGO_BIN_EXE_streamside"))
            .protocol(protocol)
            .set("ssl.keystore.type", "PEM")
            .set("ssl.keystore.location", self.of("sidecar"))
            .set("streamside.upstream", format!("127.0.0.1:{port}"))
            .set("streamside.upstream.security.protocol", protocol)
            .set("streamside.upstream.ssl.truststore.type", "PEM")
            .set("streamside.upstream.ssl.truststore.location", self.trust().display())
            .set("streamside.log.level", "trace")
    }

    /// The file that a stock client takes.
    pub fn client(&self, port: u16, lines: &str) -> PathBuf {
        let file = self.folder.path().join(format!("client-{port}.properties"));
        let trust = self.trust();
        let common = format!("ssl.truststore.type=PEM\nssl.truststore.location={}\n", trust.display());
        fs::write(&file, format!("bootstrap.servers=127.0.0.1:{port}\n{common}{lines}")).unwrap();
        file
    }

    fn tls(&self) -> TlsOptions {
        TlsOptions { trust: Some(Pem::File(self.trust())), ..TlsOptions::default() }
    }
}

/// A listener with TLS and logins by PLAIN and SCRAM-SHA-512.
pub fn with_logins(setup: Setup, port: u16, users: &[&str]) -> Setup {
    let known: String = users.iter().map(|user| format!(" user_{user}=\"{user}-{SECRET}\"")).collect();
    setup
        .listener("LOGIN", port, "SASL_SSL")
        .scram_user("ann", &format!("ann-{SECRET}"))
        .set("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512")
        .set(
            "listener.name.login.plain.sasl.jaas.config",
            &format!("{MODULES}.plain.PlainLoginModule required{known};"),
        )
        .set(
            "listener.name.login.scram-sha-512.sasl.jaas.config",
            &format!("{MODULES}.scram.ScramLoginModule required;"),
        )
}

/// What a stock client logs in by.
pub fn login_lines(mechanism: &str, user: &str, password: &str) -> String {
    let module = if mechanism == "PLAIN" { "plain.PlainLoginModule" } else { "scram.ScramLoginModule" };
    format!(
        "security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n\
         sasl.jaas.config={MODULES}.{module} required username=\"{user}\" password=\"{password}\";\n"
    )
}

fn tool(config: &Path, port: u16, args: &[&str]) -> Ran {
    let config = config.display().to_string();
    let mut all = vec!["--command-config", &config];
    all.extend(args);
    streams_groups(&format!("127.0.0.1:{port}"), all)
}

/// Waits until a server of ours is.
pub fn ready(server: &Server) {
    let start = Instant::now();
    while !server.get("/readyz").is_ok_and(|(status, _)| status == 200) {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", server.log());
        sleep(Duration::from_millis(50));
    }
}

/// For what our own client does.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// How our own client logs in.
pub fn login(keys: &Keys, mechanism: Mechanism, user: &str) -> Options {
    let password = Secret::new(format!("{user}-{SECRET}"));
    Options {
        tls: Some(keys.tls()),
        login: Some(Login { mechanism, username: user.to_owned(), password }),
        ..Options::default()
    }
}

/// One source, one sink.
pub fn description() -> TopologyDescription {
    let node = |name: &str, node_type: i8, topic: &str, next: &[&str]| Node {
        name: name.to_owned(),
        node_type,
        source_topics: if node_type == 1 { vec![topic.to_owned()] } else { Vec::new() },
        sink_topic: (node_type == 3).then(|| topic.to_owned()),
        successors: next.iter().map(|n| (*n).to_owned()).collect(),
        ..Node::default()
    };
    TopologyDescription {
        subtopologies: vec![DescribedSubtopology {
            subtopology_id: "0".to_owned(),
            nodes: vec![node("SOURCE", 1, "orders", &["SINK"]), node("SINK", 3, "orders", &[])],
            ..DescribedSubtopology::default()
        }],
        ..TopologyDescription::default()
    }
}

/// The assignment topology that belongs to it.
pub fn topology() -> Topology {
    let subtopology = Subtopology {
        subtopology_id: "0".to_owned(),
        source_topics: vec!["orders".to_owned()],
        ..Subtopology::default()
    };
    Topology { epoch: 0, subtopologies: vec![subtopology], ..Topology::default() }
}

fn no_secret_in(log: &str) {
    assert!(!log.contains(SECRET), "{log}");
    assert!(!log.contains("BEGIN PRIVATE KEY"), "{log}");
}

/// Neither in its log nor in its data folder.
pub fn leaves_no_secret(server: &Server) {
    no_secret_in(&server.log());
    for entry in fs::read_dir(server.folder().join("data")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()), "{}", path.display());
    }
}

/// Logins of both kinds pass through untouched; the nodes are learnt from the first client and known after a restart.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn logins_pass_and_nodes_are_known_after_a_restart() {
    let keys = Keys::new();
    let port = free_port().unwrap();
    let kafka = with_logins(keys.broker(), port, &["ann"]).start(KAFKA);
    must(&mut topics(&kafka, "orders"));
    let mut sidecar = keys.sidecar("SASL_SSL", port).start().unwrap();

    // A member of ours lives behind it, logged in by SCRAM, and its description is stored.
    let pushed = runtime().block_on(async {
        let options = login(&keys, Mechanism::ScramSha512, "ann");
        let cluster = Cluster::connect(&format!("127.0.0.1:{}", sidecar.port), options).await.unwrap();
        let group = MemberOptions { group_id: "guarded".to_owned(), topology: topology(), ..MemberOptions::default() };
        let mut member = Member::new(cluster.clone(), group);
        member.beat().await.unwrap();
        assert!(member.is_asked());
        member.push(description()).await.unwrap();
        let node = cluster.brokers().await.unwrap().first().unwrap().address.port;
        member.leave().await.unwrap();
        node
    });
    let (node, bootstrap) = (pushed, sidecar.port);
    assert!(node != port && node != bootstrap, "the node has a port of ours");

    let native = keys.client(port, &login_lines("PLAIN", "ann", &format!("ann-{SECRET}")));
    let wanted = tool(&native, port, &["--list"]);
    assert_eq!((wanted.code, wanted.out.trim()), (0, "guarded"), "{}", wanted.err);
    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        let file = keys.client(bootstrap, &login_lines(mechanism, "ann", &format!("ann-{SECRET}")));
        let listed = tool(&file, bootstrap, &["--list"]);
        assert_eq!((listed.code, &listed.out), (0, &wanted.out), "{mechanism}: {}", listed.err);
        let told = admin_probe(&format!("@{}", file.display()), "guarded", &["cluster", "list", "describe", "missing"]);
        assert!(told.contains(&format!("node=127.0.0.1:{node}")), "{told:?}");
        assert!(told.contains(&"status=AVAILABLE".to_owned()), "{told:?}");
        assert!(told.contains(&"subtopologies=[0:2]".to_owned()), "{told:?}");

        // A wrong password is refused in the broker's words.
        let wrong = |port: u16| {
            let file = keys.client(port, &login_lines(mechanism, "ann", "hush-wrong"));
            let ran = tool(&file, port, &["--list"]);
            let error =
                ran.err.lines().find(|l| l.contains("SaslAuthenticationException")).unwrap_or(&ran.err).to_owned();
            (ran.code, error)
        };
        assert_eq!(wrong(bootstrap), wrong(port), "{mechanism}");
    }

    // Nobody has logged in since the restart, yet the node's port is open, and leads to the node.
    sidecar.stop().unwrap();
    leaves_no_secret(&sidecar);
    sidecar.restart().unwrap();
    ready(&sidecar);
    TcpStream::connect(("127.0.0.1", node)).unwrap();
    let file = keys.client(node, &login_lines("PLAIN", "ann", &format!("ann-{SECRET}")));
    let listed = tool(&file, node, &["--list"]);
    assert_eq!((listed.code, &listed.out), (0, &wanted.out), "{}", listed.err);

    // With a login of our own the nodes are known without any client.
    sidecar.stop().unwrap();
    let own = format!("{MODULES}.scram.ScramLoginModule required username=\"ann\" password=\"ann-{SECRET}\";");
    let fresh = keys
        .sidecar("SASL_SSL", port)
        .set("streamside.upstream.sasl.mechanism", "SCRAM-SHA-512")
        .set("streamside.upstream.sasl.jaas.config", own)
        .start()
        .unwrap();
    ready(&fresh);
    assert!(fresh.log().contains("the upstream answers"), "{}", fresh.log());
    let log = fresh.log();
    let known = log.lines().find(|line| line.contains("a node of the cluster")).and_then(|l| l.split(" port=").nth(1));
    let node: u16 = known.unwrap_or_else(|| panic!("no node is known: {log}")).trim().parse().unwrap();
    TcpStream::connect(("127.0.0.1", node)).unwrap();
    leaves_no_secret(&fresh);

    // A wrong one is told, and takes nothing from the clients.
    drop(fresh);
    let wrong = format!("{MODULES}.scram.ScramLoginModule required username=\"ann\" password=\"{SECRET}-wrong\";");
    let fresh = keys
        .sidecar("SASL_SSL", port)
        .set("streamside.upstream.sasl.mechanism", "SCRAM-SHA-512")
        .set("streamside.upstream.sasl.jaas.config", wrong)
        .start()
        .unwrap();
    let file = keys.client(fresh.port, &login_lines("PLAIN", "ann", &format!("ann-{SECRET}")));
    let listed = tool(&file, fresh.port, &["--list"]);
    assert_eq!((listed.code, &listed.out), (0, &wanted.out), "{}", listed.err);
    let (status, body) = fresh.get("/readyz").unwrap();
    assert!(status == 200 && body.contains("the login was refused"), "{status} {body}");
    leaves_no_secret(&fresh);
}

/// An unmodified application, encrypted and logged in: it runs, is asked for its description, and its topics are read.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn an_application_runs_encrypted_and_logged_in() {
    let keys = Keys::new();
    let port = free_port().unwrap();
    let kafka = with_logins(keys.broker(), port, &["ann"])
        // A client logs in again on the connections that it has.
        .set("listener.name.login.connections.max.reauth.ms", "4000")
        .without_plugin()
        .start(KAFKA);
    let sidecar = keys.sidecar("SASL_SSL", port).start().unwrap();
    for (mechanism, module) in [("SCRAM-SHA-512", "scram.ScramLoginModule"), ("PLAIN", "plain.PlainLoginModule")] {
        let mut clients = Driver::new(format!("127.0.0.1:{}", sidecar.port));
        let module = format!("{MODULES}.{module} required username=\"ann\" password=\"ann-{SECRET}\";");
        clients.configure(&json!({
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": module,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": keys.trust().display().to_string(),
        }));
        let application = format!("words-{mechanism}");
        clients.start("one", &application, "wordcount", &json!({}));
        clients.running("one", Duration::from_secs(60));
        let start = Instant::now();
        let described = loop {
            let described = clients.describe(&application).unwrap();
            if described["status"] == "AVAILABLE" || start.elapsed() > Duration::from_secs(30) {
                break described;
            }
            sleep(Duration::from_millis(200));
        };
        assert_eq!(described["status"], "AVAILABLE", "{described} {}", sidecar.log());
        assert_eq!(described["subtopologies"], json!(["0:5", "1:5"]));
        if mechanism != "PLAIN" {
            // Long enough for logins anew.
            sleep(Duration::from_secs(9));
            clients.ask(json!({"do": "produce", "topic": "words", "values": ["a b c"]}));
            assert_eq!(clients.read("wordcounts", 3), ["a=1", "b=1", "c=1"]);
        }
        clients.close("one");
        assert!(!clients.log().contains("Exception"), "{}", clients.log());
    }
    leaves_no_secret(&sidecar);
    drop(kafka);
}

/// Client certificates end with us: clients show theirs to us, we show ours to the broker, who takes it for them all.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn certificates_are_shown_on_both_sides() {
    let keys = Keys::new();
    let port = free_port().unwrap();
    let kafka = keys
        .broker()
        .listener("MUTUAL", port, "SSL")
        .set("ssl.client.auth", "required")
        .set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        .set("super.users", "User:ANONYMOUS;User:CN=sidecar")
        .start(KAFKA);
    let sidecar = keys
        .sidecar("SSL", port)
        .set("ssl.client.auth", "required")
        .set("ssl.truststore.type", "PEM")
        .set("ssl.truststore.location", keys.trust().display())
        .set("streamside.upstream.ssl.keystore.type", "PEM")
        .set("streamside.upstream.ssl.keystore.location", keys.of("sidecar"))
        .start()
        .unwrap();
    crate::stage::Stage::at(kafka.port).join("mutual");

    keys.issue("ann");
    let shown = format!("security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={}\n", keys.of("ann"));
    // Ann has no right at the broker; through us she has the sidecar's.
    let direct = tool(&keys.client(port, &shown), port, &["--describe", "--group", "mutual"]);
    assert_ne!(direct.code, 0, "{}", direct.out);
    let file = keys.client(sidecar.port, &shown);
    let listed = tool(&file, sidecar.port, &["--list"]);
    assert_eq!((listed.code, listed.out.trim()), (0, "mutual"), "{}", listed.err);
    let told = admin_probe(&format!("@{}", file.display()), "mutual", &["describe-plain"]);
    assert_eq!(told.first().map(String::as_str), Some("plain-status=NOT_REQUESTED"), "{told:?}");

    let nameless =
        keys.client(sidecar.port, "security.protocol=SSL\nrequest.timeout.ms=3000\ndefault.api.timeout.ms=4000\n");
    let refused = tool(&nameless, sidecar.port, &["--list"]);
    assert_ne!(refused.code, 0, "{}", refused.out);
    assert!(
        sidecar.log().contains("the client shows no certificate and ssl.client.auth is required"),
        "{}",
        sidecar.log()
    );
    no_secret_in(&sidecar.log());
}

/// The command that makes a topic.
pub fn topics(kafka: &Broker, name: &str) -> std::process::Command {
    let mut command = jvm(&class_path(KAFKA));
    let bootstrap = format!("127.0.0.1:{}", kafka.port);
    command.args([
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        &bootstrap,
        "--create",
        "--topic",
        name,
    ]);
    command
}
