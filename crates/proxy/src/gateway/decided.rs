//! The four APIs that are decided beside the broker.

use std::future::Future;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use streamside_wire::Message;
use streamside_wire::header::ResponseHeader;
use streamside_wire::messages::delete_groups::DeleteGroupsRequest;
use streamside_wire::messages::streams_group_describe::StreamsGroupDescribeRequest;
use streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest;

use super::aside::aside;
use super::context::Context;
use super::{beats, frames};
use crate::bridge::groups::{delete_answer_to, describe_answer_to};
use crate::bridge::versions::{
    DELETE_GROUPS, Ranges, STREAMS_GROUP_DESCRIBE, STREAMS_GROUP_HEARTBEAT, TOPOLOGY_DESCRIPTION_UPDATE,
};
use crate::handler::{Answer, Exchange, Head, Mapped, Plan, Upstream};
use crate::intercept::Refused;

/// What is done about such a request.
pub(super) fn plan(context: &Arc<Context>, head: Head, body: &BytesMut) -> Plan {
    match context.ranges() {
        Some(ranges) => plan_for(context, head, body, &ranges),
        None => Plan::Exchange(versions_first(context, head, body)),
    }
}

fn plan_for(context: &Arc<Context>, head: Head, body: &BytesMut, ranges: &Ranges) -> Plan {
    let as_it_came = Plan::Forward(None, Answer::Stream);
    if !ranges.streams() {
        return as_it_came;
    }
    match head.api_key {
        STREAMS_GROUP_HEARTBEAT => match ranges.get(STREAMS_GROUP_HEARTBEAT) {
            Some((lowest, highest)) => beats::plan(context, head, body, lowest, highest),
            None => as_it_came,
        },
        STREAMS_GROUP_DESCRIBE if ranges.get(STREAMS_GROUP_DESCRIBE).is_some() => describe(context, body),
        DELETE_GROUPS if ranges.get(DELETE_GROUPS).is_some() => delete(context, body),
        TOPOLOGY_DESCRIPTION_UPDATE => push(context, body),
        _ => as_it_came,
    }
}

/// The client never asked which versions there are, so the upstream is asked before anything is decided.
fn versions_first(context: &Arc<Context>, head: Head, body: &BytesMut) -> Exchange {
    let (context, body) = (Arc::clone(context), body.clone());
    Box::new(move |mut upstream| {
        Box::pin(async move {
            let ranges = context.ask_versions(&mut upstream, None).await.map_err(|e| e.to_string())?;
            let plan = plan_for(&context, head, &body, &ranges);
            carry_out(plan, body.freeze(), upstream).await
        })
    })
}

/// Does within an exchange what the engine does about a plan.
async fn carry_out(plan: Plan, body: Bytes, mut upstream: Upstream) -> Result<Option<BytesMut>, String> {
    let (changed, answer) = match plan {
        Plan::Forward(changed, answer) => (changed, answer),
        Plan::Local(frame) => return Ok(Some(frame)),
        Plan::Exchange(exchange) => return exchange(upstream).await,
        Plan::Close(line) => return Err(line),
    };
    let answered = upstream.ask(changed.map_or(body, BytesMut::freeze)).await.map_err(|e| e.to_string())?;
    match answer {
        Answer::Stream | Answer::Filter(_) => Ok(Some(frames::framed(&answered))),
        Answer::Whole { map, .. } => match map(BytesMut::from(answered)) {
            Mapped::Frame(frame, None) => Ok(Some(frame)),
            Mapped::Frame(frame, Some(follow)) => follow(upstream).await.map(|_| Some(frame)),
            Mapped::Later(frame) => frame.await.map(Some),
            Mapped::Close(line) => Err(line),
        },
    }
}

/// What must be known of a request besides its message.
struct Asked<Q> {
    version: i16,
    correlation_id: i32,
    client_id: Arc<str>,
    request: Q,
}

fn read<Q: for<'q> Message<'q>>(body: &[u8]) -> Result<Asked<Q>, String> {
    let (header, request) = frames::read_request::<Q>(body)?;
    Ok(Asked {
        version: header.api_version,
        correlation_id: header.correlation_id,
        client_id: header.client_id.as_deref().unwrap_or_default().into(),
        request,
    })
}

/// An exchange that ends in the answer which `decide` gives. A request that cannot be read closes the connection, as in
/// Kafka.
fn exchange<Q, A, F>(
    context: &Arc<Context>,
    body: &BytesMut,
    decide: impl FnOnce(Arc<Context>, Upstream, Arc<str>, Q, i16) -> F + Send + 'static,
) -> Plan
where
    Q: for<'q> Message<'q> + Send + 'static,
    A: for<'a> Message<'a>,
    F: Future<Output = Result<A, Refused>> + Send + 'static,
{
    let (context, body) = (Arc::clone(context), body.clone());
    Plan::Exchange(Box::new(move |upstream| {
        Box::pin(async move {
            let asked = aside(body.len(), move || read::<Q>(&body)).await?;
            let decided = decide(context, upstream, asked.client_id, asked.request, asked.version).await?;
            frames::write_answer(&ResponseHeader::new(asked.correlation_id), &decided, asked.version).map(Some)
        })
    }))
}

fn describe(context: &Arc<Context>, body: &BytesMut) -> Plan {
    exchange(context, body, |context, upstream, client_id, request: StreamsGroupDescribeRequest, version| async move {
        let questions = context.questions(upstream, Some(&client_id));
        let connection = &context.connection;
        let mut answer = context.intercept.describe(connection, &client_id, request, version, questions).await?;
        describe_answer_to(&mut answer, version);
        Ok(answer)
    })
}

fn delete(context: &Arc<Context>, body: &BytesMut) -> Plan {
    exchange(context, body, |context, upstream, client_id, request: DeleteGroupsRequest, version| async move {
        let questions = context.questions(upstream, Some(&client_id));
        let connection = &context.connection;
        let mut answer = context.intercept.delete(connection, &client_id, request, version, questions).await?;
        delete_answer_to(&mut answer, version);
        Ok(answer)
    })
}

fn push(context: &Arc<Context>, body: &BytesMut) -> Plan {
    type Push = StreamsGroupTopologyDescriptionUpdateRequest;
    let wire_bytes = body.len();
    exchange(context, body, move |context, upstream, client_id, request: Push, _| async move {
        let questions = context.questions(upstream, Some(&client_id));
        context.intercept.push(&context.connection, &client_id, request, wire_bytes, questions).await
    })
}
