//! Questions about groups: who coordinates them, which there are, what they look like, and their end.

use std::collections::BTreeMap;
use std::sync::Arc;

use streamside_wire::Message as _;
use streamside_wire::api_key;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use streamside_wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use streamside_wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse};
use streamside_wire::messages::streams_group_describe::{
    DescribedGroup, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
};
use tokio::task::JoinSet;

use crate::cluster::{Broker, ByAddress, Cluster, Retry, advertised, is_worth_another_try, refusal};
use crate::connection::Connection;
use crate::error::{Error, shown};

/// Most groups asked about in one request.
const MAX_BATCH: usize = 500;
/// Most groups asked about at once when descriptions, each up to a megabyte or more, come along.
const MAX_DESCRIPTIONS: usize = 20;
/// Most brokers asked at once.
const MAX_BROKERS_AT_ONCE: usize = 16;
/// The only key type that we look up: a group's coordinator.
const GROUP: i8 = 0;

/// One line of a cluster's list of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// The group's id.
    pub group_id: String,
    /// Kafka's word for its kind: `classic`, `consumer`, `share`, `streams`; empty from brokers before 3.8.
    pub group_type: String,
    /// `consumer`, `streams`, …
    pub protocol_type: String,
    /// Kafka's word for its state; empty from brokers before 2.6.
    pub state: String,
    /// The broker that coordinates it.
    pub broker_id: i32,
}

/// A streams group as its coordinator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedStreamsGroup {
    /// The answer's entry, error free.
    pub group: DescribedGroup,
    /// The version of the answer: 0 knows nothing of topology descriptions.
    pub version: i16,
}

impl Cluster {
    /// Every group of every broker that has one of the types; no type means all of them.
    ///
    /// Brokers that can't choose by type (before Kafka 3.8) have no streams groups, so their lists are kept out when
    /// types are named.
    ///
    /// # Errors
    /// When a broker can't be asked or refuses; a list with holes is not given.
    pub async fn list_groups(&self, types: &[&str]) -> Result<Vec<ListedGroup>, Error> {
        let mut found: BTreeMap<String, ListedGroup> = BTreeMap::new();
        let types: Vec<String> = types.iter().map(|&t| t.to_owned()).collect();
        for brokers in self.brokers().await?.chunks(MAX_BROKERS_AT_ONCE) {
            let mut questions = JoinSet::new();
            for broker in brokers {
                let (cluster, broker, types) = (self.clone(), broker.clone(), types.clone());
                questions.spawn(async move { cluster.list_of(&broker, types).await });
            }
            for listed in questions.join_all().await {
                for group in listed? {
                    found.entry(group.group_id.clone()).or_insert(group);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    async fn list_of(&self, broker: &Broker, types: Vec<String>) -> Result<Vec<ListedGroup>, Error> {
        let mut retry = Retry::new(self.options());
        loop {
            let error = match self.list_once(broker, &types).await {
                Ok(groups) => return Ok(groups),
                Err(error) => error,
            };
            if !is_worth_another_try(&error) || !retry.pause().await {
                return Err(error);
            }
        }
    }

    async fn list_once(&self, broker: &Broker, types: &[String]) -> Result<Vec<ListedGroup>, Error> {
        let connection = self.connection(&broker.address).await?;
        let version = connection.version::<ListGroupsRequest>()?;
        let mut request = ListGroupsRequest::default();
        if version >= 5 {
            request.types_filter = types.to_vec();
        } else if !types.is_empty() {
            return Ok(Vec::new());
        }
        let answer: ListGroupsResponse = connection.call(&request, version).await?;
        if let Some(error) = refusal(api_key::name(ListGroupsRequest::API_KEY), answer.error_code, None) {
            return Err(error);
        }
        let groups = answer.groups.into_iter().map(|group| ListedGroup {
            group_id: group.group_id,
            group_type: group.group_type,
            protocol_type: group.protocol_type,
            state: group.group_state,
            broker_id: broker.id,
        });
        Ok(groups.collect())
    }

    /// The coordinator of each group, in the order asked.
    ///
    /// # Errors
    /// The outer error when nobody can be asked; the inner one for one group.
    pub async fn coordinators(&self, groups: &[&str]) -> Result<Vec<Result<Broker, Error>>, Error> {
        let connection = self.any().await?;
        let version = connection.version::<FindCoordinatorRequest>()?;
        let api = api_key::name(FindCoordinatorRequest::API_KEY);
        let mut found = Vec::with_capacity(groups.len());
        if version < 4 {
            for group in groups {
                let mut request = FindCoordinatorRequest { key: (*group).to_owned(), ..Default::default() };
                if version >= 1 {
                    request.key_type = GROUP;
                }
                let a: FindCoordinatorResponse = connection.call(&request, version).await?;
                found.push(match refusal(api, a.error_code, a.error_message) {
                    Some(error) => Err(error),
                    None => advertised(connection.address(), a.host, a.port)
                        .map(|address| Broker { id: a.node_id, address }),
                });
            }
            return Ok(found);
        }
        for batch in groups.chunks(MAX_BATCH) {
            let request = FindCoordinatorRequest {
                key_type: GROUP,
                coordinator_keys: batch.iter().map(|&group| group.to_owned()).collect(),
                ..Default::default()
            };
            let answer: FindCoordinatorResponse = connection.call(&request, version).await?;
            let mut by_group = BTreeMap::new();
            for c in answer.coordinators {
                let broker = match refusal(api, c.error_code, c.error_message) {
                    Some(error) => Err(error),
                    None => advertised(connection.address(), c.host, c.port)
                        .map(|address| Broker { id: c.node_id, address }),
                };
                by_group.insert(c.key, broker);
            }
            found.extend(batch.iter().map(|&group| {
                by_group.get(group).cloned().unwrap_or_else(|| Err(missing(connection.address(), api, group)))
            }));
        }
        Ok(found)
    }

    /// A connection to a group's coordinator, which is remembered until [`Cluster::forget_coordinator`].
    ///
    /// # Errors
    /// When it can't be found or reached.
    pub async fn coordinator(&self, group: &str) -> Result<Arc<Connection>, Error> {
        if let Some(address) = self.known_coordinator(group) {
            return self.connection(&address).await;
        }
        let found = self.coordinators(&[group]).await?.pop();
        let broker = found.unwrap_or_else(|| Err(missing("the cluster", "FindCoordinator", group)))?;
        let connection = self.connection(&broker.address).await?;
        self.remember_coordinator(group, broker.address);
        Ok(connection)
    }

    /// Describes streams groups, each answer at its group's place.
    ///
    /// `with_description` asks for topology descriptions where the broker knows them; from an older one the answer comes
    /// without (see [`DescribedStreamsGroup::version`]).
    ///
    /// # Errors
    /// The outer error when nobody can be asked; the inner one for one group.
    pub async fn describe_streams_groups(
        &self,
        groups: &[&str],
        with_description: bool,
    ) -> Result<Vec<Result<DescribedStreamsGroup, Error>>, Error> {
        let batch = if with_description { MAX_DESCRIPTIONS } else { MAX_BATCH };
        self.per_group(groups, batch, async |broker, asked| {
            let described = self.describe_once(&broker, asked, with_description).await?;
            // One group without a topology makes Kafka refuse all groups of its partition (kip1331 §5.1), so the
            // innocent are asked about alone.
            let unknown =
                |r: &Result<_, Error>| matches!(r, Err(e) if e.code() == Some(ErrorCode::UNKNOWN_SERVER_ERROR));
            let mut answers = described;
            if asked.len() > 1 {
                for (answer, group) in answers.iter_mut().zip(asked) {
                    if unknown(answer) {
                        let alone = self.describe_once(&broker, std::slice::from_ref(group), with_description);
                        if let Some(second) = alone.await?.pop() {
                            *answer = second;
                        }
                    }
                }
            }
            Ok(answers)
        })
        .await
    }

    async fn describe_once(
        &self,
        broker: &Broker,
        groups: &[&str],
        with_description: bool,
    ) -> Result<Vec<Result<DescribedStreamsGroup, Error>>, Error> {
        let connection = self.connection(&broker.address).await?;
        let version = connection.version::<StreamsGroupDescribeRequest>()?;
        let api = api_key::name(StreamsGroupDescribeRequest::API_KEY);
        let request = StreamsGroupDescribeRequest {
            group_ids: groups.iter().map(|&group| group.to_owned()).collect(),
            include_topology_description: with_description && version >= 1,
            ..Default::default()
        };
        let answer: StreamsGroupDescribeResponse = connection.call(&request, version).await?;
        let mut by_group: BTreeMap<String, DescribedGroup> =
            answer.groups.into_iter().map(|group| (group.group_id.clone(), group)).collect();
        let answers = groups.iter().map(|&group| match by_group.remove(group) {
            None => Err(missing(connection.address(), api, group)),
            Some(mut entry) => match refusal(api, entry.error_code, entry.error_message.take()) {
                Some(error) => Err(error),
                None => Ok(DescribedStreamsGroup { group: entry, version }),
            },
        });
        Ok(answers.collect())
    }

    /// Deletes groups, each answer at its group's place.
    ///
    /// # Errors
    /// The outer error when nobody can be asked; the inner one for one group.
    pub async fn delete_groups(&self, groups: &[&str]) -> Result<Vec<Result<(), Error>>, Error> {
        self.per_group(groups, MAX_BATCH, async |broker, asked| {
            let connection = self.connection(&broker.address).await?;
            let version = connection.version::<DeleteGroupsRequest>()?;
            let api = api_key::name(DeleteGroupsRequest::API_KEY);
            let request = DeleteGroupsRequest {
                groups_names: asked.iter().map(|&group| group.to_owned()).collect(),
                ..Default::default()
            };
            let answer: DeleteGroupsResponse = connection.call(&request, version).await?;
            let mut by_group: BTreeMap<String, _> =
                answer.results.into_iter().map(|r| (r.group_id, (r.error_code, r.error_message))).collect();
            let answers = asked.iter().map(|&group| match by_group.remove(group) {
                None => Err(missing(connection.address(), api, group)),
                Some((code, message)) => refusal(api, code, message).map_or(Ok(()), Err),
            });
            Ok(answers.collect())
        })
        .await
    }

    /// Asks each group's coordinator, again while the answer is retriable and the call's time lasts.
    async fn per_group<T>(
        &self,
        groups: &[&str],
        batch: usize,
        ask: impl AsyncFn(Broker, &[&str]) -> Result<Vec<Result<T, Error>>, Error>,
    ) -> Result<Vec<Result<T, Error>>, Error> {
        let mut answers: Vec<Option<Result<T, Error>>> = groups.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..groups.len()).collect();
        let mut retry = Retry::new(self.options());
        while !open.is_empty() {
            let names: Vec<&str> = open.iter().filter_map(|&at| groups.get(at).copied()).collect();
            let mut again = Vec::new();
            let mut settle = |at: usize, answer: Result<T, Error>, again: &mut Vec<usize>| {
                if answer.as_ref().err().is_some_and(is_worth_another_try) {
                    again.push(at);
                }
                if let Some(place) = answers.get_mut(at) {
                    *place = Some(answer);
                }
            };
            let mut by_address: ByAddress = BTreeMap::new();
            let mut brokers = BTreeMap::new();
            for (&at, coordinator) in open.iter().zip(self.coordinators(&names).await?) {
                match coordinator {
                    Ok(broker) => {
                        by_address.entry(broker.address.clone()).or_default().push(at);
                        brokers.insert(broker.address.clone(), broker);
                    }
                    Err(error) => settle(at, Err(error), &mut again),
                }
            }
            for (address, places) in by_address {
                let Some(broker) = brokers.get(&address) else {
                    continue;
                };
                for batch in places.chunks(batch) {
                    let asked: Vec<&str> = batch.iter().filter_map(|&at| groups.get(at).copied()).collect();
                    match ask(broker.clone(), &asked).await {
                        Ok(found) => {
                            for (&at, answer) in batch.iter().zip(found) {
                                settle(at, answer, &mut again);
                            }
                        }
                        Err(error) => {
                            for &at in batch {
                                settle(at, Err(error.clone()), &mut again);
                            }
                        }
                    }
                }
            }
            open = again;
            if !open.is_empty() && !retry.pause().await {
                break;
            }
        }
        Ok(groups
            .iter()
            .zip(answers)
            .map(|(group, answer)| answer.unwrap_or_else(|| Err(missing("the cluster", "the question", group))))
            .collect())
    }
}

fn missing(address: &str, api: &str, group: &str) -> Error {
    Error::Protocol {
        address: address.to_owned(),
        reason: format!("its answer to {api} lacks the group `{}`", shown(group)),
    }
}
