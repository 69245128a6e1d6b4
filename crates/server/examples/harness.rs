//! The server with one more store: `misbehaving`, which does to each group what the group's id says. For the wire
//! suite; takes the same command line as `streamside`.

use std::collections::HashMap;
use std::future::{pending, ready};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use streamside_plugin::{Call, Config, Factory, Failure, PluginError, Registry, Schema, Stamp, TopologyPlugin};
use streamside_topology::{Description, Node, Source, Subtopology};

#[derive(Clone, Copy)]
enum Operation {
    Set,
    Get,
    Delete,
}

const NAMES: [&str; 3] = ["set", "get", "delete"];

/// What a piece of the group id asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Behaviour {
    Works,
    Slow(Duration),
    Fails(Failure),
    Panics,
    Hangs,
}

fn behaviour(word: &str) -> Option<Behaviour> {
    let transient = |message: Option<&str>| {
        Behaviour::Fails(Failure::Transient { message: message.map(str::to_owned), retry_after: None })
    };
    let permanent =
        |message: Option<&str>| Behaviour::Fails(Failure::Permanent { message: message.map(str::to_owned) });
    Some(match word {
        "permanent" => permanent(Some("test plugin: topology refused for good")),
        "permanent-nomsg" => permanent(None),
        "permanent-wrapped" => permanent(Some("test plugin: wrapped refusal")),
        "transient" => transient(Some("test plugin: store is busy")),
        // Any other failure counts as transient (kip1331 §4.3).
        "throw" => transient(Some("test plugin: unexpected failure")),
        "throw-nomsg" => transient(None),
        "wrapped-nocause" => transient(Some("Plugin failure (no cause).")),
        // What a call throws has no text of its own here: the contract is broken (kip1331 §4.3).
        "throw-sync" | "permanent-sync" | "transient-sync" | "null" => Behaviour::Fails(Failure::Contract),
        // Not recorded from Kafka: a panic is this language's own way to break.
        "panic" => Behaviour::Panics,
        "hang" => Behaviour::Hangs,
        other => {
            let seconds = other.strip_prefix("slow-")?.strip_suffix('s')?;
            Behaviour::Slow(Duration::from_secs(seconds.parse().ok()?))
        }
    })
}

/// The behaviour of the `nth` call (from 1) of an operation for a group: the first piece of its id that applies.
fn chosen(group: &str, operation: Operation, nth: usize) -> Behaviour {
    let prefix = NAMES[operation as usize];
    for piece in group.split('.') {
        let Some(word) = piece.strip_prefix(prefix).and_then(|p| p.strip_prefix('-')) else {
            continue;
        };
        let (word, applies) = if let Some(word) = word.strip_suffix("-once") {
            (word, nth == 1)
        } else if let Some(word) = word.strip_suffix("-later") {
            (word, nth > 1)
        } else {
            (word, true)
        };
        if let Some(behaviour) = behaviour(word).filter(|_| applies) {
            return behaviour;
        }
    }
    Behaviour::Works
}

#[derive(Default)]
struct State {
    stored: HashMap<String, (i32, Bytes)>,
    /// Calls so far, by operation; a deleted group's go on.
    calls: HashMap<String, [usize; 3]>,
}

#[derive(Clone, Default)]
struct Misbehaving {
    state: Arc<Mutex<State>>,
}

impl Misbehaving {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::panic, reason = "the server must survive a store that does")]
    fn call<T: Send + 'static>(
        &self,
        operation: Operation,
        group: &str,
        work: impl FnOnce(&mut State, &str) -> T + Send + 'static,
    ) -> Call<T> {
        let nth = {
            let mut state = self.state();
            let calls = state.calls.entry(group.to_owned()).or_default();
            calls[operation as usize] += 1;
            calls[operation as usize]
        };
        match chosen(group, operation, nth) {
            Behaviour::Works => Box::pin(ready(Ok(work(&mut self.state(), group)))),
            Behaviour::Slow(time) => {
                let (this, group) = (self.clone(), group.to_owned());
                Box::pin(async move {
                    tokio::time::sleep(time).await;
                    Ok(work(&mut this.state(), &group))
                })
            }
            Behaviour::Fails(failure) => Box::pin(ready(Err(failure))),
            Behaviour::Panics => std::panic::panic_any("test plugin: thrown by the call itself"),
            Behaviour::Hangs => Box::pin(pending()),
        }
    }
}

/// One sub-topology with a source for each operation that says how often it was called.
fn call_report(calls: [usize; 3]) -> Bytes {
    let source = |(name, n): (&str, usize)| Node::Source(Source { name: format!("{name}={n}"), ..Source::default() });
    let nodes = NAMES.into_iter().zip(calls).map(source).collect();
    let calls = Subtopology { id: "calls".to_owned(), nodes };
    Description { subtopologies: vec![calls], global_stores: Vec::new() }.encode()
}

impl TopologyPlugin for Misbehaving {
    fn configure(&self, _: &Config) -> Result<(), PluginError> {
        Ok(())
    }

    fn set(&self, group: &str, epoch: i32, description: Bytes, _: Stamp) -> Call<()> {
        self.call(Operation::Set, group, move |state, group| {
            state.stored.insert(group.to_owned(), (epoch, description));
        })
    }

    fn get(&self, group: &str, epoch: i32) -> Call<Option<Bytes>> {
        self.call(Operation::Get, group, move |state, group| {
            let has = |piece: &str| group.split('.').any(|p| p == piece);
            if has("get-calls") {
                return Some(call_report(state.calls.get(group).copied().unwrap_or_default()));
            }
            let stored = state.stored.get(group).filter(|(at, _)| *at == epoch);
            stored.filter(|_| !has("get-empty")).map(|(_, bytes)| bytes.clone())
        })
    }

    fn delete(&self, group: &str, _: Stamp) -> Call<()> {
        self.call(Operation::Delete, group, |state, group| {
            state.stored.remove(group);
        })
    }
}

fn main() -> std::io::Result<ExitCode> {
    let schema = Schema {
        name: "misbehaving",
        about: "Does to each group what the group's id says.",
        durable: false,
        keys: &[],
    };
    let exit = streamside::cli::main(&Registry::builtin().with(Factory::new(schema, Misbehaving::default)))?;
    Ok(exit.into())
}
