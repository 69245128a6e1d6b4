//! The Kafka listener with TLS: who is let in, what refuses the start, what the log says of failed handshakes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

#[path = "tls/gateway.rs"]
mod gateway;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use streamside_client::{Cluster, Error, Member, MemberOptions, Options, Pem, Secret, TlsConnector, TlsOptions};
use streamside_testkit::certificates::{Authority, Identity};
use streamside_testkit::client::Client;
use streamside_testkit::process::hang_up;
use streamside_testkit::server::{Server, Setup};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const BINARY: &str = env!("CARGO_BIN_EXE_streamside");
const HOST: [&str; 2] = ["127.0.0.1", "localhost"];

/// A server with a certificate by `authority` in `folder`; the folder outlives it.
fn secured(authority: &Authority, folder: &Path) -> Setup {
    let own = authority.issue("server", &HOST).unwrap().write(folder, "server.pem").unwrap();
    std::fs::write(folder.join("trust.pem"), authority.pem()).unwrap();
    Setup::new(BINARY)
        .protocol("SSL")
        .set("ssl.keystore.type", "PEM")
        .set("ssl.keystore.location", own.display())
        .set("streamside.log.level", "debug")
}

fn asking(setup: Setup, folder: &Path, auth: &str) -> Setup {
    setup
        .set("ssl.client.auth", auth)
        .set("ssl.truststore.type", "PEM")
        .set("ssl.truststore.location", folder.join("trust.pem").display())
}

fn trusting(authority: &Authority) -> TlsOptions {
    TlsOptions { trust: Some(Pem::Text(Secret::new(authority.pem()))), ..TlsOptions::default() }
}

fn as_client(authority: &Authority, identity: &Identity) -> TlsOptions {
    TlsOptions {
        certificate: Some(Pem::Text(Secret::new(identity.certificate.clone()))),
        key: Some(Pem::Text(Secret::new(identity.key.clone()))),
        ..trusting(authority)
    }
}

fn options(tls: TlsOptions) -> Options {
    Options {
        tls: Some(tls),
        request_timeout: Duration::from_secs(5),
        call_timeout: Duration::from_secs(5),
        ..Options::default()
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// How many brokers a client is told, by the way of all its requests.
fn brokers(server: &Server, tls: TlsOptions) -> Result<usize, Error> {
    runtime().block_on(async {
        let cluster = Cluster::connect(&format!("127.0.0.1:{}", server.port), options(tls)).await?;
        Ok(cluster.brokers().await?.len())
    })
}

fn eventually_logged(server: &Server, part: &str) {
    let start = Instant::now();
    while !server.log().contains(part) {
        assert!(start.elapsed() < Duration::from_secs(10), "{part:?} is not in the log: {}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn members_live_behind_tls() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    for versions in ["TLSv1.2", "TLSv1.3", "TLSv1.3, TLSv1.2"] {
        let setup = secured(&authority, folder.path()).set("ssl.enabled.protocols", versions);
        let mut server = setup.start().unwrap();
        runtime().block_on(async {
            let address = format!("127.0.0.1:{}", server.port);
            let cluster = Cluster::connect(&address, options(trusting(&authority))).await.unwrap();
            let group = MemberOptions { group_id: "orders".to_owned(), ..MemberOptions::default() };
            let mut member = Member::new(cluster.clone(), group);
            assert_eq!(member.beat().await.unwrap().error_code, 0, "{versions}");
            assert!(member.is_asked());
            member.push(Default::default()).await.unwrap();
            let found = cluster.list_groups(&["streams"]).await.unwrap();
            assert_eq!(found.first().map(|g| g.group_id.as_str()), Some("orders"));
            member.leave().await.unwrap();
        });
        assert!(server.log().contains("--command-config client.properties"), "{}", server.log());
        assert!(server.stop().unwrap().success());
    }
}

/// Far more than socket buffers and the TLS layer hold, while the client does not read.
fn all_answers_reach_a_slow_reader(server: &Server, authority: &Authority) {
    const REQUESTS: i32 = 30_000;
    runtime().block_on(async {
        let tcp = tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let connector = TlsConnector::new(&trusting(authority)).unwrap();
        let stream = connector.connect("127.0.0.1", tcp, Duration::from_secs(5)).await.unwrap();
        let (mut read, mut write) = tokio::io::split(stream);
        let writer = async move {
            for number in 0..REQUESTS {
                // ApiVersions v0 without a client id.
                let mut frame = vec![0, 0, 0, 10, 0, 18, 0, 0];
                frame.extend_from_slice(&number.to_be_bytes());
                frame.extend_from_slice(&[0xff, 0xff]);
                write.write_all(&frame).await.unwrap();
            }
            write.flush().await.unwrap();
            write
        };
        let reader = async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            for number in 0..REQUESTS {
                let length = read.read_u32().await.unwrap();
                let mut body = vec![0; length as usize];
                read.read_exact(&mut body).await.unwrap();
                assert_eq!(body.first_chunk::<4>().map(|b| i32::from_be_bytes(*b)), Some(number));
            }
        };
        let both = async { tokio::join!(writer, reader) };
        tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    });
}

#[test]
fn answers_wait_for_a_slow_reader_and_all_arrive() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let server = secured(&authority, folder.path()).start().unwrap();
    all_answers_reach_a_slow_reader(&server, &authority);
}

#[test]
fn clients_show_a_certificate_as_ssl_client_auth_asks() {
    let (authority, stranger, folder) = (Authority::new().unwrap(), Authority::new().unwrap(), TempDir::new().unwrap());
    let good = authority.issue("ann", &[]).unwrap();
    let expired = authority.issue_for_days("ann", &[], -2).unwrap();
    let strange = stranger.issue("ann", &[]).unwrap();
    for (auth, without, with_strange) in [("none", true, true), ("requested", true, false), ("required", false, false)]
    {
        let server = asking(secured(&authority, folder.path()), folder.path(), auth).start().unwrap();
        assert_eq!(brokers(&server, trusting(&authority)).is_ok(), without, "{auth}");
        assert_eq!(brokers(&server, as_client(&authority, &good)), Ok(1), "{auth}");
        assert_eq!(brokers(&server, as_client(&authority, &strange)).is_ok(), with_strange, "{auth}");
        assert_eq!(brokers(&server, as_client(&authority, &expired)).is_ok(), with_strange, "{auth}");
        if auth == "required" {
            eventually_logged(&server, "the client shows no certificate and ssl.client.auth is required");
            eventually_logged(&server, "the client's certificate is signed by nobody in ssl.truststore.*");
            eventually_logged(&server, "the client's certificate has expired");
        }
    }
}

#[test]
fn a_client_that_does_not_trust_us_is_told_in_the_log() {
    let (authority, stranger, folder) = (Authority::new().unwrap(), Authority::new().unwrap(), TempDir::new().unwrap());
    let server = secured(&authority, folder.path()).start().unwrap();
    let error = brokers(&server, trusting(&stranger)).unwrap_err();
    assert!(error.to_string().contains("signed by nobody that we trust"), "{error}");
    eventually_logged(&server, "the client does not trust our certificate");
}

#[test]
fn who_speaks_something_else_is_named_in_the_log() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let server = secured(&authority, folder.path()).set("streamside.frame.timeout.ms", 700).start().unwrap();
    let mut plain = Client::open(server.port, "plain").unwrap();
    assert!(plain.call("ApiVersions", 0, &serde_json::json!({})).is_err());
    eventually_logged(
        &server,
        "this looks like plaintext on a listener with TLS; set the client's security.protocol to SSL",
    );
    let closed = |first: &[u8]| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(first).unwrap();
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => rest,
            // Closed with bytes of ours unread.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => rest,
            Err(e) => panic!("not closed: {e}"),
        }
    };
    assert_eq!(closed(b"GET / HTTP/1.1\r\n\r\n"), b"");
    eventually_logged(&server, "this looks like HTTP on the Kafka listener");
    // A port check is not worth a warning, a client that stays silent is.
    let warnings = server.log().matches("WARN").count();
    drop(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap());
    eventually_logged(&server, "before the TLS handshake");
    assert_eq!(server.log().matches("WARN").count(), warnings);
    assert_eq!(closed(&[]), b"");
    eventually_logged(&server, "no TLS handshake within 700 ms");
    assert_eq!(closed(&[0x16, 3, 1, 0, 200]), b"");

    let plaintext = Setup::new(BINARY).start().unwrap();
    let error = brokers(&plaintext, trusting(&authority)).unwrap_err();
    assert!(error.to_string().contains("PLAINTEXT"), "{error}");
    eventually_logged(&plaintext, "this looks like TLS on a plaintext listener");
}

/// Starts what must not start: exit code 2, and what it says.
fn refused(setup: &Setup) -> String {
    let folder = TempDir::new().unwrap();
    let setup = setup.clone().set("streamside.data.dir", folder.path().join("data").display());
    let mut child = setup.set("streamside.http.listen", "off").spawn(folder.path()).unwrap();
    let status = child.wait().unwrap();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(status.code(), Some(2), "{log}");
    log
}

#[test]
fn what_cannot_be_used_stops_the_start_with_the_cure() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let port = streamside_testkit::server::free_port().unwrap();
    let base = secured(&authority, folder.path()).set("listeners", format!("SSL://127.0.0.1:{port}"));
    let file = |name: &str, text: &[u8]| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let keystore = |name: &str, text: &[u8]| base.clone().set("ssl.keystore.location", file(name, text));
    let (one, other) = (authority.issue("one", &HOST).unwrap(), authority.issue("other", &HOST).unwrap());
    let expired = authority.issue_for_days("old", &HOST, -3).unwrap();
    let encrypted = one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    for (setup, part) in [
        (base.clone().set("ssl.keystore.location", ""), "a listener with TLS needs a certificate and its key"),
        (base.clone().set("ssl.keystore.type", "JKS"), "server.pem is in PEM form; set ssl.keystore.type=PEM"),
        (
            keystore("me.jks", &[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2]).set("ssl.keystore.type", "JKS"),
            "me.jks' -destkeystore key.p12 -deststoretype PKCS12 && openssl pkcs12 -in key.p12 -nodes -out key.pem`",
        ),
        (keystore("me.p12", &[0x30, 0x82, 9, 0]), "the file is a PKCS12 store although the type says PEM"),
        (keystore("none.pem", b""), "no `BEGIN CERTIFICATE` block was found"),
        (keystore("keyless.pem", one.certificate.as_bytes()), "no private key in PEM form was found"),
        (
            keystore("mixed.pem", format!("{}{}", one.key, other.certificate).as_bytes()),
            "the private key does not belong to the first certificate",
        ),
        (
            keystore("encrypted.pem", format!("{encrypted}{}", one.certificate).as_bytes()),
            "the private key is encrypted; write it in the clear with `openssl pkcs8",
        ),
        (
            keystore("expired.pem", format!("{}{}", expired.key, expired.certificate).as_bytes()),
            "the certificate expired 3 days ago",
        ),
        (base.clone().set("ssl.client.auth", "required"), "nobody may vouch for them"),
        (base.clone().set("ssl.cipher.suites", "TLS_RSA_WITH_RC4_128_MD5"), "is not known here; there are TLS_AES"),
        (base.clone().set("ssl.provider", "BC"), "not in this build"),
        (
            base.clone().set("listeners", format!("SASL_SSL://127.0.0.1:{port}")),
            "SASL_SSL needs streamside.upstream: clients log in at the cluster behind us",
        ),
    ] {
        let log = refused(&setup);
        assert!(log.contains(part), "{part:?} is not in {log}");
        assert!(!log.contains(secret_line(&one)), "{log}");
    }
}

#[test]
fn check_tries_certificates_without_serving() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let own = authority.issue_for_days("server", &HOST, 90).unwrap().write(folder.path(), "server.pem").unwrap();
    let check = |keystore: &Path| {
        let keystore = format!("ssl.keystore.location={}", keystore.display());
        let overrides =
            ["listeners=SSL://127.0.0.1:0", "ssl.keystore.type=PEM", &keystore, "streamside.http.listen=off"];
        let mut command = std::process::Command::new(BINARY);
        command.arg("check").args(overrides.iter().flat_map(|o| ["--override", o])).current_dir(folder.path());
        let ran = command.output().unwrap();
        (ran.status.success(), String::from_utf8(ran.stdout).unwrap())
    };
    let (good, told) = check(&own);
    assert!(good && told.contains("The certificate in ssl.keystore can be used and ends in "), "{told}");
    std::fs::write(folder.path().join("torn.pem"), "torn").unwrap();
    let (good, told) = check(&folder.path().join("torn.pem"));
    assert!(
        !good && told.contains("TLS of the listener can't be used: ssl.keystore: no `BEGIN CERTIFICATE`"),
        "{told}"
    );
}

/// A line of the key that must be in no log.
fn secret_line(identity: &Identity) -> &str {
    identity.key.lines().nth(1).unwrap()
}

#[test]
fn a_new_certificate_is_taken_at_sighup_and_a_bad_one_is_not() {
    let (authority, next, folder) = (Authority::new().unwrap(), Authority::new().unwrap(), TempDir::new().unwrap());
    let server = secured(&authority, folder.path()).start().unwrap();
    assert_eq!(brokers(&server, trusting(&authority)), Ok(1));
    assert!(!server.log().contains("expires in"));

    next.issue_for_days("server", &HOST, 12).unwrap().write(folder.path(), "server.pem").unwrap();
    hang_up(server.pid()).unwrap();
    eventually_logged(&server, "the certificate in ssl.keystore expires in 1");
    assert_eq!(brokers(&server, trusting(&next)), Ok(1));
    assert!(brokers(&server, trusting(&authority)).is_err());
    let (_, metrics) = server.get("/metrics").unwrap();
    let end = metrics
        .lines()
        .find_map(|l| l.strip_prefix("streamside_certificate_expiry_timestamp_seconds{side=\"listener\"} "));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let left = end.unwrap().parse::<u64>().unwrap() - now;
    assert!((11 * 86_400..=12 * 86_400).contains(&left), "{left}");

    std::fs::write(folder.path().join("server.pem"), "torn").unwrap();
    hang_up(server.pid()).unwrap();
    eventually_logged(&server, "the certificates stay as they were");
    assert_eq!(brokers(&server, trusting(&next)), Ok(1));
}

#[test]
fn keys_given_in_the_settings_are_in_no_output() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let own = authority.issue("server", &HOST).unwrap();
    let server = asking(secured(&authority, folder.path()), folder.path(), "requested")
        .set("ssl.keystore.location", "")
        .set("ssl.keystore.key", own.key.replace('\n', " "))
        .set("ssl.keystore.certificate.chain", own.certificate.replace('\n', " "))
        .set("streamside.log.level", "trace")
        .start()
        .unwrap();
    assert_eq!(brokers(&server, trusting(&authority)), Ok(1));
    hang_up(server.pid()).unwrap();
    eventually_logged(&server, "the configuration was read again");
    assert!(!server.log().contains(secret_line(&own)));
    let (_, metrics) = server.get("/metrics").unwrap();
    assert!(!metrics.contains(secret_line(&own)));
}
