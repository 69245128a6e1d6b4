//! A cluster as the stock tools see it: brokers from Metadata, coordinators from FindCoordinator, one connection to each
//! broker that is needed, and retries of what Kafka calls retriable.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::ClientConfig;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::metadata::{MetadataRequest, MetadataResponse};
use tokio::time::Instant;

use crate::address::Address;
use crate::connection::Connection;
use crate::error::{Error, shown};
use crate::options::{Options, OptionsError};
use crate::tls;

/// Most brokers that we hold connections to.
const MAX_BROKERS: usize = 1000;
/// Most groups whose coordinator is remembered.
const MAX_COORDINATORS: usize = 10_000;

/// A broker that a cluster told us of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its node id.
    pub id: i32,
    /// Where it listens.
    pub address: Address,
}

/// A cluster; cheap to clone, connections are shared.
#[derive(Debug, Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bootstrap: Vec<Address>,
    options: Options,
    tls: Option<Arc<ClientConfig>>,
    connections: Mutex<HashMap<Address, Arc<Slot>>>,
    coordinators: Mutex<HashMap<String, Address>>,
}

/// Held while connecting, so that two callers make one connection.
type Slot = tokio::sync::Mutex<Option<Arc<Connection>>>;

impl Cluster {
    /// Prepares a cluster without a connection yet; reads certificate files.
    ///
    /// # Errors
    /// Certificates that can't be read or used.
    pub fn new(bootstrap: Vec<Address>, options: Options) -> Result<Self, OptionsError> {
        let tls = match &options.tls {
            None => None,
            Some(tls) => {
                Some(tls::client_config(tls).map_err(|reason| OptionsError { key: "ssl".to_owned(), reason })?)
            }
        };
        Ok(Self {
            inner: Arc::new(Inner {
                bootstrap,
                options,
                tls,
                connections: Mutex::default(),
                coordinators: Mutex::default(),
            }),
        })
    }

    /// Connects to the first address of a `host:port,…` list that answers.
    ///
    /// # Errors
    /// [`Error::Settings`] for a bad list or bad certificates, otherwise why the last address failed.
    pub async fn connect(bootstrap: &str, options: Options) -> Result<Self, Error> {
        let cluster = Self::new(Address::parse_list(bootstrap)?, options)?;
        cluster.any().await?;
        Ok(cluster)
    }

    /// How connections are made.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// A connection to a broker, made when there is none that works.
    ///
    /// # Errors
    /// Why it could not be made.
    pub async fn connection(&self, address: &Address) -> Result<Arc<Connection>, Error> {
        let slot = {
            let mut slots = lock(&self.inner.connections);
            if slots.len() >= MAX_BROKERS {
                // Whoever still uses one keeps it.
                slots.clear();
            }
            Arc::clone(slots.entry(address.clone()).or_default())
        };
        let mut held = slot.lock().await;
        if let Some(connection) = held.as_ref().filter(|c| !c.is_failed()) {
            return Ok(Arc::clone(connection));
        }
        let connection = Arc::new(Connection::open(address, &self.inner.options, self.inner.tls.as_ref()).await?);
        *held = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// A connection to the first bootstrap address that answers.
    ///
    /// # Errors
    /// Why the addresses failed. A refused login or certificate ends the search, since asking further can't help.
    pub async fn any(&self) -> Result<Arc<Connection>, Error> {
        let mut failures = Vec::new();
        for address in &self.inner.bootstrap {
            match self.connection(address).await {
                Ok(connection) => return Ok(connection),
                Err(error @ (Error::Auth { .. } | Error::Tls { .. })) => return Err(error),
                Err(error) => failures.push(error),
            }
        }
        let all = failures.len();
        match failures.into_iter().next_back() {
            Some(error) if all == 1 => Err(error),
            Some(error) => Err(Error::Unreachable {
                address: self.bootstrap(),
                reason: format!("none of {all} addresses answered; the last: {error}"),
            }),
            None => Err(Error::Unreachable { address: String::new(), reason: "no address is given".to_owned() }),
        }
    }

    /// Every broker of the cluster, from a fresh Metadata answer.
    ///
    /// # Errors
    /// When nobody answers within the time of one call, or the answer makes no sense.
    pub async fn brokers(&self) -> Result<Vec<Broker>, Error> {
        let mut retry = Retry::new(self.options());
        loop {
            let error = match self.brokers_once().await {
                Ok(brokers) if !brokers.is_empty() => return Ok(brokers),
                // A server that is still starting knows no broker yet.
                Ok(_) => Error::Protocol { address: self.bootstrap(), reason: "it names no broker".to_owned() },
                Err(error @ Error::Closed { .. }) => error,
                Err(error) => return Err(error),
            };
            if !retry.pause().await {
                return Err(error);
            }
        }
    }

    async fn brokers_once(&self) -> Result<Vec<Broker>, Error> {
        let connection = self.any().await?;
        let version = connection.version::<MetadataRequest>()?;
        let request = MetadataRequest {
            // No topic is asked about; before version 1 that would mean all of them.
            topics: Some(Vec::new()),
            ..Default::default()
        };
        let answer: MetadataResponse = connection.call(&request, version.max(1)).await?;
        let mut brokers = Vec::new();
        for broker in answer.brokers.into_iter().take(MAX_BROKERS) {
            let address = advertised(connection.address(), broker.host, broker.port)?;
            brokers.push(Broker { id: broker.node_id, address });
        }
        Ok(brokers)
    }

    /// Looks the coordinator up anew at the next use; for answers that say it moved, and for lost connections.
    pub fn forget_coordinator(&self, group: &str) {
        lock(&self.inner.coordinators).remove(group);
    }

    pub(crate) fn known_coordinator(&self, group: &str) -> Option<Address> {
        lock(&self.inner.coordinators).get(group).cloned()
    }

    pub(crate) fn remember_coordinator(&self, group: &str, address: Address) {
        let mut known = lock(&self.inner.coordinators);
        if known.len() >= MAX_COORDINATORS {
            known.clear();
        }
        known.insert(group.to_owned(), address);
    }

    fn bootstrap(&self) -> String {
        let all: Vec<String> = self.inner.bootstrap.iter().map(ToString::to_string).collect();
        all.join(",")
    }
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An address that a server named, refused when nobody can connect to it.
pub(crate) fn advertised(server: &str, host: String, port: i32) -> Result<Address, Error> {
    match u16::try_from(port) {
        Ok(port) if port != 0 && !host.is_empty() => Ok(Address { host, port }),
        _ => Err(Error::Protocol {
            address: server.to_owned(),
            reason: format!("it names a broker at `{}:{port}`, which is no address", shown(&host)),
        }),
    }
}

/// The pauses between attempts of one call: doubled each time, a fifth of chance added or taken, until its time is up.
#[derive(Debug)]
pub(crate) struct Retry {
    deadline: Instant,
    next: Duration,
    longest: Duration,
}

impl Retry {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            deadline: Instant::now() + options.call_timeout,
            next: options.retry_backoff,
            longest: options.retry_backoff_max,
        }
    }

    /// Waits; false when the call's time would be over before the next attempt.
    pub(crate) async fn pause(&mut self) -> bool {
        let mut random = [128];
        // Without randomness the pause is the plain one.
        let _ = SystemRandom::new().fill(&mut random);
        let factor = 0.8 + f64::from(random[0]) / 255.0 * 0.4;
        let pause = self.next.min(self.longest).mul_f64(factor);
        if Instant::now() + pause >= self.deadline {
            return false;
        }
        tokio::time::sleep(pause).await;
        self.next = (self.next * 2).min(self.longest);
        true
    }
}

/// What Kafka's admin client asks again about: a coordinator that loads, is missing, or has moved (kip1331 §11.1).
fn is_retriable(code: ErrorCode) -> bool {
    [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::NOT_COORDINATOR]
        .contains(&code)
}

/// True for what goes away by itself: those codes, and a connection that ended.
pub(crate) fn is_worth_another_try(error: &Error) -> bool {
    matches!(error, Error::Closed { .. }) || error.code().is_some_and(is_retriable)
}

/// Turns a code into an error, or none when it is 0.
pub(crate) fn refusal(api: &'static str, code: i16, message: Option<String>) -> Option<Error> {
    let code = ErrorCode(code);
    (code != ErrorCode::NONE).then_some(Error::Refused { api, code, message })
}

/// Positions in a list, by what is to be asked about them.
pub(crate) type ByAddress = BTreeMap<Address, Vec<usize>>;
