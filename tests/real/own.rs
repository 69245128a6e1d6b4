//! Our own command line against Kafka brokers: it reads them as it reads Streamside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::server::free_port;
use streamside_testkit::topologies::{samples, tests_folder};
use tempfile::TempDir;

use crate::broker::Setup;
use crate::java::{KAFKA, Ran, must, streams_groups};
use crate::stage::{SETTINGS, Stage};

fn streamside(bootstrap: &str, line: &str) -> Ran {
    let mut args = line.split(' ');
    let command = args.next().unwrap();
    Ran::of(Command::new(env!("CARGO_BIN_EXE_streamside")).args([command, "--bootstrap-server", bootstrap]).args(args))
}

fn golden(file: &str) -> String {
    fs::read_to_string(tests_folder().join("golden").join(file)).unwrap()
}

fn broker() -> Setup {
    SETTINGS.iter().fold(Setup::default(), |setup, (key, value)| setup.set(key, value))
}

/// The 41 topologies stored and left, one with a member, one that is asked and stays silent.
fn fill(stage: &mut Stage) -> Vec<String> {
    let names = stage.push_samples();
    let pipe = samples().unwrap().swap_remove(1);
    stage.join_and_push("with-member", &pipe.description);
    stage.join("silent");
    names
}

fn by_group(text: &str) -> Vec<Value> {
    let mut all: Value = serde_json::from_str(text).unwrap();
    let mut groups: Vec<Value> = std::mem::take(all["groups"].as_array_mut().unwrap());
    groups.sort_by_key(|g| g["group"].as_str().unwrap().to_owned());
    groups
}

/// Every command, on a Kafka 4.4.0 broker and on Streamside with the same groups: the same words and exit codes.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn our_commands_read_kafka_as_they_read_streamside() {
    let kafka = broker().start(KAFKA);
    let mut there = Stage::at(kafka.port);
    let mut here = Stage::new();
    let names = fill(&mut there);
    fill(&mut here);
    let both = |line: &str| {
        let (there, here) = (streamside(&there.bootstrap(), line), streamside(&here.bootstrap(), line));
        assert_eq!((there.code, &there.err), (here.code, &here.err), "{line}");
        (there, here)
    };

    let every = names.iter().map(|n| format!(" --group {n}")).collect::<String>();
    let (there_text, here_text) = both(&format!("topology{every}"));
    let wanted: String = names.iter().map(|name| golden(&format!("{name}.txt"))).collect();
    assert!(there_text.out == wanted && here_text.out == wanted, "the stock tool's bytes");

    for line in ["groups --json", "topology --all-groups --json", "members --group with-member --group silent --json"] {
        let (there, here) = both(line);
        let (there, here) = (by_group(&there.out), by_group(&here.out));
        assert!(!there.is_empty());
        assert_eq!(there, here, "{line}");
    }
    for line in [
        "groups --group with-member --group 02-pipe --group nobody",
        "members --group with-member",
        "members --group nobody",
        "topology --group with-member --format describe",
        "topology --group with-member --format json",
        "topology --group silent",
        "topology --group nobody --group 02-pipe",
    ] {
        let (there, here) = both(line);
        assert_eq!(there.out, here.out, "{line}");
    }
    assert_eq!(streamside(&there.bootstrap(), "topology --group nobody").code, 1);
}

/// A certificate authority and a key for 127.0.0.1, signed by it; made with Java's own tool.
struct Keys {
    store: PathBuf,
    trust: PathBuf,
}

const PASSWORD: &str = "lock-and-key";

impl Keys {
    fn make(folder: &Path) -> Self {
        let path = |name: &str| folder.join(name).display().to_string();
        let (ca, store, request, signed, trust) =
            (path("ca.p12"), path("broker.p12"), path("broker.csr"), path("broker.pem"), path("trust.pem"));
        let keytool = |line: &str, more: &[&str]| {
            must(Command::new("keytool").args(line.split(' ')).args(more).args(["-storepass", PASSWORD]));
        };
        let pair = "-genkeypair -keyalg EC -groupname secp256r1 -storetype PKCS12 -validity 2 -alias";
        keytool(&format!("{pair} ca -dname CN=Test-Authority -ext bc:c -keystore"), &[&ca]);
        keytool("-exportcert -rfc -alias ca -keystore", &[&ca, "-file", &trust]);
        keytool(&format!("{pair} broker -dname CN=broker -keystore"), &[&store]);
        keytool("-certreq -alias broker -keystore", &[&store, "-file", &request]);
        let names = "-gencert -rfc -alias ca -validity 2 -ext san=ip:127.0.0.1 -keystore";
        keytool(names, &[&ca, "-infile", &request, "-outfile", &signed]);
        keytool("-importcert -noprompt -alias ca -keystore", &[&store, "-file", &trust]);
        keytool("-importcert -noprompt -alias broker -keystore", &[&store, "-file", &signed]);
        Self { store: store.into(), trust: trust.into() }
    }
}

/// A broker with a listener for each way to be secure, asked with `--command-config` as its own tools are.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn our_commands_log_in_and_encrypt() {
    let folder = TempDir::new().unwrap();
    let keys = Keys::make(folder.path());
    let (login, tls, both) = (free_port().unwrap(), free_port().unwrap(), free_port().unwrap());
    let mut setup = broker()
        .listener("LOGIN", login, "SASL_PLAINTEXT")
        .listener("TLS", tls, "SSL")
        .listener("BOTH", both, "SASL_SSL")
        .scram_user("ann", "scram-secret")
        .set("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512")
        .set("ssl.keystore.type", "PKCS12")
        .set("ssl.keystore.location", &keys.store.display().to_string())
        .set("ssl.keystore.password", PASSWORD);
    let modules = "org.apache.kafka.common.security";
    for listener in ["login", "both"] {
        setup = setup
            .set(
                &format!("listener.name.{listener}.plain.sasl.jaas.config"),
                &format!("{modules}.plain.PlainLoginModule required user_ann=\"plain-secret\";"),
            )
            .set(
                &format!("listener.name.{listener}.scram-sha-512.sasl.jaas.config"),
                &format!("{modules}.scram.ScramLoginModule required;"),
            );
    }
    let kafka = setup.start(KAFKA);
    Stage::at(kafka.port).join("guarded");

    let plain = |password: &str| {
        format!(
            "sasl.mechanism=PLAIN\nsasl.jaas.config={modules}.plain.PlainLoginModule required \\\n  username=\"ann\" password=\"{password}\";\n"
        )
    };
    let scram = |password: &str| {
        format!(
            "sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={modules}.scram.ScramLoginModule required username=\"ann\" password=\"{password}\";\n"
        )
    };
    let trust = format!("ssl.truststore.type=PEM\nssl.truststore.location={}\n", keys.trust.display());
    let ask = |port: u16, config: &str, timeout_ms: u32| {
        let file = folder.path().join("client.properties");
        fs::write(&file, config).unwrap();
        let line = format!("groups --timeout {timeout_ms} --command-config {}", file.display());
        streamside(&format!("127.0.0.1:{port}"), &line)
    };

    let clear = "security.protocol=SASL_PLAINTEXT\n";
    let encrypted = "security.protocol=SASL_SSL\n";
    for (port, config) in [
        (login, format!("{clear}{}", plain("plain-secret"))),
        (login, format!("{clear}{}", scram("scram-secret"))),
        (tls, format!("security.protocol=SSL\n{trust}")),
        (both, format!("{encrypted}{trust}{}", plain("plain-secret"))),
        (both, format!("{encrypted}{trust}{}", scram("scram-secret"))),
    ] {
        let ran = ask(port, &config, 20_000);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{config}{}", ran.out);
        assert!(ran.out.contains("guarded"), "{config}{}", ran.out);
    }

    for (port, config, words) in [
        (login, format!("{clear}{}", plain("wrong")), "login"),
        (login, format!("{clear}{}", scram("wrong")), "login"),
        (login, String::new(), "security.protocol=SASL_PLAINTEXT"),
        (tls, "security.protocol=SSL\n".to_owned(), "ssl.truststore.location"),
        (tls, String::new(), "security.protocol=SSL"),
        (login, format!("security.protocol=SSL\n{trust}"), "TLS"),
    ] {
        let ran = ask(port, &config, 4000);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{config}{}", ran.err);
        assert!(ran.err.contains(words), "{config}{}", ran.err);
        assert!(!ran.err.contains("wrong") && ran.err.lines().count() == 1, "{}", ran.err);
    }
}

/// Brokers from 4.1 to 4.3 have streams groups and no descriptions: the stock tool's words, and ours.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn brokers_before_descriptions_are_named_as_such() {
    for version in ["4.1.1", "4.2.0", "4.3.0"] {
        let kafka = broker().start(version);
        let mut client = Client::open(kafka.port, "real").unwrap();
        let joined = client.join_with(0, "old", "m", &json!({"Epoch": 0, "Subtopologies": []})).unwrap();
        assert_eq!(joined["ErrorCode"], 0, "{version}: {joined}");
        let bootstrap = format!("127.0.0.1:{}", kafka.port);

        let ran = streams_groups(&bootstrap, ["--describe", "--group", "old", "--topology"]);
        assert_eq!((ran.out, ran.code), (golden("x-old-broker.txt"), 1), "{version}");
        let ran = streamside(&bootstrap, "topology --group old");
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{version}");
        let words = "The broker that coordinates streams group 'old' knows no topology descriptions";
        assert!(ran.err.starts_with(words), "{version}: {}", ran.err);
        let ran = streamside(&bootstrap, "groups");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{version}");
        let row = ran.out.lines().find(|line| line.starts_with("old")).unwrap_or_default();
        assert!(row.ends_with("not available from this broker"), "{version}: {}", ran.out);
    }
}
