//! Recorded frames, by connection.

use std::collections::BTreeMap;
use std::path::Path;

use crate::stage::{hex, peek};

/// A request and its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub request: Vec<u8>,
    /// `None`: the recording ends before it came.
    pub answer: Option<Vec<u8>>,
}

impl Exchange {
    pub fn api_key(&self) -> i16 {
        peek(&self.request).0
    }

    pub fn version(&self) -> i16 {
        peek(&self.request).1
    }
}

/// What one connection saw. `order`: true for a request, false for an answer, as they passed.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    pub exchanges: Vec<Exchange>,
    pub order: Vec<bool>,
}

/// The conversations of a recording.
pub fn read(name: &str) -> Vec<Conversation> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut conversations: BTreeMap<u32, Conversation> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (number, way, body) = (words.next().unwrap(), words.next().unwrap(), hex(words.next().unwrap()));
        let conversation = conversations.entry(number.parse().unwrap()).or_default();
        conversation.order.push(way == ">");
        if way == ">" {
            conversation.exchanges.push(Exchange { request: body, answer: None });
            continue;
        }
        let answered = conversation
            .exchanges
            .iter_mut()
            .find(|exchange| exchange.answer.is_none() && exchange.request[4..8] == body[..4])
            .expect("a request of this answer");
        answered.answer = Some(body);
    }
    conversations.into_values().collect()
}

/// All recordings' names.
pub fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".txt").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// The first exchange of an API in a recording.
pub fn first(name: &str, api_key: i16, version: i16) -> Exchange {
    read(name)
        .into_iter()
        .flat_map(|conversation| conversation.exchanges)
        .find(|exchange| exchange.api_key() == api_key && exchange.version() == version)
        .unwrap_or_else(|| panic!("{name} has API {api_key} version {version}"))
}
