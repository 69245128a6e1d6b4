//! One connection to one broker: requests go out in order, answers come back in order, and when it fails everyone who
//! waits on it gets the same error.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use rustls::ClientConfig;
use streamside_wire::Message;
use streamside_wire::api_key;
use streamside_wire::frame::{self, Intruder};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::address::Address;
use crate::codec;
use crate::error::Error;
use crate::options::Options;
use crate::sasl;
use crate::tls;
use crate::versions::{self, Versions};

/// Most requests of ours that may be under way on one connection; further ones wait their turn.
const MAX_IN_FLIGHT: usize = 64;
/// Most bytes that are reserved ahead of what was really received.
const READ_STEP: usize = 64 * 1024;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An open, negotiated and logged-in connection.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    task: AbortHandle,
    in_flight: Arc<Semaphore>,
    next_correlation: AtomicI32,
    client_id: String,
    request_timeout: Duration,
    versions: Versions,
}

/// An answer's body and the version that it is in.
#[derive(Debug)]
pub struct Answer {
    body: Bytes,
    version: i16,
    api: &'static str,
    address: String,
}

impl Answer {
    /// Reads the body; borrowed parts live as long as this answer.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the bytes are not this message.
    pub fn decode<'a, A: Message<'a>>(&'a self) -> Result<A, Error> {
        self.decode_as(self.version)
    }

    /// Reads the body in the form of another version.
    pub(crate) fn decode_as<'a, A: Message<'a>>(&'a self, version: i16) -> Result<A, Error> {
        codec::decode(&self.body, version).map_err(|reason| Error::Protocol {
            address: self.address.clone(),
            reason: format!("its answer to {} can't be read: {reason}", self.api),
        })
    }

    /// The error code of answers that begin with one; 0 when there are no two bytes.
    pub(crate) fn first_i16(&self) -> i16 {
        self.body.first_chunk().map_or(0, |bytes| i16::from_be_bytes(*bytes))
    }
}

impl Connection {
    /// Connects, makes it encrypted when asked, learns the versions, and logs in when asked.
    ///
    /// # Errors
    /// Any kind but `refused`.
    pub(crate) async fn open(
        address: &Address,
        options: &Options,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, Error> {
        let shown = address.to_string();
        let tcp = connect(address, options.connect_timeout).await?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(tcp),
            Some(config) => Box::new(encrypt(tcp, address, config, options.request_timeout).await?),
        };
        let shared = Arc::new(Shared {
            address: shown,
            encrypted: tls.is_some(),
            with_login: options.login.is_some(),
            state: Mutex::default(),
            failed: Notify::new(),
        });
        let (jobs, queue) = mpsc::channel(MAX_IN_FLIGHT);
        let task = tokio::spawn(run(Arc::clone(&shared), stream, queue, options.max_answer_bytes)).abort_handle();
        let mut connection = Self {
            shared,
            jobs,
            task,
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            next_correlation: AtomicI32::new(0),
            client_id: options.client_id.clone(),
            request_timeout: options.request_timeout,
            versions: Versions::default(),
        };
        connection.versions = versions::negotiate(&connection).await?;
        if let Some(login) = &options.login {
            sasl::login(&connection, login).await?;
        }
        tracing::debug!(address = %connection.shared.address, encrypted = tls.is_some(), "connected");
        Ok(connection)
    }

    /// `host:port`, safe to show.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// The highest version of a request that both sides speak.
    ///
    /// # Errors
    /// [`Error::UnsupportedVersion`] when there is none.
    pub fn version<'q, Q: Message<'q>>(&self) -> Result<i16, Error> {
        let ours = (*Q::VERSIONS.start(), *Q::VERSIONS.end());
        let theirs = self.versions.get(Q::API_KEY);
        theirs
            .map(|(first, last)| (first.max(ours.0), last.min(ours.1)))
            .filter(|(first, last)| first <= last)
            .map(|(_, last)| last)
            .ok_or_else(|| Error::UnsupportedVersion {
                address: self.shared.address.clone(),
                api: api_key::name(Q::API_KEY),
                ours,
                theirs,
            })
    }

    /// Asks and reads the answer.
    ///
    /// # Errors
    /// When the connection fails, the time runs out, or the answer makes no sense.
    pub async fn call<'q, Q: Message<'q>, A: for<'a> Message<'a>>(
        &self,
        request: &Q,
        version: i16,
    ) -> Result<A, Error> {
        self.ask(request, version).await?.decode()
    }

    /// Asks and gives the answer's bytes, for answers that borrow from them.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub async fn ask<'q, Q: Message<'q>>(&self, request: &Q, version: i16) -> Result<Answer, Error> {
        let api = api_key::name(Q::API_KEY);
        let correlation = self.next_correlation.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        let bytes =
            codec::request(request, version, correlation, &self.client_id).map_err(|reason| Error::Protocol {
                address: self.shared.address.clone(),
                reason: format!("{api} can't be written in version {version}: {reason}"),
            })?;
        let (answer, answered) = oneshot::channel();
        let exchange = async {
            let permit = Arc::clone(&self.in_flight).acquire_owned().await.ok();
            let waiter = Waiter { api, api_key: Q::API_KEY, version, correlation, answer, _permit: permit };
            if self.jobs.send(Job { bytes, waiter }).await.is_err() {
                return Err(self.shared.failure());
            }
            answered.await.unwrap_or_else(|_| Err(self.shared.failure()))
        };
        let body = match timeout(self.request_timeout, exchange).await {
            Ok(body) => body?,
            Err(_) => {
                // Answers come in order, so nothing behind this one can be trusted to come either.
                return Err(self.shared.fail(Error::Timeout {
                    address: self.shared.address.clone(),
                    what: api,
                    after: self.request_timeout,
                }));
            }
        };
        Ok(Answer { body, version, api, address: self.shared.address.clone() })
    }

    /// True once it has failed; it never recovers.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.shared.lock().failed.is_some()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct Shared {
    address: String,
    encrypted: bool,
    with_login: bool,
    state: Mutex<State>,
    failed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Bounded by the permits that they hold.
    waiters: VecDeque<Waiter>,
    answered: u64,
    failed: Option<Error>,
}

#[derive(Debug)]
struct Waiter {
    api: &'static str,
    api_key: i16,
    version: i16,
    correlation: i32,
    answer: oneshot::Sender<Result<Bytes, Error>>,
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct Job {
    bytes: Bytes,
    waiter: Waiter,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first failure stays; every waiter, present and future, gets it.
    fn fail(&self, error: Error) -> Error {
        let (error, waiters) = {
            let mut state = self.lock();
            let error = state.failed.get_or_insert(error).clone();
            (error, std::mem::take(&mut state.waiters))
        };
        for waiter in waiters {
            let _ = waiter.answer.send(Err(error.clone()));
        }
        self.failed.notify_one();
        error
    }

    fn failure(&self) -> Error {
        let known = self.lock().failed.clone();
        known.unwrap_or_else(|| Error::Closed { address: self.address.clone(), reason: "by ourselves".to_owned() })
    }

    fn protocol(&self, reason: impl Into<String>) -> Error {
        Error::Protocol { address: self.address.clone(), reason: reason.into() }
    }

    fn enqueue(&self, waiter: Waiter) -> Result<(), ()> {
        let mut state = self.lock();
        match &state.failed {
            Some(error) => {
                let _ = waiter.answer.send(Err(error.clone()));
                Err(())
            }
            None => {
                state.waiters.push_back(waiter);
                Ok(())
            }
        }
    }

    fn deliver(&self, frame: Bytes) -> Result<(), Error> {
        let waiter = {
            let mut state = self.lock();
            state.answered += 1;
            state.waiters.pop_front()
        };
        let Some(waiter) = waiter else {
            return Err(self.protocol("it sent an answer that nobody asked for"));
        };
        match codec::answer_body(frame, waiter.api_key, waiter.version, waiter.correlation) {
            Ok(body) => {
                // Whoever stopped waiting does not need it.
                let _ = waiter.answer.send(Ok(body));
                Ok(())
            }
            Err(reason) => {
                let error = self.protocol(format!("its answer to {} {reason}", waiter.api));
                let _ = waiter.answer.send(Err(error.clone()));
                Err(error)
            }
        }
    }

    /// What a failed read means: a TLS alert after the handshake, or an end.
    fn broken(&self, partial: Option<(usize, usize)>, error: &io::Error) -> Error {
        if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
            return Error::Tls { address: self.address.clone(), reason: tls::explain(error, "") };
        }
        self.closed(partial, Some(error))
    }

    /// What an end of the stream means at this point.
    fn closed(&self, partial: Option<(usize, usize)>, error: Option<&io::Error>) -> Error {
        let (answered, waiting) = {
            let state = self.lock();
            (state.answered, state.waiters.front().map(|w| w.api))
        };
        let mut reason = match (partial, waiting) {
            (Some((got, of)), _) => {
                format!("in the middle of an answer, after {got} of {of} bytes")
            }
            (None, Some(api)) => format!("before it answered {api}"),
            (None, None) => "while nothing was asked".to_owned(),
        };
        match (answered, partial) {
            (0, None) if !self.encrypted => {
                reason.push_str("; if the listener speaks TLS set security.protocol=SSL (SASL_SSL with a login)");
            }
            (1, None) if !self.with_login => {
                reason.push_str(
                    "; if the listener asks for a login set security.protocol=SASL_PLAINTEXT or SASL_SSL, sasl.mechanism and sasl.jaas.config",
                );
            }
            _ => {}
        }
        if let Some(error) = error {
            reason.push_str(&format!(" ({error})"));
        }
        Error::Closed { address: self.address.clone(), reason }
    }
}

/// Owns the stream until it fails or the connection is dropped.
async fn run(shared: Arc<Shared>, stream: Box<dyn Stream>, queue: mpsc::Receiver<Job>, max_answer_bytes: usize) {
    let (reader, writer) = tokio::io::split(stream);
    tokio::select! {
        error = read_answers(&shared, reader, max_answer_bytes) => { shared.fail(error); }
        error = write_requests(&shared, writer, queue) => { shared.fail(error); }
        () = shared.failed.notified() => {}
    }
}

async fn write_requests(shared: &Shared, mut writer: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Job>) -> Error {
    while let Some(job) = queue.recv().await {
        if shared.enqueue(job.waiter).is_err() {
            break;
        }
        let written = async {
            writer.write_all(&job.bytes).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return shared.closed(None, Some(&error));
        }
    }
    shared.failure()
}

async fn read_answers(shared: &Shared, mut reader: impl AsyncRead + Unpin, max_answer_bytes: usize) -> Error {
    let mut buffer = BytesMut::new();
    let mut first = true;
    loop {
        if let Err(error) = fill(shared, &mut reader, &mut buffer, 4, None).await {
            return error;
        }
        if std::mem::take(&mut first)
            && let Some(reason) = stranger(&buffer)
        {
            return shared.protocol(reason);
        }
        let length = match frame::check_response_length(buffer.get_i32(), max_answer_bytes) {
            Ok(length) => length,
            Err(error) => {
                return shared.protocol(format!("it sent an answer of a length that can't be read: {error}"));
            }
        };
        if let Err(error) = fill(shared, &mut reader, &mut buffer, length, Some(length)).await {
            return error;
        }
        if let Err(error) = shared.deliver(buffer.split_to(length).freeze()) {
            return error;
        }
    }
}

/// Reads until the buffer holds `wanted` bytes; what is promised but not there reserves next to nothing.
async fn fill(
    shared: &Shared,
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    wanted: usize,
    of: Option<usize>,
) -> Result<(), Error> {
    while buffer.len() < wanted {
        buffer.reserve((wanted - buffer.len()).clamp(512, READ_STEP));
        match reader.read_buf(buffer).await {
            Ok(0) => return Err(shared.closed(of.map(|of| (buffer.len(), of)), None)),
            Ok(_) => {}
            Err(error) => return Err(shared.broken(of.map(|of| (buffer.len(), of)), &error)),
        }
    }
    Ok(())
}

/// Names a listener that answers in another protocol.
fn stranger(first_bytes: &[u8]) -> Option<String> {
    if first_bytes.starts_with(b"HTTP") {
        return Some("it speaks HTTP and not the Kafka protocol; check the port".to_owned());
    }
    frame::diagnose(first_bytes).map(|intruder| match intruder {
        Intruder::TlsHello | Intruder::TlsAlert => {
            "the listener speaks TLS; set security.protocol=SSL (SASL_SSL with a login)".to_owned()
        }
        other => format!("it speaks {} and not the Kafka protocol; check the port", other.name()),
    })
}

async fn connect(address: &Address, within: Duration) -> Result<TcpStream, Error> {
    let unreachable = |reason: String| Error::Unreachable { address: address.to_string(), reason };
    let attempt = async {
        let found = tokio::net::lookup_host((address.host.as_str(), address.port))
            .await
            .map_err(|e| unreachable(format!("its name can't be resolved ({e})")))?;
        let mut last = unreachable("its name has no address".to_owned());
        for target in found {
            match TcpStream::connect(target).await {
                Ok(tcp) => return Ok(tcp),
                Err(e) if target.ip().to_string() == address.host => last = unreachable(e.to_string()),
                Err(e) => last = unreachable(format!("{target}: {e}")),
            }
        }
        Err(last)
    };
    let tcp = timeout(within, attempt).await.map_err(|_| Error::Timeout {
        address: address.to_string(),
        what: "a connection attempt",
        after: within,
    })??;
    // Without it a small request may wait for the acknowledgement of the one before.
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(address = %address, %error, "no TCP_NODELAY");
    }
    Ok(tcp)
}

async fn encrypt(
    tcp: TcpStream,
    address: &Address,
    config: &Arc<ClientConfig>,
    within: Duration,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Error> {
    tls::shake_hands(config, "", &address.host, tcp, within)
        .await
        .map_err(|reason| Error::Tls { address: address.to_string(), reason })
}
