//! Heartbeats of classic, consumer and share groups: whoever sends a good one is the member that it names, and a describe
//! shall show its address.

use std::sync::Arc;

use streamside_wire::header::RequestHeader;
use streamside_wire::{DecodeError, Reader};

use super::context::Context;
use crate::handler::{Answer, Filter, Head};

/// A heartbeat of more bytes is not looked at. A consumer group's first one lists topics.
pub(super) const REQUEST_BYTES: usize = 64 * 1024;

/// Bytes of an answer up to its error code: correlation id, an empty tag section, throttle time, code.
const MAX_START_BYTES: usize = 4 + 1 + 4 + 2;

/// True for heartbeats in versions that we can read.
pub(super) fn is_heard(api_key: i16, version: i16) -> bool {
    matches!((api_key, version), (12, 0..=4) | (68, 0..=1) | (76, 0..=1))
}

/// How the answer to a heartbeat is treated: it passes, and its first bytes tell whether the member is one.
pub(super) fn answer(context: &Arc<Context>, head: Head, body: &[u8]) -> Answer {
    match member(head.api_key, body) {
        Ok(Some((group, member))) => Answer::Filter(Box::new(Hearing {
            context: Arc::clone(context),
            group,
            member,
            flexible: head.api_key != 12 || head.api_version >= 4,
            throttled: head.api_key != 12 || head.api_version >= 1,
            start: Vec::new(),
            heard: false,
        })),
        Ok(None) => Answer::Stream,
        Err(error) => {
            tracing::debug!(connection = context.connection.id, %error, "a heartbeat is passed on unread");
            Answer::Stream
        }
    }
}

/// A group's name and a member's.
type Names = (Box<str>, Box<str>);

/// The group and the member that stays in it.
fn member(api_key: i16, body: &[u8]) -> Result<Option<Names>, DecodeError> {
    let mut r = Reader::new(body);
    let header = RequestHeader::decode(&mut r)?;
    let flexible = api_key != 12 || header.api_version >= 4;
    let group = r.string(flexible)?.unwrap_or_default();
    let (member, stays) = if api_key == 12 {
        r.i32()?;
        (r.string(flexible)?, true)
    } else {
        let member = r.string(flexible)?;
        (member, r.i32()? >= 0)
    };
    let member = member.unwrap_or_default();
    // Before its first answer a member of an old kind has no id.
    Ok((stays && !member.is_empty()).then(|| (group.into(), member.into())))
}

/// Reads the first bytes of an answer while they pass.
struct Hearing {
    context: Arc<Context>,
    group: Box<str>,
    member: Box<str>,
    flexible: bool,
    throttled: bool,
    start: Vec<u8>,
    heard: bool,
}

impl Hearing {
    /// Bytes before the end of the error code.
    fn wanted(&self) -> usize {
        let without_tags = if self.flexible { 0 } else { 1 };
        let without_throttle = if self.throttled { 0 } else { 4 };
        MAX_START_BYTES - without_tags - without_throttle
    }

    fn is_good(&self) -> bool {
        let no_tags = !self.flexible || self.start.get(4) == Some(&0);
        no_tags && self.start.ends_with(&[0, 0])
    }
}

impl Filter for Hearing {
    fn pass(&mut self, chunk: &mut [u8]) -> Result<(), String> {
        if self.heard {
            return Ok(());
        }
        let missing = self.wanted().saturating_sub(self.start.len());
        self.start.extend_from_slice(chunk.get(..missing).unwrap_or(chunk));
        if self.start.len() == self.wanted() {
            self.heard = true;
            if self.is_good() {
                self.context.intercept.member_heard(&self.context.connection, &self.group, &self.member);
            }
        }
        Ok(())
    }
}
