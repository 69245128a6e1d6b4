//! Describe answers of groups of other kinds: the broker saw our address, members are shown with their own. API 89 is
//! left to whoever decides it.

use std::sync::Arc;

use bytes::BytesMut;
use streamside_wire::Message;
use streamside_wire::messages::consumer_group_describe::ConsumerGroupDescribeResponse;
use streamside_wire::messages::describe_groups::DescribeGroupsResponse;
use streamside_wire::messages::share_group_describe::ShareGroupDescribeResponse;

use super::aside::aside;
use super::context::Context;
use super::frames;
use crate::handler::{Answer, Head, Mapped};
use crate::limits::{LARGE_BYTES, WHOLE_ANSWER_BYTES};

/// An answer that shows hosts of members.
trait ShowsHosts {
    /// Gives each host to `host` with its group and member; true if any was replaced.
    fn replace(&mut self, host: impl Fn(&str, &str) -> Option<Arc<str>>) -> bool;
}

macro_rules! shows_hosts {
    ($($answer:ty),+) => {$(
        impl ShowsHosts for $answer {
            fn replace(&mut self, host: impl Fn(&str, &str) -> Option<Arc<str>>) -> bool {
                let mut replaced = false;
                for group in &mut self.groups {
                    for member in &mut group.members {
                        if let Some(own) = host(&group.group_id, &member.member_id)
                            && *own != *member.client_host
                        {
                            member.client_host = own.to_string();
                            replaced = true;
                        }
                    }
                }
                replaced
            }
        }
    )+};
}

shows_hosts!(DescribeGroupsResponse, ConsumerGroupDescribeResponse, ShareGroupDescribeResponse);

/// True for requests whose answers show hosts, in versions that we can read.
pub(super) fn has_hosts(api_key: i16, version: i16) -> bool {
    matches!((api_key, version), (15, 0..=6) | (69, 0..=1) | (77, 1))
}

/// How such an answer is treated.
pub(super) fn answer(context: &Arc<Context>, head: Head) -> Answer {
    let context = Arc::clone(context);
    let map = move |body: BytesMut| {
        if body.len() <= LARGE_BYTES {
            return Mapped::Frame(with_hosts(&context, head, &body), None);
        }
        Mapped::Later(Box::pin(aside(body.len(), move || Ok(with_hosts(&context, head, &body)))))
    };
    Answer::Whole { max: WHOLE_ANSWER_BYTES, map: Box::new(map) }
}

/// The whole frame for the client.
fn with_hosts(context: &Context, head: Head, body: &[u8]) -> BytesMut {
    let changed = match head.api_key {
        15 => changed::<DescribeGroupsResponse>(context, body, head.api_version),
        69 => changed::<ConsumerGroupDescribeResponse>(context, body, head.api_version),
        _ => changed::<ShareGroupDescribeResponse>(context, body, head.api_version),
    };
    let changed = changed.unwrap_or_else(|line| {
        tracing::debug!(connection = context.connection.id, line, "a describe is passed on unread");
        None
    });
    changed.unwrap_or_else(|| frames::framed(body))
}

fn changed<A>(context: &Context, body: &[u8], version: i16) -> Result<Option<BytesMut>, String>
where
    A: for<'a> Message<'a> + ShowsHosts,
{
    let (header, mut answer) = frames::read_answer::<A>(body, version)?;
    if answer.replace(|group, member| context.intercept.client_host(group, member)) {
        frames::write_answer(&header, &answer, version).map(Some)
    } else {
        Ok(None)
    }
}
