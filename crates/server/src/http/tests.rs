use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::token::{Role, Tokens};
use super::*;

struct Server {
    address: SocketAddr,
    readiness: watch::Sender<Readiness>,
    troubled: Arc<AtomicUsize>,
    token: String,
    stop: watch::Sender<bool>,
    served: tokio::task::JoinHandle<()>,
}

async fn start() -> Server {
    let dir = tempfile::tempdir().unwrap();
    let tokens = Tokens::read_or_make(&dir.path().join("t")).unwrap();
    let token = tokens.any(Role::Operator).unwrap().to_owned();
    let readiness = watch::Sender::new(Readiness::Starting);
    let troubled = Arc::new(AtomicUsize::new(0));
    let trouble = Arc::clone(&troubled);
    let state = HttpState {
        readiness: readiness.subscribe(),
        metrics: Arc::new(Metrics::new("standalone", None, "id")),
        retry: Arc::new(|group| {
            Box::pin(async move {
                match group.as_str() {
                    "a/b ü" => RetryOutcome::Done,
                    "later" => RetryOutcome::Unavailable("Not now.".to_owned()),
                    _ => RetryOutcome::NoSuchGroup,
                }
            })
        }),
        troubles: Arc::new(move || {
            let troubles = vec!["the plugin hangs".to_owned(); trouble.load(Relaxed)];
            Box::pin(std::future::ready(troubles))
        }),
        cluster_name: Some("name".to_owned()),
        guard: Mutex::new(Arc::new(Guard { loopback: true, tokens, ..Guard::default() })),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = watch::Sender::new(false);
    let served = tokio::spawn(serve(listener, Arc::new(state), stop.subscribe()));
    Server { address, readiness, troubled, token, stop, served }
}

impl Server {
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// Status, headers, body.
    async fn ask(&self, method: &str, path: &str, headers: &str) -> (u16, String, String) {
        let text = self
            .raw(
                format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n").as_bytes(),
            )
            .await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_ascii_lowercase(), body.to_owned())
    }
}

#[tokio::test]
async fn readiness_follows_the_life_of_the_daemon() {
    let server = start().await;
    assert_eq!(server.ask("GET", "/readyz", "").await.0, 503);
    server.readiness.send_replace(Readiness::Ready);
    let (status, _, body) = server.ask("GET", "/readyz", "").await;
    assert_eq!((status, body.as_str()), (200, "{\"status\":\"ready\"}\n"));
    server.troubled.store(1, Relaxed);
    let (status, _, body) = server.ask("GET", "/readyz", "").await;
    assert_eq!((status, body.as_str()), (200, "{\"reasons\":[\"the plugin hangs\"],\"status\":\"degraded\"}\n"));
    server.readiness.send_replace(Readiness::Draining);
    assert_eq!(server.ask("GET", "/readyz", "").await.0, 503);
    assert_eq!(server.ask("GET", "/healthz", "").await.0, 200);
}

#[tokio::test]
async fn metrics_are_openmetrics() {
    let server = start().await;
    let (status, head, body) = server.ask("GET", "/metrics", "").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    assert!(body.contains("streamside_info{") && body.contains("# EOF"), "{body}");
}

#[tokio::test]
async fn retry_needs_a_token_and_says_what_became_of_it() {
    let server = start().await;
    let path = "/api/v1/clusters/-/groups/a%2Fb%20%C3%BC/retry";
    let token = format!("Authorization: Bearer {}\r\n", server.token);
    let (status, head, body) = server.ask("POST", path, "").await;
    assert_eq!(status, 401);
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    assert!(body.contains("\"status\":401") && body.contains("Authorization: Bearer TOKEN"), "{body}");
    let (status, _, body) = server.ask("POST", path, &token).await;
    assert_eq!(status, 200, "{body}");
    for (path, expected) in [
        ("/api/v1/clusters/id/groups/x/retry", 404),
        ("/api/v1/clusters/name/groups/later/retry", 503),
        ("/api/v1/clusters/other/groups/later/retry", 404),
        ("/api/v1/clusters/-/groups/%FF/retry", 400),
    ] {
        assert_eq!(server.ask("POST", path, &token).await.0, expected, "{path}");
    }
    assert_eq!(server.ask("GET", path, "").await.0, 405);
    let huge = format!("{token}Content-Length: 999999999\r\n");
    assert_eq!(server.ask("POST", path, &huge).await.0, 413);
}

#[tokio::test]
async fn routes_not_built_answer_501_and_unknown_ones_404() {
    let server = start().await;
    for path in ["/", "/api/v1/clusters", "/api/v1/clusters/-/groups/g/topology?format=svg", "/api/v1/openapi.json"] {
        let (status, head, body) = server.ask("GET", path, "").await;
        assert_eq!(status, 501, "{path}");
        assert!(head.contains("application/problem+json") && body.contains("\"detail\""), "{body}");
    }
    for path in ["/nothing", "/api/v2/clusters", "/api/v1/clusters/-/groups/g/nothing"] {
        assert_eq!(server.ask("GET", path, "").await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn a_foreign_host_is_refused() {
    let server = start().await;
    let answer = server.raw(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[tokio::test]
async fn a_kafka_client_is_closed_without_an_answer() {
    let server = start().await;
    assert_eq!(server.raw(&[0, 0, 0, 12, 0, 18, 0, 4, 0, 0, 0, 1, 0, 2, b'c', b'1']).await, "");
}

#[tokio::test]
async fn a_head_without_end_is_bounded() {
    let server = start().await;
    let mut endless = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".to_vec();
    endless.resize(endless.len() + 2 * MAX_HEAD_BYTES, b'x');
    let answer = server.raw(&endless).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn it_stops_when_told() {
    let server = start().await;
    server.stop.send_replace(true);
    tokio::time::timeout(Duration::from_secs(5), server.served).await.unwrap().unwrap();
}
