//! A describe: the broker's answer decides what the caller may see, and we add to the entries that it gave.

use std::collections::HashSet;
use std::sync::Arc;

use streamside_coordinator::Compat;
use streamside_proxy::intercept::Refused;
use streamside_wire::messages::streams_group_describe::{
    DescribedGroup, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
};

use super::ask::Ask;
use super::intercept::{Shared, to_its_end};
use super::topics::{Named, hidden_in};
use crate::shell::limits::GROUPS_PER_REQUEST;

/// From the request to its answer, in version 1 shape.
pub(super) async fn describe(
    shared: Arc<Shared>,
    request: StreamsGroupDescribeRequest,
    version: i16,
    mut ask: impl Ask,
) -> Result<StreamsGroupDescribeResponse, Refused> {
    if request.group_ids.len() > GROUPS_PER_REQUEST {
        let groups = request.group_ids.len();
        return Err(format!("describe of {groups} groups; {GROUPS_PER_REQUEST} are the limit"));
    }
    let include = version >= 1 && request.include_topology_description;
    let asked_at = shared.millis();
    let mut answer = ask.describe(&request).await.map_err(|e| e.to_string())?;
    // Kafka checks no topic that the description alone names (H9).
    let mut ask = (include && shared.compat() == Compat::Streamside).then_some(ask);
    let options = shared.options();
    for entry in &mut answer.groups {
        if options.restore_client_host {
            restore_hosts(&shared, entry);
        }
        shared.shards.fill_task_offsets(entry);
    }
    let mut groups = std::mem::take(&mut answer.groups);
    answer.groups = if include {
        let shared = Arc::clone(&shared);
        to_its_end(async move {
            shared.operations.described(&mut groups, asked_at, true).await;
            groups
        })
        .await?
    } else {
        shared.operations.described(&mut groups, asked_at, false).await;
        groups
    };
    if let Some(ask) = &mut ask {
        let named = Named::of(&answer.groups);
        let mut hidden = HashSet::new();
        for question in named.questions() {
            hidden.extend(hidden_in(ask.metadata(&question).await.map_err(|e| e.to_string())?));
        }
        named.hide(&mut answer.groups, &hidden, options.redact_hidden_topics);
    }
    Ok(answer)
}

/// The broker sees our address; a member whose connection we hold has its own.
fn restore_hosts(shared: &Shared, entry: &mut DescribedGroup) {
    for member in &mut entry.members {
        if let Some(host) = shared.hosts.host(&entry.group_id, &member.member_id) {
            member.client_host = host.to_string();
        }
    }
}
