//! The scenario language's values: variables and repetitions before a step, marks when its answer is compared.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::codec::default_of;
use crate::schema::{Field, Message};

/// Variables of one play.
pub type Variables = BTreeMap<String, Value>;

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.+-".contains(c)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `${name}` in one text. A text that is nothing but a variable becomes the variable's value, whatever its type.
fn substitute_text(text: &str, variables: &Variables) -> Value {
    if let Some(value) = text.strip_prefix("${").and_then(|t| t.strip_suffix('}')).and_then(|name| variables.get(name))
    {
        return value.clone();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let inner = &from[2..];
        let end = inner.find(|c| !is_name(c)).unwrap_or(inner.len());
        let known = if end > 0 && inner[end..].starts_with('}') { variables.get(&inner[..end]) } else { None };
        if let Some(value) = known {
            out.push_str(&plain(value));
            rest = &inner[end + 1..];
        } else {
            out.push_str("${");
            rest = inner;
        }
    }
    out.push_str(rest);
    Value::from(out)
}

/// Replaces `${name}`, expands `{"<repeat>": …}` inside lists and `{"<fill>": [text, n]}`.
#[must_use]
pub fn substitute(value: &Value, variables: &Variables) -> Value {
    match value {
        Value::String(text) => substitute_text(text, variables),
        Value::Array(items) => {
            let mut out = Vec::with_capacity(items.len());
            for item in items {
                match item.get("<repeat>") {
                    Some(spec) => repeat(spec, variables, &mut out),
                    None => out.push(substitute(item, variables)),
                }
            }
            Value::Array(out)
        }
        Value::Object(map) => match map.get("<fill>").and_then(Value::as_array).map(Vec::as_slice) {
            Some([text, count]) => {
                let count = count.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                Value::from(plain(&substitute(text, variables)).repeat(count))
            }
            _ => Value::Object(map.iter().map(|(k, v)| (k.clone(), substitute(v, variables))).collect()),
        },
        other => other.clone(),
    }
}

fn repeat(spec: &Value, variables: &Variables, out: &mut Vec<Value>) {
    let number = |name: &str| spec[name].as_u64().unwrap_or(0);
    let name = spec["as"].as_str().unwrap_or("i");
    let width = usize::try_from(number("width")).unwrap_or(0);
    let mut inner = variables.clone();
    for i in number("from")..number("from") + number("count") {
        inner.insert(name.to_owned(), Value::from(format!("{i:0width$}")));
        inner.insert(format!("{name}+1"), Value::from(format!("{:0width$}", i + 1)));
        out.push(substitute(&spec["item"], &inner));
    }
}

/// The value at a path such as `$.Groups[0].ErrorCode`.
#[must_use]
pub fn at_path<'v>(document: &'v Value, path: &str) -> Option<&'v Value> {
    let mut current = document;
    for part in path.trim_start_matches('$').split(['.', '[']).filter(|p| !p.is_empty()) {
        current = match part.strip_suffix(']') {
            Some(index) => current.get(index.parse::<usize>().ok()?)?,
            None => current.get(part)?,
        };
    }
    Some(current)
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 160 { text } else { text.chars().take(157).chain("...".chars()).collect() }
}

/// `None` where `text` is not a mark.
fn mark(text: &str, actual: &Value) -> Option<bool> {
    let number = actual.as_i64();
    Some(match text {
        "<any>" => true,
        "<string>" => actual.as_str().is_some_and(|t| !t.is_empty()),
        "<int>" => number.is_some(),
        "<nonneg>" => number.is_some_and(|n| n >= 0),
        "<positive>" => number.is_some_and(|n| n > 0),
        "<uuid>" => actual.as_str().is_some_and(is_uuid),
        _ => return None,
    })
}

fn is_uuid(text: &str) -> bool {
    let base64 = text.len() == 22 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let groups: Vec<&str> = text.split('-').collect();
    let dashed = groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|g| g.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)));
    base64 || dashed
}

/// Where a struct's fields and defaults are looked up: its message, the fields, the version.
#[derive(Clone, Copy)]
pub struct Shape<'m> {
    message: &'m Message,
    fields: Option<&'m [Field]>,
    version: i16,
}

impl<'m> Shape<'m> {
    /// The top level of a message.
    #[must_use]
    pub fn of(message: &'m Message, version: i16) -> Self {
        Self { message, fields: Some(&message.fields), version }
    }

    /// A value without fields of its own.
    #[must_use]
    pub fn plain(message: &'m Message, version: i16) -> Self {
        Self { message, fields: None, version }
    }

    fn field(self, name: &str) -> Option<&'m Field> {
        self.fields?.iter().find(|f| f.name == name)
    }

    fn inner(self, field: Option<&'m Field>) -> Self {
        Self { fields: field.and_then(|f| self.message.struct_of(f)), ..self }
    }
}

/// `None` when `actual` fits `expected`, else a text that names the first difference. Exact: a field that is left out
/// of `expected` must hold its schema default.
#[must_use]
pub fn difference(expected: &Value, actual: &Value, shape: Shape<'_>, path: &str) -> Option<String> {
    if let Some(fits) = expected.as_str().and_then(|text| mark(text, actual)) {
        return (!fits).then(|| format!("{path}: expected {}, got {}", plain(expected), short(actual)));
    }
    if let Some(found) = expected
        .as_object()
        .filter(|m| m.len() == 1)
        .and_then(|m| m.iter().next())
        .and_then(|(name, inner)| operator(name, inner, actual, shape, path))
    {
        return found;
    }
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => object(expected, actual, shape, path),
        (Value::Array(expected), Value::Array(found)) => expected
            .iter()
            .zip(found)
            .enumerate()
            .find_map(|(i, (e, a))| difference(e, a, shape, &format!("{path}[{i}]")))
            .or_else(|| {
                (expected.len() != found.len()).then(|| {
                    format!("{path}: expected {} elements, got {}: {}", expected.len(), found.len(), short(actual))
                })
            }),
        _ => (expected != actual).then(|| format!("{path}: expected {}, got {}", short(expected), short(actual))),
    }
}

/// A mark that holds values. The outer `None` means that it is none, and the object is compared as it stands.
fn operator(name: &str, inner: &Value, actual: &Value, shape: Shape<'_>, path: &str) -> Option<Option<String>> {
    let fits = |e: &Value, a: &Value| difference(e, a, shape, path).is_none();
    Some(match (name, inner, actual) {
        ("<unordered>", Value::Array(wanted), Value::Array(found)) => unordered(wanted, found, shape, path),
        ("<contains>", Value::Array(wanted), Value::Array(found)) => wanted
            .iter()
            .find(|e| !found.iter().any(|a| fits(e, a)))
            .map(|e| format!("{path}: nothing fits {}", short(e))),
        ("<lacks>", Value::Array(unwanted), Value::Array(found)) => unwanted
            .iter()
            .find(|e| found.iter().any(|a| fits(e, a)))
            .map(|e| format!("{path}: must not contain {}", short(e))),
        ("<subset>", Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().find_map(|(name, e)| match found.get(name) {
                None => Some(format!("{path}.{name}: missing")),
                Some(a) => difference(e, a, shape.inner(shape.field(name)), &format!("{path}.{name}")),
            })
        }
        ("<one-of>", Value::Array(choices), _) => (!choices.iter().any(|e| fits(e, actual)))
            .then(|| format!("{path}: expected one of {}, got {}", short(inner), short(actual))),
        _ => return None,
    })
}

fn unordered(wanted: &[Value], found: &[Value], shape: Shape<'_>, path: &str) -> Option<String> {
    if wanted.len() != found.len() {
        return Some(format!(
            "{path}: expected {} elements, got {}: {}",
            wanted.len(),
            found.len(),
            short(&Value::from(found.to_vec()))
        ));
    }
    let mut left: Vec<&Value> = found.iter().collect();
    for (i, e) in wanted.iter().enumerate() {
        match left.iter().position(|a| difference(e, a, shape, path).is_none()) {
            Some(fit) => drop(left.remove(fit)),
            None => {
                let left = Value::from(left.into_iter().cloned().collect::<Vec<_>>());
                return Some(format!("{path}: nothing fits expected element {i} {}, left: {}", short(e), short(&left)));
            }
        }
    }
    None
}

fn object(expected: &Map<String, Value>, actual: &Map<String, Value>, shape: Shape<'_>, path: &str) -> Option<String> {
    if let Some(name) = expected.keys().find(|k| !actual.contains_key(*k)) {
        return Some(format!("{path}.{name}: the answer has no such field in version {}", shape.version));
    }
    actual.iter().find_map(|(name, a)| {
        if name == "_tags" && !expected.contains_key(name) {
            return Some(format!("{path}: unknown tagged fields {}", short(a)));
        }
        let field = shape.field(name);
        let default = field.map(|f| default_of(shape.message, f, shape.version)).unwrap_or_default();
        difference(expected.get(name).unwrap_or(&default), a, shape.inner(field), &format!("{path}.{name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Catalog;
    use serde_json::json;

    fn variables() -> Variables {
        Variables::from([("run".to_owned(), json!("r1")), ("epoch".to_owned(), json!(7))])
    }

    #[test]
    fn variables_keep_their_type_alone_and_become_text_inside_text() {
        let given = json!(["${epoch}", "${run}.g-${epoch}", "${other} $ ${", "${run}${run}"]);
        assert_eq!(substitute(&given, &variables()), json!([7, "r1.g-7", "${other} $ ${", "r1r1"]));
    }

    #[test]
    fn lists_repeat_and_texts_fill() {
        let given = json!([{"<repeat>": {"count": 2, "from": 9, "width": 2, "item": {"a": "${i}>${i+1}"}}}, {"<fill>": ["${run}", 2]}]);
        assert_eq!(substitute(&given, &variables()), json!([{"a": "09>10"}, {"a": "10>11"}, "r1r1"]));
    }

    #[test]
    fn paths_lead_through_lists() {
        let document = json!({"Groups": [{"Members": [{"MemberId": "m"}]}]});
        assert_eq!(at_path(&document, "$.Groups[0].Members[0].MemberId").unwrap(), "m");
        assert_eq!(at_path(&document, "$.Groups[1]"), None);
    }

    #[test]
    fn a_field_left_out_must_hold_its_default() {
        let message = &Catalog::get().api(93).unwrap().response;
        let shape = Shape::of(message, 0);
        let answer = json!({"ThrottleTimeMs": 0, "ErrorCode": 0, "ErrorMessage": null});
        assert_eq!(difference(&json!({}), &answer, shape, "$"), None);
        let refused = json!({"ThrottleTimeMs": 0, "ErrorCode": 42, "ErrorMessage": "no"});
        assert_eq!(difference(&json!({}), &refused, shape, "$").unwrap(), "$.ErrorCode: expected 0, got 42");
        assert_eq!(
            difference(&json!({"ErrorCode": "<positive>", "ErrorMessage": "<string>"}), &refused, shape, "$"),
            None
        );
        assert_eq!(difference(&json!({"<subset>": {"ErrorCode": 42}}), &refused, shape, "$"), None);
        assert!(difference(&json!({"<subset>": {"Other": 42}}), &refused, shape, "$").is_some());
    }

    #[test]
    fn marks_over_lists() {
        let message = &Catalog::get().api(16).unwrap().response;
        let shape = Shape::of(message, 5).inner(message.fields.last());
        let group = |id: &str| json!({"GroupId": id, "ProtocolType": "", "GroupState": "Empty", "GroupType": ""});
        let brief = |id: &str| json!({"GroupId": id, "GroupState": "Empty"});
        let found = json!([group("a"), group("b")]);
        assert_eq!(difference(&json!({"<unordered>": [brief("b"), brief("a")]}), &found, shape, "$"), None);
        assert!(difference(&json!({"<unordered>": [brief("b"), brief("b")]}), &found, shape, "$").is_some());
        assert!(difference(&json!([brief("b"), brief("a")]), &found, shape, "$").is_some());
        assert_eq!(difference(&json!({"<contains>": [brief("b")]}), &found, shape, "$"), None);
        assert!(difference(&json!({"<lacks>": [brief("b")]}), &found, shape, "$").is_some());
        assert_eq!(difference(&json!({"<one-of>": [[], [brief("a"), "<any>"]]}), &found, shape, "$"), None);
    }
}
