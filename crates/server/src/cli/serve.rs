//! `serve`, `check`, `config`.

use std::io;
use std::net::{TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use streamside_client::TlsConnector;
use streamside_plugin::Registry;

use super::args::ShowArgs;
use super::{Exit, complain, say};
use crate::config::{self, Loaded, Settings, Sources, show};
use crate::daemon::Daemon;
use crate::data_dir::DataDir;
use crate::http::token::Tokens;
use crate::metrics::Metrics;
use crate::signals::Signals;
use crate::tls::{self, Acceptor};
use crate::{logging, open_files};

/// Serves until a signal ends it.
pub fn serve(sources: &Sources, registry: &Registry) -> io::Result<Exit> {
    run(sources, registry, |daemon, signals| async move {
        say(daemon.welcome().to_string().trim_end());
        if daemon.serve_until(signals, sources).await { Exit::Good } else { Exit::No }
    })
}

/// Starts a daemon as `sources` say, on a runtime of its own, and leaves it to `then`, which ends it.
pub fn run<F, Fut>(sources: &Sources, registry: &Registry, then: F) -> io::Result<Exit>
where
    F: FnOnce(Daemon, Signals) -> Fut,
    Fut: Future<Output = Exit>,
{
    let Loaded { settings, warnings } = match config::load(sources) {
        Ok(loaded) => loaded,
        Err(error) => {
            complain(&error.to_string());
            return Ok(Exit::Wrong);
        }
    };
    logging::init(&settings.log);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let files = open_files::raise();
    tracing::debug!(files, "the limit of open files");
    let runtime = runtime(&settings)?;
    let exit = runtime.block_on(async {
        let signals = Signals::install()?;
        let daemon = match Daemon::start(settings, registry).await {
            Ok(daemon) => daemon,
            Err(error) => {
                complain(&error.to_string());
                return Ok(Exit::of_code(error.exit_code()));
            }
        };
        Ok(then(daemon, signals).await)
    });
    // A plugin call or a disk that hangs does not hold the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    exit
}

/// The runtime that connections are served on.
pub fn runtime(settings: &Settings) -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.worker_threads)
        .thread_name("streamside")
        .enable_all()
        .build()
}

/// Shows what holds.
pub fn config(show: &ShowArgs) -> Exit {
    match config::load(&show.config.sources()) {
        Ok(Loaded { settings, warnings }) => {
            warnings.iter().for_each(|warning| complain(&format!("warning: {warning}")));
            let text = if show.json {
                format!("{:#}\n", show::effective_json(&settings, show.changed))
            } else {
                show::effective(&settings, show.changed)
            };
            say(text.trim_end_matches('\n'));
            Exit::Good
        }
        Err(error) => {
            complain(&error.to_string());
            Exit::Wrong
        }
    }
}

/// Says of each thing that a start needs whether it is there. Nothing is served.
pub fn check(sources: &Sources, registry: &Registry) -> io::Result<Exit> {
    let Loaded { settings, warnings } = match config::load(sources) {
        Ok(loaded) => loaded,
        Err(error) => {
            complain(&error.to_string());
            return Ok(Exit::Wrong);
        }
    };
    let mut good = true;
    let mut tell = |passed: bool, sentence: String| {
        good &= passed;
        say(&logging::escaped(&format!("{} {sentence}", if passed { "ok  " } else { "FAIL" })));
    };
    tell(true, "The configuration is whole.".to_owned());
    for warning in warnings {
        say(&logging::escaped(&format!("note {warning}.")));
    }
    let class = settings.plugin.class.as_deref().unwrap_or_default();
    match registry.resolve(class) {
        Ok(Some(factory)) => tell(true, format!("Topology descriptions go to the store '{}'.", factory.name)),
        Ok(None) => tell(true, "Topology descriptions are switched off.".to_owned()),
        Err(error) => tell(false, format!("The plugin can't be used: {error}.")),
    }
    match DataDir::open(&settings.data_dir) {
        Ok(folder) => {
            let path = folder.path().display();
            tell(true, format!("The data folder {path} is ours; its cluster id is {}.", folder.cluster_id()));
        }
        Err(error) => tell(false, format!("{error}.")),
    }
    if let Some(secured) = &settings.tls {
        let metrics = Arc::new(Metrics::new("check", None, ""));
        match Acceptor::new(secured, Arc::clone(&metrics)) {
            Ok(_) => {
                let ends = metrics.certificates().first().map_or(0, |(_, end)| tls::expiry::days_left(*end));
                tell(true, format!("The certificate in ssl.keystore can be used and ends in {ends} days."));
            }
            Err(error) => tell(false, format!("TLS of the listener can't be used: {error}.")),
        }
    }
    if let Some(options) = settings.upstream.as_ref().and_then(|upstream| upstream.security.tls.as_ref()) {
        match TlsConnector::new(options) {
            Ok(_) => tell(true, "The certificates for connections to the cluster can be used.".to_owned()),
            Err(error) => tell(false, format!("TLS towards the cluster can't be used: {}.", error.reason)),
        }
    }
    let mut listen = |what: &str, address: &config::HostPort| {
        let bound = TcpListener::bind((address.bind_host(), address.port)).and_then(|l| l.local_addr());
        match bound {
            Ok(bound) => tell(true, format!("{what} can listen on {bound}.")),
            Err(error) => tell(false, format!("{what} can't listen on {address}: {error}.")),
        }
    };
    listen("Kafka's protocol", &settings.listener);
    if let Some(address) = &settings.http.listen {
        listen("HTTP", address);
    }
    let advertised = &settings.advertised;
    let found = (advertised.host.as_str(), advertised.port).to_socket_addrs();
    let known = found.is_ok_and(|mut addresses| addresses.next().is_some());
    let word = if known { "is known" } else { "is not known" };
    tell(known, format!("The name that clients are told, {advertised}, {word} here."));
    if settings.http.listen.is_some() && settings.http.token_file.exists() {
        match Tokens::read(&settings.http.token_file) {
            Ok(_) => tell(true, format!("The token file {} is readable.", settings.http.token_file.display())),
            Err(error) => tell(false, format!("{error}.")),
        }
    }
    Ok(if good { Exit::Good } else { Exit::No })
}
