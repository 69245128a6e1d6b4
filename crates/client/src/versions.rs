//! Which requests a server takes, in which versions (ApiVersions, key 18).

use std::collections::BTreeMap;

use streamside_wire::Message as _;
use streamside_wire::api_key;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};

use crate::connection::Connection;
use crate::error::Error;

/// Most rows that are kept of a server's list; Kafka 4.4 has about 90.
const MAX_ROWS: usize = 1024;

/// The server's list: request key to its first and last version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Versions(BTreeMap<i16, (i16, i16)>);

impl Versions {
    pub(crate) fn get(&self, api_key: i16) -> Option<(i16, i16)> {
        self.0.get(&api_key).copied()
    }

    fn from_answer(answer: &ApiVersionsResponse) -> Self {
        let rows = answer.api_keys.iter().take(MAX_ROWS);
        Self(rows.map(|row| (row.api_key, (row.min_version, row.max_version))).collect())
    }
}

/// Asks with our newest version; a server that lacks it says so (error 35, in the form of v0) and is asked again with
/// the version that it lists, or 0 when it lists none.
pub(crate) async fn negotiate(connection: &Connection) -> Result<Versions, Error> {
    let ours = *ApiVersionsRequest::VERSIONS.end();
    let mut version = ours;
    for _ in 0..2 {
        let mut request = ApiVersionsRequest::default();
        if version >= 3 {
            request.client_software_name = "streamside".to_owned();
            request.client_software_version = env!("CARGO_PKG_VERSION").to_owned();
        }
        let answer = connection.ask(&request, version).await?;
        let code = ErrorCode(answer.first_i16());
        let form = if code == ErrorCode::UNSUPPORTED_VERSION { 0 } else { version };
        let answer: ApiVersionsResponse = answer.decode_as(form)?;
        if code == ErrorCode::NONE {
            return Ok(Versions::from_answer(&answer));
        }
        let listed = Versions::from_answer(&answer).get(ApiVersionsRequest::API_KEY);
        if code != ErrorCode::UNSUPPORTED_VERSION {
            return Err(Error::Refused { api: api_key::name(ApiVersionsRequest::API_KEY), code, message: None });
        }
        version = listed.map_or(0, |(_, last)| last).clamp(0, version - 1);
    }
    Err(Error::UnsupportedVersion {
        address: connection.address().to_owned(),
        api: api_key::name(ApiVersionsRequest::API_KEY),
        ours: (0, ours),
        theirs: None,
    })
}
