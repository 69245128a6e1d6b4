//! Callers with some rights and without others, before a broker with an authorizer.

use std::net::TcpListener;

use streamside_client::{Cluster, Mechanism, Member, MemberOptions};
use streamside_testkit::differences;
use streamside_testkit::player::Player;
use streamside_testkit::scenario::{Selection, load};
use streamside_testkit::server::{RECORDED, Setup as Ours, free_port};
use streamside_testkit::topologies::tests_folder;
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use crate::broker::{Broker, Setup};
use crate::java::{KAFKA, class_path, jvm, must};
use crate::secured::{Keys, description, leaves_no_secret, login, runtime, topics, topology, with_logins};

const AUTHORIZER: (&str, &str) = ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");

/// The stock tool that grants rights.
pub fn acl(port: u16) -> std::process::Command {
    let mut command = jvm(&class_path(KAFKA));
    command.args(["org.apache.kafka.tools.AclCommand", "--bootstrap-server", &format!("127.0.0.1:{port}"), "--add"]);
    command
}

/// A port of which the second next is free as well.
pub fn port_with_neighbour() -> u16 {
    loop {
        let port = free_port().unwrap();
        if TcpListener::bind(("127.0.0.1", port + 2)).is_ok() {
            return port;
        }
    }
}

/// A broker where nobody has rights in the clear, and `admin` logs in on a port of its own.
pub fn without_rights(setup: Setup, login: u16) -> Broker {
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
    let setup = RECORDED.iter().fold(setup, |setup, (key, value)| setup.set(key, value));
    // The broker itself is the administrator too.
    let own = format!("{module} required username=\"admin\" password=\"admin\" user_admin=\"admin\";");
    let kafka = setup
        .listener("LOGIN", login, "SASL_PLAINTEXT")
        .set("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,LOGIN:SASL_PLAINTEXT")
        .set("inter.broker.listener.name", "LOGIN")
        .set("sasl.enabled.mechanisms", "PLAIN")
        .set("sasl.mechanism.inter.broker.protocol", "PLAIN")
        .set("sasl.mechanism.controller.protocol", "PLAIN")
        .set("listener.name.login.plain.sasl.jaas.config", &own)
        .set("listener.name.controller.plain.sasl.jaas.config", &own)
        .set(AUTHORIZER.0, AUTHORIZER.1)
        .set("super.users", "User:admin")
        // Until someone has rights on everything all have them.
        .set("allow.everyone.if.no.acl.found", "true")
        .start(KAFKA);
    let all = ["--allow-principal", "User:admin", "--operation", "All", "--group", "*", "--topic", "*", "--cluster"];
    let admin = tempfile::NamedTempFile::new().unwrap();
    let lines = format!("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={own}\n");
    std::fs::write(admin.path(), lines).unwrap();
    must(acl(login).arg("--command-config").arg(admin.path()).args(all));

    kafka
}

/// The scenarios recorded from a broker with an authorizer: callers without rights come to one port, the administrator
/// logs in at another, each with a sidecar of its own before the same broker.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn scenarios_of_an_authorizer_pass() {
    let login = free_port().unwrap();
    let kafka = without_rights(Setup::default(), login);
    let mut scenarios = load(&tests_folder().join("scenarios")).unwrap();
    let fits = Selection::provides(&["plugin", "acl"]).with(&["acl"]);
    scenarios.retain(|scenario| fits.fits(scenario));
    assert_eq!(scenarios.len(), 10);
    for compat in ["kafka", "streamside"] {
        let port = port_with_neighbour();
        let sidecar = |port: u16, upstream: u16, protocol: &'static str| {
            Ours::recorded(env!("CARGO_BIN_EXE_streamside"))
                .protocol(protocol)
                .set("streamside.compat", compat)
                .set("streamside.upstream", format!("127.0.0.1:{upstream}"))
                .set("streamside.upstream.security.protocol", protocol)
                .set("streamside.node.ports", format!("1:{}", free_port().unwrap()))
                .start_at(port)
                .unwrap()
        };
        let _sidecars = (sidecar(port, kafka.port, "PLAINTEXT"), sidecar(port + 2, login, "SASL_PLAINTEXT"));
        let report = Player::new(port).play_all(&scenarios, 2);
        let expected = if compat == "kafka" {
            Vec::new()
        } else {
            differences::read(&tests_folder().join("expected-differences-beside.txt")).unwrap()
        };
        differences::check(&report, &expected, &scenarios).unwrap_or_else(|e| panic!("{compat}: {e}"));
    }
}

/// Users and what they may do: on every group, and on the topic.
const USERS: [(&str, &[&str], &[&str]); 8] = [
    ("nobody", &[], &[]),
    ("reader", &["Read"], &["Describe"]),
    // Each of the three implies Describe on the group.
    ("blindreader", &["Read"], &[]),
    ("describer", &["Describe"], &["Describe"]),
    ("blinddescriber", &["Describe"], &[]),
    ("deleter", &["Delete"], &[]),
    ("topicsonly", &[], &["Describe"]),
    ("all", &["Read", "Describe", "Delete"], &["Describe"]),
];

fn allow(kafka: &Broker) {
    let mut running = Vec::new();
    for (kind, resource, operations) in
        [("--group", "*", &["Read", "Describe", "Delete"][..]), ("--topic", "orders", &["Describe"])]
    {
        for operation in operations {
            let allowed = USERS.iter().filter(|(_, groups, topics)| {
                if kind == "--group" { groups.contains(operation) } else { topics.contains(operation) }
            });
            let mut command = acl(kafka.port);
            command.args(["--operation", operation, kind, resource]);
            for (user, ..) in allowed {
                command.args(["--allow-principal", &format!("User:{user}")]);
            }
            running.push(command);
        }
    }
    for mut command in running {
        must(&mut command);
    }
}

/// What a user is answered: join, push, describe, delete, each as it came but for the group's name.
async fn answers(keys: &Keys, port: u16, user: &str, group: &str) -> Vec<String> {
    let options = login(keys, Mechanism::Plain, user);
    let cluster = Cluster::connect(&format!("127.0.0.1:{port}"), options).await.unwrap();
    let connection = cluster.any().await.unwrap();
    let mut told = Vec::new();
    let mut tell = |what: &str, answer: String| told.push(format!("{what}: {}", answer.replace(group, "GROUP")));

    let join = StreamsGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 1000,
        topology: Some(topology()),
        process_id: Some("p".into()),
        client_tags: Some(Vec::new()),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        endpoint_information_epoch: -1,
        ..Default::default()
    };
    let version = connection.version::<StreamsGroupHeartbeatRequest<'_>>().unwrap();
    let answer = connection.ask(&join, version).await.unwrap();
    tell("join", format!("{:?}", answer.decode::<StreamsGroupHeartbeatResponse<'_>>().unwrap()));

    let push = StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: group.to_owned(),
        member_id: "m".to_owned(),
        topology_description: description(),
        ..Default::default()
    };
    let version = connection.version::<StreamsGroupTopologyDescriptionUpdateRequest>().unwrap();
    let answer: StreamsGroupTopologyDescriptionUpdateResponse = connection.call(&push, version).await.unwrap();
    tell("push", format!("{answer:?}"));

    for include in [true, false] {
        let describe = StreamsGroupDescribeRequest {
            group_ids: vec![group.to_owned(), "no-such-group".to_owned()],
            include_authorized_operations: true,
            include_topology_description: include,
            ..Default::default()
        };
        let version = connection.version::<StreamsGroupDescribeRequest>().unwrap();
        let answer: StreamsGroupDescribeResponse = connection.call(&describe, version).await.unwrap();
        tell("describe", format!("{answer:?}"));
    }

    let delete =
        DeleteGroupsRequest { groups_names: vec![group.to_owned(), "no-such-group".to_owned()], ..Default::default() };
    let version = connection.version::<DeleteGroupsRequest>().unwrap();
    let mut answer: DeleteGroupsResponse = connection.call(&delete, version).await.unwrap();
    // In an order by the hash of names, which differ here.
    answer.results.sort_by_key(|result| result.group_id == "no-such-group");
    tell("delete", format!("{answer:?}"));
    told
}

/// A broker with its own descriptions is asked directly and through us, by users of many rights: the same answers.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn an_authorizer_decides_as_without_us() {
    let keys = Keys::new();
    let port = free_port().unwrap();
    let mut users: Vec<&str> = USERS.iter().map(|(user, ..)| *user).collect();
    users.push("admin");
    let kafka = with_logins(keys.broker(), port, &users)
        .set(AUTHORIZER.0, AUTHORIZER.1)
        .set("super.users", "User:ANONYMOUS;User:admin")
        .start(KAFKA);
    must(&mut topics(&kafka, "orders"));
    allow(&kafka);
    // A group that may be another one is asked again only by our own rules.
    let sidecar = keys.sidecar("SASL_SSL", port).set("streamside.compat", "kafka").start().unwrap();
    runtime().block_on(async {
        for (user, ..) in USERS {
            let mut both = Vec::new();
            for (way, port) in [("direct", port), ("through", sidecar.port)] {
                // The group is there, empty, and has a description.
                let group = format!("{way}-{user}");
                let cluster =
                    Cluster::connect(&format!("127.0.0.1:{port}"), login(&keys, Mechanism::Plain, "admin")).await;
                let options =
                    MemberOptions { group_id: group.clone(), topology: topology(), ..MemberOptions::default() };
                let mut member = Member::new(cluster.unwrap(), options);
                member.beat().await.unwrap();
                member.push(description()).await.unwrap();
                member.leave().await.unwrap();
                both.push(answers(&keys, port, user, &group).await);
            }
            assert_eq!(both[0].len(), 5);
            for (direct, through) in both[0].iter().zip(&both[1]) {
                // Who has not joined on this connection and may not see all topics is not told who is a member: refused
                // as well, by another code.
                if (user.starts_with("blind") || user == "deleter") && direct.starts_with("push") {
                    let code = if user == "blindreader" { "error_code: 25" } else { "error_code: 30" };
                    assert!(direct.contains(code), "{direct}");
                    assert!(through.contains("error_code: 135") && through.contains("not_verified"), "{through}");
                    continue;
                }
                assert_eq!(through, direct, "{user}");
            }
        }
    });
    leaves_no_secret(&sidecar);
}
