//! `serve`, `config`.

use std::io;
use std::time::Duration;

use streamside_plugin::Registry;

use super::args::ShowArgs;
use super::{Exit, complain, say};
use crate::config::{self, Loaded, Settings, Sources, show};
use crate::daemon::Daemon;
use crate::signals::Signals;
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
