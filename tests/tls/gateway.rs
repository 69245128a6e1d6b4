//! Both sides of a gateway with TLS: clients to us, us to the cluster. The cluster is a server of ours.

use std::path::Path;

use serde_json::json;
use streamside_client::{Cluster, Member, MemberOptions, TlsOptions};
use streamside_testkit::certificates::Authority;
use streamside_testkit::client::Client;
use streamside_testkit::process::hang_up;
use streamside_testkit::server::{Server, Setup, free_port};
use tempfile::TempDir;

use super::{
    BINARY, HOST, all_answers_reach_a_slow_reader, as_client, asking, brokers, eventually_logged, options, refused,
    runtime, secured, trusting,
};

/// Towards a cluster with TLS on `port`, trusting what `trust.pem` in `folder` holds.
fn towards(setup: Setup, folder: &Path, host: &str, port: u16) -> Setup {
    setup
        .set("streamside.upstream", format!("{host}:{port}"))
        .set("streamside.upstream.security.protocol", "SSL")
        .set("streamside.upstream.ssl.truststore.type", "PEM")
        .set("streamside.upstream.ssl.truststore.location", folder.join("trust.pem").display())
}

fn with_certificate(setup: Setup, authority: &Authority, folder: &Path) -> Setup {
    let own = authority.issue("gateway", &[]).unwrap().write(folder, "gateway.pem").unwrap();
    setup
        .set("streamside.upstream.ssl.keystore.type", "PEM")
        .set("streamside.upstream.ssl.keystore.location", own.display())
}

fn node_port(server: &Server, tls: TlsOptions) -> u16 {
    runtime().block_on(async {
        let cluster = Cluster::connect(&format!("127.0.0.1:{}", server.port), options(tls)).await.unwrap();
        cluster.brokers().await.unwrap().first().unwrap().address.port
    })
}

/// A member lives behind the gateway: the bootstrap listener and the node's port have TLS, and so has the way on.
fn a_member_lives(server: &Server, tls: TlsOptions) {
    runtime().block_on(async {
        let cluster = Cluster::connect(&format!("127.0.0.1:{}", server.port), options(tls)).await.unwrap();
        let group = MemberOptions { group_id: "orders".to_owned(), ..MemberOptions::default() };
        let mut member = Member::new(cluster.clone(), group);
        assert_eq!(member.beat().await.unwrap().error_code, 0);
        let found = cluster.list_groups(&["streams"]).await.unwrap();
        assert_eq!(found.first().map(|g| g.group_id.as_str()), Some("orders"));
        member.leave().await.unwrap();
    });
}

#[test]
fn tls_on_both_sides_with_certificates_of_both_kinds() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let upstream = asking(secured(&authority, folder.path()), folder.path(), "required").start().unwrap();
    let ann = authority.issue("ann", &[]).unwrap();
    let gateway = asking(secured(&authority, folder.path()), folder.path(), "required");
    let gateway =
        with_certificate(towards(gateway, folder.path(), "127.0.0.1", upstream.port), &authority, folder.path());
    let mut gateway = gateway.start().unwrap();
    a_member_lives(&gateway, as_client(&authority, &ann));
    assert_ne!(node_port(&gateway, as_client(&authority, &ann)), upstream.port);
    assert!(brokers(&gateway, trusting(&authority)).is_err());
    let (_, metrics) = gateway.get("/metrics").unwrap();
    assert!(metrics.contains("streamside_certificate_expiry_timestamp_seconds{side=\"upstream\"} "), "{metrics}");

    // Without ssl.client.auth=required on our side whoever comes would have the gateway's rights.
    gateway.stop().unwrap();
    let open = gateway
        .setup()
        .clone()
        .set("ssl.client.auth", "requested")
        .set("streamside.upstream.shared.identity", "accept");
    let log = refused(&open.clone().set("streamside.upstream.shared.identity", "refuse"));
    assert!(log.contains("has its rights") && log.contains("or write accept"), "{log}");
    let gateway = open.start().unwrap();
    a_member_lives(&gateway, trusting(&authority));
}

#[test]
fn new_certificates_towards_the_cluster_are_taken_at_sighup() {
    let (authority, next, folder) = (Authority::new().unwrap(), Authority::new().unwrap(), TempDir::new().unwrap());
    let mut upstream = asking(secured(&authority, folder.path()), folder.path(), "required").start().unwrap();
    let gateway = towards(Setup::new(BINARY), folder.path(), "127.0.0.1", upstream.port)
        .set("streamside.upstream.shared.identity", "accept");
    let gateway = with_certificate(gateway, &authority, folder.path()).start().unwrap();
    let reached = || {
        let mut plain = Client::open(gateway.port, "plain").unwrap();
        plain.call("ApiVersions", 0, &json!({})).is_ok()
    };
    assert!(reached());

    // The cluster goes over to another authority; we do not know it, and then we do.
    upstream.stop().unwrap();
    next.issue("server", &HOST).unwrap().write(folder.path(), "server.pem").unwrap();
    std::fs::write(folder.path().join("trust.pem"), next.pem()).unwrap();
    upstream.restart().unwrap();
    assert!(!reached());
    next.issue_for_days("gateway", &[], 20).unwrap().write(folder.path(), "gateway.pem").unwrap();
    hang_up(gateway.pid()).unwrap();
    eventually_logged(&gateway, "the certificate in streamside.upstream.ssl.keystore expires in");
    assert!(reached());
    eventually_logged(&gateway, "the upstream answers again");

    std::fs::write(folder.path().join("gateway.pem"), "torn").unwrap();
    hang_up(gateway.pid()).unwrap();
    eventually_logged(&gateway, "security towards the cluster stays as it was");
    assert!(reached());
}

#[test]
fn answers_wait_for_a_slow_reader_and_all_arrive() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let upstream = secured(&authority, folder.path()).start().unwrap();
    let gateway = towards(secured(&authority, folder.path()), folder.path(), "127.0.0.1", upstream.port);
    all_answers_reach_a_slow_reader(&gateway.start().unwrap(), &authority);
}

#[test]
fn tls_on_either_side_alone() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let encrypted = secured(&authority, folder.path()).start().unwrap();
    let terminating = towards(Setup::new(BINARY), folder.path(), "127.0.0.1", encrypted.port).start().unwrap();
    let mut plain = Client::open(terminating.port, "plain").unwrap();
    let answer = plain.call("DescribeCluster", 1, &json!({"EndpointType": 1})).unwrap();
    assert_eq!(answer["Brokers"].as_array().map(Vec::len), Some(1), "{answer}");

    let plain = Setup::new(BINARY).start().unwrap();
    let gateway = secured(&authority, folder.path()).set("streamside.upstream", format!("127.0.0.1:{}", plain.port));
    a_member_lives(&gateway.start().unwrap(), trusting(&authority));
}

#[test]
fn a_node_must_prove_to_be_the_host_that_the_cluster_tells() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    // Known as localhost to whoever connects first, as 127.0.0.1 to those whom it tells its node.
    let localhost = authority.issue("server", &["localhost"]).unwrap().write(folder.path(), "localhost.pem").unwrap();
    let upstream =
        secured(&authority, folder.path()).set("ssl.keystore.location", localhost.display()).start().unwrap();
    let gateway = towards(secured(&authority, folder.path()), folder.path(), "localhost", upstream.port);
    let gateway = gateway.start().unwrap();
    assert_eq!(brokers(&gateway, trusting(&authority)), Ok(1));
    runtime().block_on(async {
        let address = format!("127.0.0.1:{}", gateway.port);
        let cluster = Cluster::connect(&address, options(trusting(&authority))).await.unwrap();
        let node = cluster.brokers().await.unwrap().first().unwrap().address.clone();
        assert!(cluster.connection(&node).await.is_err());
    });
    eventually_logged(&gateway, "leave streamside.upstream.ssl.endpoint.identification.algorithm empty to accept any");

    let any = gateway.setup().clone().set("streamside.upstream.ssl.endpoint.identification.algorithm", "");
    drop(gateway);
    a_member_lives(&any.start().unwrap(), trusting(&authority));
}

#[test]
fn what_is_wrong_towards_the_cluster_is_told() {
    let (authority, stranger, folder) = (Authority::new().unwrap(), Authority::new().unwrap(), TempDir::new().unwrap());
    let upstream = asking(secured(&authority, folder.path()), folder.path(), "required").start().unwrap();
    let other = TempDir::new().unwrap();
    std::fs::write(other.path().join("trust.pem"), stranger.pem()).unwrap();

    let untrusted = towards(Setup::new(BINARY), other.path(), "127.0.0.1", upstream.port).start().unwrap();
    eventually_logged(&untrusted, "give its authority in streamside.upstream.ssl.truststore.location");
    let (status, body) = untrusted.get("/readyz").unwrap();
    assert!(status == 200 && body.contains("signed by nobody that we trust"), "{status} {body}");

    let nameless = towards(Setup::new(BINARY), folder.path(), "127.0.0.1", upstream.port).start().unwrap();
    eventually_logged(
        &nameless,
        "if it asks for a client certificate give one in streamside.upstream.ssl.keystore.location",
    );

    let plaintext =
        Setup::new(BINARY).set("streamside.upstream", format!("127.0.0.1:{}", upstream.port)).start().unwrap();
    eventually_logged(&plaintext, "streamside.upstream.security.protocol=SSL");

    let port = free_port().unwrap();
    let jks = towards(Setup::new(BINARY), folder.path(), "127.0.0.1", upstream.port)
        .set("listeners", format!("PLAINTEXT://127.0.0.1:{port}"))
        .set("streamside.upstream.ssl.truststore.type", "PKCS12")
        .set("streamside.upstream.ssl.truststore.location", "t.p12");
    let log = refused(&jks);
    assert!(
        log.contains(
            "keytool -list -rfc -keystore 't.p12' > trust.pem`, then set streamside.upstream.ssl.truststore.type=PEM"
        ),
        "{log}"
    );
}
