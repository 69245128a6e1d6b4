//! A scripted broker: it reads requests by the schema and answers what the script says. It can stop and come back on its
//! port, and speak something else than Kafka.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::codec;
use crate::schema::{Api, Catalog};
use crate::server::free_port;

/// A request as the broker got it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which API.
    pub api: &'static Api,
    /// In which version.
    pub version: i16,
    /// The decoded body.
    pub body: Value,
    /// The name that the client gave itself; empty when it gave none.
    pub client_id: String,
    /// Which connection of the broker's life, from 0.
    pub connection: usize,
    /// The broker's own port.
    pub port: u16,
}

impl Request {
    /// The API's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        &self.api.name
    }
}

/// What the broker does about a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Answers in the request's version; fields left out take their defaults.
    Answer(Value),
    /// These bytes as they are.
    Raw(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Says nothing and goes on.
    Silence,
}

type Script = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

#[derive(Default)]
struct Shared {
    stopping: AtomicBool,
    connections: AtomicUsize,
    open: Mutex<BTreeMap<usize, TcpStream>>,
    seen: Mutex<Vec<(String, i16)>>,
}

/// A broker on 127.0.0.1. It stops when it goes out of scope.
pub struct Broker {
    /// Where it listens.
    pub port: u16,
    script: Script,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Broker {
    /// Listens on a free port.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> std::io::Result<Self> {
        Self::start_at(free_port()?, script)
    }

    /// Listens on this port.
    ///
    /// # Errors
    /// It is taken.
    pub fn start_at(port: u16, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> std::io::Result<Self> {
        let mut broker = Self { port, script: Arc::new(script), shared: Arc::default(), accepting: None };
        broker.resume()?;
        Ok(broker)
    }

    /// Answers the first bytes of every connection with `bytes` and closes it: a listener of another protocol.
    ///
    /// # Errors
    /// No port is free.
    pub fn stranger(bytes: &'static [u8]) -> std::io::Result<Self> {
        Self::start(move |_| Reply::Raw(bytes.to_vec()))
    }

    /// Requests so far: name and version, in the order in which they came.
    #[must_use]
    pub fn seen(&self) -> Vec<(String, i16)> {
        lock(&self.shared.seen).clone()
    }

    /// How many connections it has taken.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Closes the listener and all connections.
    pub fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the one who waits for connections.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for stream in std::mem::take(&mut *lock(&self.shared.open)).into_values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Listens again after [`Self::stop`].
    ///
    /// # Errors
    /// The port is taken.
    pub fn resume(&mut self) -> std::io::Result<()> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))?;
        self.shared.stopping.store(false, Ordering::SeqCst);
        let (script, shared, port) = (Arc::clone(&self.script), Arc::clone(&self.shared), self.port);
        self.accepting = Some(std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let connection = shared.connections.fetch_add(1, Ordering::SeqCst);
                if let Ok(copy) = stream.try_clone() {
                    lock(&shared.open).insert(connection, copy);
                }
                let (script, shared) = (Arc::clone(&script), Arc::clone(&shared));
                std::thread::spawn(move || {
                    serve(stream, connection, port, &script, &shared);
                    lock(&shared.open).remove(&connection);
                });
            }
        }));
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(mut stream: TcpStream, connection: usize, port: u16, script: &Script, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    while let Some(frame) = read_frame(&mut stream) {
        let Some((request, correlation)) = read_request(&frame, connection, port) else { return };
        lock(&shared.seen).push((request.api.name.clone(), request.version));
        let bytes = match script(&request) {
            Reply::Answer(body) => match answer(&request, correlation, &body) {
                Some(bytes) => bytes,
                // A script that does not fit is a defect of the test, and shows as a closed connection.
                None => return,
            },
            Reply::Raw(bytes) => {
                let _ = stream.write_all(&bytes);
                let _ = stream.shutdown(Shutdown::Write);
                std::thread::sleep(Duration::from_millis(50));
                return;
            }
            Reply::Close => return,
            Reply::Silence => continue,
        };
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let length = usize::try_from(i32::from_be_bytes(length)).ok().filter(|length| *length <= 64 << 20)?;
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn read_request(frame: &[u8], connection: usize, port: u16) -> Option<(Request, i32)> {
    let number = |at: usize| Some(i16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let (key, version) = (number(0)?, number(2)?);
    let api = Catalog::get().api(key)?;
    let mut rest = frame;
    let header_version = codec::request_header_version(&api.request, version);
    let header = codec::decode_prefix(&Catalog::get().request_header, header_version, &mut rest).ok()?;
    let correlation = i32::try_from(header["CorrelationId"].as_i64()?).ok()?;
    let body = codec::decode(&api.request, version, rest).unwrap_or(Value::Null);
    let client_id = header["ClientId"].as_str().unwrap_or_default().to_owned();
    Some((Request { api, version, body, client_id, connection, port }, correlation))
}

fn answer(request: &Request, correlation: i32, body: &Value) -> Option<Vec<u8>> {
    // An unknown version of ApiVersions is answered in version 0.
    let old = request.api.key == 18 && body["ErrorCode"] == 35;
    let version = if old { 0 } else { request.version };
    let header_version = codec::response_header_version(request.api.key, &request.api.response, version);
    let header = json!({ "CorrelationId": correlation });
    let mut data = codec::encode(&Catalog::get().response_header, header_version, &header).ok()?;
    match codec::encode(&request.api.response, version, body) {
        Ok(bytes) => data.extend(bytes),
        Err(e) => {
            eprintln!("the script's answer to {} v{version} does not fit: {e}: {body}", request.api.name);
            return None;
        }
    }
    Some([&i32::try_from(data.len()).ok()?.to_be_bytes(), data.as_slice()].concat())
}

/// What a scripted cluster says of itself; brokers share one and tests change it while they run.
#[derive(Debug, Clone)]
pub struct Map {
    /// Cluster id.
    pub id: String,
    /// Node id and port on 127.0.0.1.
    pub nodes: BTreeMap<i32, u16>,
    /// Key, lowest, highest.
    pub versions: Vec<(i16, i16, i16)>,
    /// Finalized features with their levels.
    pub features: Vec<(String, i16)>,
}

impl Map {
    /// A cluster whose brokers are like Kafka 4.3: streams groups in version 0, no topology descriptions.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let versions = [
            (3, 0, 13),
            (10, 0, 6),
            (15, 0, 6),
            (16, 0, 5),
            (18, 0, 4),
            (42, 0, 2),
            (60, 0, 2),
            (88, 0, 0),
            (89, 0, 0),
        ];
        Self { id: id.to_owned(), nodes: BTreeMap::new(), versions: versions.to_vec(), features: Vec::new() }
    }

    /// The answer to what every client asks first; `None` for anything else.
    #[must_use]
    pub fn reply(&self, request: &Request) -> Option<Reply> {
        let rows: Vec<Value> = self
            .versions
            .iter()
            .map(|(key, low, high)| json!({"ApiKey": key, "MinVersion": low, "MaxVersion": high}))
            .collect();
        let range = self.versions.iter().find(|(key, ..)| *key == request.api.key);
        if range.is_none_or(|(_, low, high)| !(*low..=*high).contains(&request.version)) {
            let refused = json!({"ErrorCode": 35, "ApiKeys": rows});
            return Some(if request.api.key == 18 { Reply::Answer(refused) } else { Reply::Close });
        }
        let brokers = |id: &str| -> Vec<Value> {
            self.nodes.iter().map(|(node, port)| json!({id: node, "Host": "127.0.0.1", "Port": port})).collect()
        };
        let (first, at) = self.nodes.iter().next()?;
        Some(Reply::Answer(match request.name() {
            "ApiVersions" if request.version < 3 || self.features.is_empty() => {
                json!({"ErrorCode": 0, "ApiKeys": rows})
            }
            "ApiVersions" => {
                let level = |(name, level): &(String, i16)| json!({"Name": name, "MinVersionLevel": level, "MaxVersionLevel": level});
                let features: Vec<Value> = self.features.iter().map(level).collect();
                json!({"ErrorCode": 0, "ApiKeys": rows, "FinalizedFeaturesEpoch": 1, "FinalizedFeatures": features})
            }
            "Metadata" if request.version < 2 => json!({"Brokers": brokers("NodeId"), "Topics": []}),
            "Metadata" => {
                json!({"Brokers": brokers("NodeId"), "ClusterId": self.id, "ControllerId": first, "Topics": []})
            }
            "DescribeCluster" => {
                json!({"ErrorCode": 0, "ClusterId": self.id, "ControllerId": first, "Brokers": brokers("BrokerId")})
            }
            "FindCoordinator" if request.version < 4 => {
                json!({"ErrorCode": 0, "NodeId": first, "Host": "127.0.0.1", "Port": at})
            }
            "FindCoordinator" => {
                let keys = request.body["CoordinatorKeys"].as_array().cloned().unwrap_or_default();
                let row = |key| json!({"Key": key, "NodeId": first, "Host": "127.0.0.1", "Port": at, "ErrorCode": 0});
                json!({"Coordinators": keys.into_iter().map(row).collect::<Vec<Value>>()})
            }
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;

    #[test]
    fn it_answers_by_its_script_stops_and_comes_back() {
        let mut map = Map::new("c");
        map.nodes.insert(1, 9092);
        let mut broker = Broker::start(move |r| map.reply(r).unwrap_or(Reply::Close)).unwrap();
        let mut client = Client::open(broker.port, "me").unwrap();
        assert_eq!(client.versions().unwrap()["ErrorCode"], 0);
        let metadata = client.call("Metadata", 12, &json!({"Topics": []})).unwrap();
        assert_eq!((&metadata["ClusterId"], &metadata["Brokers"][0]["Port"]), (&json!("c"), &json!(9092)));
        broker.stop();
        assert!(client.call("Metadata", 12, &json!({"Topics": []})).is_err());
        assert!(Client::open(broker.port, "me").is_err());
        broker.resume().unwrap();
        assert!(Client::open(broker.port, "me").unwrap().versions().is_ok());
        let names: Vec<String> = broker.seen().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["ApiVersions", "Metadata", "ApiVersions"]);
    }
}
