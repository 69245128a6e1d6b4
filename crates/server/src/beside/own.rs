//! Our own questions to the cluster: is it there, which nodes does it have, does it know streams groups?

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use streamside_client::{Address, Cluster, Options};
use streamside_proxy::intercept::Addresses as _;
use streamside_wire::Message as _;
use streamside_wire::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use streamside_wire::messages::metadata::{MetadataRequest, MetadataResponse};
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatRequest;
use streamside_wire::messages::streams_group_topology_description_update::StreamsGroupTopologyDescriptionUpdateRequest;

use super::health::Health;
use super::nodes::{Nodes, NodesError};
use crate::config::{HostPort, UpstreamSecurity};

/// How often the cluster is asked while all is well.
const EVERY: Duration = Duration::from_secs(30);
/// The first pause after a failure; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// What the cluster says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its id.
    pub cluster: Option<String>,
    /// Node id, host, port.
    pub nodes: Vec<(i32, String, i32)>,
}

/// What one broker says it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Lowest and highest version of StreamsGroupHeartbeat.
    pub heartbeat: Option<(i16, i16)>,
    /// It takes topology descriptions itself.
    pub descriptions: bool,
    /// Level of the feature `streams.version`, where the cluster has it.
    pub streams_version: Option<i16>,
    /// Level of the feature `metadata.version`.
    pub metadata_version: Option<i16>,
}

/// Why a question of ours has no answer: a sentence that says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Unanswered {
    sentence: String,
    /// The cluster is there and refuses our login.
    refused: bool,
    /// It is not there; else it is, and what we say or what it says is wrong.
    away: bool,
}

impl Unanswered {
    /// A word for metrics and policy.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if self.refused { "auth" } else { "unanswered" }
    }

    /// Whether nobody is there, rather than somebody who speaks otherwise or refuses what we say.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away
    }
}

/// Our own connection to the cluster.
pub struct Own {
    /// Replaced when certificates or our login change.
    cluster: RwLock<(Cluster, CanAsk)>,
    addresses: Vec<Address>,
    timeout: Duration,
    name: String,
    bootstrap: String,
}

/// Not where the cluster wants a login and we have none; then it is only seen whether it is there.
type CanAsk = bool;

impl Own {
    /// Prepares it. `name` is what we call ourselves, and know ourselves by.
    ///
    /// # Errors
    /// Certificates that cannot be read or used, as a sentence.
    pub fn new(
        bootstrap: &[HostPort],
        security: &UpstreamSecurity,
        timeout: Duration,
        name: &str,
    ) -> Result<Self, String> {
        let shown = bootstrap.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let addresses =
            bootstrap.iter().map(|b| Address { host: b.host.clone(), port: b.port }).collect::<Vec<Address>>();
        let cluster = cluster(&addresses, security, timeout, name)?;
        Ok(Self { cluster: RwLock::new(cluster), addresses, timeout, name: name.to_owned(), bootstrap: shown })
    }

    /// Reads certificates and login again; they count from the next question on.
    ///
    /// # Errors
    /// As [`Own::new`]; nothing changes then.
    pub fn reload(&self, security: &UpstreamSecurity) -> Result<(), String> {
        let fresh = cluster(&self.addresses, security, self.timeout, &self.name)?;
        *self.cluster.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Lets the connection go that we have: the next question shows whether a new one can be made.
    pub fn forget(&self) {
        let mut cluster = self.cluster.write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(fresh) = Cluster::new(self.addresses.clone(), cluster.0.options().clone()) {
            cluster.0 = fresh;
        }
    }

    /// Asks once.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn ask(&self) -> Result<Option<Told>, Unanswered> {
        let (cluster, can_ask) = self.cluster();
        let asked = async {
            let connection = cluster.any().await?;
            if !can_ask {
                return Ok(None);
            }
            let version = connection.version::<MetadataRequest>()?.max(1);
            // No topic is asked about.
            let request = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
            let answer: MetadataResponse = connection.call(&request, version).await?;
            Ok(Some(Told {
                cluster: answer.cluster_id,
                nodes: answer.brokers.into_iter().map(|b| (b.node_id, b.host, b.port)).collect(),
            }))
        };
        asked.await.map_err(|e| self.unanswered(&e))
    }

    /// What the broker at the first address that answers can do.
    ///
    /// # Errors
    /// As [`Own::ask`].
    pub async fn abilities(&self) -> Result<Abilities, Unanswered> {
        let (cluster, _) = self.cluster();
        let asked = async {
            let connection = cluster.any().await?;
            let version = connection.version::<ApiVersionsRequest>()?;
            let mut request = ApiVersionsRequest::default();
            if version >= 3 {
                request.client_software_name = "streamside".to_owned();
                request.client_software_version = env!("CARGO_PKG_VERSION").to_owned();
            }
            let answer: ApiVersionsResponse = connection.call(&request, version).await?;
            let row = |key: i16| answer.api_keys.iter().find(|row| row.api_key == key);
            let level =
                |name: &str| answer.finalized_features.iter().find(|f| f.name == name).map(|f| f.max_version_level);
            Ok(Abilities {
                heartbeat: row(StreamsGroupHeartbeatRequest::API_KEY).map(|row| (row.min_version, row.max_version)),
                descriptions: row(StreamsGroupTopologyDescriptionUpdateRequest::API_KEY).is_some(),
                streams_version: level("streams.version"),
                metadata_version: level("metadata.version"),
            })
        };
        asked.await.map_err(|e| self.unanswered(&e))
    }

    fn cluster(&self) -> (Cluster, CanAsk) {
        self.cluster.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn unanswered(&self, error: &streamside_client::Error) -> Unanswered {
        use streamside_client::Error;
        let told = in_our_words(&error.to_string());
        let sentence = match error {
            Error::Refused { .. } | Error::Settings(_) => format!("upstream {}: {told}", self.bootstrap),
            // The others begin with the address.
            _ => format!("upstream {told}"),
        };
        let away = matches!(error, Error::Unreachable { .. } | Error::Timeout { .. });
        Unanswered { sentence, refused: matches!(error, Error::Auth { .. }), away }
    }
}

fn cluster(
    addresses: &[Address],
    security: &UpstreamSecurity,
    timeout: Duration,
    name: &str,
) -> Result<(Cluster, CanAsk), String> {
    let options = Options {
        connect_timeout: timeout,
        request_timeout: timeout,
        client_id: name.to_owned(),
        ..security.options()
    };
    let cluster = Cluster::new(addresses.to_vec(), options).map_err(|e| e.reason)?;
    Ok((cluster, security.can_ask()))
}

/// The client's sentences name the settings of a stock client; ours stand under a prefix.
#[must_use]
pub fn in_our_words(sentence: &str) -> String {
    const PREFIX: &str = "streamside.upstream.";
    let mut out = sentence.to_owned();
    for key in
        ["security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.keystore", "ssl.truststore", "ssl.endpoint"]
    {
        let prefixed = format!("{PREFIX}{key}");
        out = out.replace(&prefixed, key).replace(key, &prefixed);
    }
    out
}

/// Asks for ever: often enough to follow the nodes, with growing pauses while the cluster is away.
pub async fn keep_asking(own: Arc<Own>, health: Arc<Health>, nodes: Option<Arc<Nodes>>) {
    let mut pause = if health.trouble().is_some() { FIRST_PAUSE } else { EVERY };
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Someone could not reach it: asked soon, and not at once.
            () = health.doubted() => {
                tokio::time::sleep(FIRST_PAUSE.min(pause)).await;
                own.forget();
            }
        }
        match own.ask().await {
            Ok(told) => {
                if let Some(told) = told {
                    take(&health, nodes.as_deref(), &told);
                }
                health.up();
                pause = EVERY;
            }
            Err(error) => {
                tell(&health, &error);
                pause = if pause == EVERY { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            }
        }
        if let Some(nodes) = &nodes {
            nodes.sweep();
        }
    }
}

fn take(health: &Health, nodes: Option<&Nodes>, told: &Told) {
    if let Some(cluster) = &told.cluster {
        health.cluster_is(cluster);
    }
    // A broker that is still starting knows nobody.
    if let Some(nodes) = nodes.filter(|_| !told.nodes.is_empty()) {
        nodes.seen(told.cluster.as_deref(), &told.nodes);
        for (id, host, port) in &told.nodes {
            nodes.reach(told.cluster.as_deref(), *id, host, *port);
        }
    }
}

fn tell(health: &Health, error: &Unanswered) {
    if error.refused {
        health.refused(&error.sentence);
    } else {
        health.down(&error.sentence);
    }
}

/// The first question, before readiness.
///
/// # Errors
/// A node whose port was written down and cannot be had.
pub async fn ask_first(own: &Own, health: &Health, nodes: Option<&Nodes>) -> Result<(), NodesError> {
    match own.ask().await {
        Ok(told) => {
            if let Some(told) = told {
                if let Some(nodes) = nodes {
                    nodes.learn(told.cluster.as_deref(), &told.nodes)?;
                }
                take(health, nodes, &told);
            }
            health.up();
        }
        Err(error) => tell(health, &error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_sentences_name_our_keys() {
        assert_eq!(
            in_our_words("the listener speaks TLS; set security.protocol=SSL (SASL_SSL with a login)"),
            "the listener speaks TLS; set streamside.upstream.security.protocol=SSL (SASL_SSL with a login)"
        );
        let already = "set streamside.upstream.ssl.keystore.location";
        assert_eq!(in_our_words(already), already);
    }
}
