//! `plugin list`, `plugin schema NAME`, `plugin check CLASS`.

use std::io;

use streamside_plugin::Registry;

use super::args::{PluginArgs, PluginCommand};
use super::{Exit, complain, say};

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
        PluginCommand::Check { class, .. } => match registry.resolve(class) {
            Ok(_) => {
                complain("the check suite is not in this build yet");
                Ok(Exit::Wrong)
            }
            Err(error) => {
                complain(&error.to_string());
                Ok(Exit::Wrong)
            }
        },
    }
}
