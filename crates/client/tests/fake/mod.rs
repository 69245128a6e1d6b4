//! A scripted broker on loopback: it reads requests as frames and answers what the test's script says.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use streamside_wire::header::RequestHeader;
use streamside_wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use streamside_wire::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};
use streamside_wire::messages::metadata::{MetadataResponse, MetadataResponseBroker};
use streamside_wire::{Message, Reader, frame};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// One request as it came.
pub struct Request {
    pub api_key: i16,
    pub version: i16,
    pub correlation_id: i32,
    /// Which connection of the broker's life, from 0.
    pub connection: usize,
    body: Bytes,
}

impl Request {
    pub fn decode<'a, M: Message<'a>>(&'a self) -> M {
        M::decode(&mut Reader::new(&self.body), self.version).expect("a request that can be read")
    }

    /// The usual answer.
    pub fn answer<'a, M: Message<'a>>(&self, message: &M) -> Reply {
        self.answer_as(message, self.version, self.correlation_id)
    }

    pub fn answer_as<'a, M: Message<'a>>(&self, message: &M, version: i16, correlation_id: i32) -> Reply {
        let mut out = BytesMut::new();
        frame::encode_response(&mut out, correlation_id, version, message).expect("an answer that can be written");
        Reply::Bytes(out.to_vec())
    }
}

/// What the broker does about a request.
pub enum Reply {
    Bytes(Vec<u8>),
    /// These bytes, then the end of the connection.
    Last(Vec<u8>),
    Silence,
}

/// The listener; requests are kept as (key, version).
pub struct Fake {
    pub port: u16,
    pub seen: Arc<Mutex<Vec<(i16, i16)>>>,
}

impl Fake {
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn seen(&self) -> Vec<(i16, i16)> {
        self.seen.lock().expect("not poisoned").clone()
    }

    /// The script gets each request and this broker's own port.
    pub async fn start(script: impl Fn(&Request, u16) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_tls(None, script).await
    }

    pub async fn start_tls(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Request, u16) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, log) = (Arc::new(script), Arc::clone(&seen));
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((tcp, _)) = listener.accept().await else {
                    break;
                };
                let (script, log, tls) = (Arc::clone(&script), Arc::clone(&log), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(tcp, connection, port, &*script, &log).await,
                        Some(acceptor) => match acceptor.accept(tcp).await {
                            Ok(stream) => serve(stream, connection, port, &*script, &log).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { port, seen }
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    port: u16,
    script: &(dyn Fn(&Request, u16) -> Reply + Send + Sync),
    seen: &Mutex<Vec<(i16, i16)>>,
) -> Option<()> {
    loop {
        let length = usize::try_from(stream.read_i32().await.ok()?).ok()?;
        // As Kafka: a length above the limit closes the connection.
        if length > 100 * 1024 * 1024 {
            return None;
        }
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).await.ok()?;
        let bytes = Bytes::from(bytes);
        let mut reader = Reader::new(&bytes);
        let head = RequestHeader::decode(&mut reader).ok()?;
        let body = bytes.slice(bytes.len() - reader.remaining()..);
        seen.lock().expect("not poisoned").push((head.api_key, head.api_version));
        let request = Request {
            api_key: head.api_key,
            version: head.api_version,
            correlation_id: head.correlation_id,
            connection,
            body,
        };
        match script(&request, port) {
            Reply::Bytes(bytes) => stream.write_all(&bytes).await.ok()?,
            Reply::Last(bytes) => {
                stream.write_all(&bytes).await.ok()?;
                stream.flush().await.ok()?;
                return None;
            }
            Reply::Silence => tokio::time::sleep(Duration::from_millis(1)).await,
        }
        stream.flush().await.ok()?;
    }
}

/// An ApiVersions answer with these rows.
pub fn versions(rows: &[(i16, i16, i16)]) -> ApiVersionsResponse {
    ApiVersionsResponse {
        api_keys: rows
            .iter()
            .map(|&(api_key, min_version, max_version)| ApiVersion {
                api_key,
                min_version,
                max_version,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// What Kafka 4.4 lists of the requests that we send.
pub const KAFKA_4_4: [(i16, i16, i16); 10] = [
    (3, 0, 13),
    (10, 0, 6),
    (16, 0, 5),
    (17, 0, 1),
    (18, 0, 5),
    (36, 0, 2),
    (42, 0, 3),
    (88, 0, 1),
    (89, 0, 1),
    (93, 0, 0),
];

/// A Metadata answer that names the broker itself.
pub fn metadata(port: u16) -> MetadataResponse {
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: 1,
            host: "127.0.0.1".to_owned(),
            port: port.into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A coordinator answer (version 4 and above) that names the broker itself for one group.
pub fn coordinator(group: &str, port: u16) -> Coordinator {
    Coordinator {
        key: group.to_owned(),
        node_id: 1,
        host: "127.0.0.1".to_owned(),
        port: port.into(),
        error_message: None,
        ..Default::default()
    }
}

/// Answers ApiVersions, Metadata and FindCoordinator as a broker that is a cluster of its own.
pub fn usual(request: &Request, port: u16) -> Option<Reply> {
    use streamside_wire::messages::find_coordinator::FindCoordinatorRequest;
    Some(match request.api_key {
        18 => request.answer(&versions(&KAFKA_4_4)),
        3 => request.answer(&metadata(port)),
        10 => {
            let asked: FindCoordinatorRequest = request.decode();
            request.answer(&FindCoordinatorResponse {
                coordinators: asked.coordinator_keys.iter().map(|g| coordinator(g, port)).collect(),
                error_message: None,
                ..Default::default()
            })
        }
        _ => return None,
    })
}
