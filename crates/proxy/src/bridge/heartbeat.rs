//! API 88 between version 0 and 1 (kip1331 §§1.3, 1.4).

use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

/// What a broker that knows only version 0 may be sent. Such brokers refuse any list of task offsets, even the empty
/// ones of a 4.4 client's join ("TaskOffsets are not supported yet.", recorded from 4.3.0), and the application dies.
pub fn request_to_v0(request: &mut StreamsGroupHeartbeatRequest<'_>) {
    request.task_offsets = None;
    request.task_end_offsets = None;
}

/// An answer as version 1 would have it: the lag moved and widened, nothing where the old one says nothing.
pub fn answer_to_v1(answer: &mut StreamsGroupHeartbeatResponse<'_>, version: i16) {
    if version < 1 {
        let legacy = std::mem::take(&mut answer.acceptable_recovery_lag_legacy);
        answer.acceptable_recovery_lag = if legacy == 0 { -1 } else { i64::from(legacy) };
        answer.topology_description_required = false;
    }
}

/// The reverse, for a client of version 0 whose answer was changed.
pub fn answer_from_v1(answer: &mut StreamsGroupHeartbeatResponse<'_>, version: i16) {
    if version < 1 {
        let lag = std::mem::replace(&mut answer.acceptable_recovery_lag, -1).max(0);
        answer.acceptable_recovery_lag_legacy = i32::try_from(lag).unwrap_or(i32::MAX);
        answer.topology_description_required = false;
    }
}
