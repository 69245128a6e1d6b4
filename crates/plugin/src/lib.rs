//! Where do descriptions live?
//!
//! | module | what it holds |
//! |---|---|
//! | [`api`] | the plugin trait, failures, optional capabilities |
//! | [`registry`] | from the configured class to a store; one more name for a program of one's own |
//! | [`schema`] | a store's configuration keys as data |
//! | [`error`] | what an operator reads when a store cannot be used |
//! | [`memory`] | the store in memory |
//! | [`disk`] | the store on disk, with history |
//! | [`runner`] | lanes, deadlines, limits, caught panics, late results (H3) |
//! | [`check`] | the rules that any plugin can be put through |
//! | [`limits`] | bounds, each with its reason |
//! | `fence`, `panic_text` | calls that come too late are kept out; what a panic said |
//!
//! ```
//! use bytes::Bytes;
//! use streamside_plugin::{Config, Outcome, Runner, RunnerConfig, Stamp};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let factory = streamside_plugin::resolve("memory")?.expect("a store is named");
//! let runner = Runner::new(factory.open(&Config::new())?, RunnerConfig::default());
//! let stored = runner.set(1, "orders-app", 0, Bytes::from_static(b"encoded"), Stamp { sequence: 1, at: 0 }).await;
//! assert!(stored.is_ok());
//! assert_eq!(runner.get("orders-app", 0).await, Outcome::Ok(Some(Bytes::from_static(b"encoded"))));
//! assert_eq!(runner.get("orders-app", 1).await, Outcome::Ok(None));
//! # Ok::<(), streamside_plugin::PluginError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod api;
pub mod check;
pub mod disk;
pub mod error;
mod fence;
pub mod limits;
pub mod memory;
mod panic_text;
pub mod registry;
pub mod runner;
pub mod schema;

pub use api::{Call, Config, Failure, Stamp, StoreTrouble, TopologyPlugin, Version};
pub use error::PluginError;
pub use registry::{Factory, Registry, plugin_config, resolve};
pub use runner::{Late, Operation, Outcome, Runner, RunnerConfig, RunnerStats};
pub use schema::{Key, Kind, Schema};
