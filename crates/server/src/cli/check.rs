//! `check`: whether all that a start needs is there, each thing in a sentence. Nothing is served.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;

use streamside_client::TlsConnector;
use streamside_plugin::Registry;

use super::{Exit, complain, say, serve};
use crate::beside::dial::{self, Dialer};
use crate::beside::node_file::{self, NodeFile};
use crate::beside::own::{Abilities, Own, Unanswered};
use crate::config::upstream::{Addressing, PushMode};
use crate::config::{self, HostPort, Loaded, Settings, Sources, UpstreamSettings};
use crate::data_dir::DataDir;
use crate::http::token::Tokens;
use crate::logging;
use crate::metrics::Metrics;
use crate::tls::{Acceptor, expiry};

/// Most nodes that are each tried.
const MAX_NODES: usize = 100;

/// What was said so far.
#[derive(Default)]
struct Report {
    /// Something is wrong.
    wrong: bool,
    /// Something could not be reached.
    away: bool,
}

impl Report {
    fn good(&mut self, sentence: &str) {
        say(&logging::escaped(&format!("ok   {sentence}")));
    }

    fn note(&mut self, sentence: &str) {
        say(&logging::escaped(&format!("note {sentence}")));
    }

    fn wrong(&mut self, sentence: &str) {
        self.wrong = true;
        say(&logging::escaped(&format!("FAIL {sentence}")));
    }

    fn away(&mut self, sentence: &str) {
        self.away = true;
        say(&logging::escaped(&format!("FAIL {sentence}")));
    }

    fn no_answer(&mut self, error: &Unanswered) {
        let sentence = format!("The {error}.");
        if error.is_away() { self.away(&sentence) } else { self.wrong(&sentence) }
    }

    fn exit(&self) -> Exit {
        match self {
            Self { wrong: true, .. } => Exit::No,
            Self { away: true, .. } => Exit::Unreachable,
            _ => Exit::Good,
        }
    }
}

/// Says of each thing that a start needs whether it is there: 1 when something is wrong, 3 when all is right but the
/// cluster cannot be reached.
///
/// # Errors
/// What the process could not get from the system.
pub fn check(sources: &Sources, registry: &Registry) -> io::Result<Exit> {
    let Loaded { settings, warnings } = match config::load(sources) {
        Ok(loaded) => loaded,
        Err(error) => {
            complain(&error.to_string());
            return Ok(Exit::Wrong);
        }
    };
    let mut report = Report::default();
    report.good("The configuration is whole.");
    for warning in warnings {
        report.note(&format!("{warning}."));
    }
    plugin(&mut report, &settings, registry);
    let known = folder(&mut report, &settings);
    let bound = ports(&mut report, &settings);
    certificates(&mut report, &settings);
    names(&mut report, &settings);
    tokens(&mut report, &settings);
    if let Some(upstream) = &settings.upstream {
        serve::runtime(&settings)?.block_on(cluster(&mut report, &settings, upstream, bound, &known));
    }
    Ok(report.exit())
}

fn plugin(report: &mut Report, settings: &Settings, registry: &Registry) {
    match registry.resolve(settings.plugin.class.as_deref().unwrap_or_default()) {
        Ok(Some(factory)) => report.good(&format!("Topology descriptions go to the store '{}'.", factory.name)),
        Ok(None) => report.good("Topology descriptions are switched off."),
        Err(error) => report.wrong(&format!("The plugin can't be used: {error}.")),
    }
}

/// The node map that is kept there, as node and port.
fn folder(report: &mut Report, settings: &Settings) -> BTreeMap<i32, u16> {
    let folder = match DataDir::open(&settings.data_dir) {
        Ok(folder) => folder,
        Err(error) => {
            report.wrong(&format!("{error}."));
            return BTreeMap::new();
        }
    };
    let path = folder.path().display();
    report.good(&format!("The data folder {path} is ours; its cluster id is {}.", folder.cluster_id()));
    let file = node_file::path(folder.path());
    if settings.upstream.is_none() || !file.exists() {
        return BTreeMap::new();
    }
    let kept = NodeFile::read(&file);
    if kept.listener != settings.listener.port {
        return BTreeMap::new();
    }
    kept.nodes.iter().map(|node| (node.id, node.ours)).collect()
}

/// Where the Kafka listener could be bound.
fn ports(report: &mut Report, settings: &Settings) -> Option<SocketAddr> {
    let mut listen = |what: &str, address: &HostPort| {
        let bound = TcpListener::bind((address.bind_host(), address.port)).and_then(|l| l.local_addr());
        match bound {
            Ok(bound) => {
                report.good(&format!("{what} can listen on {bound}."));
                Some(bound)
            }
            Err(error) => {
                report.wrong(&format!("{what} can't listen on {address}: {error}."));
                None
            }
        }
    };
    let kafka = listen("Kafka's protocol", &settings.listener);
    if let Some(address) = &settings.http.listen {
        listen("HTTP", address);
    }
    kafka
}

fn certificates(report: &mut Report, settings: &Settings) {
    if let Some(secured) = &settings.tls {
        let metrics = Arc::new(Metrics::new("check", None, ""));
        match Acceptor::new(secured, Arc::clone(&metrics)) {
            Ok(_) => {
                let ends = metrics.certificates().first().map_or(0, |(_, end)| expiry::days_left(*end));
                report.good(&format!("The certificate in ssl.keystore can be used and ends in {ends} days."));
            }
            Err(error) => report.wrong(&format!("TLS of the listener can't be used: {error}.")),
        }
    }
    if let Some(options) = settings.upstream.as_ref().and_then(|upstream| upstream.security.tls.as_ref()) {
        match TlsConnector::new(options) {
            Ok(_) => report.good("The certificates for connections to the cluster can be used."),
            Err(error) => report.wrong(&format!("TLS towards the cluster can't be used: {}.", error.reason)),
        }
    }
}

fn names(report: &mut Report, settings: &Settings) {
    let advertised = &settings.advertised;
    let found = (advertised.host.as_str(), advertised.port).to_socket_addrs();
    if found.is_ok_and(|mut addresses| addresses.next().is_some()) {
        report.good(&format!("The name that clients are told, {advertised}, is known here."));
    } else {
        report.wrong(&format!("The name that clients are told, {advertised}, is not known here."));
    }
}

fn tokens(report: &mut Report, settings: &Settings) {
    if settings.http.listen.is_some() && settings.http.token_file.exists() {
        match Tokens::read(&settings.http.token_file) {
            Ok(_) => report.good(&format!("The token file {} is readable.", settings.http.token_file.display())),
            Err(error) => report.wrong(&format!("{error}.")),
        }
    }
}

async fn cluster(
    report: &mut Report,
    settings: &Settings,
    upstream: &UpstreamSettings,
    bound: Option<SocketAddr>,
    known: &BTreeMap<i32, u16>,
) {
    let security = &upstream.security;
    let mut told = None;
    for address in &upstream.bootstrap {
        match tokio::net::lookup_host((address.host.as_str(), address.port)).await {
            Ok(mut found) => {
                if let Some(ours) = found.find(|found| bound.is_some_and(|bound| dial::is_ours(*found, bound))) {
                    report.wrong(&format!(
                        "The upstream {address} is our own listener ({ours}); set streamside.upstream to the cluster behind us."
                    ));
                    continue;
                }
            }
            Err(error) => {
                report.away(&format!("The upstream's name {address} cannot be resolved: {error}."));
                continue;
            }
        }
        let only = std::slice::from_ref(address);
        let own = Own::new(only, security, settings.connect_timeout, "streamside-check");
        let own = match own {
            Ok(own) => own,
            Err(error) => {
                report.wrong(&format!("Connections to the upstream cannot be made: {error}."));
                return;
            }
        };
        match own.ask().await {
            Ok(answer) => {
                let how = security.protocol.name();
                report.good(&format!("The broker at {address} answers over {how}."));
                if let Some(login) = &security.login {
                    report.good(&format!("It takes our login as {}.", login.username));
                }
                told = told.or(answer);
                match own.abilities().await {
                    Ok(abilities) => can(report, upstream, address, &abilities),
                    Err(error) => report.no_answer(&error),
                }
            }
            Err(error) => report.no_answer(&error),
        }
    }
    if !security.can_ask() {
        report.note(
            "The cluster asks for a login and we have none of our own (streamside.upstream.sasl.*): its nodes are learnt when the first client logs in, and kept.",
        );
    }
    let Some(told) = told else { return };
    if let Some(cluster) = &told.cluster {
        report.good(&format!("It is the cluster {cluster} with {} nodes.", told.nodes.len()));
    }
    if upstream.addresses == Addressing::Advertised {
        let ours = (settings.advertised.host.as_str(), i32::from(settings.advertised.port));
        for (id, host, port) in told.nodes.iter().filter(|(_, host, port)| (host.as_str(), *port) != ours) {
            report.wrong(&format!(
                "Node {id} advertises {host}:{port} and not our address {}: with streamside.addresses=advertised clients would go past us.",
                settings.advertised
            ));
        }
        return;
    }
    let Some(bound) = bound else { return };
    let dialer = match Dialer::new(settings.connect_timeout, security, bound) {
        Ok(dialer) => dialer,
        Err(error) => return report.wrong(&format!("Connections to the upstream cannot be made: {error}.")),
    };
    for (id, host, port) in told.nodes.iter().take(MAX_NODES) {
        node(report, settings, upstream, &dialer, bound, known, (*id, host, *port)).await;
    }
}

/// Versions and features of one broker.
fn can(report: &mut Report, upstream: &UpstreamSettings, address: &HostPort, abilities: &Abilities) {
    let level = abilities.metadata_version.map_or_else(String::new, |level| format!(" (metadata.version {level})"));
    match (abilities.heartbeat, abilities.streams_version) {
        (None, _) => report.wrong(&format!(
            "The broker at {address}{level} does not serve streams groups: they come with Kafka 4.1, to be switched on before 4.2; everything else passes."
        )),
        (Some(_), None | Some(0)) => report.wrong(&format!(
            "The broker at {address}{level} knows streams groups, but the cluster has them switched off: kafka-features.sh --bootstrap-server {address} upgrade --feature streams.version=1"
        )),
        (Some((low, high)), Some(version)) => report.good(&format!(
            "The broker at {address}{level} serves streams groups: StreamsGroupHeartbeat {low} to {high}, streams.version {version}."
        )),
    }
    if abilities.descriptions {
        let then = match upstream.push {
            PushMode::Auto => "they are passed on as well once it asks for them",
            PushMode::Tee => "they are passed on as well",
            PushMode::Own => "they are kept here and not passed on",
            PushMode::Off => "nobody is asked for them here",
        };
        report.note(&format!("It takes topology descriptions itself; {then} (streamside.upstream.push)."));
    }
}

async fn node(
    report: &mut Report,
    settings: &Settings,
    upstream: &UpstreamSettings,
    dialer: &Dialer,
    bound: SocketAddr,
    known: &BTreeMap<i32, u16>,
    (id, host, port): (i32, &String, i32),
) {
    let pinned = match &upstream.node_ports {
        config::upstream::NodePorts::Listed(listed) => listed.get(&id).and_then(|node| node.upstream.clone()),
        _ => None,
    };
    let Some(address) = pinned.or_else(|| Some(HostPort { host: host.clone(), port: u16::try_from(port).ok()? }))
    else {
        return report.wrong(&format!("Node {id} says that it is at {host}:{port}, which is no address."));
    };
    match dialer.dial(&address).await {
        Ok(_) => report.good(&format!("Node {id} can be reached at {address}.")),
        Err(error) => report.away(&format!("Node {id} can't be reached at {address}: {error}.")),
    }
    let fixed = upstream.node_ports.is_fixed(id);
    let wanted = upstream.node_ports.wanted(id, bound.port());
    let kept = known.get(&id).copied().filter(|_| !fixed);
    match kept.or(wanted) {
        None if fixed => report.wrong(&format!("Node {id} has no port: streamside.node.ports leads beyond 65535.")),
        None => report.note(&format!("Node {id} gets the next free port, since its own would be beyond 65535.")),
        Some(ours) => match TcpListener::bind((bound.ip(), ours)) {
            Ok(_) => {
                let told = HostPort { host: settings.advertised.host.clone(), port: ours };
                report.good(&format!("Clients reach node {id} at {told}."));
            }
            Err(error) if fixed => {
                report.wrong(&format!("Node {id} has the port {ours}, which can't be opened: {error}."));
            }
            Err(error) => report.note(&format!(
                "Node {id} gets another port than {ours}, which can't be opened ({error}); streamside.node.ports sets it."
            )),
        },
    }
}
