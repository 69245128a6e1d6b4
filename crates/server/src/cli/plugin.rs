//! `plugin list`, `plugin schema NAME`, `plugin check CLASS`.

use std::io;

use std::time::Duration;

use streamside_plugin::Registry;
use streamside_plugin::check::Options;

use super::args::{ConfigArgs, PluginArgs, PluginCommand};
use super::temporary::Temporary;
use super::{Exit, complain, say};
use crate::config;
use crate::logging::escaped;

/// Carries out.
pub fn plugin(args: &PluginArgs, registry: &Registry) -> io::Result<Exit> {
    match &args.command {
        PluginCommand::List => {
            for factory in registry.factories() {
                let lasts = if factory.schema.durable { "survives a restart" } else { "lost at a restart" };
                say(&format!("{:<8} {} ({lasts})", factory.name, factory.schema.about));
            }
            Ok(Exit::Good)
        }
        PluginCommand::Schema { name } => match registry.factories().find(|factory| factory.name == name) {
            Some(factory) => {
                say(&factory.schema.to_json());
                Ok(Exit::Good)
            }
            None => {
                complain(&format!("no store is called {name:?}; `streamside plugin list` names them"));
                Ok(Exit::Wrong)
            }
        },
        PluginCommand::Check { class, config } => check(class, config, registry),
    }
}

/// Puts a store through the suite, in a data folder of its own.
fn check(class: &str, config: &ConfigArgs, registry: &Registry) -> io::Result<Exit> {
    let settings = match config::load(&config.sources()) {
        Ok(loaded) => loaded.settings,
        Err(error) => {
            complain(&error.to_string());
            return Ok(Exit::Wrong);
        }
    };
    let factory = match registry.resolve(class) {
        Ok(Some(factory)) => factory,
        Ok(None) => {
            complain("an empty class and `none` mean no store; there is nothing to check");
            return Ok(Exit::Wrong);
        }
        Err(error) => {
            complain(&error.to_string());
            return Ok(Exit::Wrong);
        }
    };
    let folder = Temporary::new("check")?;
    std::fs::create_dir(folder.path())?;
    let its_own = settings.plugin_config(folder.path());
    if let Err(error) = factory.open(&its_own).map(|plugin| plugin.close()) {
        complain(&error.to_string());
        return Ok(Exit::Wrong);
    }
    let options =
        Options { durable: factory.schema.durable, call_timeout: settings.plugin.call_timeout, ..Options::default() };
    let runtime = super::serve::runtime(&settings)?;
    let report = runtime.block_on(streamside_plugin::check::run(|| factory.open(&its_own), &options));
    runtime.shutdown_timeout(Duration::from_secs(1));
    for line in report.to_string().lines() {
        say(&escaped(line));
    }
    Ok(if report.passed() { Exit::Good } else { Exit::No })
}
