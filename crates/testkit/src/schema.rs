//! Message shapes, read from `schema.txt`: what the scenarios' codec knows of the wire format.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A range of versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    low: i16,
    high: i16,
}

impl Versions {
    const ALL: Self = Self { low: 0, high: i16::MAX };
    const NONE: Self = Self { low: 1, high: 0 };

    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::NONE);
        }
        if let Some(low) = text.strip_suffix('+') {
            return Some(Self { low: low.parse().ok()?, high: i16::MAX });
        }
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        Some(Self { low: low.parse().ok()?, high: high.parse().ok()? })
    }

    /// Whether `version` lies in the range.
    #[must_use]
    pub fn has(self, version: i16) -> bool {
        (self.low..=self.high).contains(&version)
    }

    /// The versions, for loops over all of a closed range.
    pub fn iter(self) -> impl Iterator<Item = i16> {
        self.low..=self.high
    }
}

/// What one value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// One byte, 0 is false.
    Bool,
    /// Signed, this many bytes.
    Int(u8),
    /// Two bytes without a sign.
    Uint16,
    /// UTF-8 text.
    String,
    /// Any bytes; base64 in JSON.
    Bytes,
    /// 16 bytes; URL-safe base64 in JSON.
    Uuid,
    /// A struct of this message, by name.
    Struct(String),
}

/// One field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// Kafka's name.
    pub name: String,
    /// Of the value, or of each element.
    pub ty: Type,
    /// A list of `ty`.
    pub array: bool,
    /// Where the field exists.
    pub versions: Versions,
    /// Where it may be null.
    pub nullable: Versions,
    /// Tag number and the versions in which it is a tagged field.
    pub tag: Option<(u32, Versions)>,
    /// A value for a version that lacks the field is dropped instead of refused.
    pub ignorable: bool,
    /// Keeps the classic form in flexible versions (the client id of request headers).
    pub never_flexible: bool,
    /// Text of the default, where it is not zero or empty.
    pub default: Option<String>,
}

impl Field {
    /// Whether the field is a tagged one in `version`.
    #[must_use]
    pub fn tagged(&self, version: i16) -> Option<u32> {
        self.tag.as_ref().filter(|(_, versions)| versions.has(version)).map(|(tag, _)| *tag)
    }
}

/// One message, or one header.
#[derive(Debug)]
pub struct Message {
    /// Versions that exist in Kafka 4.4.0.
    pub valid: Versions,
    /// Versions with compact lengths and tagged fields.
    pub flexible: Versions,
    /// Top-level fields in wire order.
    pub fields: Vec<Field>,
    structs: BTreeMap<String, Vec<Field>>,
}

impl Message {
    /// Fields of the struct that `field` holds or lists; `None` where it holds something plain.
    #[must_use]
    pub fn struct_of(&self, field: &Field) -> Option<&[Field]> {
        match &field.ty {
            Type::Struct(name) => self.structs.get(name).map(Vec::as_slice),
            _ => None,
        }
    }
}

/// Request and response of one API.
#[derive(Debug)]
pub struct Api {
    /// Kafka's number.
    pub key: i16,
    /// Kafka's name, without Request or Response.
    pub name: String,
    /// What clients send.
    pub request: Message,
    /// What servers answer.
    pub response: Message,
}

/// Every message of `schema.txt`.
#[derive(Debug)]
pub struct Catalog {
    apis: BTreeMap<i16, Api>,
    /// Of requests, versions 1 and 2.
    pub request_header: Message,
    /// Of responses, versions 0 and 1.
    pub response_header: Message,
}

impl Catalog {
    /// The checked-in catalog.
    ///
    /// # Panics
    /// When `schema.txt` does not follow its own notation; a unit test holds that true.
    #[must_use]
    #[allow(clippy::panic, reason = "a broken checked-in file is a defect of this crate, seen by its first test")]
    pub fn get() -> &'static Self {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| match parse(include_str!("schema.txt")) {
            Ok(catalog) => catalog,
            Err(line) => panic!("schema.txt line {line}"),
        })
    }

    /// An API by its number.
    #[must_use]
    pub fn api(&self, key: i16) -> Option<&Api> {
        self.apis.get(&key)
    }

    /// An API by its name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Api> {
        self.apis.values().find(|api| api.name == name)
    }

    /// All APIs.
    pub fn apis(&self) -> impl Iterator<Item = &Api> {
        self.apis.values()
    }
}

struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// Recursive descent over indented lines; the error is the number of the line at fault.
fn parse(text: &str) -> Result<Catalog, usize> {
    let lines: Vec<Line<'_>> = text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'))
        .map(|(n, l)| Line { number: n + 1, indent: (l.len() - l.trim_start().len()) / 2, text: l.trim() })
        .collect();
    let mut headers = BTreeMap::new();
    let mut apis = BTreeMap::new();
    let mut rest = lines.as_slice();
    while let [line, after @ ..] = rest {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        match words.as_slice() {
            ["header", name, valid, "flex", flexible] => {
                let (message, left) = parse_message(after, valid, flexible, line.number)?;
                headers.insert((*name).to_owned(), message);
                rest = left;
            }
            ["api", key, name] => {
                let key = key.parse().map_err(|_| line.number)?;
                let (request, left) = parse_half(after, "request", line.number)?;
                let (response, left) = parse_half(left, "response", line.number)?;
                apis.insert(key, Api { key, name: (*name).to_owned(), request, response });
                rest = left;
            }
            _ => return Err(line.number),
        }
    }
    let request_header = headers.remove("RequestHeader").ok_or(0_usize)?;
    let response_header = headers.remove("ResponseHeader").ok_or(0_usize)?;
    Ok(Catalog { apis, request_header, response_header })
}

fn parse_half<'a, 'l>(lines: &'a [Line<'l>], kind: &str, at: usize) -> Result<(Message, &'a [Line<'l>]), usize> {
    let [line, after @ ..] = lines else {
        return Err(at);
    };
    let words: Vec<&str> = line.text.split_whitespace().collect();
    match words.as_slice() {
        [found, valid, "flex", flexible] if *found == kind => parse_message(after, valid, flexible, line.number),
        _ => Err(line.number),
    }
}

fn parse_message<'a, 'l>(
    lines: &'a [Line<'l>],
    valid: &str,
    flexible: &str,
    at: usize,
) -> Result<(Message, &'a [Line<'l>]), usize> {
    let end = lines.iter().position(|l| l.indent == 0).unwrap_or(lines.len());
    let (body, left) = lines.split_at(end);
    let mut message = Message {
        valid: Versions::parse(valid).ok_or(at)?,
        flexible: Versions::parse(flexible).ok_or(at)?,
        fields: Vec::new(),
        structs: BTreeMap::new(),
    };
    let mut rest = body;
    while let [line, after @ ..] = rest {
        let inner_end = after.iter().position(|l| l.indent <= 1).unwrap_or(after.len());
        if let Some(name) = line.text.strip_prefix("struct ") {
            let (inner, next) = after.split_at(inner_end);
            let fields = parse_fields(inner, 2, &mut message.structs)?;
            message.structs.insert(name.to_owned(), fields);
            rest = next;
        } else {
            let (own, next) = rest.split_at(inner_end + 1);
            let fields = parse_fields(own, 1, &mut message.structs)?;
            message.fields.extend(fields);
            rest = next;
        }
    }
    Ok((message, left))
}

fn parse_fields(
    lines: &[Line<'_>],
    indent: usize,
    structs: &mut BTreeMap<String, Vec<Field>>,
) -> Result<Vec<Field>, usize> {
    let mut fields = Vec::new();
    let mut rest = lines;
    while let [line, after @ ..] = rest {
        if line.indent != indent {
            return Err(line.number);
        }
        let field = parse_field(line.text).ok_or(line.number)?;
        let end = after.iter().position(|l| l.indent <= indent).unwrap_or(after.len());
        let (inner, next) = after.split_at(end);
        if !inner.is_empty() {
            let Type::Struct(name) = &field.ty else {
                return Err(line.number);
            };
            let nested = parse_fields(inner, indent + 1, structs)?;
            structs.insert(name.clone(), nested);
        }
        fields.push(field);
        rest = next;
    }
    Ok(fields)
}

fn parse_field(text: &str) -> Option<Field> {
    let (text, default) = match text.split_once(" = ") {
        Some((text, default)) => (text, Some(default.to_owned())),
        None => (text, None),
    };
    let (name, spec) = text.split_once(": ")?;
    let mut words = spec.split_whitespace();
    let ty = words.next()?;
    let (ty, nullable) = match ty.split_once('?') {
        Some((ty, "")) => (ty, Versions::ALL),
        Some((ty, versions)) => (ty, Versions::parse(versions)?),
        None => (ty, Versions::NONE),
    };
    let (ty, array) = match ty.strip_prefix('[') {
        Some(inner) => (inner.strip_suffix(']')?, true),
        None => (ty, false),
    };
    let ty = match ty {
        "bool" => Type::Bool,
        "int8" => Type::Int(1),
        "int16" => Type::Int(2),
        "int32" => Type::Int(4),
        "int64" => Type::Int(8),
        "uint16" => Type::Uint16,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "uuid" => Type::Uuid,
        name if name.starts_with(char::is_uppercase) => Type::Struct(name.to_owned()),
        _ => return None,
    };
    let mut field = Field {
        name: name.to_owned(),
        ty,
        array,
        versions: Versions::ALL,
        nullable,
        tag: None,
        ignorable: false,
        never_flexible: false,
        default,
    };
    for word in words {
        if let Some(versions) = word.strip_prefix('@') {
            field.versions = Versions::parse(versions)?;
        } else if let Some(tag) = word.strip_prefix('#') {
            let (number, versions) = tag.split_once('@')?;
            field.tag = Some((number.parse().ok()?, Versions::parse(versions)?));
        } else if word == "~" {
            field.ignorable = true;
        } else if word == "noflex" {
            field.never_flexible = true;
        } else {
            return None;
        }
    }
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_catalog_is_understood() {
        let catalog = Catalog::get();
        let heartbeat = catalog.api(88).unwrap();
        assert_eq!(heartbeat.name, "StreamsGroupHeartbeat");
        assert_eq!(heartbeat.request.fields.len(), 17);
        let topology = heartbeat.request.fields.iter().find(|f| f.name == "Topology").unwrap();
        let subtopologies = &heartbeat.request.struct_of(topology).unwrap()[1];
        assert_eq!(heartbeat.request.struct_of(subtopologies).unwrap().len(), 7);
        let features = &catalog.api(18).unwrap().response.fields[3];
        assert_eq!((features.tagged(3), features.tagged(2)), (Some(0), None));
        for api in catalog.apis() {
            for message in [&api.request, &api.response] {
                for fields in message.structs.values().chain([&message.fields]) {
                    for field in fields {
                        assert!(
                            !matches!(field.ty, Type::Struct(_)) || message.struct_of(field).is_some(),
                            "{} {}",
                            api.name,
                            field.name
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_line_outside_the_notation_is_named() {
        let text = "header RequestHeader 1-2 flex 2+\n  A: int16\n  B: int99\n";
        assert_eq!(parse(text).unwrap_err(), 3);
    }
}
