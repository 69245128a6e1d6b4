//! API 88: a heartbeat goes to the upstream in a version that it knows, and the answer back in the client's.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

use super::context::Context;
use super::frames;
use crate::bridge::heartbeat::{answer_from_v1, answer_to_v1, request_to_v0};
use crate::handler::{Answer, Exchange, Head, Mapped, Plan};
use crate::intercept::Beat;
use crate::limits::WHOLE_ANSWER_BYTES;

/// What must be kept of a heartbeat until its answer comes.
struct Sent {
    context: Arc<Context>,
    /// The request's frame as the client sent it: task offsets that the upstream must not see are in it.
    request: Bytes,
    client_version: i16,
    /// The version in which it went up.
    version: i16,
    /// The highest that the upstream has.
    upstream_version: i16,
    at: Instant,
}

/// A heartbeat to an upstream that has API 88 from `lowest` to `highest`.
pub(super) fn plan(context: &Arc<Context>, head: Head, body: &BytesMut, lowest: i16, highest: i16) -> Plan {
    let version = head.api_version.min(highest);
    if version < lowest {
        // Nothing that was offered; the broker says so itself.
        return Plan::Forward(None, Answer::Stream);
    }
    let changed = if version < head.api_version {
        match request_in(body, version) {
            Ok(changed) => Some(changed),
            Err(line) => return Plan::Close(line),
        }
    } else {
        None
    };
    let sent = Sent {
        context: Arc::clone(context),
        request: Bytes::copy_from_slice(body),
        client_version: head.api_version,
        version,
        upstream_version: highest,
        at: Instant::now(),
    };
    Plan::Forward(
        changed,
        Answer::Whole { max: WHOLE_ANSWER_BYTES, map: Box::new(move |answer| sent.answered(answer)) },
    )
}

fn request_in(body: &[u8], version: i16) -> Result<BytesMut, String> {
    let (mut header, mut request) = frames::read_request::<StreamsGroupHeartbeatRequest<'_>>(body)?;
    header.api_version = version;
    request_to_v0(&mut request);
    frames::write_request(&header, &request)
}

impl Sent {
    fn answered(self, body: BytesMut) -> Mapped {
        let unread = |line: String| {
            if self.version == self.client_version {
                tracing::debug!(connection = self.context.connection.id, line, "a heartbeat is passed on unread");
                Mapped::Frame(frames::framed(&body), None)
            } else {
                Mapped::Close(line)
            }
        };
        let (header, request) = match frames::read_request::<StreamsGroupHeartbeatRequest<'_>>(&self.request) {
            Ok(request) => request,
            Err(line) => return unread(line),
        };
        let (answer_header, mut answer) =
            match frames::read_answer::<StreamsGroupHeartbeatResponse<'_>>(&body, self.version) {
                Ok(answer) => answer,
                Err(line) => return unread(line),
            };
        answer_to_v1(&mut answer, self.version);
        let context = &self.context;
        if answer.error_code == 0 && request.member_epoch >= 0 {
            context.intercept.member_heard(&context.connection, &request.group_id, &request.member_id);
        }
        let beat = Beat {
            request: &request,
            version: self.client_version,
            client_id: header.client_id.as_deref().unwrap_or_default(),
            upstream_version: self.upstream_version,
            sent: self.at,
        };
        let observed = context.intercept.heartbeat(&context.connection, &beat, &mut answer);
        let follow = observed.question.map(|question| -> Exchange {
            let questions = Arc::clone(context);
            let client_id = header.client_id.as_deref().map(Arc::<str>::from);
            Box::new(move |upstream| {
                let asked = question(questions.questions(upstream, client_id.as_deref()));
                Box::pin(async move {
                    asked.await;
                    Ok(None)
                })
            })
        });
        if !observed.changed && self.version == self.client_version {
            return Mapped::Frame(frames::framed(&body), follow);
        }
        answer_from_v1(&mut answer, self.client_version);
        match frames::write_answer(&answer_header, &answer, self.client_version) {
            Ok(frame) => Mapped::Frame(frame, follow),
            Err(line) => Mapped::Close(line),
        }
    }
}
