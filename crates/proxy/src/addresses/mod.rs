//! Upstream addresses taken out of answers, so that a client meets no other address than ours.
//!
//! | module | what |
//! |---|---|
//! | [`typed`] | answers that are read whole: the nodes of a cluster, coordinators, the controllers' quorum |
//! | [`filter`] | answers with records, changed in place while they stream by; by `shape`, with `padding` |
//!
//! # Every field of an answer that has to do with an address
//!
//! All response schemas of Kafka 4.4.0, read for host, port, endpoint, listener and address in names and descriptions.
//!
//! | key, API | field (versions) | what becomes of it |
//! |---|---|---|
//! | 0 Produce | `NodeEndpoints` (10+, tag 0) | taken out; the client asks for Metadata instead |
//! | 1 Fetch | `NodeEndpoints` (16+, tag 0) | taken out |
//! | 3 Metadata | `Brokers.Host`, `.Port` (0+) | replaced |
//! | 10 FindCoordinator | `Host`, `Port` (0–3), `Coordinators.Host`, `.Port` (4+) | replaced |
//! | 15 DescribeGroups, 69 ConsumerGroupDescribe, 77 ShareGroupDescribe, 89 StreamsGroupDescribe | `Members.ClientHost` (0+) | a client's address, not the upstream's; through us it would be our own, so [`client_host`](crate::intercept::Intercept::client_host) puts it right |
//! | 29 DescribeAcls, 31 DeleteAcls | `Host` of an entry (0+) | stays: what an administrator wrote |
//! | 32 DescribeConfigs | `Configs.Value` (0+) of `advertised.listeners` and the like | stays: content, not where clients connect |
//! | 52 Vote, 53 BeginQuorumEpoch, 54 EndQuorumEpoch, 59 FetchSnapshot | `NodeEndpoints` (1+, tag 0) | no broker serves these to clients, only controllers do to each other: the connection is closed, as a broker does |
//! | 58 Envelope | `ResponseData` (0+), an answer in an answer | likewise |
//! | 82 UpdateRaftVoter | `CurrentLeader.Host`, `.Port` (0+, tag 0) | likewise |
//! | 55 DescribeQuorum | `Nodes.Listeners` (2+), of controllers | emptied; node ids stay |
//! | 60 DescribeCluster | `Brokers.Host`, `.Port` (0+) | replaced; no rows at all where `EndpointType` says controllers |
//! | 78 ShareFetch | `NodeEndpoints` (0+) | emptied |
//! | 79 ShareAcknowledge | `NodeEndpoints` (0+) | emptied |
//! | 88 StreamsGroupHeartbeat, 89 StreamsGroupDescribe | `UserEndpoint.Host`, `.Port` (0+) | stays: the application's own, for its interactive queries |
//! | any | `ErrorMessage` | stays: text |
//! | any | bytes of an application or a mechanism: 1, 78 `Records`, 11, 14, 15 metadata and assignments, 36 `AuthBytes`, 38, 41 `Hmac` | stays: content |
//!
//! # A node that cannot be made reachable
//!
//! [`reach`](Addresses::reach) may give nothing (no free port, by configuration). Clients then meet what Kafka itself
//! says of a node without an address on the listener, so they retry and never learn an address that leads past us:
//! the node's row is left out of Metadata and DescribeCluster; partitions that it leads have no leader and error 5
//! (LEADER_NOT_AVAILABLE), and if it is the controller there is none (-1); a FindCoordinator row gets error 15
//! (COORDINATOR_NOT_AVAILABLE), node -1, no host. Replica and in-sync lists are ids and stay.

pub mod filter;
mod padding;
mod shape;
pub mod typed;

use std::sync::Arc;

use crate::handler::{Answer, Mapped};
use crate::intercept::Addresses;
use crate::limits::WHOLE_ANSWER_BYTES;

pub use filter::EndpointFilter;
pub use typed::RewriteError;

/// Keys whose answers are rewritten, each with the highest version that is understood, ascending. Higher ones may not be
/// offered to clients.
pub const REWRITTEN: &[(i16, i16)] = &[(0, 13), (1, 18), (3, 13), (10, 6), (55, 2), (60, 2), (78, 2), (79, 2)];

/// Keys that carry addresses of controllers and that brokers do not serve.
const CONTROLLERS_ONLY: &[i16] = &[52, 53, 54, 58, 59, 82];

/// The highest version of an API that may be offered to clients in front of a gateway; `None`: any.
pub fn highest_version(api_key: i16) -> Option<i16> {
    REWRITTEN.iter().find(|(key, _)| *key == api_key).map(|(_, highest)| *highest)
}

/// How the answer to a request must be treated so that no address of the upstream's leaves; `None`: it carries none.
///
/// # Errors
/// The line for the log with which the connection is closed: a version that was not offered, or an API of controllers.
pub fn answer_for(api_key: i16, version: i16, addresses: &Arc<dyn Addresses>) -> Result<Option<Answer>, String> {
    if CONTROLLERS_ONLY.contains(&api_key) {
        return Err(format!("api {api_key} is between controllers and not for clients"));
    }
    if highest_version(api_key).is_some_and(|highest| version > highest || version < 0) {
        return Err(format!("api {api_key} was not offered in version {version}"));
    }
    Ok(match api_key {
        3 => Some(whole(addresses, version, typed::metadata)),
        10 => Some(whole(addresses, version, typed::find_coordinator)),
        60 => Some(whole(addresses, version, typed::describe_cluster)),
        55 if version >= 2 => Some(whole(addresses, version, |body, version, _| typed::describe_quorum(body, version))),
        _ => EndpointFilter::new(api_key, version).map(|filter| Answer::Filter(Box::new(filter))),
    })
}

type Rewrite = fn(&[u8], i16, &dyn Addresses) -> Result<bytes::BytesMut, RewriteError>;

fn whole(addresses: &Arc<dyn Addresses>, version: i16, rewrite: Rewrite) -> Answer {
    let addresses = Arc::clone(addresses);
    Answer::Whole {
        max: WHOLE_ANSWER_BYTES,
        map: Box::new(move |body| match rewrite(&body, version, addresses.as_ref()) {
            Ok(frame) => Mapped::Frame(frame, None),
            Err(error) => Mapped::Close(error.to_string()),
        }),
    }
}
