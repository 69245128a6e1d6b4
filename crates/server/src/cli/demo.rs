//! `demo`.

use std::io;

use streamside_plugin::Registry;

use super::args::DemoArgs;
use super::{Exit, complain};

/// Starts a server of its own.
pub fn demo(_args: &DemoArgs, _registry: &Registry) -> io::Result<Exit> {
    complain("the demonstration is not in this build yet");
    Ok(Exit::Wrong)
}
