//! The APIs that Streamside owns, and the two lists of groups.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use bytes::BytesMut;
use streamside_coordinator::description::PreparedPush;
use streamside_coordinator::group::describe::passes_filters;
use streamside_coordinator::{ClientContext, Compat, Config, Input, Reply};
use streamside_wire::Reader;
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

use super::{AnswerTo, DEFECT, Handled, Request, decode, fitting};
use crate::metrics::Api;
use crate::shell::context::Context;
use crate::shell::limits::{GROUPS_PER_REQUEST, HEARTBEAT_BYTES, LARGE_REQUEST_BYTES, PUSH_WIRE_FACTOR};
use crate::shell::operations::Push;

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
    let to = request.answer_to();
    if request.body.len() > HEARTBEAT_BYTES {
        context.metrics.limit_hit("heartbeat_bytes");
        return to.done(output, &too_long(request.body.len()));
    }
    let body: StreamsGroupHeartbeatRequest<'_> = match decode(&request) {
        Ok(body) => body,
        Err(reason) => return Handled::Close(reason),
    };
    let client = ClientContext { client_id, client_host };
    let input = Input::Heartbeat { request: &body, version: request.version, client };
    let outcome = match context.shards.decide(&body.group_id, input) {
        Ok(outcome) => outcome,
        Err(_) => return to.done(output, &not_now()),
    };
    context.operations.carry_out(outcome.now);
    let Some(Reply::Heartbeat(mut response)) = outcome.reply else { return to.done(output, &not_now()) };
    response.error_message = response.error_message.map(fitting);
    for status in response.status.iter_mut().flatten() {
        status.status_detail = fitting(std::mem::take(&mut status.status_detail));
    }
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

fn too_long(bytes: usize) -> StreamsGroupHeartbeatResponse<'static> {
    StreamsGroupHeartbeatResponse {
        error_code: ErrorCode::INVALID_REQUEST.0,
        error_message: Some(format!("A heartbeat of {bytes} bytes; at most {HEARTBEAT_BYTES} are accepted.")),
        ..StreamsGroupHeartbeatResponse::default()
    }
}

/// Trouble of our own: retriable for Java clients, and never -1, 69, 15 or 16 (docs/differences.md).
fn not_now() -> StreamsGroupHeartbeatResponse<'static> {
    StreamsGroupHeartbeatResponse {
        error_code: ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0,
        ..StreamsGroupHeartbeatResponse::default()
    }
}

/// StreamsGroupTopologyDescriptionUpdate. The payload is converted here and now, so that nothing holds more of it than
/// a plugin is given.
pub(super) fn push(context: &Arc<Context>, request: Request<'_>) -> Handled {
    let config = context.shards.config();
    let most = config.limits.description_max_bytes.saturating_mul(PUSH_WIRE_FACTOR).saturating_add(LARGE_REQUEST_BYTES);
    let push = if config.compat == Compat::Streamside && request.body.len() > most {
        oversized(&request, &config)
    } else {
        decode(&request).map(|body: StreamsGroupTopologyDescriptionUpdateRequest| {
            let payload = PreparedPush::prepare(&body, &config.limits, config.compat);
            Push { group: body.group_id, member: body.member_id, topology_epoch: body.topology_epoch, payload }
        })
    };
    let push = match push {
        Ok(push) => push,
        Err(reason) => return Handled::Close(reason),
    };
    later(context, Api::StreamsGroupTopologyDescriptionUpdate, request.answer_to(), |context, to| async move {
        let (error_code, error_message) = context.operations.push(push).await;
        to.frame(&StreamsGroupTopologyDescriptionUpdateResponse {
            error_code,
            error_message: error_message.map(fitting),
            ..Default::default()
        })
    })
}

/// A push whose description is not read at all.
fn oversized(request: &Request<'_>, config: &Config) -> Result<Push, String> {
    let mut head = Reader::new(request.body);
    let mut text = || head.string(true).map(|text| text.unwrap_or_default().into_owned());
    let ids = text().and_then(|group| Ok((group, text()?)));
    let (group, member) = ids.map_err(|e| request.malformed(e))?;
    let topology_epoch = head.i32().map_err(|e| request.malformed(e))?;
    let payload = PreparedPush::oversized(request.body.len(), &config.limits);
    Ok(Push { group, member, topology_epoch, payload })
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
        let mut groups =
            context.operations.describe(body.group_ids, body.include_topology_description, operations).await;
        for group in &mut groups {
            group.error_message = group.error_message.take().map(fitting);
        }
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
        let mut results = context.operations.delete(body.groups_names, to.version).await;
        for result in &mut results {
            result.error_message = result.error_message.take().map(fitting);
        }
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
    if body.groups.len() > GROUPS_PER_REQUEST {
        return Handled::Close(format!("describe of {} groups; {GROUPS_PER_REQUEST} are the limit", body.groups.len()));
    }
    later(context, Api::DescribeGroups, request.answer_to(), |context, to| async move {
        let known = context.operations.known(body.groups.iter().map(String::as_str)).await;
        let groups = body.groups.into_iter().enumerate().map(|(place, group_id)| {
            let mut group = ClassicGroup { group_state: "Dead".to_owned(), ..Default::default() };
            let known = known.as_ref().map(|known| known.get(place) == Some(&true));
            if let Err(code) = known {
                group.error_code = code.0;
            } else if to.version >= 6 {
                group.error_code = ErrorCode::GROUP_ID_NOT_FOUND.0;
                let what = if known == Ok(true) { "is not a classic group." } else { "not found." };
                group.error_message = Some(fitting(format!("Group {group_id} {what}")));
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

/// Runs what takes several steps on its own task, so that it goes on when the client goes away; what needs not wait for
/// anything after all (a describe of what is on disk and in memory) is done at once instead.
pub(super) fn later<F, Fut>(context: &Arc<Context>, api: Api, to: AnswerTo, work: F) -> Handled
where
    F: FnOnce(Arc<Context>, AnswerTo) -> Fut,
    Fut: Future<Output = Result<BytesMut, String>> + Send + 'static,
{
    let began = context.metrics.start();
    let metrics = Arc::clone(&context.metrics);
    let work = work(Arc::clone(context), to);
    let mut work = Box::pin(async move {
        let answer = work.await;
        metrics.request(api, began);
        answer
    });
    // Nobody is woken by this poll: a task polls again at once where it was not enough.
    if let Poll::Ready(answer) = work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
        return Handled::Ready(answer);
    }
    let task = tokio::spawn(work);
    Handled::Later(Box::pin(async move {
        match task.await {
            Ok(answer) => answer,
            Err(e) if e.is_panic() => Err(DEFECT.to_owned()),
            Err(_) => Err("shutting down".to_owned()),
        }
    }))
}
