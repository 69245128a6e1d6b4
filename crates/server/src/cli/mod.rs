//! What was asked for at the command line?
//!
//! | module | what it holds |
//! |---|---|
//! | [`args`] | the arguments |
//! | [`serve`] | `serve`, `config` |
//! | [`check`] | `check`: what a start needs, each in a sentence |
//! | [`demo`] | `demo`: a server of its own with members that push |
//! | [`inspect`] | `groups`, `members`, `topology`: questions to any cluster |
//! | [`retry`] | `retry` over HTTP |
//! | `temporary` | a folder that goes with its owner |
//! | [`table`] | tables that fit the terminal |
//! | [`plugin`] | `plugin list`, `schema`, `check` |

pub mod args;
pub mod check;
pub mod demo;
pub mod inspect;
pub mod plugin;
pub mod retry;
pub mod serve;
pub mod table;
mod temporary;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use streamside_plugin::Registry;

use args::{Arguments, Command};

/// What the process tells its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Good,
    /// 1: differences found, a check failed.
    No,
    /// 2: wrong use or configuration.
    Wrong,
    /// 3: could not reach or be reached.
    Unreachable,
}

impl Exit {
    /// By its number.
    fn of_code(code: u8) -> Self {
        match code {
            0 => Self::Good,
            1 => Self::No,
            2 => Self::Wrong,
            _ => Self::Unreachable,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Good => 0,
            Exit::No => 1,
            Exit::Wrong => 2,
            Exit::Unreachable => 3,
        })
    }
}

/// Runs the command line of this process with the stores of `registry`.
///
/// # Errors
/// What the process could not get from the system: threads, signals.
pub fn main(registry: &Registry) -> std::io::Result<Exit> {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to standard output with 0, slips to standard error with 2.
            let exit = if error.use_stderr() { Exit::Wrong } else { Exit::Good };
            error.print()?;
            return Ok(exit);
        }
    };
    match arguments.command.unwrap_or(Command::Serve(arguments.config)) {
        Command::Serve(config) => serve::serve(&config.sources(), registry),
        Command::Demo(demo) => demo::demo(&demo, registry),
        Command::Check(config) => check::check(&config.sources(), registry),
        Command::Config(config) => Ok(serve::config(&config)),
        Command::Inspect(question) => Ok(Exit::of_code(inspect::run(&question))),
        Command::Retry(retry) => Ok(retry::retry(&retry)),
        Command::Plugin(plugin) => plugin::plugin(&plugin, registry),
    }
}

/// Says what is wrong, on standard error, with nothing in it that could harm a terminal.
pub fn complain(text: &str) {
    for line in text.lines() {
        eprintln!("{}", crate::logging::escaped(line));
    }
}

/// Says something on standard output. That it is closed is no reason to fail.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
