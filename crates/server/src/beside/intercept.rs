//! The four APIs, decided by the coordinator: what the proxy calls, and what the four share.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use streamside_coordinator::{Compat, Millis};
use streamside_proxy::gateway::{AskError, Questions};
use streamside_proxy::handler::BoxFuture;
use streamside_proxy::intercept::{Beat, Connection, Intercept, Observed, Refused};
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::streams_group_describe::{
    DescribedGroup, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
};
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatResponse;
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};
use tokio::sync::Semaphore;

use super::ask::{Ask, Timed};
use super::hosts::Hosts;
use super::observer::Observer;
use super::{delete, describe, heartbeat, push};
use crate::config::Settings;
use crate::config::upstream::PushMode;
use crate::metrics::{Api, Metrics};
use crate::shell::answers::DEFECT;
use crate::shell::core::Core;
use crate::shell::limits::LARGE_REQUESTS_AT_ONCE;
use crate::shell::operations::Operations;
use crate::shell::shards::SharedShards;

/// What the proxy calls.
pub struct Interceptor {
    shared: Arc<Shared>,
    observer: Observer,
}

/// What the four APIs share.
pub(super) struct Shared {
    pub shards: SharedShards,
    pub operations: Arc<Operations>,
    pub metrics: Arc<Metrics>,
    pub hosts: Hosts,
    /// Large descriptions that are converted at once.
    pub large: Semaphore,
    options: RwLock<Options>,
    /// The upstream itself asked a member for its description.
    upstream_asks: AtomicBool,
}

/// Settings of the four APIs, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub push: PushMode,
    pub restore_client_host: bool,
    pub redact_hidden_topics: bool,
    pub task_offset_interval_ms: i32,
    pub acceptable_recovery_lag: i64,
}

impl Options {
    pub(super) fn of(settings: &Settings) -> Self {
        let upstream = settings.upstream.as_ref();
        Self {
            push: upstream.map_or(PushMode::Auto, |u| u.push),
            restore_client_host: upstream.is_none_or(|u| u.restore_client_host),
            redact_hidden_topics: upstream.is_some_and(|u| u.redact_hidden_topics),
            task_offset_interval_ms: settings.groups.task_offset_interval_ms,
            acceptable_recovery_lag: settings.groups.acceptable_recovery_lag,
        }
    }
}

impl Shared {
    pub(super) fn new(core: &Core, options: Options) -> Self {
        Self {
            shards: Arc::clone(&core.shards),
            operations: Arc::clone(&core.operations),
            metrics: Arc::clone(&core.metrics),
            hosts: Hosts::new(),
            large: Semaphore::new(LARGE_REQUESTS_AT_ONCE),
            options: RwLock::new(options),
            upstream_asks: AtomicBool::new(false),
        }
    }

    pub(super) fn options(&self) -> Options {
        *self.options.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, as the coordinator tells it.
    pub(super) fn millis(&self) -> Millis {
        self.shards.clock().millis()
    }

    pub(super) fn compat(&self) -> Compat {
        self.shards.config().compat
    }

    /// The upstream asks for descriptions itself, or has no plugin after all.
    pub(super) fn upstream_asks(&self, asks: bool) {
        if self.upstream_asks.load(Ordering::Relaxed) != asks {
            self.upstream_asks.store(asks, Ordering::Relaxed);
        }
    }

    /// Whether a push goes on to the upstream behind our own decision.
    pub(super) fn tees(&self) -> bool {
        match self.options().push {
            PushMode::Tee => true,
            PushMode::Auto => self.upstream_asks.load(Ordering::Relaxed),
            PushMode::Own | PushMode::Off => false,
        }
    }

    /// A question of ours about one group: its entry, which the coordinator has been told. `None`: the broker's answer
    /// says nothing.
    pub(super) async fn ask_about(
        &self,
        group: &str,
        authorized_operations: bool,
        ask: &mut impl Ask,
    ) -> Result<Option<DescribedGroup>, Refused> {
        Ok(self.ask_about_all(&[group], authorized_operations, ask).await?.into_iter().next())
    }

    /// The same for several groups; entries in the broker's order.
    pub(super) async fn ask_about_all(
        &self,
        groups: &[&str],
        authorized_operations: bool,
        ask: &mut impl Ask,
    ) -> Result<Vec<DescribedGroup>, Refused> {
        let request = StreamsGroupDescribeRequest {
            group_ids: groups.iter().map(|group| (*group).to_owned()).collect(),
            include_authorized_operations: authorized_operations,
            ..StreamsGroupDescribeRequest::default()
        };
        let asked_at = self.millis();
        let mut entries = match ask.describe(&request).await {
            Ok(answer) => answer.groups,
            Err(AskError::Lost) => return Err(AskError::Lost.to_string()),
            Err(e) => {
                tracing::warn!(error = %e, "a describe of ours came to nothing");
                Vec::new()
            }
        };
        self.operations.described(&mut entries, asked_at, false).await;
        Ok(entries)
    }
}

/// Runs what must not end half-way on its own task, so that it goes on when the client goes away.
pub(super) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Refused> {
    tokio::spawn(work).await.map_err(|e| if e.is_panic() { DEFECT } else { "shutting down" }.to_owned())
}

impl Interceptor {
    /// Over a running core.
    #[must_use]
    pub fn new(core: &Core, settings: &Settings) -> Self {
        let observer = Observer::new(Arc::clone(&core.metrics));
        Self { shared: Arc::new(Shared::new(core, Options::of(settings))), observer }
    }

    /// Takes the settings that may change while running.
    pub fn retune(&self, settings: &Settings) {
        *self.shared.options.write().unwrap_or_else(PoisonError::into_inner) = Options::of(settings);
    }

    /// Runs one request's steps and notes how long they took.
    fn steps<T, F>(
        &self,
        api: Api,
        questions: Questions,
        work: impl FnOnce(Arc<Shared>, Timed) -> F,
    ) -> BoxFuture<Result<T, Refused>>
    where
        T: 'static,
        F: Future<Output = Result<T, Refused>> + Send + 'static,
    {
        let metrics = Arc::clone(&self.shared.metrics);
        let began = metrics.start();
        let work = work(Arc::clone(&self.shared), Timed::new(questions, &metrics));
        Box::pin(async move {
            let answer = work.await;
            metrics.request(api, began);
            answer
        })
    }
}

impl Intercept for Interceptor {
    fn opened(&self, connection: &Connection) {
        self.observer.opened(connection);
    }

    fn closed(&self, connection: &Connection, only_metadata: bool) {
        self.observer.closed(connection, only_metadata);
        self.shared.hosts.closed(connection.id);
    }

    fn heartbeat(
        &self,
        connection: &Arc<Connection>,
        beat: &Beat<'_>,
        answer: &mut StreamsGroupHeartbeatResponse<'_>,
    ) -> Observed {
        let began = self.shared.metrics.start();
        self.shared.metrics.upstream_request(Api::StreamsGroupHeartbeat, beat.sent);
        let observed = heartbeat::observe(&self.shared, connection, beat, answer);
        self.shared.metrics.request(Api::StreamsGroupHeartbeat, began);
        observed
    }

    fn push(
        &self,
        connection: &Arc<Connection>,
        _client_id: &str,
        request: StreamsGroupTopologyDescriptionUpdateRequest,
        wire_bytes: usize,
        questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupTopologyDescriptionUpdateResponse, Refused>> {
        let connection = connection.id;
        self.steps(Api::StreamsGroupTopologyDescriptionUpdate, questions, |shared, ask| {
            push::push(shared, connection, request, wire_bytes, ask)
        })
    }

    fn describe(
        &self,
        _connection: &Arc<Connection>,
        _client_id: &str,
        request: StreamsGroupDescribeRequest,
        version: i16,
        questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupDescribeResponse, Refused>> {
        self.steps(Api::StreamsGroupDescribe, questions, |shared, ask| {
            describe::describe(shared, request, version, ask)
        })
    }

    fn delete(
        &self,
        _connection: &Arc<Connection>,
        _client_id: &str,
        request: DeleteGroupsRequest,
        version: i16,
        questions: Questions,
    ) -> BoxFuture<Result<DeleteGroupsResponse, Refused>> {
        self.steps(Api::DeleteGroups, questions, |shared, ask| delete::delete(shared, request, version, ask))
    }

    fn member_heard(&self, connection: &Arc<Connection>, group: &str, member: &str) {
        self.observer.heard(connection);
        if self.shared.options().restore_client_host {
            self.shared.hosts.heard(connection, group, member);
        }
    }

    fn client_host(&self, group: &str, member: &str) -> Option<Arc<str>> {
        self.shared.options().restore_client_host.then(|| self.shared.hosts.host(group, member))?
    }

    fn upstream_versions(&self, _connection: &Connection, _rows: &[(i16, i16, i16)], streams: bool) {
        self.observer.upstream_serves(streams);
    }
}
