//! The routes: health, metrics, `retry`; every other route of the API answers 501 until it is built.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use serde_json::json;

use super::guard::Purpose;
use super::problem::Problem;
use super::{HttpState, MAX_BODY_BYTES, Readiness, RetryOutcome};
use crate::metrics::CONTENT_TYPE;

/// Routes that are known and not built.
const LATER: &[&str] = &[
    "/",
    "/api/v1/clusters",
    "/api/v1/clusters/{c}/groups",
    "/api/v1/clusters/{c}/groups/{g}",
    "/api/v1/clusters/{c}/groups/{g}/topology",
    "/api/v1/clusters/{c}/groups/{g}/history",
    "/api/v1/clusters/{c}/groups/{g}/diff",
    "/api/v1/clusters/{c}/groups/{g}/members",
    "/api/v1/clusters/{c}/groups/{g}/ask",
    "/api/v1/clusters/{c}/groups/{g}/stores/{s}/hosts",
    "/api/v1/clusters/{c}/groups/{g}/stores/{s}/partitions/{p}",
    "/api/v1/clusters/{c}/lineage",
    "/api/v1/clusters/{c}/events",
    "/api/v1/plugin",
    "/api/v1/openapi.json",
];

/// Everything that is served.
pub(super) fn router(state: Arc<HttpState>) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/v1/clusters/{c}/groups/{g}/retry", post(retry));
    for path in LATER {
        router = router.route(path, any(later));
    }
    router
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), check))
        .with_state(state)
}

async fn check(State(state): State<Arc<HttpState>>, request: Request, next: Next) -> Response {
    let purpose = match request.uri().path() {
        "/healthz" | "/readyz" | "/metrics" => Purpose::Health,
        _ => Purpose::Api,
    };
    let allowed = state.guard().check(purpose, request.method(), request.uri(), request.headers());
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    let mut response = if let Err(problem) = allowed {
        problem.into_response()
    } else if length.is_some_and(|length| length > MAX_BODY_BYTES) {
        let detail = format!("The body is larger than {MAX_BODY_BYTES} bytes.");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{value}\n")).into_response()
}

async fn healthz() -> Response {
    json(StatusCode::OK, &json!({ "status": "alive" }))
}

async fn readyz(State(state): State<Arc<HttpState>>) -> Response {
    // Copied, so that nothing is borrowed while the plugin is asked.
    let readiness = *state.readiness.borrow();
    match readiness {
        Readiness::Starting => json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "starting" })),
        Readiness::Draining => json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "draining" })),
        Readiness::Ready => match (state.troubles)().await {
            reasons if reasons.is_empty() => json(StatusCode::OK, &json!({ "status": "ready" })),
            reasons => json(StatusCode::OK, &json!({ "status": "degraded", "reasons": reasons })),
        },
    }
}

async fn metrics(State(state): State<Arc<HttpState>>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], state.metrics.text()).into_response()
}

async fn retry(
    State(state): State<Arc<HttpState>>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    _body: Body,
) -> Response {
    let Ok(Path((cluster, group))) = path else {
        return Problem::new(StatusCode::BAD_REQUEST, "The path is not percent-encoded UTF-8.").into_response();
    };
    if cluster != "-" && cluster != state.metrics.cluster_id() && Some(&cluster) != state.cluster_name.as_ref() {
        return Problem::new(StatusCode::NOT_FOUND, "There is no such cluster here; `-` stands for the only one.")
            .into_response();
    }
    match (state.retry)(group.clone()).await {
        RetryOutcome::Done => {
            tracing::info!(group, "a refusal and a back-off were forgotten by an operator's retry");
            let detail =
                "The group's refusal and back-off are forgotten; one of its members is asked at its next heartbeat.";
            json(StatusCode::OK, &json!({ "group": group, "detail": detail }))
        }
        RetryOutcome::NoSuchGroup => {
            Problem::new(StatusCode::NOT_FOUND, "There is no such streams group.").into_response()
        }
        RetryOutcome::Unavailable(reason) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason).into_response(),
    }
}

async fn later() -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "This route is planned and not in this build.")
}

async fn wrong_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "This route does not know that method.")
}

async fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "There is nothing here; health is at /healthz, metrics at /metrics.")
}
