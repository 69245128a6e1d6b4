//! The handler that composes bridge, addresses and intercept: what is done about each API.
//!
//! | key | request | answer |
//! |---|---|---|
//! | 18 | streams | rows bridged, the upstream's own remembered |
//! | 88 | as the upstream's version has it | shown to [`Intercept::heartbeat`], in the client's version |
//! | 89, 42, 93 | decided by [`Intercept`], which may put [`Questions`] to the upstream | in the client's version |
//! | 12, 68, 76 | as it came | as it came; a good one tells [`Intercept::member_heard`] |
//! | 15, 69, 77 | streams | hosts of members put back |
//! | 0, 1, 3, 10, 55, 60, 78, 79 | streams | addresses rewritten |
//! | all else, and any version that we do not know | streams | streams |
//!
//! An upstream without API 88 gets everything as it came; addresses and hosts are rewritten all the same.

mod aside;
mod beats;
mod context;
mod decided;
mod frames;
mod heard;
mod hosts;
mod questions;

use std::sync::Arc;

use bytes::BytesMut;

use self::context::Context;
pub use self::questions::{AskError, Questions};
use crate::bridge::versions::{
    API_VERSIONS, DELETE_GROUPS, Offer, STREAMS_GROUP_DESCRIBE, STREAMS_GROUP_HEARTBEAT, TOPOLOGY_DESCRIPTION_UPDATE,
};
use crate::handler::{Answer, Handler, Head, Plan, Treat};
use crate::intercept::{Addresses, Connection, Intercept};
use crate::limits::{HEARTBEAT_BYTES, WHOLE_REQUEST_BYTES};

/// How much is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Everything.
    #[default]
    Full,
    /// Addresses are rewritten, all else is off.
    Relay,
}

/// What a connection pair's handler is made of.
pub struct Setup {
    /// The pair.
    pub connection: Connection,
    /// Where the four APIs are decided.
    pub intercept: Arc<dyn Intercept>,
    /// The node map; `None` where the broker itself advertises us and nothing is rewritten.
    pub addresses: Option<Arc<dyn Addresses>>,
    /// How much is done.
    pub mode: Mode,
}

/// Decides about the requests of one connection pair. Tells the intercept of the pair's begin and, when dropped, of its
/// end.
pub struct Gateway {
    context: Arc<Context>,
    mode: Mode,
    asked: Asked,
}

/// What the client came for.
#[derive(Default)]
struct Asked {
    /// It asked where things are.
    metadata: bool,
    /// It asked for something else.
    more: bool,
}

impl Asked {
    /// A client that was sent past us leaves only these behind (recorded): versions, metadata, a coordinator, a producer
    /// id. Logins and telemetry say nothing either way.
    fn note(&mut self, api_key: i16) {
        match api_key {
            3 | 10 | 22 | 60 => self.metadata = true,
            17 | 18 | 36 | 71 | 72 => {}
            _ => self.more = true,
        }
    }
}

impl Gateway {
    /// The handler of a pair that was just opened.
    pub fn new(setup: Setup) -> Self {
        let Setup { connection, intercept, addresses, mode } = setup;
        intercept.opened(&connection);
        let offer = Offer { bridged: mode == Mode::Full, addresses: addresses.is_some() };
        let context = Arc::new(Context::new(Arc::new(connection), intercept, addresses, offer));
        Gateway { context, mode, asked: Asked::default() }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.context.intercept.closed(&self.context.connection, self.asked.metadata && !self.asked.more);
    }
}

impl Handler for Gateway {
    fn head(&mut self, head: Head) -> Treat {
        self.asked.note(head.api_key);
        if head.api_key == API_VERSIONS {
            return Treat::Stream(context::versions_answer(&self.context, head));
        }
        if self.mode == Mode::Relay {
            return self.context.streamed(head);
        }
        match (head.api_key, head.api_version) {
            (STREAMS_GROUP_HEARTBEAT, 0..=1) if self.context.may_bridge() => Treat::Whole(HEARTBEAT_BYTES),
            (STREAMS_GROUP_DESCRIBE, 0..=1) | (DELETE_GROUPS, 0..=3) | (TOPOLOGY_DESCRIPTION_UPDATE, 0)
                if self.context.may_bridge() =>
            {
                Treat::Whole(WHOLE_REQUEST_BYTES)
            }
            (key, version) if heard::is_heard(key, version) => Treat::Whole(heard::REQUEST_BYTES),
            (key, version) if hosts::has_hosts(key, version) => Treat::Stream(hosts::answer(&self.context, head)),
            _ => self.context.streamed(head),
        }
    }

    fn request(&mut self, head: Head, body: &BytesMut) -> Plan {
        match head.api_key {
            STREAMS_GROUP_HEARTBEAT | STREAMS_GROUP_DESCRIBE | DELETE_GROUPS | TOPOLOGY_DESCRIPTION_UPDATE => {
                decided::plan(&self.context, head, body)
            }
            _ => Plan::Forward(None, heard::answer(&self.context, head, body)),
        }
    }

    fn oversized(&mut self, head: Head) -> Treat {
        match head.api_key {
            STREAMS_GROUP_DESCRIBE | DELETE_GROUPS | TOPOLOGY_DESCRIPTION_UPDATE => {
                Treat::Close(format!("a request of {} bytes (api {}) is too long", head.length, head.api_key))
            }
            // No join of a real topology comes near. It goes on unread where the upstream reads its version.
            STREAMS_GROUP_HEARTBEAT if !self.context.speaks(head) => {
                Treat::Close(format!("a heartbeat of {} bytes is more than {HEARTBEAT_BYTES}", head.length))
            }
            _ => Treat::Stream(Answer::Stream),
        }
    }
}
