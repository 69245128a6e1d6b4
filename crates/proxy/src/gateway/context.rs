//! What a connection pair's handler shares with the work that it leaves behind.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use streamside_wire::messages::api_versions::ApiVersionsRequest;

use super::frames;
use super::questions::{AskError, Questions};
use crate::addresses::answer_for;
use crate::bridge::versions::{API_VERSIONS, Offer, Ranges, Row, tell};
use crate::handler::{Answer, Head, Mapped, Treat, Upstream};
use crate::intercept::{Addresses, Connection, Intercept};
use crate::limits::VERSIONS_ANSWER_BYTES;

/// One pair's surroundings and what it has learnt.
pub(super) struct Context {
    pub connection: Arc<Connection>,
    pub intercept: Arc<dyn Intercept>,
    addresses: Option<Arc<dyn Addresses>>,
    offer: Offer,
    /// What the upstream of this connection said about itself: brokers of one cluster may differ.
    ranges: Mutex<Option<Ranges>>,
}

impl Context {
    pub fn new(
        connection: Arc<Connection>,
        intercept: Arc<dyn Intercept>,
        addresses: Option<Arc<dyn Addresses>>,
        offer: Offer,
    ) -> Self {
        Context { connection, intercept, addresses, offer, ranges: Mutex::new(None) }
    }

    /// What the upstream said that it serves, if it was asked yet.
    pub fn ranges(&self) -> Option<Ranges> {
        *self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, ranges: Ranges) {
        *self.ranges.lock().unwrap_or_else(PoisonError::into_inner) = Some(ranges);
    }

    /// False once it is known that the upstream has no streams groups.
    pub fn may_bridge(&self) -> bool {
        self.ranges().is_none_or(|ranges| ranges.streams())
    }

    /// The upstream is known to read this version of this API.
    pub fn speaks(&self, head: Head) -> bool {
        let range = self.ranges().and_then(|ranges| ranges.get(head.api_key));
        range.is_some_and(|(lowest, highest)| (lowest..=highest).contains(&head.api_version))
    }

    /// How a request is treated that nobody decides about: it streams, and so does its answer unless that has addresses.
    pub fn streamed(&self, head: Head) -> Treat {
        let Some(addresses) = &self.addresses else { return Treat::Stream(Answer::Stream) };
        match answer_for(head.api_key, head.api_version, addresses) {
            Ok(answer) => Treat::Stream(answer.unwrap_or(Answer::Stream)),
            Err(line) => Treat::Close(line),
        }
    }

    fn learn(&self, rows: &[Row]) {
        let ranges = Ranges::from_rows(rows);
        self.remember(ranges);
        self.intercept.upstream_versions(&self.connection, rows, ranges.streams());
    }

    /// Asks the upstream what it serves, for a client that never did. Version 0 tells no more than that, and leaves what
    /// the broker knows of the client's software alone.
    pub async fn ask_versions(&self, upstream: &mut Upstream, client_id: Option<&str>) -> Result<Ranges, AskError> {
        if let Some(ranges) = self.ranges() {
            return Ok(ranges);
        }
        let malformed = |reason: String| AskError::Malformed { api_key: API_VERSIONS, reason };
        let request = frames::request(&ApiVersionsRequest::default(), 0, 0, client_id).map_err(malformed)?;
        let answer = upstream.ask(request).await.map_err(|_| AskError::Lost)?;
        match tell(&answer, 0, self.offer) {
            Err(error) => return Err(malformed(error.to_string())),
            Ok(told) => match told.rows {
                Some(rows) => self.learn(&rows),
                None => self.remember(Ranges::default()),
            },
        }
        Ok(self.ranges().unwrap_or_default())
    }

    /// The upstream, to be asked in the client's name.
    pub fn questions(self: &Arc<Self>, upstream: Upstream, client_id: Option<&str>) -> Questions {
        Questions::new(Arc::clone(self), upstream, client_id.map(Into::into))
    }
}

/// What becomes of the answer to an ApiVersions request.
pub(super) fn versions_answer(context: &Arc<Context>, head: Head) -> Answer {
    let context = Arc::clone(context);
    let map = move |body: BytesMut| match tell(&body, head.api_version, context.offer) {
        Ok(told) => {
            if let Some(rows) = &told.rows {
                context.learn(rows);
            }
            Mapped::Frame(told.frame.unwrap_or_else(|| frames::framed(&body)), None)
        }
        Err(error) => {
            tracing::debug!(connection = context.connection.id, %error, "an ApiVersions answer is passed on unread");
            Mapped::Frame(frames::framed(&body), None)
        }
    };
    Answer::Whole { max: VERSIONS_ANSWER_BYTES, map: Box::new(map) }
}
