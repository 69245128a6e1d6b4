//! Reads a description from JSON: the shape of `write::json` and of the project's topology files. Keys that are not known
//! are ignored; missing or null lists are empty.

use serde::Deserialize;

use crate::convert::ConversionError;
use crate::model::{Description, GlobalStore, Node, Processor, Sink, Source, Subtopology};
use crate::names::Names;

/// Why a text is no description.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, or not of the right shape.
    #[error("not a topology in JSON: {0}")]
    Shape(#[from] serde_json::Error),
    /// The shape is right, the content is refused.
    #[error("{0}")]
    Content(#[from] ConversionError),
}

impl JsonError {
    /// A word for metrics and exit texts.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Shape(_) => "json_shape",
            Self::Content(e) => e.kind(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescriptionJson {
    #[serde(default)]
    subtopologies: Vec<SubtopologyJson>,
    #[serde(default)]
    global_stores: Vec<GlobalStoreJson>,
}

#[derive(Deserialize)]
struct SubtopologyJson {
    id: String,
    #[serde(default)]
    nodes: Vec<NodeJson>,
}

#[derive(Deserialize)]
struct GlobalStoreJson {
    source: NodeJson,
    processor: NodeJson,
}

#[derive(Deserialize)]
struct NodeJson {
    name: String,
    r#type: TypeJson,
    #[serde(default)]
    topics: Names,
    #[serde(default)]
    topic: Option<String>,
    #[serde(default)]
    stores: Names,
    #[serde(default)]
    successors: Names,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum TypeJson {
    Source,
    Processor,
    Sink,
}

impl From<NodeJson> for Node {
    fn from(node: NodeJson) -> Self {
        let NodeJson { name, r#type, topics, topic, stores, successors } = node;
        match r#type {
            TypeJson::Source => Self::Source(Source { name, topics, successors }),
            TypeJson::Processor => Self::Processor(Processor { name, stores, successors }),
            TypeJson::Sink => Self::Sink(Sink { name, topic, successors }),
        }
    }
}

impl Description {
    /// Reads the JSON shape of [`crate::write::json`].
    pub fn from_json(text: &str) -> Result<Self, JsonError> {
        let json: DescriptionJson = serde_json::from_str(text)?;
        let subtopologies = json
            .subtopologies
            .into_iter()
            .map(|s| Subtopology { id: s.id, nodes: s.nodes.into_iter().map(Node::from).collect() });
        let global_stores =
            json.global_stores.into_iter().map(|g| GlobalStore::from_nodes(g.source.into(), g.processor.into()));
        Ok(Self { subtopologies: subtopologies.collect(), global_stores: global_stores.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_keys_are_ignored_and_null_lists_are_empty() {
        let text = r#"{"title":1,"subtopologies":[{"id":"0","color":"red","nodes":[
            {"name":"s","type":"SOURCE","topicPattern":"a.*","topics":null,"topic":null,"stores":null,"successors":["k","k"]},
            {"name":"k","type":"SINK","dynamicTopic":true}]}]}"#;
        let nodes = vec![
            Node::Source(Source { name: "s".into(), successors: ["k"].into_iter().collect(), ..Source::default() }),
            Node::Sink(Sink { name: "k".into(), ..Sink::default() }),
        ];
        let want = Description { subtopologies: vec![Subtopology { id: "0".into(), nodes }], global_stores: vec![] };
        assert_eq!(Description::from_json(text).unwrap(), want);
        assert_eq!(Description::from_json("{}").unwrap(), Description::default());
    }

    #[test]
    fn what_is_no_description_is_refused_in_words() {
        let error = |text| Description::from_json(text).unwrap_err();
        assert_eq!(error("{").kind(), "json_shape");
        let wrong_type = error(r#"{"subtopologies":[{"id":"0","nodes":[{"name":"s","type":"SOURCES"}]}]}"#).to_string();
        assert!(wrong_type.contains("unknown variant `SOURCES`"), "{wrong_type}");
        let pair =
            r#"{"globalStores":[{"source":{"name":"a","type":"SINK"},"processor":{"name":"b","type":"PROCESSOR"}}]}"#;
        assert_eq!(error(pair).to_string(), "Global store must be composed of a source and a processor node.");
        assert_eq!(error(&"[".repeat(100_000)).kind(), "json_shape");
    }
}
