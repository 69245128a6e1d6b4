//! The binary: everything is in the library.

use std::process::ExitCode;

use anyhow::Context as _;

fn main() -> anyhow::Result<ExitCode> {
    let exit = streamside::cli::main(&streamside_plugin::Registry::builtin())
        .context("the system did not give what every command needs")?;
    Ok(exit.into())
}
