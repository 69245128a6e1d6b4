//! What a coordinator needs around it: journal, shards, plugin, operations, timers. The same standing alone and beside a
//! broker.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use streamside_coordinator::Compat;
use streamside_plugin::{Registry, Runner, RunnerConfig};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::StartError;
use super::clock::Clock;
use super::journal::Journal;
use super::operations::Operations;
use super::shards::{Shards, SharedShards};
use super::timers;
use crate::config::Settings;
use crate::metrics::Metrics;

/// A running core. Cheap to share; [`Core::close`] ends it.
pub struct Core {
    /// The coordinator.
    pub shards: SharedShards,
    /// Pushes, describes, deletes: what takes several steps.
    pub operations: Arc<Operations>,
    /// Calls to the plugin; absent when the feature is off.
    pub runner: Option<Arc<Runner>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Core {
    /// Opens plugin and journal, restores every group, starts what runs by the clock. `data_dir` exists and is ours
    /// alone.
    ///
    /// # Errors
    /// [`StartError`], with what to do about it.
    pub async fn start(
        settings: &Settings,
        registry: &Registry,
        data_dir: &Path,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, StartError> {
        // Where the plugin lives, before anything is written.
        let factory = registry.resolve(settings.plugin.class.as_deref().unwrap_or_default())?;
        let config = settings.plugin_config(data_dir);
        let plugin = factory.as_ref().map(|f| f.open(&config).map(|p| (f.name, p))).transpose()?;

        let (failed, failures) = mpsc::unbounded_channel();
        let journal = Journal::open(data_dir, failed, Arc::clone(&metrics))?;
        let records = journal.read_all()?;
        let config = settings.coordinator_config(plugin.as_ref().map(|(name, _)| (*name).to_owned()));
        let shards: SharedShards = Arc::new(Shards::restore(config, journal.clone(), Clock::new(), records));

        let (late_sender, late) = mpsc::unbounded_channel();
        let runner = plugin.map(|(_, plugin)| {
            let base = match settings.compat {
                Compat::Kafka => RunnerConfig::kafka(),
                Compat::Streamside => RunnerConfig {
                    call_timeout: Some(settings.plugin.call_timeout),
                    max_in_flight: Some(settings.plugin.max_in_flight),
                    ..RunnerConfig::default()
                },
            };
            // The receiver ends with the process; bounded by the hung calls that the runner allows.
            let on_late = Arc::new(move |late| drop(late_sender.send(late)));
            Arc::new(Runner::new(plugin, RunnerConfig { on_late, ..base }))
        });
        let operations = Arc::new(Operations::new(Arc::clone(&shards), runner.clone(), Arc::clone(&metrics)));
        if settings.compat == Compat::Streamside {
            operations.check_against_list().await;
        }
        let tasks = vec![
            tokio::spawn(timers::tick(Arc::clone(&shards), Arc::clone(&operations))),
            tokio::spawn(timers::sweep_and_clean(Arc::clone(&operations), settings.offsets_retention_check_interval)),
            tokio::spawn(take_late_results(late, Arc::clone(&operations))),
            tokio::spawn(reload_after_failures(failures, Arc::clone(&shards), Arc::clone(&operations))),
        ];
        Ok(Arc::new(Self { shards, operations, runner, metrics, tasks: Mutex::new(tasks) }))
    }

    /// Takes the settings that may change while running.
    pub fn retune(&self, settings: &Settings) {
        self.shards.retune(&settings.coordinator_config(None));
    }

    /// The end: timers stop, the plugin is closed, what is journalled is on disk. Blocks.
    pub fn close(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
        if let Some(runner) = &self.runner {
            runner.close();
        }
        self.shards.journal().close(Duration::from_secs(5));
    }
}

async fn take_late_results(mut late: mpsc::UnboundedReceiver<streamside_plugin::Late>, operations: Arc<Operations>) {
    while let Some(late) = late.recv().await {
        operations.late(late).await;
    }
}

/// After a failed commit, memory is what the disk holds.
async fn reload_after_failures(
    mut failures: mpsc::UnboundedReceiver<()>,
    shards: SharedShards,
    operations: Arc<Operations>,
) {
    while failures.recv().await.is_some() {
        let (journal, all) = (shards.journal().clone(), Arc::clone(&shards));
        let reload =
            tokio::task::spawn_blocking(move || journal.reload(|records, generation| all.reload(records, generation)));
        if reload.await.is_ok() && shards.config().compat == Compat::Streamside {
            operations.check_against_list().await;
        }
    }
}
