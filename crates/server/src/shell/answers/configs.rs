//! DescribeConfigs, IncrementalAlterConfigs, ListConfigResources: settings of single groups, and the broker's as they
//! are configured. Only groups can be changed.

use std::collections::HashSet;
use std::sync::Arc;

use streamside_coordinator::group::settings::Kind as SettingKind;
use streamside_coordinator::group::{GroupSettings, Setting, is_topic_name};
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};
use streamside_wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use streamside_wire::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

use super::groups::later;
use super::{Handled, Request, decode};
use crate::config::{Effective, Origin, keys};
use crate::metrics::Api;
use crate::shell::context::Context;
use crate::shell::limits::CONFIG_RESOURCES_PER_REQUEST;

/// Resource types.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;
/// Where a value comes from.
const STATIC_BROKER: i8 = 4;
const DEFAULT: i8 = 5;
const OWN_OF_GROUP: i8 = 8;
/// Types of values.
const BOOLEAN: i8 = 1;
const STRING: i8 = 2;
const INT: i8 = 3;
const LONG: i8 = 5;
const LIST: i8 = 7;
const PASSWORD: i8 = 9;

/// Characters of a client's own text in an error message.
const QUOTED_CHARS: usize = 200;
const DOUBLE: &str = "Each resource must appear at most once.";

type Refused = (ErrorCode, String);

/// IncrementalAlterConfigs: every resource on its own.
pub(super) fn alter(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let body: IncrementalAlterConfigsRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    if body.resources.len() > CONFIG_RESOURCES_PER_REQUEST {
        return Handled::Close(too_many(body.resources.len()));
    }
    later(context, Api::IncrementalAlterConfigs, request.answer_to(), |context, to| async move {
        let twice = doubles(body.resources.iter().map(|r| (r.resource_type, r.resource_name.as_str())));
        let mut responses = Vec::with_capacity(body.resources.len());
        for (resource, twice) in body.resources.iter().zip(twice) {
            let (error_code, error_message) = match resource.resource_type {
                _ if twice => (ErrorCode::INVALID_REQUEST.0, Some(DOUBLE.to_owned())),
                GROUP => {
                    let operations = &context.operations;
                    operations.alter(&resource.resource_name, &resource.configs, body.validate_only).await
                }
                _ => {
                    let (code, message) = not_alterable(&context, resource);
                    (code.0, Some(message))
                }
            };
            responses.push(AlterConfigsResourceResponse {
                error_code,
                error_message,
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            });
        }
        to.frame(&IncrementalAlterConfigsResponse { responses, ..Default::default() })
    })
}

fn too_many(resources: usize) -> String {
    format!("configs of {resources} resources; {CONFIG_RESOURCES_PER_REQUEST} are the limit")
}

/// For each whether it stands more than once.
fn doubles<'a>(resources: impl Iterator<Item = (i8, &'a str)> + Clone) -> Vec<bool> {
    let (mut once, mut twice) = (HashSet::new(), HashSet::new());
    for resource in resources.clone() {
        if !once.insert(resource) {
            twice.insert(resource);
        }
    }
    resources.map(|resource| twice.contains(&resource)).collect()
}

fn not_alterable(context: &Context, resource: &AlterConfigsResource) -> Refused {
    let name = quoted(&resource.resource_name);
    match resource.resource_type {
        TOPIC if !context.topics.contains_key(&resource.resource_name) => {
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("The topic '{name}' does not exist."))
        }
        TOPIC => (ErrorCode::INVALID_REQUEST, "Topics have no configs here.".to_owned()),
        BROKER => match broker(context, &resource.resource_name) {
            Err(refused) => refused,
            Ok(_) => {
                let names: Vec<&str> = resource.configs.iter().map(|c| c.name.as_str()).collect();
                let names = quoted(&names.join(", "));
                (ErrorCode::INVALID_REQUEST, format!("Cannot update these configs dynamically: [{names}]"))
            }
        },
        other => (ErrorCode::INVALID_REQUEST, format!("Resources of type {other} have no configs here.")),
    }
}

/// Whether a broker resource is this node; `false`: the defaults of all, of which there are none.
fn broker(context: &Context, name: &str) -> Result<bool, Refused> {
    let id = context.identity.node_id;
    match name.parse::<i32>() {
        _ if name.is_empty() => Ok(false),
        Ok(other) if other == id => Ok(true),
        Ok(other) => Err((
            ErrorCode::INVALID_REQUEST,
            format!("Unexpected broker id, expected {id} or empty string, but received {other}"),
        )),
        Err(_) => {
            Err((ErrorCode::INVALID_REQUEST, format!("Broker id must be an integer, but it is: {}", quoted(name))))
        }
    }
}

/// A client's text for a message, which must fit into a string of the protocol.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What a describe asks to be shown.
struct Shown {
    synonyms: bool,
    documentation: bool,
}

/// DescribeConfigs.
pub(super) fn describe(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let body: DescribeConfigsRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    if body.resources.len() > CONFIG_RESOURCES_PER_REQUEST {
        return Handled::Close(too_many(body.resources.len()));
    }
    later(context, Api::DescribeConfigs, request.answer_to(), |context, to| async move {
        let shown = Shown { synonyms: body.include_synonyms, documentation: body.include_documentation };
        let effective = context.effective();
        let usual = Setting::ALL.map(|setting| (setting, Usual::of(setting, &effective)));
        let twice = doubles(body.resources.iter().map(|r| (r.resource_type, r.resource_name.as_str())));
        let mut results = Vec::with_capacity(body.resources.len());
        for (resource, twice) in body.resources.iter().zip(twice) {
            let described = match resource.resource_type {
                // Kafka describes it twice; a small request could ask for much that way.
                _ if twice => Err((ErrorCode::INVALID_REQUEST, DOUBLE.to_owned())),
                GROUP if resource.resource_name.is_empty() => {
                    Err((ErrorCode::INVALID_REQUEST, "Group name must not be empty".to_owned()))
                }
                GROUP => match context.operations.settings(&resource.resource_name).await {
                    Ok(own) => Ok(group_configs(own.as_deref(), &usual, &shown)),
                    Err(code) => Err((code, String::new())),
                },
                _ => other_configs(&context, resource, &effective, &shown),
            };
            results.push(result(resource, described));
        }
        to.frame(&DescribeConfigsResponse { results, ..Default::default() })
    })
}

fn result(
    resource: &DescribeConfigsResource,
    described: Result<Vec<DescribeConfigsResourceResult>, Refused>,
) -> DescribeConfigsResult {
    let (error_code, error_message, mut configs) = match described {
        Ok(configs) => (ErrorCode::NONE, String::new(), configs),
        Err((code, message)) => (code, message, Vec::new()),
    };
    if let Some(names) = resource.configuration_keys.as_ref().filter(|names| !names.is_empty()) {
        configs.retain(|config| names.contains(&config.name));
    }
    DescribeConfigsResult {
        error_code: error_code.0,
        error_message: Some(error_message),
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        configs,
        ..Default::default()
    }
}

/// What holds for groups without a setting of their own.
struct Usual {
    value: String,
    default: &'static str,
    configured: bool,
}

impl Usual {
    fn of(setting: Setting, effective: &[Effective]) -> Self {
        let key = setting.broker_key();
        let default = keys::find(key).map_or("", |key| key.default);
        let entry = effective.iter().find(|entry| entry.key == key);
        Self {
            value: entry.map_or_else(|| default.to_owned(), |entry| entry.value.clone()),
            default,
            configured: entry.is_some_and(|entry| entry.origin != Origin::Default),
        }
    }
}

/// Kafka's list for a group: what there is to set, and what is set.
fn group_configs(
    own: Option<&GroupSettings>,
    usual: &[(Setting, Usual)],
    shown: &Shown,
) -> Vec<DescribeConfigsResourceResult> {
    let mut configs = Vec::new();
    for (setting, usual) in usual {
        let own = own.and_then(|own| own.get(*setting));
        if own.is_none() && setting.is_internal() {
            continue;
        }
        let mut sources = Vec::new();
        sources.extend(own.map(|value| synonym(setting.name(), value, OWN_OF_GROUP)));
        if usual.configured {
            sources.push(synonym(setting.broker_key(), &usual.value, STATIC_BROKER));
        }
        sources.push(synonym(setting.broker_key(), usual.default, DEFAULT));
        configs.push(DescribeConfigsResourceResult {
            name: setting.name().to_owned(),
            config_type: match setting.kind() {
                SettingKind::Int { .. } => INT,
                SettingKind::Long { .. } => LONG,
                SettingKind::Boolean => BOOLEAN,
                SettingKind::Text => STRING,
                SettingKind::List => LIST,
            },
            documentation: shown.documentation.then(|| setting.doc().to_owned()),
            ..strongest(sources, shown)
        });
    }
    configs
}

/// Value and source are those of the first, which is the strongest.
fn strongest(sources: Vec<DescribeConfigsSynonym>, shown: &Shown) -> DescribeConfigsResourceResult {
    DescribeConfigsResourceResult {
        value: sources.first().and_then(|first| first.value.clone()),
        config_source: sources.first().map_or(DEFAULT, |first| first.source),
        synonyms: if shown.synonyms { sources } else { Vec::new() },
        ..Default::default()
    }
}

fn synonym(name: &str, value: &str, source: i8) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym { name: name.to_owned(), value: Some(value.to_owned()), source, ..Default::default() }
}

fn other_configs(
    context: &Context,
    resource: &DescribeConfigsResource,
    effective: &[Effective],
    shown: &Shown,
) -> Result<Vec<DescribeConfigsResourceResult>, Refused> {
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC if !is_topic_name(name) => Err((ErrorCode::INVALID_TOPIC_EXCEPTION, bad_topic_name(name))),
        TOPIC if !context.topics.contains_key(name) => Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, String::new())),
        TOPIC => Ok(Vec::new()),
        BROKER => Ok(if broker(context, name)? { broker_configs(effective, shown) } else { Vec::new() }),
        other => Err((ErrorCode::INVALID_REQUEST, format!("Resources of type {other} have no configs here."))),
    }
}

/// Kafka's words for the two mistakes that people make.
fn bad_topic_name(name: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let why = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if !name.chars().all(legal) {
        let name = quoted(name);
        format!("'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
    } else {
        format!("'{}'", quoted(name))
    };
    format!("Topic name is invalid: {why}")
}

/// Keys whose text is a list.
const LISTS: [&str; 6] = [
    "listeners",
    "advertised.listeners",
    "group.streams.assignors",
    "group.streams.rack.aware.assignment.tags",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
];

/// The keys that are Kafka's too. They are changed in the file and by a restart or SIGHUP, not from here.
fn broker_configs(effective: &[Effective], shown: &Shown) -> Vec<DescribeConfigsResourceResult> {
    let kafkas = effective.iter().filter(|entry| !entry.key.starts_with("streamside."));
    kafkas
        .map(|entry| {
            let key = keys::find(&entry.key);
            let (default, is_sensitive) = (key.map_or("", |key| key.default), keys::is_secret(&entry.key));
            let mut sources = Vec::new();
            if entry.origin != Origin::Default {
                // As it is shown: what stands behind a reference may be a secret.
                sources.push(synonym(&entry.key, &entry.shown, STATIC_BROKER));
            }
            sources.push(synonym(&entry.key, default, DEFAULT));
            if is_sensitive {
                sources.iter_mut().for_each(|source| source.value = None);
            }
            DescribeConfigsResourceResult {
                name: entry.key.clone(),
                read_only: true,
                is_sensitive,
                config_type: match key.map(|key| key.kind) {
                    Some(keys::Kind::Integer { max, .. }) if max > i64::from(i32::MAX) => LONG,
                    Some(keys::Kind::Integer { .. }) => INT,
                    Some(keys::Kind::Boolean) => BOOLEAN,
                    _ if is_sensitive => PASSWORD,
                    _ if LISTS.contains(&entry.key.as_str()) => LIST,
                    _ => STRING,
                },
                documentation: key.filter(|_| shown.documentation).map(|key| key.doc.to_owned()),
                ..strongest(sources, shown)
            }
        })
        .collect()
}

/// ListConfigResources: groups with settings of their own, this node, the known topics.
pub(super) fn list(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let body: ListConfigResourcesRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    later(context, Api::ListConfigResources, request.answer_to(), |context, to| async move {
        // Version 0 asks for client metrics, of which there are none; later ones for all when they name no type.
        let all = body.resource_types.is_empty();
        let wants = |kind: i8| to.version > 0 && (all || body.resource_types.contains(&kind));
        let supported = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];
        if to.version > 0 && body.resource_types.iter().any(|kind| !supported.contains(kind)) {
            let error_code = ErrorCode::UNSUPPORTED_VERSION.0;
            return to.frame(&ListConfigResourcesResponse { error_code, ..Default::default() });
        }
        let mut found = Vec::new();
        let mut error_code = ErrorCode::NONE;
        if wants(GROUP) {
            match context.operations.groups_with_settings().await {
                Some(groups) => found.extend(groups.into_iter().map(|group| (group.to_string(), GROUP))),
                None => error_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            }
        }
        let node = context.identity.node_id.to_string();
        found.extend(wants(BROKER).then_some((node, BROKER)));
        if wants(TOPIC) {
            found.extend(context.topics.keys().map(|topic| (topic.clone(), TOPIC)));
        }
        let row =
            |(resource_name, resource_type)| ConfigResource { resource_name, resource_type, ..Default::default() };
        to.frame(&ListConfigResourcesResponse {
            error_code: error_code.0,
            config_resources: found.into_iter().map(row).collect(),
            ..Default::default()
        })
    })
}
