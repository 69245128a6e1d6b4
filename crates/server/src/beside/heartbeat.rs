//! A heartbeat that the broker answered: the hot path. Nothing here waits.

use std::sync::Arc;

use streamside_coordinator::watched;
use streamside_proxy::intercept::{Beat, Connection, Observed};
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatResponse;

use super::ask::Timed;
use super::intercept::Shared;
use crate::config::upstream::PushMode;

/// Tells the coordinator, sets the flag, and fills in what an old broker lacks. `answer` is in version 1 shape.
pub(super) fn observe(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    beat: &Beat<'_>,
    answer: &mut StreamsGroupHeartbeatResponse<'_>,
) -> Observed {
    let options = shared.options();
    let theirs = answer.topology_description_required;
    if theirs {
        shared.upstream_asks(true);
    }
    // With `off` nobody is asked by us: the coordinator sees a client that could not hear it.
    let off = options.push == PushMode::Off;
    let version = if off { 0 } else { beat.version };
    let told = watched::beat::Beat { request: beat.request, version, answer, connection: connection.id };
    let (ask, describe) = shared.operations.beat(told);

    let mut changed = false;
    let speaks = beat.version >= 1 && beat.request.member_epoch >= 0 && answer.error_code == 0;
    if speaks && beat.upstream_version == 0 {
        // A broker before 4.4 names neither; 0 would have the client report on every heartbeat (measured).
        if answer.task_offset_interval_ms == 0 {
            answer.task_offset_interval_ms = options.task_offset_interval_ms;
            changed = true;
        }
        if answer.acceptable_recovery_lag < 0 {
            answer.acceptable_recovery_lag = options.acceptable_recovery_lag;
            changed = true;
        }
    }
    let required = match options.push {
        PushMode::Own => ask,
        PushMode::Tee | PushMode::Auto => ask || theirs,
        PushMode::Off => theirs,
    } && speaks;
    if required != theirs {
        answer.topology_description_required = required;
        changed = true;
    }
    if ask && required {
        shared.metrics.solicited();
    }
    let question = describe.then(|| question(shared, &beat.request.group_id));
    Observed { changed, question }
}

type Question =
    Box<dyn FnOnce(streamside_proxy::gateway::Questions) -> streamside_proxy::handler::BoxFuture<()> + Send>;

/// A describe of ours behind the heartbeat, with the member's own rights.
fn question(shared: &Arc<Shared>, group: &str) -> Question {
    let (shared, group) = (Arc::clone(shared), group.to_owned());
    Box::new(move |questions| {
        Box::pin(async move {
            let mut ask = Timed::new(questions, &shared.metrics);
            // When the pair ends there is nobody to tell.
            let _ = shared.ask_about(&group, false, &mut ask).await;
        })
    })
}
