//! The APIs that Streamside owns, and the two lists of groups.

use std::sync::Arc;

use bytes::BytesMut;
use streamside_coordinator::group::describe::passes_filters;
use streamside_coordinator::{ClientContext, Input, Reply};
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup as ClassicGroup,
};
use streamside_wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use super::{AnswerTo, Handled, Request, decode};
use crate::metrics::Api;
use crate::shell::context::Context;
use crate::shell::limits::GROUPS_PER_REQUEST;

/// All operations of a group resource: what a caller may do where there is no authorizer (recorded from Kafka 4.4.0).
pub(super) const ALL_GROUP_OPERATIONS: i32 = 3400;
const NOT_ASKED: i32 = i32::MIN;

/// StreamsGroupHeartbeat: decided and answered in place; only one that journals something waits.
pub(super) fn heartbeat(
    context: &Arc<Context>,
    request: Request<'_>,
    client_id: &str,
    client_host: &str,
    output: &mut BytesMut,
) -> Handled {
    let began = context.metrics.start();
    let body: StreamsGroupHeartbeatRequest<'_> = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let to = request.answer_to();
    let client = ClientContext { client_id, client_host };
    let input = Input::Heartbeat { request: &body, version: request.version, client };
    let outcome = match context.shards.decide(&body.group_id, input) {
        Ok(outcome) => outcome,
        Err(_) => return to.done(output, &not_now()),
    };
    context.operations.carry_out(outcome.now);
    let Some(Reply::Heartbeat(response)) = outcome.reply else { return to.done(output, &not_now()) };
    if response.topology_description_required {
        context.metrics.solicited();
    }
    let journal = context.shards.journal();
    if outcome.after_durable.is_empty() && journal.is_durable(outcome.point) {
        let handled = to.done(output, &response);
        context.metrics.request(Api::StreamsGroupHeartbeat, began);
        return handled;
    }
    let answer = to.frame(&response);
    let (context, effects, point) = (Arc::clone(context), outcome.after_durable, outcome.point);
    Handled::Later(Box::pin(async move {
        let durable = context.shards.journal().wait(point).await;
        let answer = match durable {
            Ok(()) => {
                context.operations.carry_out(effects);
                answer
            }
            Err(_) => to.frame(&not_now()),
        };
        context.metrics.request(Api::StreamsGroupHeartbeat, began);
        answer
    }))
}

/// Trouble of our own: retriable for Java clients, and never -1, 69, 15 or 16 (docs/differences.md).
fn not_now() -> StreamsGroupHeartbeatResponse<'static> {
    StreamsGroupHeartbeatResponse {
        error_code: ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0,
        ..StreamsGroupHeartbeatResponse::default()
    }
}

/// StreamsGroupTopologyDescriptionUpdate.
pub(super) fn push(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let body: StreamsGroupTopologyDescriptionUpdateRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    later(context, Api::StreamsGroupTopologyDescriptionUpdate, request.answer_to(), |context, to| async move {
        let (error_code, error_message) = context.operations.push(body).await;
        to.frame(&StreamsGroupTopologyDescriptionUpdateResponse { error_code, error_message, ..Default::default() })
    })
}

/// StreamsGroupDescribe.
pub(super) fn describe(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let body: StreamsGroupDescribeRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    if body.group_ids.len() > GROUPS_PER_REQUEST {
        return Handled::Close(format!(
            "describe of {} groups; {GROUPS_PER_REQUEST} are the limit",
            body.group_ids.len()
        ));
    }
    later(context, Api::StreamsGroupDescribe, request.answer_to(), |context, to| async move {
        let operations = if body.include_authorized_operations { ALL_GROUP_OPERATIONS } else { NOT_ASKED };
        let groups = context.operations.describe(body.group_ids, body.include_topology_description, operations).await;
        to.frame(&StreamsGroupDescribeResponse { groups, ..Default::default() })
    })
}

/// DeleteGroups.
pub(super) fn delete(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let body: DeleteGroupsRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    if body.groups_names.len() > GROUPS_PER_REQUEST {
        return Handled::Close(format!(
            "delete of {} groups; {GROUPS_PER_REQUEST} are the limit",
            body.groups_names.len()
        ));
    }
    later(context, Api::DeleteGroups, request.answer_to(), |context, to| async move {
        let results = context.operations.delete(body.groups_names, to.version).await;
        to.frame(&DeleteGroupsResponse { results, ..Default::default() })
    })
}

/// ListGroups (kip1071 §10.5): filters are compared without regard to case.
pub(super) fn list(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let body: ListGroupsRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    later(context, Api::ListGroups, request.answer_to(), |context, to| async move {
        let compat = context.shards.config().compat;
        let mut groups = Vec::new();
        let mut error_code = 0;
        match context.operations.list().await {
            Some(rows) => {
                let asked = |state: &str| passes_filters(state, &body.states_filter, &body.types_filter, compat);
                groups.extend(rows.into_iter().filter(|row| asked(row.state)).map(|row| ListedGroup {
                    group_id: row.group.to_string(),
                    protocol_type: "streams".to_owned(),
                    group_state: row.state.to_owned(),
                    group_type: "streams".to_owned(),
                    ..Default::default()
                }));
            }
            None => error_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0,
        }
        to.frame(&ListGroupsResponse { error_code, groups, ..Default::default() })
    })
}

/// DescribeGroups: streams groups are none of its kind (kip1071 §10.5).
pub(super) fn describe_classic(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let body: DescribeGroupsRequest = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    later(context, Api::DescribeGroups, request.answer_to(), |context, to| async move {
        let known: Vec<bool> = body.groups.iter().map(|g| context.operations.exists(g)).collect();
        let groups = body.groups.into_iter().zip(known).map(|(group_id, known)| {
            let mut group = ClassicGroup { group_state: "Dead".to_owned(), ..Default::default() };
            if to.version >= 6 {
                group.error_code = ErrorCode::GROUP_ID_NOT_FOUND.0;
                group.error_message = Some(if known {
                    format!("Group {group_id} is not a classic group.")
                } else {
                    format!("Group {group_id} not found.")
                });
            }
            if body.include_authorized_operations && group.error_code == 0 {
                group.authorized_operations = ALL_GROUP_OPERATIONS;
            }
            group.group_id = group_id;
            group
        });
        to.frame(&DescribeGroupsResponse { groups: groups.collect(), ..Default::default() })
    })
}

/// Runs what takes several steps on its own task: it goes on when the client goes away.
pub(super) fn later<F, Fut>(context: &Arc<Context>, api: Api, to: AnswerTo, work: F) -> Handled
where
    F: FnOnce(Arc<Context>, AnswerTo) -> Fut,
    Fut: Future<Output = Result<BytesMut, String>> + Send + 'static,
{
    let began = context.metrics.start();
    let metrics = Arc::clone(&context.metrics);
    let work = work(Arc::clone(context), to);
    let task = tokio::spawn(async move {
        let answer = work.await;
        metrics.request(api, began);
        answer
    });
    Handled::Later(Box::pin(async move {
        match task.await {
            Ok(answer) => answer,
            Err(e) if e.is_panic() => Err("a request met a defect of ours; see the log".to_owned()),
            Err(_) => Err("shutting down".to_owned()),
        }
    }))
}
