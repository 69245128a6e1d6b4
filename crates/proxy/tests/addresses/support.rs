//! A node map that writes down what it was asked, and frames.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use serde_json::Value as Json;
use streamside_proxy::addresses::answer_for;
use streamside_proxy::handler::{Answer, Mapped};
use streamside_proxy::intercept::{Addresses, Reach};
use streamside_wire::header::ResponseHeader;
use streamside_wire::{Message, Reader, Writer};

/// The host that clients are told.
pub const OURS: &str = "ours.test";

/// Upstream node N is reached at port 20000 + N, but for those that cannot be reached.
#[derive(Default)]
pub struct Nodes {
    pub unreachable: Vec<i32>,
    pub asked: Mutex<Vec<Node>>,
    pub seen: Mutex<Vec<List>>,
}

/// Cluster id and nodes.
pub type List = (Option<String>, Vec<(i32, String, i32)>);

/// Cluster id, node id, host, port.
pub type Node = (Option<String>, i32, String, i32);

impl Nodes {
    pub fn without(unreachable: &[i32]) -> Arc<Nodes> {
        Arc::new(Nodes { unreachable: unreachable.to_vec(), ..Default::default() })
    }

    /// What `reach` was called with since last asked.
    pub fn asked(&self) -> Vec<Node> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

pub fn port_of(node_id: i32) -> u16 {
    20000 + (node_id & 0xff) as u16
}

impl Addresses for Nodes {
    fn reach(&self, cluster_id: Option<&str>, node_id: i32, host: &str, port: i32) -> Option<Reach> {
        self.asked.lock().unwrap().push((cluster_id.map(str::to_owned), node_id, host.to_owned(), port));
        let open = Reach { host: OURS.into(), port: port_of(node_id) };
        (!self.unreachable.contains(&node_id)).then_some(open)
    }

    fn seen(&self, cluster_id: Option<&str>, nodes: &[(i32, String, i32)]) {
        self.seen.lock().unwrap().push((cluster_id.map(str::to_owned), nodes.to_vec()));
    }
}

/// The body of a frame.
pub fn body<'a, M: Message<'a>>(answer: &M, version: i16) -> BytesMut {
    let mut out = BytesMut::new();
    let header = ResponseHeader::new(7);
    header.encode(&mut Writer::new(&mut out), M::API_KEY, version).unwrap();
    answer.encode(&mut Writer::new(&mut out), version).unwrap();
    out
}

/// Reads the body of a frame to its end.
pub fn read<M: for<'a> Message<'a>>(body: &[u8], version: i16) -> M {
    let mut r = Reader::new(body);
    let header = ResponseHeader::decode(&mut r, <M as Message<'static>>::API_KEY, version).unwrap();
    assert_eq!(header.correlation_id, 7);
    let answer = M::decode(&mut r, version).unwrap();
    assert_eq!(r.remaining(), 0);
    answer
}

/// What the client gets for the body of an upstream's frame: the body of a frame, or the line for the log.
pub fn through(api_key: i16, version: i16, body: &[u8], nodes: &Arc<Nodes>) -> Result<BytesMut, String> {
    let addresses: Arc<dyn Addresses> = nodes.clone();
    match answer_for(api_key, version, &addresses)? {
        None | Some(Answer::Stream) => Ok(body.into()),
        Some(Answer::Filter(mut filter)) => {
            let mut out = BytesMut::from(body);
            filter.begin(out.len());
            filter.pass(&mut out)?;
            Ok(out)
        }
        Some(Answer::Whole { max, map }) => {
            assert!(body.len() <= max);
            match map(body.into()) {
                Mapped::Frame(mut frame, None) => {
                    let length = frame.split_to(4);
                    assert_eq!(length[..], (frame.len() as u32).to_be_bytes());
                    Ok(frame)
                }
                Mapped::Close(line) => Err(line),
                Mapped::Frame(_, Some(_)) | Mapped::Later(_) => panic!("no such answer"),
            }
        }
    }
}

/// A frame made by Kafka 4.4.0's own classes.
pub struct Vector {
    pub name: String,
    pub api_key: i16,
    pub version: i16,
    pub json: Json,
    /// Body of the frame.
    pub body: Vec<u8>,
}

/// All recorded answers.
pub fn vectors() -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut vectors = Vec::new();
    for file in files {
        for text in std::fs::read_to_string(&file).unwrap().lines() {
            let json: Json = serde_json::from_str(text).unwrap();
            let number = |key: &str| json[key].as_i64().unwrap() as i16;
            if json["kind"] == "response" {
                vectors.push(Vector {
                    name: format!("{} v{} {}", file.file_name().unwrap().display(), json["version"], json["what"]),
                    api_key: number("api"),
                    version: number("version"),
                    body: unhex(json["hex"].as_str().unwrap())[4..].to_vec(),
                    json: json["body"].clone(),
                });
            }
        }
    }
    vectors
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
