//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::inspect::Inspect;
use crate::config::Sources;

const EXAMPLES: &str = "Examples:
  streamside                                              serve on 127.0.0.1:9092, data in ./streamside-data
  streamside --config config/standalone.properties --override listeners=PLAINTEXT://[::1]:9092
  streamside --override streamside.upstream=broker:9092   in front of a cluster, for clients at 127.0.0.1:19092
  streamside check --override streamside.upstream=broker:9092
  streamside demo                                         a server of its own, with members that push topologies
  streamside config --changed                             what is not at its default, and why
  streamside groups --bootstrap-server 127.0.0.1:9092
  streamside topology --bootstrap-server 127.0.0.1:9092 --group word-count --format kafka
  streamside topology --from description.json --format describe
  streamside retry --url http://127.0.0.1:13310 --group word-count

Exit codes: 0 good; 1 the answer is no; 2 wrong use or configuration; 3 could not reach or be reached.";

/// Records, serves and keeps the topology of every Kafka Streams group.
#[derive(Debug, Parser)]
#[command(name = "streamside", version, about, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// What to do; without it: serve.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// For serving.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve (also without any command)
    Serve(ConfigArgs),
    /// Start a server on free ports with members that push real topologies, and show what tools would show
    Demo(DemoArgs),
    /// Check configuration, folder, plugin, ports, certificates and the cluster behind us without serving
    Check(ConfigArgs),
    /// Show effective values and where each came from; secrets are hidden
    Config(ShowArgs),
    /// Questions to a cluster
    #[command(flatten)]
    Inspect(Inspect),
    /// Forget the refusal and the back-off of a group, so that it is asked for its description again
    Retry(RetryArgs),
    /// The stores of topology descriptions that this build has
    Plugin(PluginArgs),
}

/// Where the configuration comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigArgs {
    /// A configuration file: TOML if its name ends in .toml, else Java's .properties
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A value that weighs more than file and environment; can be given again
    #[arg(long = "override", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
}

impl ConfigArgs {
    /// With this process's environment.
    pub fn sources(&self) -> Sources {
        Sources::new(self.config.clone(), self.overrides.clone())
    }
}

/// Of `config`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Where the configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Only what is not at its default
    #[arg(long)]
    pub changed: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Of `demo`.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// The port for Kafka clients; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// End after showing the groups instead of serving on
    #[arg(long)]
    pub once: bool,
}

/// Of `retry`.
#[derive(Args, Debug)]
pub struct RetryArgs {
    /// Where Streamside serves HTTP
    #[arg(long, value_name = "http://HOST:PORT")]
    pub url: String,
    /// The group
    #[arg(long, value_name = "GROUP")]
    pub group: String,
    /// A token file; without it, for a loopback URL, the one of the local configuration
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Where the local configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Of `plugin`.
#[derive(Args, Debug)]
pub struct PluginArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PluginCommand,
}

/// What to do with plugins.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// The stores that can be named in the configuration
    List,
    /// The configuration keys of a store, as JSON
    Schema {
        /// The store
        name: String,
    },
    /// Put a store through the check suite
    Check {
        /// The plugin class, as in group.streams.topology.description.plugin.class
        class: String,
        /// Where its configuration comes from.
        #[command(flatten)]
        config: ConfigArgs,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("streamside").chain(line.split_whitespace()))
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_a_command_it_serves() {
        let bare = parse("--config a.toml --override a=b --override c=d").unwrap();
        assert!(bare.command.is_none());
        assert_eq!(bare.config.overrides, ["a=b", "c=d"]);
        assert!(
            matches!(parse("serve --override a=b").unwrap().command, Some(Command::Serve(c)) if c.overrides == ["a=b"])
        );
    }

    #[test]
    fn questions_to_a_cluster_are_commands_of_the_same_rank() {
        assert!(matches!(parse("groups").unwrap().command, Some(Command::Inspect(Inspect::Groups(_)))));
        assert!(parse("topology --from - --format describe").is_ok());
        assert!(parse("topology --from - --group g").is_err());
    }
}
