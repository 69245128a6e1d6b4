//! A push: who may, our own decision, and where `streamside.upstream.push` says so the upstream's.
//!
//! With `tee` the answer is ours when we refuse, and the upstream's when we do not: an error of the coordinator about
//! the caller (14, 15, 16, 25, 30, 42, 69), or of the upstream's own plugin. 35 says that the upstream has no plugin after
//! all and counts as no answer. With `off` the answer is the upstream's, and what it took is recorded as well.

use std::sync::Arc;

use streamside_coordinator::description::PreparedPush;
use streamside_coordinator::{Compat, Standing, watched};
use streamside_proxy::gateway::AskError;
use streamside_proxy::intercept::Refused;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest as Request, StreamsGroupTopologyDescriptionUpdateResponse as Response,
};

use super::ask::Ask;
use super::intercept::{Shared, to_its_end};
use crate::config::upstream::PushMode;
use crate::shell::answers::fitting;
use crate::shell::limits::{LARGE_REQUEST_BYTES, PUSH_WIRE_FACTOR};
use crate::shell::operations::Push;

/// From the request to its answer.
pub(super) async fn push(
    shared: Arc<Shared>,
    connection: u64,
    request: Request,
    wire_bytes: usize,
    mut ask: impl Ask,
) -> Result<Response, Refused> {
    if shared.options().push == PushMode::Off {
        return recorded(shared, request, wire_bytes, ask).await;
    }
    let standing = standing(&shared, connection, &request, &mut ask).await?;
    let tee = shared.tees() && standing == Standing::Member;
    let request = Arc::new(request);
    let ask = tee.then_some(ask);
    let own = decided(Arc::clone(&shared), Arc::clone(&request), wire_bytes, standing).await?;
    let Some(mut ask) = ask else { return Ok(own) };
    let theirs = match ask.push(&request).await {
        Ok(answer) => answer,
        Err(AskError::Lost) => return Err(AskError::Lost.to_string()),
        // It serves no such API, or nothing that can be understood: ours stands.
        Err(e) => {
            tracing::debug!(group = request.group_id, error = %e, "a push could not be passed on");
            return Ok(own);
        }
    };
    if theirs.error_code == ErrorCode::UNSUPPORTED_VERSION.0 {
        shared.upstream_asks(false);
        return Ok(own);
    }
    Ok(if own.error_code == 0 { theirs } else { Response { throttle_time_ms: theirs.throttle_time_ms, ..own } })
}

/// What the broker says of the pusher: by a good heartbeat of late on this connection, else by a describe of ours.
async fn standing(
    shared: &Shared,
    connection: u64,
    request: &Request,
    ask: &mut impl Ask,
) -> Result<Standing, Refused> {
    let (group, member) = (&*request.group_id, &*request.member_id);
    if shared.shards.is_recent_member(group, member, connection) {
        return Ok(Standing::Member);
    }
    let entry = shared.ask_about(group, true, ask).await?;
    Ok(entry.map_or(Standing::Unknown, |entry| watched::standing(&entry, member)))
}

/// Our own decision, with the payload made ready where it holds nobody up.
async fn decided(
    shared: Arc<Shared>,
    request: Arc<Request>,
    wire_bytes: usize,
    standing: Standing,
) -> Result<Response, Refused> {
    to_its_end(async move {
        let push = prepared(&shared, &request, wire_bytes).await;
        let (error_code, error_message) = shared.operations.verified_push(push, standing).await;
        Response { error_code, error_message: error_message.map(fitting), ..Response::default() }
    })
    .await
}

async fn prepared(shared: &Shared, request: &Arc<Request>, wire_bytes: usize) -> Push {
    let config = shared.shards.config();
    let most = config.limits.description_max_bytes.saturating_mul(PUSH_WIRE_FACTOR).saturating_add(LARGE_REQUEST_BYTES);
    let payload = if config.compat == Compat::Streamside && wire_bytes > most {
        PreparedPush::oversized(wire_bytes, &config.limits)
    } else if wire_bytes > LARGE_REQUEST_BYTES {
        let _turn = shared.large.acquire().await;
        let (request, of_thread) = (Arc::clone(request), Arc::clone(&config));
        let work = move || PreparedPush::prepare(&request, &of_thread.limits, of_thread.compat);
        let oversized = |_| PreparedPush::oversized(wire_bytes, &config.limits);
        tokio::task::spawn_blocking(work).await.unwrap_or_else(oversized)
    } else {
        PreparedPush::prepare(request, &config.limits, config.compat)
    };
    Push {
        group: request.group_id.clone(),
        member: request.member_id.clone(),
        topology_epoch: request.topology_epoch,
        payload,
    }
}

/// `off`: the upstream answers; what it took is recorded.
async fn recorded(
    shared: Arc<Shared>,
    request: Request,
    wire_bytes: usize,
    mut ask: impl Ask,
) -> Result<Response, Refused> {
    let answer = match ask.push(&request).await {
        Ok(answer) => answer,
        Err(AskError::Unsupported(_)) => {
            return Ok(Response {
                error_code: ErrorCode::UNSUPPORTED_VERSION.0,
                error_message: Some(streamside_coordinator::description::push::NO_PLUGIN.to_owned()),
                ..Response::default()
            });
        }
        Err(e) => return Err(e.to_string()),
    };
    if answer.error_code == 0 {
        let own = decided(shared, Arc::new(request), wire_bytes, Standing::Member).await?;
        if own.error_code != 0 {
            tracing::debug!(code = own.error_code, "a description that the upstream took was not recorded");
        }
    }
    Ok(answer)
}
