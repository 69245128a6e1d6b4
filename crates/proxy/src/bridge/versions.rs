//! ApiVersions answers (kip1331 §1.2). Where the upstream has streams groups, 88, 89 and 42 are offered as Kafka 4.4 has
//! them and 93 is added. Of what we read or rewrite nothing newer is offered; everything else keeps its bytes.

use bytes::BytesMut;
use streamside_wire::messages::api_versions::ApiVersion;
use streamside_wire::value::{Layout, Value as _};
use streamside_wire::{DecodeError, EncodeError, Reader, frame};

use crate::addresses::highest_version;

/// API 18.
pub const API_VERSIONS: i16 = 18;
/// API 42.
pub const DELETE_GROUPS: i16 = 42;
/// API 3.
pub const METADATA: i16 = 3;
/// API 88.
pub const STREAMS_GROUP_HEARTBEAT: i16 = 88;
/// API 89.
pub const STREAMS_GROUP_DESCRIBE: i16 = 89;
/// API 93.
pub const TOPOLOGY_DESCRIPTION_UPDATE: i16 = 93;

const UNSUPPORTED_VERSION: i16 = 35;
const NEWEST_API_VERSIONS: i16 = 5;

/// One row of an ApiVersions answer: key, lowest and highest version.
pub type Row = (i16, i16, i16);

/// What of the answer is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Streams groups get what 4.4 has. Off in relay mode.
    pub bridged: bool,
    /// Addresses are rewritten. Off when the broker advertises us.
    pub addresses: bool,
}

impl Offer {
    /// The newest version that we can read of what we change; `None`: it is not ours.
    fn newest(self, api_key: i16) -> Option<i16> {
        match api_key {
            API_VERSIONS => Some(NEWEST_API_VERSIONS),
            15 if self.bridged => Some(6),
            DELETE_GROUPS if self.bridged => Some(3),
            69 | 77 | STREAMS_GROUP_HEARTBEAT | STREAMS_GROUP_DESCRIBE if self.bridged => Some(1),
            TOPOLOGY_DESCRIPTION_UPDATE if self.bridged => Some(0),
            _ if self.addresses => highest_version(api_key),
            _ => None,
        }
    }

    /// What the client is told in place of a row; `None`: no version is left to offer.
    fn row(self, row: &ApiVersion, streams: bool) -> Option<ApiVersion> {
        let Some(newest) = self.newest(row.api_key) else { return Some(row.clone()) };
        if row.min_version > newest {
            return None;
        }
        let raised = streams
            && self.bridged
            && matches!(row.api_key, DELETE_GROUPS | STREAMS_GROUP_HEARTBEAT | STREAMS_GROUP_DESCRIBE);
        let max_version = if raised { newest } else { row.max_version.min(newest) };
        Some(ApiVersion { max_version, ..row.clone() })
    }

    fn rows(self, upstream: &[ApiVersion], streams: bool) -> Vec<ApiVersion> {
        let mut rows: Vec<ApiVersion> = upstream.iter().filter_map(|row| self.row(row, streams)).collect();
        if self.bridged && streams && !rows.iter().any(|row| row.api_key == TOPOLOGY_DESCRIPTION_UPDATE) {
            let behind = rows.iter().position(|row| row.api_key > TOPOLOGY_DESCRIPTION_UPDATE).unwrap_or(rows.len());
            rows.insert(behind, ApiVersion { api_key: TOPOLOGY_DESCRIPTION_UPDATE, ..Default::default() });
        }
        rows
    }
}

/// Versions that an upstream itself serves of the APIs that we ask or decide about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    metadata: Option<(i16, i16)>,
    delete: Option<(i16, i16)>,
    heartbeat: Option<(i16, i16)>,
    describe: Option<(i16, i16)>,
    push: Option<(i16, i16)>,
}

impl Ranges {
    /// From the rows of an answer.
    pub fn from_rows(rows: &[Row]) -> Self {
        let find = |key| rows.iter().find(|row| row.0 == key).map(|row| (row.1, row.2));
        Ranges {
            metadata: find(METADATA),
            delete: find(DELETE_GROUPS),
            heartbeat: find(STREAMS_GROUP_HEARTBEAT),
            describe: find(STREAMS_GROUP_DESCRIBE),
            push: find(TOPOLOGY_DESCRIPTION_UPDATE),
        }
    }

    /// Lowest and highest version of an API.
    pub fn get(&self, api_key: i16) -> Option<(i16, i16)> {
        match api_key {
            METADATA => self.metadata,
            DELETE_GROUPS => self.delete,
            STREAMS_GROUP_HEARTBEAT => self.heartbeat,
            STREAMS_GROUP_DESCRIBE => self.describe,
            TOPOLOGY_DESCRIPTION_UPDATE => self.push,
            _ => None,
        }
    }

    /// The highest version that both have, if `ours` is the highest that we know.
    pub fn both(&self, api_key: i16, ours: i16) -> Option<i16> {
        self.get(api_key).filter(|(lowest, _)| *lowest <= ours).map(|(_, highest)| highest.min(ours))
    }

    /// The upstream has streams groups in a version that we know; else nothing is bridged.
    pub fn streams(&self) -> bool {
        self.both(STREAMS_GROUP_HEARTBEAT, 1).is_some()
    }
}

/// An ApiVersions answer, told on.
#[derive(Debug)]
pub struct Told {
    /// The whole frame for the client; `None`: the bytes as they came.
    pub frame: Option<BytesMut>,
    /// The upstream's own rows in ascending order, where the answer is a good one.
    pub rows: Option<Vec<Row>>,
}

/// Reads the body of an answer's frame, given the version of the request, and says what the client gets.
///
/// # Errors
/// The answer cannot be read.
pub fn tell(body: &[u8], version: i16, offer: Offer) -> Result<Told, DecodeError> {
    let mut r = Reader::new(body);
    let (correlation_id, error_code) = (r.i32()?, r.i16()?);
    // Kafka answers a version that it does not know in the form of version 0 (recorded from 4.3.0).
    let refused = error_code == UNSUPPORTED_VERSION;
    if version > NEWEST_API_VERSIONS && !refused {
        // Its form is not ours to guess: the client is sent back to the newest version that we know.
        let newest = ApiVersion { api_key: API_VERSIONS, max_version: NEWEST_API_VERSIONS, ..Default::default() };
        return Ok(Told { frame: write(correlation_id, UNSUPPORTED_VERSION, &vec![newest], 0, &[]).ok(), rows: None });
    }
    let form = if refused { 0 } else { version };
    let upstream: Vec<ApiVersion> = Vec::read(&mut r, layout(form)).map_err(|e| e.at("api_keys"))?;
    let rows = (error_code == 0).then(|| {
        let mut rows: Vec<Row> = upstream.iter().map(|row| (row.api_key, row.min_version, row.max_version)).collect();
        rows.sort_unstable();
        rows
    });
    let streams = rows.as_deref().is_some_and(|rows| Ranges::from_rows(rows).streams());
    let told = offer.rows(&upstream, streams);
    let frame = if told == upstream { None } else { write(correlation_id, error_code, &told, form, r.rest()).ok() };
    Ok(Told { frame, rows })
}

fn layout(version: i16) -> Layout {
    Layout::new(version, version >= 3)
}

fn write(
    correlation_id: i32,
    error_code: i16,
    rows: &Vec<ApiVersion>,
    form: i16,
    rest: &[u8],
) -> Result<BytesMut, EncodeError> {
    let mut frame = BytesMut::with_capacity(64 + rows.len() * 7 + rest.len());
    frame::encode(&mut frame, |w| {
        w.i32(correlation_id);
        w.i16(error_code);
        rows.write(w, layout(form))?;
        w.raw(rest);
        Ok(())
    })?;
    Ok(frame)
}
