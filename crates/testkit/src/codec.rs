//! Bodies and headers between bytes and JSON, driven by the schema. It shares nothing with the codec it judges.

use serde_json::{Map, Number, Value};

use crate::base64;
use crate::schema::{Catalog, Field, Message, Type};

/// A body that cannot be written, or bytes that are not the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(String);

impl CodecError {
    /// Word for reports.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        "codec"
    }
}

fn bad<T>(text: impl Into<String>) -> Result<T, CodecError> {
    Err(CodecError(text.into()))
}

/// Header version of a request of `message` in `version`.
#[must_use]
pub fn request_header_version(message: &Message, version: i16) -> i16 {
    if message.flexible.has(version) { 2 } else { 1 }
}

/// Header version of a response: `ApiVersions` never has a flexible one.
#[must_use]
pub fn response_header_version(key: i16, message: &Message, version: i16) -> i16 {
    i16::from(key != 18 && message.flexible.has(version))
}

/// The value a field has when nobody sets it.
#[must_use]
pub fn default_of(message: &Message, field: &Field, version: i16) -> Value {
    let text = field.default.as_deref();
    if text == Some("null") {
        return Value::Null;
    }
    if field.array {
        return Value::Array(Vec::new());
    }
    match &field.ty {
        Type::Bool => Value::Bool(text == Some("true")),
        Type::Int(_) | Type::Uint16 => Value::from(text.and_then(|t| t.parse::<i64>().ok()).unwrap_or(0)),
        Type::String | Type::Bytes => Value::from(text.unwrap_or_default()),
        Type::Uuid => Value::from(base64::url_safe(&[0; 16])),
        Type::Struct(_) => {
            let fields = message.struct_of(field).unwrap_or_default();
            Value::Object(defaults(message, fields, version))
        }
    }
}

fn defaults(message: &Message, fields: &[Field], version: i16) -> Map<String, Value> {
    fields
        .iter()
        .filter(|f| f.versions.has(version))
        .map(|f| (f.name.clone(), default_of(message, f, version)))
        .collect()
}

/// Writes `body`; fields left out take their defaults.
///
/// # Errors
/// A field that the message or version lacks, a value of the wrong kind, a null where none may be.
pub fn encode(message: &Message, version: i16, body: &Value) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    let writer = Encoder { message, version };
    writer.fields(&mut out, &message.fields, body, message.flexible.has(version))?;
    Ok(out)
}

/// Reads a whole body: bytes left over are an error.
///
/// # Errors
/// Bytes that are not this message.
pub fn decode(message: &Message, version: i16, bytes: &[u8]) -> Result<Value, CodecError> {
    let mut input = bytes;
    let body = decode_prefix(message, version, &mut input)?;
    if !input.is_empty() {
        return bad(format!("{} bytes left over in version {version}", input.len()));
    }
    Ok(body)
}

/// Reads a message off the front of `input`, for headers.
///
/// # Errors
/// Bytes that are not this message.
pub fn decode_prefix(message: &Message, version: i16, input: &mut &[u8]) -> Result<Value, CodecError> {
    Decoder { message, version }.fields(input, &message.fields, message.flexible.has(version))
}

/// A request header of version 2 for APIs that the catalog lacks, else of the API's own version.
///
/// # Errors
/// As [`encode`].
pub fn encode_request_header(version: i16, header: &Value) -> Result<Vec<u8>, CodecError> {
    encode(&Catalog::get().request_header, version, header)
}

fn put_uvarint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

struct Encoder<'m> {
    message: &'m Message,
    version: i16,
}

impl Encoder<'_> {
    fn fields(&self, out: &mut Vec<u8>, fields: &[Field], body: &Value, flexible: bool) -> Result<(), CodecError> {
        let empty = Map::new();
        let body = match body {
            Value::Object(map) => map,
            Value::Null => &empty,
            other => return bad(format!("an object is wanted, not {other}")),
        };
        if let Some(name) = body.keys().find(|k| *k != "_tags" && !fields.iter().any(|f| f.name == **k)) {
            return bad(format!("no field {name}"));
        }
        let mut tags: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in fields {
            let default = default_of(self.message, field, self.version);
            let value = body.get(&field.name).unwrap_or(&default);
            if !field.versions.has(self.version) {
                if *value != default && !field.ignorable {
                    return bad(format!("{} does not exist in version {}", field.name, self.version));
                }
                continue;
            }
            let flexible = flexible && !field.never_flexible;
            match field.tagged(self.version) {
                Some(tag) => {
                    if *value != default {
                        let mut bytes = Vec::new();
                        self.value(&mut bytes, field, value, flexible)?;
                        tags.push((tag, bytes));
                    }
                }
                None => self.value(out, field, value, flexible)?,
            }
        }
        if flexible {
            if let Some(Value::Object(unknown)) = body.get("_tags") {
                for (tag, text) in unknown {
                    let tag = tag.parse().map_err(|_| CodecError(format!("tag {tag}")))?;
                    tags.push((
                        tag,
                        text.as_str().and_then(unhex).ok_or_else(|| CodecError(format!("tag {tag} is not hex")))?,
                    ));
                }
            }
            tags.sort_by_key(|(tag, _)| *tag);
            put_uvarint(out, tags.len() as u64);
            for (tag, bytes) in tags {
                put_uvarint(out, u64::from(tag));
                put_uvarint(out, bytes.len() as u64);
                out.extend(bytes);
            }
        }
        Ok(())
    }

    fn value(&self, out: &mut Vec<u8>, field: &Field, value: &Value, flexible: bool) -> Result<(), CodecError> {
        if field.array {
            return match value {
                Value::Null => self.null(out, field, flexible, 4),
                Value::Array(items) => {
                    length(out, items.len(), flexible, 4)?;
                    items.iter().try_for_each(|item| self.one(out, field, item, flexible))
                }
                other => bad(format!("{} must be a list, not {other}", field.name)),
            };
        }
        if self.message.struct_of(field).is_some() && field.nullable.has(self.version) {
            out.push(if value.is_null() { 0xff } else { 1 });
            if value.is_null() {
                return Ok(());
            }
        }
        self.one(out, field, value, flexible)
    }

    fn one(&self, out: &mut Vec<u8>, field: &Field, value: &Value, flexible: bool) -> Result<(), CodecError> {
        let wrong = || CodecError(format!("{} cannot be {value}", field.name));
        match &field.ty {
            Type::Struct(_) => {
                if value.is_null() {
                    return bad(format!("{} must not be null", field.name));
                }
                let fields = self.message.struct_of(field).unwrap_or_default();
                self.fields(out, fields, value, flexible)?;
            }
            Type::Bool => out.push(u8::from(value.as_bool().ok_or_else(wrong)?)),
            Type::Uint16 => {
                out.extend(u16::try_from(value.as_i64().ok_or_else(wrong)?).map_err(|_| wrong())?.to_be_bytes())
            }
            Type::Int(width) => {
                let number = value.as_i64().ok_or_else(wrong)?;
                let bytes = number.to_be_bytes();
                let kept = &bytes[8 - usize::from(*width)..];
                let sign = if kept[0] & 0x80 == 0 { 0 } else { 0xff };
                if bytes[..8 - usize::from(*width)].iter().any(|b| *b != sign) {
                    return Err(wrong());
                }
                out.extend(kept);
            }
            Type::Uuid => {
                let bytes = value.as_str().and_then(base64::decode).filter(|b| b.len() == 16).ok_or_else(wrong)?;
                out.extend(bytes);
            }
            Type::String | Type::Bytes if value.is_null() => {
                self.null(out, field, flexible, if field.ty == Type::String { 2 } else { 4 })?;
            }
            Type::String => {
                let text = value.as_str().ok_or_else(wrong)?;
                length(out, text.len(), flexible, 2)?;
                out.extend(text.as_bytes());
            }
            Type::Bytes => {
                let bytes = value.as_str().and_then(base64::decode).ok_or_else(wrong)?;
                length(out, bytes.len(), flexible, 4)?;
                out.extend(bytes);
            }
        }
        Ok(())
    }

    fn null(&self, out: &mut Vec<u8>, field: &Field, flexible: bool, width: usize) -> Result<(), CodecError> {
        if !field.nullable.has(self.version) {
            return bad(format!("{} must not be null", field.name));
        }
        if flexible {
            out.push(0);
        } else {
            out.extend(std::iter::repeat_n(0xff, width));
        }
        Ok(())
    }
}

fn length(out: &mut Vec<u8>, length: usize, flexible: bool, width: usize) -> Result<(), CodecError> {
    if flexible {
        put_uvarint(out, length as u64 + 1);
    } else if width == 2 {
        out.extend(
            i16::try_from(length).map_err(|_| CodecError(format!("length {length} does not fit")))?.to_be_bytes(),
        );
    } else {
        out.extend(
            i32::try_from(length).map_err(|_| CodecError(format!("length {length} does not fit")))?.to_be_bytes(),
        );
    }
    Ok(())
}

struct Decoder<'m> {
    message: &'m Message,
    version: i16,
}

impl Decoder<'_> {
    fn fields(&self, input: &mut &[u8], fields: &[Field], flexible: bool) -> Result<Value, CodecError> {
        let mut out = Map::new();
        for field in fields.iter().filter(|f| f.versions.has(self.version)) {
            let value = match field.tagged(self.version) {
                Some(_) => default_of(self.message, field, self.version),
                None => self.value(input, field, flexible && !field.never_flexible)?,
            };
            out.insert(field.name.clone(), value);
        }
        if flexible {
            self.tags(input, fields, &mut out)?;
        }
        Ok(Value::Object(out))
    }

    fn tags(&self, input: &mut &[u8], fields: &[Field], out: &mut Map<String, Value>) -> Result<(), CodecError> {
        let mut unknown = Map::new();
        let mut last = None;
        for _ in 0..uvarint(input)? {
            let tag = uvarint(input)?;
            if last.is_some_and(|last| tag <= last) {
                return bad("tags out of order");
            }
            last = Some(tag);
            let size = uvarint(input)?;
            let mut bytes = take(input, size as usize)?;
            match fields.iter().find(|f| f.tagged(self.version).is_some_and(|t| u64::from(t) == tag)) {
                Some(field) => {
                    out.insert(field.name.clone(), self.value(&mut bytes, field, true)?);
                    if !bytes.is_empty() {
                        return bad(format!("tag {tag} is too long"));
                    }
                }
                None => {
                    unknown.insert(tag.to_string(), Value::from(hex(bytes)));
                }
            }
        }
        if !unknown.is_empty() {
            out.insert("_tags".to_owned(), Value::Object(unknown));
        }
        Ok(())
    }

    fn value(&self, input: &mut &[u8], field: &Field, flexible: bool) -> Result<Value, CodecError> {
        if field.array {
            let Some(count) = self.length(input, field, flexible, 4)? else {
                return Ok(Value::Null);
            };
            if count > input.len() {
                return bad(format!("{} claims {count} elements", field.name));
            }
            let items: Result<Vec<Value>, CodecError> = (0..count).map(|_| self.one(input, field, flexible)).collect();
            return items.map(Value::Array);
        }
        if self.message.struct_of(field).is_some() && field.nullable.has(self.version) && take(input, 1)?[0] >= 0x80 {
            return Ok(Value::Null);
        }
        self.one(input, field, flexible)
    }

    fn one(&self, input: &mut &[u8], field: &Field, flexible: bool) -> Result<Value, CodecError> {
        Ok(match &field.ty {
            Type::Struct(_) => self.fields(input, self.message.struct_of(field).unwrap_or_default(), flexible)?,
            Type::Bool => Value::Bool(take(input, 1)?[0] != 0),
            Type::Uint16 => Value::from(signed(take(input, 2)?) & 0xffff),
            Type::Int(width) => Value::Number(Number::from(signed(take(input, usize::from(*width))?))),
            Type::Uuid => Value::from(base64::url_safe(take(input, 16)?)),
            Type::String => match self.length(input, field, flexible, 2)? {
                None => Value::Null,
                Some(n) => match std::str::from_utf8(take(input, n)?) {
                    Ok(text) => Value::from(text),
                    Err(_) => return bad(format!("{} is not UTF-8", field.name)),
                },
            },
            Type::Bytes => match self.length(input, field, flexible, 4)? {
                None => Value::Null,
                Some(n) => Value::from(base64::standard(take(input, n)?)),
            },
        })
    }

    fn length(
        &self,
        input: &mut &[u8],
        field: &Field,
        flexible: bool,
        width: usize,
    ) -> Result<Option<usize>, CodecError> {
        let length = if flexible { uvarint(input)? as i64 - 1 } else { signed(take(input, width)?) };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if field.nullable.has(self.version) => Ok(None),
            Err(_) => bad(format!("{} is null", field.name)),
        }
    }
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], CodecError> {
    match input.split_at_checked(count) {
        Some((head, tail)) => {
            *input = tail;
            Ok(head)
        }
        None => bad(format!("{count} bytes wanted, {} left", input.len())),
    }
}

fn uvarint(input: &mut &[u8]) -> Result<u64, CodecError> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let byte = take(input, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    bad("varint too long")
}

fn signed(bytes: &[u8]) -> i64 {
    let start = if bytes.first().is_some_and(|b| b & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(start, |all, b| all << 8 | i64::from(*b))
}

/// Lower-case hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// Bytes of hex text, spaces between them allowed.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().filter(|c| *c != ' ').map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_fill_what_a_body_leaves_out() {
        let api = Catalog::get().api(88).unwrap();
        let bytes = encode(&api.request, 1, &json!({"GroupId": "g", "MemberId": "m", "MemberEpoch": 3})).unwrap();
        let body = decode(&api.request, 1, &bytes).unwrap();
        assert_eq!(body["RebalanceTimeoutMs"], -1);
        assert_eq!(body["Topology"], Value::Null);
        assert_eq!(body["ShutdownApplication"], false);
        assert_eq!(encode(&api.request, 1, &body).unwrap(), bytes);
    }

    #[test]
    fn tagged_fields_are_written_only_off_their_default() {
        let api = Catalog::get().api(18).unwrap();
        let plain = encode(&api.response, 3, &json!({"ErrorCode": 0})).unwrap();
        assert_eq!(hex(&plain), "0000010000000000");
        let body = json!({"ErrorCode": 0, "FinalizedFeaturesEpoch": 5, "_tags": {"9": "aabb"}});
        let bytes = encode(&api.response, 3, &body).unwrap();
        assert_eq!(hex(&bytes), "000001000000000201080000000000000005 0902aabb".replace(' ', ""));
        assert_eq!(decode(&api.response, 3, &bytes).unwrap()["_tags"]["9"], "aabb");
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let api = Catalog::get().api(93).unwrap();
        for epoch in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1] {
            assert!(encode(&api.request, 0, &json!({"TopologyEpoch": epoch})).is_err());
        }
        assert!(encode(&api.request, 0, &json!({"TopologyEpoch": i32::MIN})).is_ok());
    }

    #[test]
    fn a_length_beyond_the_end_is_an_error() {
        let api = Catalog::get().api(42).unwrap();
        assert!(decode(&api.request, 2, &[0xff, 0xff, 0xff, 0xff, 0x07]).is_err());
        assert!(decode(&api.request, 2, &[0x02, 0x05, b'a']).is_err());
    }
}
