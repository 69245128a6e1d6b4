//! A pair with the gateway in its middle, a broker that answers as a closure says, an intercept that notes all it hears.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use streamside_proxy::gateway::{Gateway, Mode, Questions, Setup};
use streamside_proxy::handler::BoxFuture;
use streamside_proxy::intercept::{Addresses, Beat, Connection, Intercept, Observed, Reach, Refused};
use streamside_proxy::pair::{self, Ended, Options, Stream};
use streamside_wire::header::{RequestHeader, ResponseHeader};
use streamside_wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatResponse;
use streamside_wire::messages::streams_group_topology_description_update::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};
use streamside_wire::{Message, Reader, Writer, bytes::BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Rows of a broker that has streams groups, as 4.3 lists them.
pub const OLD: &[(i16, i16, i16)] = &[(3, 0, 13), (18, 0, 4), (42, 0, 2), (88, 0, 0), (89, 0, 0)];
/// Rows of a broker as 4.4 lists them.
pub const NEW: &[(i16, i16, i16)] = &[(3, 0, 13), (18, 0, 5), (42, 0, 3), (88, 0, 1), (89, 0, 1), (93, 0, 0)];
/// Rows of a broker without streams groups.
pub const OLDEST: &[(i16, i16, i16)] = &[(3, 0, 12), (18, 0, 4), (42, 0, 2)];

type OnBeat = Box<dyn Fn(&Beat<'_>, &mut StreamsGroupHeartbeatResponse<'_>) -> Observed + Send + Sync>;

/// Passes everything on, and notes it.
#[derive(Default)]
pub struct Watcher {
    pub on_beat: Mutex<Option<OnBeat>>,
    pub hosts: Mutex<HashMap<(String, String), Arc<str>>>,
    notes: Mutex<Vec<String>>,
}

impl Watcher {
    pub fn note(&self, line: String) {
        self.notes.lock().unwrap().push(line);
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    pub fn on_beat(
        &self,
        does: impl Fn(&Beat<'_>, &mut StreamsGroupHeartbeatResponse<'_>) -> Observed + Send + Sync + 'static,
    ) {
        *self.on_beat.lock().unwrap() = Some(Box::new(does));
    }
}

impl Intercept for Watcher {
    fn opened(&self, connection: &Connection) {
        self.note(format!("opened {}", connection.id));
    }

    fn closed(&self, connection: &Connection, only_metadata: bool) {
        self.note(format!("closed {} {only_metadata}", connection.id));
    }

    fn heartbeat(
        &self,
        _: &Arc<Connection>,
        beat: &Beat<'_>,
        answer: &mut StreamsGroupHeartbeatResponse<'_>,
    ) -> Observed {
        self.note(format!("beat {} v{} of v{}", beat.request.member_id, beat.version, beat.upstream_version));
        self.on_beat.lock().unwrap().as_ref().map(|does| does(beat, answer)).unwrap_or_default()
    }

    fn push(
        &self,
        _: &Arc<Connection>,
        client_id: &str,
        request: StreamsGroupTopologyDescriptionUpdateRequest,
        wire_bytes: usize,
        mut questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupTopologyDescriptionUpdateResponse, Refused>> {
        self.note(format!("push {client_id} {} {wire_bytes}", request.group_id));
        Box::pin(async move { questions.push(&request).await.map_err(|e| e.to_string()) })
    }

    fn describe(
        &self,
        _: &Arc<Connection>,
        client_id: &str,
        request: StreamsGroupDescribeRequest,
        version: i16,
        mut questions: Questions,
    ) -> BoxFuture<Result<StreamsGroupDescribeResponse, Refused>> {
        self.note(format!("describe {client_id} {:?} v{version}", request.group_ids));
        Box::pin(async move { questions.describe(&request).await.map_err(|e| e.to_string()) })
    }

    fn delete(
        &self,
        _: &Arc<Connection>,
        client_id: &str,
        request: DeleteGroupsRequest,
        version: i16,
        mut questions: Questions,
    ) -> BoxFuture<Result<DeleteGroupsResponse, Refused>> {
        self.note(format!("delete {client_id} {:?} v{version}", request.groups_names));
        Box::pin(async move { questions.delete(&request).await.map_err(|e| e.to_string()) })
    }

    fn member_heard(&self, _: &Arc<Connection>, group: &str, member: &str) {
        self.note(format!("heard {group} {member}"));
    }

    fn client_host(&self, group: &str, member: &str) -> Option<Arc<str>> {
        self.hosts.lock().unwrap().get(&(group.to_owned(), member.to_owned())).cloned()
    }

    fn upstream_versions(&self, _: &Connection, rows: &[(i16, i16, i16)], streams: bool) {
        self.note(format!("versions {} {streams}", rows.len()));
    }
}

/// Every node is reachable where the cluster says.
pub struct Unmoved;

impl Addresses for Unmoved {
    fn reach(&self, _: Option<&str>, _: i32, host: &str, port: i32) -> Option<Reach> {
        Some(Reach { host: host.into(), port: u16::try_from(port).ok()? })
    }
}

/// Bodies of requests' frames that came to the broker.
pub type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

pub struct Stage {
    pub client: DuplexStream,
    pub watcher: Arc<Watcher>,
    pub seen: Seen,
    pub ended: JoinHandle<Ended>,
    _draining: watch::Sender<bool>,
}

impl Stage {
    /// `broker` makes the body of an answer from the body of a request; `None` closes the connection.
    pub fn new(broker: impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> Self {
        Self::with(Mode::Full, Some(Arc::new(Unmoved)), Arc::default(), broker)
    }

    pub fn with(
        mode: Mode,
        addresses: Option<Arc<dyn Addresses>>,
        watcher: Arc<Watcher>,
        mut broker: impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Self {
        let (client, ours) = tokio::io::duplex(1 << 20);
        let (upstream, mut far) = tokio::io::duplex(1 << 20);
        let (draining, drain) = watch::channel(false);
        let seen = Seen::default();
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Some(request) = read_frame(&mut far).await {
                log.lock().unwrap().push(request.clone());
                let Some(answer) = broker(&request) else { return };
                if far.write_all(&framed(&answer)).await.is_err() {
                    return;
                }
            }
        });
        let peer = SocketAddr::from(([192, 0, 2, 1], 40_000));
        let connection = Connection { id: 7, peer, node: Some(1) };
        let handler = Gateway::new(Setup { connection, intercept: watcher.clone(), addresses, mode });
        let (ours, upstream) = (Stream::Other(Box::new(ours)), Stream::Other(Box::new(upstream)));
        let ended = tokio::spawn(async move { pair::run(ours, upstream, handler, &Options::default(), drain).await });
        Stage { client, watcher, seen, ended, _draining: draining }
    }

    pub async fn send(&mut self, body: &[u8]) {
        self.client.write_all(&framed(body)).await.unwrap();
    }

    /// The body of the next answer; `None` where the connection ended.
    pub async fn answer(&mut self) -> Option<Vec<u8>> {
        soon(read_frame(&mut self.client)).await
    }

    pub async fn ask(&mut self, body: &[u8]) -> Vec<u8> {
        self.send(body).await;
        self.answer().await.expect("an answer")
    }

    pub fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().clone()
    }

    /// Closes the client's side and says how the pair ended.
    pub async fn end(self) -> (Ended, Arc<Watcher>) {
        drop(self.client);
        (soon(self.ended).await.unwrap(), self.watcher)
    }
}

pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("ends in time")
}

async fn read_frame(from: &mut DuplexStream) -> Option<Vec<u8>> {
    let mut body = vec![0; from.read_u32().await.ok()? as usize];
    from.read_exact(&mut body).await.ok()?;
    Some(body)
}

pub fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Key, version and correlation id of a request's body.
pub fn peek(body: &[u8]) -> (i16, i16, i32) {
    let peek = streamside_wire::header::peek(body).unwrap();
    (peek.api_key, peek.api_version, peek.correlation_id)
}

pub fn request<'a, M: Message<'a>>(version: i16, correlation_id: i32, message: &M) -> Vec<u8> {
    let header = RequestHeader {
        api_key: M::API_KEY,
        api_version: version,
        correlation_id,
        client_id: Some("app".into()),
        ..Default::default()
    };
    let mut body = BytesMut::new();
    let mut w = Writer::new(&mut body);
    header.encode(&mut w).unwrap();
    message.encode(&mut w, version).unwrap();
    body.to_vec()
}

pub fn answer<'a, M: Message<'a>>(version: i16, correlation_id: i32, message: &M) -> Vec<u8> {
    let mut body = BytesMut::new();
    let mut w = Writer::new(&mut body);
    ResponseHeader::new(correlation_id).encode(&mut w, M::API_KEY, version).unwrap();
    message.encode(&mut w, version).unwrap();
    body.to_vec()
}

pub fn read_request<'a, M: Message<'a>>(body: &'a [u8]) -> (RequestHeader<'a>, M) {
    let mut r = Reader::new(body);
    let header = RequestHeader::decode(&mut r).unwrap();
    let message = M::decode(&mut r, header.api_version).unwrap();
    assert_eq!(r.remaining(), 0, "nothing is left over");
    (header, message)
}

pub fn read_answer<'a, M: Message<'a>>(body: &'a [u8], version: i16) -> (i32, M) {
    let mut r = Reader::new(body);
    let header = ResponseHeader::decode(&mut r, M::API_KEY, version).unwrap();
    let message = M::decode(&mut r, version).unwrap();
    assert_eq!(r.remaining(), 0, "nothing is left over");
    (header.correlation_id, message)
}

/// The answer to an ApiVersions request, from rows.
pub fn versions_answer(request: &[u8], rows: &[(i16, i16, i16)]) -> Vec<u8> {
    let (_, version, correlation_id) = peek(request);
    let known = rows.iter().find(|row| row.0 == 18).map_or(0, |row| row.2);
    let row = |&(api_key, min_version, max_version): &(i16, i16, i16)| ApiVersion {
        api_key,
        min_version,
        max_version,
        ..Default::default()
    };
    if version > known {
        let own = ApiVersionsResponse { error_code: 35, api_keys: vec![row(&(18, 0, known))], ..Default::default() };
        return answer(0, correlation_id, &own);
    }
    let own = ApiVersionsResponse { api_keys: rows.iter().map(row).collect(), ..Default::default() };
    answer(version, correlation_id, &own)
}

/// A broker with these versions, and `other` for all other APIs.
pub fn broker(
    rows: &'static [(i16, i16, i16)],
    mut other: impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static,
) -> impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static {
    move |request| match peek(request).0 {
        18 => Some(versions_answer(request, rows)),
        _ => other(request),
    }
}
