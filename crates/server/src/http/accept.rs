//! Taking connections. The first bytes are looked at before HTTP is spoken, so that a Kafka client that has the wrong
//! port is named instead of being told about a malformed request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::{CONNECTION_LIFE, HEAD_TIMEOUT, MAX_CONNECTIONS, MAX_HEAD_BYTES};

/// How long to wait for more when the first byte is none of HTTP's.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Lines a second about clients that speak something else.
const WARNINGS_PER_SECOND: u64 = 5;

pub(super) async fn run(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let gate = Arc::new(Gate::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    if gate.open() {
                        tracing::warn!(%peer, "HTTP connection closed: {MAX_CONNECTIONS} are open");
                    }
                    continue;
                };
                tokio::spawn(connection(stream, peer, router.clone(), stop.clone(), Arc::clone(&gate), place));
            }
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection could not be taken");
                // Most likely out of file descriptors; others must end first.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut stop: watch::Receiver<bool>,
    gate: Arc<Gate>,
    _place: OwnedSemaphorePermit,
) {
    let speaks = tokio::select! {
        speaks = timeout(HEAD_TIMEOUT, look(&stream)) => speaks,
        () = stopped(&mut stop) => return,
    };
    match speaks {
        Ok(Ok(Speaks::Http)) => {}
        Ok(Ok(Speaks::Other(what))) => {
            if gate.open() {
                tracing::warn!(%peer, "connection to the HTTP port closed: {what}");
            }
            return;
        }
        _ => return,
    }
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = std::pin::pin!(served);
    let life = tokio::time::sleep(CONNECTION_LIFE);
    tokio::select! {
        _ = served.as_mut() => return,
        () = life => {}
        () = stopped(&mut stop) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = timeout(Duration::from_secs(2), served).await;
}

/// What a client's first bytes are.
#[derive(Debug, PartialEq, Eq)]
enum Speaks {
    Http,
    Other(String),
}

async fn look(stream: &TcpStream) -> io::Result<Speaks> {
    let mut bytes = [0; 12];
    let mut seen = stream.peek(&mut bytes).await?;
    if bytes.first().is_some_and(|b| !b.is_ascii_uppercase()) && (1..bytes.len()).contains(&seen) {
        // Worth a moment, to say more than "something".
        let began = Instant::now();
        while seen < bytes.len() && began.elapsed() < LOOK_AGAIN {
            tokio::time::sleep(Duration::from_millis(20)).await;
            seen = stream.peek(&mut bytes).await?;
        }
    }
    Ok(judge(bytes.get(..seen).unwrap_or_default()))
}

fn judge(bytes: &[u8]) -> Speaks {
    match *bytes {
        [] => Speaks::Other("it ended without a request".to_owned()),
        // Every method begins with a letter; no Kafka frame under 1 GiB does.
        [first, ..] if first.is_ascii_alphabetic() => Speaks::Http,
        [0x16, 0x03, ..] => Speaks::Other("it speaks TLS, and this port speaks plain HTTP".to_owned()),
        [_, _, _, _, key0, key1, version0, version1, ..] => {
            let (key, version) = (i16::from_be_bytes([key0, key1]), i16::from_be_bytes([version0, version1]));
            if (0..1_000).contains(&key) && (0..100).contains(&version) {
                let what = "it is a Kafka client, which belongs to the port of `listeners`";
                Speaks::Other(format!("{what} (API key {key}, version {version})"))
            } else {
                Speaks::Other("it speaks neither HTTP nor Kafka's protocol".to_owned())
            }
        }
        [0, ..] => Speaks::Other("it may be a Kafka client, which belongs to the port of `listeners`".to_owned()),
        _ => Speaks::Other("it does not speak HTTP".to_owned()),
    }
}

/// Lets some lines a second through.
#[derive(Debug)]
struct Gate {
    began: Instant,
    second: AtomicU64,
    passed: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Self { began: Instant::now(), second: AtomicU64::new(0), passed: AtomicU64::new(0) }
    }
}

impl Gate {
    fn open(&self) -> bool {
        let second = self.began.elapsed().as_secs();
        if self.second.swap(second, Relaxed) != second {
            self.passed.store(0, Relaxed);
        }
        self.passed.fetch_add(1, Relaxed) < WARNINGS_PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_speaks_something_else_is_named() {
        assert_eq!(judge(b"GET / HTTP/1"), Speaks::Http);
        let text = |bytes: &[u8]| match judge(bytes) {
            Speaks::Other(text) => text,
            Speaks::Http => String::new(),
        };
        let kafka = text(&[0, 0, 0, 30, 0, 18, 0, 4, 0, 0, 0, 1]);
        assert!(kafka.contains("Kafka client") && kafka.contains("API key 18, version 4"), "{kafka}");
        assert!(text(&[0, 0, 0]).contains("may be a Kafka client"));
        assert!(text(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0, 1, 1, 1]).contains("TLS"));
        assert!(text(&[0xff; 12]).contains("neither"));
        assert!(text(&[]).contains("ended"));
    }

    #[test]
    fn the_gate_lets_a_few_through() {
        let gate = Gate::default();
        let passed = (0..100).filter(|_| gate.open()).count() as u64;
        assert!((WARNINGS_PER_SECOND..=2 * WARNINGS_PER_SECOND).contains(&passed), "{passed}");
    }
}
