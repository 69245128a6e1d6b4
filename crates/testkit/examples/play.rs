//! Plays scenarios against any server:
//! `cargo run -p streamside-testkit --example play -- PORT [provides=a,b] [tags=a,-b] [only=TEXT] [jobs=N]`.

use std::path::Path;
use std::process::ExitCode;

use streamside_testkit::player::Player;
use streamside_testkit::scenario::{Selection, load};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| arguments.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
    let Some(port) = arguments.first().and_then(|p| p.parse().ok()) else {
        eprintln!("play PORT [provides=a,b] [tags=a,-b] [only=TEXT] [jobs=N]");
        return ExitCode::from(2);
    };
    let tags: Vec<&str> = value("tags").unwrap_or_default().split(',').filter(|t| !t.is_empty()).collect();
    let without: Vec<&str> = tags.iter().filter_map(|t| t.strip_prefix('-')).collect();
    let with: Vec<&str> = tags.iter().filter(|t| !t.starts_with('-')).copied().collect();
    let provides: Vec<&str> = value("provides").unwrap_or("test-plugin").split(',').collect();
    let selection = Selection::provides(&provides).with(&with).without(&without);
    let mut scenarios = match load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios")) {
        Ok(scenarios) => scenarios,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    scenarios.retain(|s| selection.fits(s) && value("only").is_none_or(|part| s.name.contains(part)));
    let player = Player::new(port);
    if let Err(e) = player.warm_up() {
        eprintln!("the server is not ready: {e}");
        return ExitCode::from(3);
    }
    let report = player.play_all(&scenarios, value("jobs").and_then(|j| j.parse().ok()).unwrap_or(8));
    println!("{report}");
    ExitCode::from(u8::from(!report.failed.is_empty()))
}
