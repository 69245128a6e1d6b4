//! Frames made by Kafka 4.4.0's own classes (`tests/vectors`): bytes -> message -> the recorded fields and bytes.

use std::borrow::Cow;
use std::path::Path;

use bytes::{BufMut, BytesMut};
use serde_json::Value as Json;
use streamside_wire::header::{RequestHeader, ResponseHeader};
use streamside_wire::{Reader, Tags, Tree, Writer};

use super::every_message::find;

/// One recorded frame.
pub struct Vector {
    pub name: String,
    pub api_key: i16,
    pub version: i16,
    pub is_request: bool,
    pub header: Json,
    pub body: Json,
    /// With its length.
    pub frame: Vec<u8>,
}

pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

pub fn all() -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut vectors = Vec::new();
    for file in files {
        for (line, text) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            let json: Json = serde_json::from_str(text).unwrap();
            vectors.push(Vector {
                name: format!("{}:{} {}", file.file_name().unwrap().display(), line + 1, json["what"]),
                api_key: json["api"].as_i64().unwrap() as i16,
                version: json["version"].as_i64().unwrap() as i16,
                is_request: json["kind"] == "request",
                header: json["header"].clone(),
                body: json["body"].clone(),
                frame: unhex(json["hex"].as_str().unwrap()),
            });
        }
    }
    vectors
}

/// Decodes the header; gives the offset of the body.
pub fn body_start(vector: &Vector) -> usize {
    let mut r = Reader::new(&vector.frame[4..]);
    if vector.is_request {
        RequestHeader::decode(&mut r).unwrap();
    } else {
        ResponseHeader::decode(&mut r, vector.api_key, vector.version).unwrap();
    }
    vector.frame.len() - r.remaining()
}

#[test]
fn every_vector_decodes_and_encodes() {
    let vectors = all();
    assert_eq!(vectors.len(), 765);
    for vector in &vectors {
        let name = &vector.name;
        let (length, payload) = vector.frame.split_at(4);
        assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, payload.len(), "{name}");

        let mut again = BytesMut::new();
        again.put_u32(payload.len() as u32);
        header_comes_back(vector, &mut again);
        assert_eq!(again[..], vector.frame[..body_start(vector)], "header of {name}");

        let codec = find(vector.api_key, vector.is_request);
        let body = &vector.frame[body_start(vector)..];
        let decoded = codec.decode(body, vector.version, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(decoded.left, 0, "{name}");
        same(&decoded.tree, &vector.body).unwrap_or_else(|at| panic!("{name}: {at}"));
        assert_eq!(decoded.encoded.as_deref().unwrap(), body, "{name}");
    }
}

fn header_comes_back(vector: &Vector, out: &mut BytesMut) {
    let Vector { name, header, .. } = vector;
    let mut r = Reader::new(&vector.frame[4..]);
    let tags = if vector.is_request {
        let decoded = RequestHeader::decode(&mut r).unwrap();
        assert_eq!(i64::from(decoded.api_key), header["RequestApiKey"], "{name}");
        assert_eq!(i64::from(decoded.api_version), header["RequestApiVersion"], "{name}");
        assert_eq!(i64::from(decoded.correlation_id), header["CorrelationId"], "{name}");
        assert_eq!(decoded.client_id, header["ClientId"].as_str().map(Cow::Borrowed), "{name}");
        decoded.encode(&mut Writer::new(out)).unwrap();
        decoded.tags
    } else {
        let decoded = ResponseHeader::decode(&mut r, vector.api_key, vector.version).unwrap();
        assert_eq!(i64::from(decoded.correlation_id), header["CorrelationId"], "{name}");
        decoded.encode(&mut Writer::new(out), vector.api_key, vector.version).unwrap();
        decoded.tags
    };
    same_tags(&listed(&tags), &header["_tags"]).unwrap_or_else(|at| panic!("{name}: {at}"));
}

fn listed(tags: &Tags) -> Vec<(u32, Vec<u8>)> {
    tags.iter().map(|(tag, bytes)| (tag, bytes.to_vec())).collect()
}

/// Compares a decoded message with the recorded body; an error says where they differ.
fn same(tree: &Tree, json: &Json) -> Result<(), String> {
    let ok = match (tree, json) {
        (Tree::Null, Json::Null) => true,
        (Tree::Bool(a), Json::Bool(b)) => a == b,
        (Tree::Int(a), Json::Number(b)) => b.as_i64() == Some(*a),
        (Tree::Text(a), Json::String(b)) => a == b,
        (Tree::Bytes(a), Json::String(b)) => *a == base64(b),
        (Tree::Uuid(a), Json::String(b)) => a[..] == base64(b),
        (Tree::List(a), Json::Array(b)) => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                same(a, b).map_err(|at| format!("[{i}]{at}"))?;
            }
            a.len() == b.len()
        }
        (Tree::Struct(fields, tags), Json::Object(recorded)) => {
            for (name, value) in fields {
                let name = pascal(name);
                let json = recorded.get(&name).ok_or_else(|| format!(".{name} is not recorded"))?;
                same(value, json).map_err(|at| format!(".{name}{at}"))?;
            }
            same_tags(tags, recorded.get("_tags").unwrap_or(&Json::Null))?;
            fields.len() + usize::from(!tags.is_empty()) == recorded.len()
        }
        _ => false,
    };
    if ok { Ok(()) } else { Err(format!(": {tree:?} instead of {json}")) }
}

fn same_tags(tags: &[(u32, Vec<u8>)], json: &Json) -> Result<(), String> {
    let mut recorded: Vec<(u32, Vec<u8>)> = json
        .as_object()
        .into_iter()
        .flatten()
        .map(|(tag, hex)| (tag.parse().unwrap(), unhex(hex.as_str().unwrap())))
        .collect();
    recorded.sort();
    if recorded == tags { Ok(()) } else { Err(format!("._tags: {tags:?} instead of {json}")) }
}

/// `group_id` -> `GroupId`.
fn pascal(snake: &str) -> String {
    let words = snake.split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect()
}

/// Standard or URL-safe base64, with or without padding.
fn base64(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for c in text.bytes().filter(|c| *c != b'=') {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}
