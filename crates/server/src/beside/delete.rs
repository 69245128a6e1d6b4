//! DeleteGroups: the plugin first where the broker would delete, else the broker alone.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use streamside_coordinator::batch;
use streamside_coordinator::watched::{DeleteVerdict, delete_verdict};
use streamside_proxy::intercept::Refused;
use streamside_wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

use super::ask::Ask;
use super::intercept::{Shared, to_its_end};
use crate::shell::answers::fitting;
use crate::shell::limits::GROUPS_PER_REQUEST;

/// From the request to its answer. `version` is the client's: a plugin that fails reads differently before version 3.
pub(super) async fn delete(
    shared: Arc<Shared>,
    request: DeleteGroupsRequest,
    version: i16,
    mut ask: impl Ask,
) -> Result<DeleteGroupsResponse, Refused> {
    let ids = batch::split_delete(&request.groups_names);
    if ids.len() > GROUPS_PER_REQUEST {
        return Err(format!("delete of {} groups; {GROUPS_PER_REQUEST} are the limit", ids.len()));
    }
    let held: Vec<&str> = ids.iter().copied().filter(|id| shared.shards.may_hold(id)).collect();
    let failed = if held.is_empty() { Vec::new() } else { plugin_first(&shared, &held, version, &mut ask).await? };
    let gone: HashSet<&str> = failed.iter().map(|result| &*result.group_id).collect();
    let rest: Vec<String> = ids.iter().filter(|id| !gone.contains(**id)).map(|id| (*id).to_owned()).collect();
    let mut answer = DeleteGroupsResponse::default();
    // A request without ids is the broker's to answer.
    if failed.is_empty() || !rest.is_empty() {
        let asked_at = shared.millis();
        let on = DeleteGroupsRequest { groups_names: rest, tags: request.tags.clone() };
        answer = ask.delete(&on).await.map_err(|e| e.to_string())?;
        for result in &answer.results {
            shared.operations.broker_deleted(&result.group_id, result.error_code, asked_at);
        }
        let owed = |id: &&str| shared.shards.may_hold(id);
        if held.iter().any(owed) {
            // What could not go first goes now; the cleanup cycle tries again what fails.
            let shared = Arc::clone(&shared);
            let owed = held.iter().filter(|id| owed(id)).map(|id| (*id).to_owned()).collect();
            tokio::spawn(async move { shared.operations.cleanup_now(owed).await });
        }
    }
    answer.results.extend(failed);
    Ok(answer)
}

/// Calls the plugin for the groups that the broker would delete. The results of those for which it failed: the broker is
/// not asked about them, so that group and offsets stay.
async fn plugin_first(
    shared: &Arc<Shared>,
    held: &[&str],
    version: i16,
    ask: &mut impl Ask,
) -> Result<Vec<DeletableGroupResult>, Refused> {
    let entries = shared.ask_about_all(held, true, ask).await?;
    let granted = entries.into_iter().filter(|entry| delete_verdict(entry) == DeleteVerdict::PluginFirst);
    let calls: Vec<_> = granted
        .map(|entry| {
            let shared = Arc::clone(shared);
            to_its_end(async move {
                let (error_code, message) = shared.operations.verified_delete(&entry.group_id).await;
                (entry.group_id, error_code, message.map(fitting))
            })
        })
        .collect();
    let mut failed = Vec::new();
    for called in join_all(calls).await {
        let (group, error_code, message) = called?;
        if error_code != 0 {
            failed.push(batch::delete_result(version, &group, error_code, message));
        }
    }
    Ok(failed)
}
