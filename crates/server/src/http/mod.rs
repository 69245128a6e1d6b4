//! What does it say over HTTP?
//!
//! | module | what it holds |
//! |---|---|
//! | `routes` | health, metrics, `retry`, 501 for what is not built |
//! | [`guard`] | Host, Origin, tokens |
//! | [`token`] | the token file |
//! | [`problem`] | errors as problem+json |
//! | `accept` | connections, bounded; clients that speak something else |

mod accept;
pub mod guard;
pub mod problem;
mod routes;
pub mod token;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics::Metrics;
use guard::Guard;

/// Connections at one time: probes, scrapers and a few people.
pub const MAX_CONNECTIONS: usize = 256;
/// Bytes of a request's line and headers together.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Bytes of a request's body; no route needs more yet.
pub const MAX_BODY_BYTES: u64 = 64 * 1024;
/// From the connection, or from the last answer, to a whole request head.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection's life: a reader that never reads does not hold its place for ever.
pub const CONNECTION_LIFE: Duration = Duration::from_secs(300);

/// Where in its life the daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Not serving yet: `/readyz` is 503.
    Starting,
    /// Serving.
    Ready,
    /// On its way down: `/readyz` is 503.
    Draining,
}

/// What became of a `retry`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryOutcome {
    /// Refusal and back-off are forgotten.
    Done,
    /// No such streams group.
    NoSuchGroup,
    /// Not now; a sentence.
    Unavailable(String),
}

/// Carries out a `retry` of a group.
pub type RetryFn = Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = RetryOutcome> + Send>> + Send + Sync>;

/// Looks up what keeps the daemon from being whole, each a phrase.
pub type TroublesFn = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<String>> + Send>> + Send + Sync>;

/// What the routes need.
pub struct HttpState {
    /// Where in its life the daemon is.
    pub readiness: watch::Receiver<Readiness>,
    /// What `/metrics` tells; knows the cluster's id.
    pub metrics: Arc<Metrics>,
    /// Carries out `retry`.
    pub retry: RetryFn,
    /// Troubles of the plugin and the like, each a phrase; looked up for `/readyz`.
    pub troubles: TroublesFn,
    /// Its name for people.
    pub cluster_name: Option<String>,
    /// Who may ask; replaced when the token file is read anew.
    pub guard: Mutex<Arc<Guard>>,
}

impl std::fmt::Debug for HttpState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpState").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

impl HttpState {
    fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.guard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes new tokens.
    pub fn set_tokens(&self, tokens: token::Tokens) {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        *guard = Arc::new(Guard { tokens, ..Guard::clone(&guard) });
    }
}

/// Serves until `stop` turns true or its sender is gone.
pub async fn serve(listener: TcpListener, state: Arc<HttpState>, stop: watch::Receiver<bool>) {
    accept::run(listener, routes::router(state), stop).await;
}

#[cfg(test)]
mod tests;
