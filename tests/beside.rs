//! The real binary before scripted brokers: ports and the node map, an upstream that is away, wrong, or ourselves, the
//! switch to relay, `check`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use streamside_testkit::broker::{Broker, Map, Reply};
use streamside_testkit::client::Client;
use streamside_testkit::process::hang_up;
use streamside_testkit::server::{Server, Setup, free_port};

const BINARY: &str = env!("CARGO_BIN_EXE_streamside");
const TLS_ALERT: &[u8] = &[0x15, 3, 3, 0, 2, 2, 80];

/// Brokers that share what they say of themselves.
#[derive(Clone)]
struct Lab {
    map: Arc<Mutex<Map>>,
}

impl Lab {
    fn new() -> Self {
        Self { map: Arc::new(Mutex::new(Map::new("the-cluster"))) }
    }

    /// A broker that the cluster names under `node`.
    fn broker(&self, node: i32) -> Broker {
        let map = Arc::clone(&self.map);
        let broker = Broker::start(move |r| map.lock().unwrap().reply(r).unwrap_or(Reply::Close)).unwrap();
        self.map.lock().unwrap().nodes.insert(node, broker.port);
        broker
    }

    fn change(&self, change: impl FnOnce(&mut Map)) {
        change(&mut self.map.lock().unwrap());
    }
}

fn before(bootstrap: u16) -> Setup {
    Setup::new(BINARY)
        .set("streamside.upstream", format!("127.0.0.1:{bootstrap}"))
        .set("streamside.connect.timeout.ms", 2000)
}

/// A server that is ready before the broker at this port.
fn ready_before(bootstrap: u16) -> Server {
    let server = before(bootstrap).start().unwrap();
    is_ready(&server);
    server
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(50));
    }
}

fn brokers(port: u16) -> Vec<(i64, u16)> {
    let mut client = Client::open(port, "asks").unwrap();
    let answer = client.call("Metadata", 12, &json!({"Topics": []})).unwrap();
    assert_eq!(answer["ClusterId"], "the-cluster");
    let list = answer["Brokers"].as_array().unwrap();
    list.iter()
        .map(|b| {
            assert_eq!(b["Host"], "127.0.0.1");
            (b["NodeId"].as_i64().unwrap(), u16::try_from(b["Port"].as_u64().unwrap()).unwrap())
        })
        .collect()
}

fn readiness(server: &Server) -> Value {
    eventually("it never ends starting", || {
        let (status, body) = server.get("/readyz").unwrap();
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    })
}

/// The reason for which it says degraded.
fn reason(server: &Server) -> String {
    eventually("it never says degraded", || {
        let said = readiness(server);
        (said["status"] == "degraded").then(|| said["reasons"][0].as_str().unwrap().to_owned())
    })
}

fn is_ready(server: &Server) {
    eventually("it never says ready", || (readiness(server)["status"] == "ready").then_some(()));
}

fn run(arguments: &[String]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    let output = command.args(arguments).current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn overrides(settings: &[(&str, String)]) -> Vec<String> {
    settings.iter().flat_map(|(key, value)| ["--override".to_owned(), format!("{key}={value}")]).collect()
}

#[test]
fn every_port_that_an_answer_names_is_open_and_leads_to_its_node() {
    let lab = Lab::new();
    let (one, two) = (lab.broker(1), lab.broker(2));
    let server = before(one.port).start().unwrap();
    is_ready(&server);
    let named = brokers(server.port);
    assert_eq!(named.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2]);
    for (_, port) in &named {
        assert!(![one.port, two.port, server.port].contains(port), "an address of the cluster reached a client");
        assert_eq!(brokers(*port), named, "the same map from every node");
    }
    let count = two.connections();
    Client::open(named[1].1, "asks").unwrap().versions().unwrap();
    assert_eq!(two.connections(), count + 1);

    // A node that comes, first named to a client.
    let three = lab.broker(3);
    let grown = brokers(server.port);
    assert_eq!(grown[..2], named);
    Client::open(grown[2].1, "asks").unwrap().versions().unwrap();
    assert_eq!(three.connections(), 1);

    // One that FindCoordinator alone names.
    lab.change(|map| map.nodes = [(9, three.port)].into());
    let mut client = Client::open(server.port, "asks").unwrap();
    let found = client.call("FindCoordinator", 4, &json!({"KeyType": 0, "CoordinatorKeys": ["g"]})).unwrap();
    let port = u16::try_from(found["Coordinators"][0]["Port"].as_u64().unwrap()).unwrap();
    assert_ne!(port, three.port);
    assert_eq!(brokers(port), [(9, port)]);
    let (_, metrics) = server.get("/metrics").unwrap();
    assert!(metrics.contains("streamside_upstream_up 1.0\n") && metrics.contains("mode=\"beside\""), "{metrics}");
    assert!(metrics.contains("cluster=\"the-cluster\""), "{metrics}");
}

#[test]
fn a_restart_opens_known_ports_before_the_cluster_is_there_again() {
    let lab = Lab::new();
    let mut one = lab.broker(1);
    let mut server = before(one.port).start().unwrap();
    is_ready(&server);
    let named = brokers(server.port);
    server.kill().unwrap();
    one.stop();
    server.restart().unwrap();
    assert!(reason(&server).starts_with("upstream 127.0.0.1:"));
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, named[0].1)).is_ok());
    one.resume().unwrap();
    is_ready(&server);
    assert_eq!(brokers(named[0].1), named);

    // What is torn is made anew.
    server.stop().unwrap();
    let file = server.folder().join("data/nodes.json");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    server.restart().unwrap();
    is_ready(&server);
    assert_eq!(brokers(server.port), named);
    assert!(server.log().contains("the node map cannot be read"), "{}", server.log());
    assert_eq!(std::fs::read(&file).unwrap(), whole);
}

#[test]
fn a_node_that_moves_keeps_its_port_and_its_clients_follow() {
    let lab = Lab::new();
    let mut old = lab.broker(1);
    let server = before(old.port).start().unwrap();
    is_ready(&server);
    let named = brokers(server.port);
    let new = lab.broker(1);
    assert_eq!(brokers(server.port), named, "the port stays");
    old.stop();
    Client::open(named[0].1, "asks").unwrap().versions().unwrap();
    assert_eq!(new.connections(), 1);
    assert!(server.log().contains("the node moved"), "{}", server.log());

    // Nobody asks for metadata, and it is found out all the same.
    let mut entry = lab.broker(7);
    let server = ready_before(entry.port);
    let named = brokers(server.port).into_iter().find(|(id, _)| *id == 1).unwrap();
    let mut gone = new;
    let newest = lab.broker(1);
    gone.stop();
    eventually("it is never looked for", || Client::open(named.1, "asks").unwrap().versions().ok());
    assert_eq!(newest.connections(), 1);
    entry.stop();
}

#[test]
fn while_the_upstream_is_away_clients_are_closed_and_it_is_told_once() {
    let lab = Lab::new();
    let mut one = lab.broker(1);
    one.stop();
    let server = before(one.port).start().unwrap();
    let told = reason(&server);
    assert!(
        told.starts_with(&format!("upstream 127.0.0.1:{} can't be reached", one.port)) && told.contains("refused"),
        "{told}"
    );
    for _ in 0..3 {
        assert!(Client::open(server.port, "asks").unwrap().versions().is_err());
    }
    one.resume().unwrap();
    is_ready(&server);
    let named = brokers(server.port);
    let mut client = Client::open(named[0].1, "asks").unwrap();
    client.versions().unwrap();

    one.stop();
    assert!(client.versions().is_err(), "its own connection ended with the upstream's");
    for _ in 0..20 {
        assert!(Client::open(server.port, "asks").unwrap().versions().is_err());
        assert!(Client::open(named[0].1, "asks").unwrap().versions().is_err());
    }
    assert!(reason(&server).contains("refused"));
    one.resume().unwrap();
    is_ready(&server);
    assert_eq!(brokers(named[0].1), named);
    let log = server.log();
    let times = |text: &str| log.matches(text).count();
    assert_eq!(times("it is tried again, and clients that come meanwhile are closed"), 2, "{log}");
    assert_eq!(times("the upstream answers again"), 2, "{log}");
    assert_eq!(times("the node cannot be reached"), 1, "{log}");
}

#[test]
fn an_upstream_that_says_nothing_holds_nobody_for_longer_than_the_connect_timeout() {
    let silent = Broker::start(|_| Reply::Silence).unwrap();
    let server = before(silent.port).set("streamside.connect.timeout.ms", 500).start().unwrap();
    let told = reason(&server);
    assert!(told.contains("gave no answer to ApiVersions within 500 ms"), "{told}");
    let began = Instant::now();
    assert!(Client::open(server.port, "asks").unwrap().versions().is_err());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn an_upstream_of_another_kind_is_told_in_a_sentence() {
    let tls = Broker::stranger(TLS_ALERT).unwrap();
    let server = before(tls.port).start().unwrap();
    let told = reason(&server);
    assert!(told.contains("speaks TLS; set streamside.upstream.security.protocol=SSL"), "{told}");
    let http = Broker::stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let told = reason(&before(http.port).start().unwrap());
    assert!(told.contains("speaks HTTP"), "{told}");

    // The reverse.
    let plain = Lab::new().broker(1);
    let authority = streamside_testkit::certificates::Authority::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let trust = folder.path().join("trust.pem");
    std::fs::write(&trust, authority.pem()).unwrap();
    let server = before(plain.port)
        .set("streamside.upstream.security.protocol", "SSL")
        .set("streamside.upstream.ssl.truststore.type", "PEM")
        .set("streamside.upstream.ssl.truststore.location", trust.display())
        .start()
        .unwrap();
    let told = reason(&server);
    assert!(told.contains("PLAINTEXT") && told.contains("streamside.upstream.security.protocol"), "{told}");
}

#[test]
fn an_upstream_that_is_ourselves_stops_the_start_or_is_found_out() {
    let port = free_port().unwrap();
    for (upstream, listener) in [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1")] {
        let (code, told) = run(&overrides(&[
            ("listeners", format!("PLAINTEXT://{listener}:{port}")),
            ("streamside.upstream", format!("{upstream}:{port}")),
            ("streamside.http.listen", "off".to_owned()),
        ]));
        assert_eq!(code, 2, "{told}");
        assert!(told.contains("our own listener"), "{told}");
    }
    // Through something between: no address tells.
    let relay = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let setup = before(relay.local_addr().unwrap().port());
    let taken = Arc::new(Mutex::new(0));
    let server = {
        let taken = Arc::clone(&taken);
        let target = Arc::new(Mutex::new(None::<u16>));
        let aim = Arc::clone(&target);
        std::thread::spawn(move || {
            for stream in relay.incoming().flatten() {
                *taken.lock().unwrap() += 1;
                let Some(port) = *aim.lock().unwrap() else { continue };
                let Ok(on) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                let (mut a, mut b) = (stream.try_clone().unwrap(), on.try_clone().unwrap());
                let (mut c, mut d) = (on, stream);
                std::thread::spawn(move || {
                    std::io::copy(&mut a, &mut b).map(|_| b.shutdown(std::net::Shutdown::Write))
                });
                std::thread::spawn(move || {
                    std::io::copy(&mut c, &mut d).map(|_| d.shutdown(std::net::Shutdown::Write))
                });
            }
        });
        let server = setup.start().unwrap();
        *target.lock().unwrap() = Some(server.port);
        server
    };
    eventually("it never finds out", || reason(&server).contains("leads back to this process").then_some(()));
    for _ in 0..5 {
        assert!(Client::open(server.port, "asks").unwrap().versions().is_err());
    }
    assert!(*taken.lock().unwrap() < 30, "connections beget connections");
}

#[test]
fn a_broker_that_advertises_our_address_is_not_taken_for_a_node() {
    let lab = Lab::new();
    let one = lab.broker(1);
    let server = before(one.port).start().unwrap();
    is_ready(&server);
    lab.change(|map| map.nodes = [(1, server.port)].into());
    let mut client = Client::open(server.port, "asks").unwrap();
    let _ = client.call("Metadata", 12, &json!({"Topics": []}));
    assert!(reason(&server).contains("streamside.addresses=advertised"));
}

#[test]
fn with_advertised_addresses_nothing_is_rewritten() {
    let lab = Lab::new();
    let one = lab.broker(1);
    let server = before(one.port).set("streamside.addresses", "advertised").start().unwrap();
    is_ready(&server);
    lab.change(|map| map.nodes = [(1, server.port)].into());
    assert_eq!(brokers(server.port), [(1, server.port)]);
    assert!(!server.folder().join("data/nodes.json").exists());
}

#[test]
fn relay_switches_all_but_addresses_off_and_clients_reconnect_once() {
    let lab = Lab::new();
    let one = lab.broker(1);
    let folder = tempfile::tempdir().unwrap();
    let mode = folder.path().join("mode");
    std::fs::write(&mode, "full").unwrap();
    let server = before(one.port).set("streamside.mode", format!("${{file:{}}}", mode.display())).start().unwrap();
    is_ready(&server);
    let named = brokers(server.port);
    // `None`: the switch met this connection.
    let push = |client: &mut Client| {
        let rows = client.versions().ok()?["ApiKeys"].as_array().cloned()?;
        Some(rows.iter().any(|row| row["ApiKey"] == 93))
    };
    let mut before = Client::open(server.port, "asks").unwrap();
    assert_eq!(push(&mut before), Some(true));
    std::fs::write(&mode, "relay").unwrap();
    hang_up(server.pid()).unwrap();
    eventually("the connection never ends", || before.versions().is_err().then_some(()));
    assert_eq!(push(&mut Client::open(server.port, "asks").unwrap()), Some(false));
    assert_eq!(brokers(server.port), named, "addresses are still rewritten");
    std::fs::write(&mode, "full").unwrap();
    hang_up(server.pid()).unwrap();
    eventually("it never comes back", || (push(&mut Client::open(server.port, "asks").unwrap())?).then_some(()));
}

#[test]
fn ports_written_down_are_kept_or_stop_the_start() {
    let lab = Lab::new();
    let one = lab.broker(1);
    let base = free_port().unwrap();
    let server = before(one.port).set("streamside.node.ports", format!("{base}+id")).start().unwrap();
    is_ready(&server);
    assert_eq!(brokers(server.port), [(1, base + 1)]);

    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let blocker = TcpListener::bind((Ipv4Addr::LOCALHOST, taken)).unwrap();
    for (ports, part) in [(format!("1:{taken}"), "cannot be opened"), ("65535+id".to_owned(), "beyond 65535")] {
        let (code, told) = run(&overrides(&[
            ("listeners", format!("PLAINTEXT://127.0.0.1:{}", free_port().unwrap())),
            ("streamside.upstream", format!("127.0.0.1:{}", one.port)),
            ("streamside.node.ports", ports),
            ("streamside.http.listen", "off".to_owned()),
        ]));
        assert_eq!(code, 3, "{told}");
        assert!(told.contains("node 1") && told.contains(part), "{told}");
    }
    drop(blocker);
}

#[test]
fn a_cluster_without_streams_groups_is_named_once_and_everything_passes() {
    let lab = Lab::new();
    lab.change(|map| map.versions.retain(|(key, ..)| *key < 88));
    let one = lab.broker(1);
    let server = before(one.port).start().unwrap();
    is_ready(&server);
    for _ in 0..3 {
        let answer = Client::open(server.port, "asks").unwrap().versions().unwrap();
        assert!(answer["ApiKeys"].as_array().unwrap().iter().all(|row| row["ApiKey"].as_i64() < Some(88)));
    }
    eventually("it is never named", || server.log().contains("does not serve streams groups").then_some(()));
    assert_eq!(server.log().matches("does not serve streams groups").count(), 1);
}

#[test]
fn the_way_down_lets_answers_out_and_ends_idle_connections() {
    let lab = Lab::new();
    let map = Arc::clone(&lab.map);
    let slow = Broker::start(move |r| {
        if r.client_id == "slow" && r.name() == "Metadata" {
            sleep(Duration::from_millis(700));
        }
        map.lock().unwrap().reply(r).unwrap_or(Reply::Close)
    })
    .unwrap();
    lab.change(|map| map.nodes = [(1, slow.port)].into());
    let mut server = before(slow.port).start().unwrap();
    is_ready(&server);
    let mut idle = Client::open(server.port, "idle").unwrap();
    idle.versions().unwrap();
    let port = server.port;
    let asking = std::thread::spawn(move || {
        let mut client = Client::open(port, "slow").unwrap();
        client.versions().unwrap();
        client.call("Metadata", 12, &json!({"Topics": []})).map(|answer| answer["ClusterId"].clone())
    });
    sleep(Duration::from_millis(250));
    assert!(server.stop().unwrap().success());
    assert_eq!(asking.join().unwrap().unwrap(), "the-cluster");
    assert!(idle.versions().is_err());
}

fn check(settings: &[(&str, String)]) -> (i32, String) {
    let listener = ("listeners", format!("PLAINTEXT://127.0.0.1:{}", free_port().unwrap()));
    let http = ("streamside.http.listen", "off".to_owned());
    let mut arguments = vec!["check".to_owned()];
    arguments.extend(overrides(
        &[&[listener, http, ("streamside.connect.timeout.ms", "1000".to_owned())], settings].concat(),
    ));
    run(&arguments)
}

#[test]
fn check_tells_of_the_cluster_its_nodes_and_their_ports() {
    let lab = Lab::new();
    let (one, mut two) = (lab.broker(1), lab.broker(2));
    let upstream = ("streamside.upstream", format!("127.0.0.1:{}", one.port));
    let has = |told: &str, line: &str| assert!(told.lines().any(|l| l.starts_with(line)), "{line:?} is not in\n{told}");

    // The map says nothing of features, so streams groups count as switched off.
    let (code, told) = check(std::slice::from_ref(&upstream));
    assert_eq!(code, 1, "{told}");
    has(&told, &format!("ok   The broker at 127.0.0.1:{} answers over PLAINTEXT.", one.port));
    has(&told, "ok   It is the cluster the-cluster with 2 nodes.");
    has(&told, &format!("ok   Node 2 can be reached at 127.0.0.1:{}.", two.port));
    has(&told, "ok   Clients reach node 1 at 127.0.0.1:");
    assert!(told.contains("switched off: kafka-features.sh"), "{told}");

    lab.change(|map| map.features = vec![("streams.version".to_owned(), 1), ("metadata.version".to_owned(), 29)]);
    let (code, told) = check(std::slice::from_ref(&upstream));
    assert_eq!(code, 0, "{told}");
    has(
        &told,
        &format!(
            "ok   The broker at 127.0.0.1:{} (metadata.version 29) serves streams groups: StreamsGroupHeartbeat 0 to 0, streams.version 1.",
            one.port
        ),
    );

    two.stop();
    let (code, told) = check(std::slice::from_ref(&upstream));
    assert_eq!(code, 3, "{told}");
    has(&told, &format!("FAIL Node 2 can't be reached at 127.0.0.1:{}", two.port));
    let (code, told) = check(&[("streamside.upstream", format!("127.0.0.1:{}", two.port))]);
    assert_eq!(code, 3, "{told}");
    has(&told, &format!("FAIL The upstream 127.0.0.1:{} can't be reached", two.port));
    two.resume().unwrap();

    let (code, told) = check(&[upstream.clone(), ("streamside.node.ports", format!("1:{}", one.port))]);
    assert_eq!(code, 1, "{told}");
    has(&told, &format!("FAIL Node 1 has the port {}, which can't be opened", one.port));
    let (code, told) = check(&[upstream, ("streamside.addresses", "advertised".to_owned())]);
    assert_eq!(code, 1, "{told}");
    has(&told, &format!("FAIL Node 1 advertises 127.0.0.1:{} and not our address", one.port));

    let tls = Broker::stranger(TLS_ALERT).unwrap();
    let (code, told) = check(&[("streamside.upstream", format!("127.0.0.1:{}", tls.port))]);
    assert_eq!(code, 1, "it is there, and we speak otherwise");
    assert!(told.contains("set streamside.upstream.security.protocol=SSL"), "{told}");
    assert_eq!(check(&[("streamside.upstream", "nonsense".to_owned())]).0, 2);
}

#[test]
fn one_bootstrap_address_that_answers_is_enough() {
    let lab = Lab::new();
    let mut dead = lab.broker(1);
    dead.stop();
    let two = lab.broker(2);
    lab.change(|map| {
        map.nodes.remove(&1);
    });
    let both = format!("127.0.0.1:{},127.0.0.1:{}", dead.port, two.port);
    let server = before(0).set("streamside.upstream", both).start().unwrap();
    is_ready(&server);
    for _ in 0..4 {
        assert_eq!(brokers(server.port).len(), 1);
    }
    assert!(!server.log().contains("can't be reached"), "{}", server.log());
}

#[test]
fn behind_a_wildcard_the_advertised_host_serves_every_node() {
    let lab = Lab::new();
    let one = lab.broker(1);
    let port = free_port().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut child = before(one.port)
        .set("listeners", format!("PLAINTEXT://0.0.0.0:{port}"))
        .set("advertised.listeners", format!("PLAINTEXT://127.0.0.1:{port}"))
        .set("streamside.http.listen", "off")
        .spawn(folder.path())
        .unwrap();
    eventually("it never serves", || Client::open(port, "asks").ok()?.versions().ok());
    let named = brokers(port);
    assert_eq!(brokers(named[0].1), named);
    assert!(Client::open(one.port, "asks").is_ok() && named[0].1 != one.port);
    child.kill().unwrap();
    child.wait().unwrap();
    // The same port on all addresses is still ourselves.
    let (code, told) = run(&overrides(&[
        ("listeners", format!("PLAINTEXT://0.0.0.0:{port}")),
        ("advertised.listeners", format!("PLAINTEXT://127.0.0.1:{port}")),
        ("streamside.upstream", format!("127.0.0.1:{port}")),
        ("streamside.http.listen", "off".to_owned()),
    ]));
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("our own listener"), "{told}");
}
