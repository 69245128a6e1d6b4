//! Where things stand in the answers that are changed while they stream by. All their versions are flexible: lengths are
//! compact, and each struct ends with tagged fields.

use Part::{Array, EndpointTags, Endpoints, Fixed, Sized, Tags};

/// One piece of a struct.
#[derive(Debug)]
pub(super) enum Part {
    /// So many bytes.
    Fixed(usize),
    /// Text or bytes behind their length; may be null.
    Sized,
    /// Structs behind their count; may be null.
    Array(&'static [Part]),
    /// A tag section without addresses.
    Tags,
    /// The last tag section; tag 0 holds addresses.
    EndpointTags,
    /// An array of addresses; only the last tag section follows.
    Endpoints,
}

const ERROR: Part = Fixed(2);
const THROTTLE: Part = Fixed(4);
const UUID: Part = Fixed(16);

/// A response's header, version 1.
const CORRELATION: Part = Fixed(4);

/// Shape of an answer, header included; `None`: no such answer carries addresses, or it is read whole.
pub(super) fn of(api_key: i16, version: i16) -> Option<&'static [Part]> {
    match (api_key, version) {
        (0, 10..=12) => Some(PRODUCE_BY_NAME),
        (0, 13) => Some(PRODUCE_BY_ID),
        (1, 16..=18) => Some(FETCH),
        (78, 1..=2) => Some(SHARE_FETCH),
        (79, 1) => Some(SHARE_ACKNOWLEDGE_1),
        (79, 2) => Some(SHARE_ACKNOWLEDGE_2),
        _ => None,
    }
}

const PRODUCE_BY_NAME: &[Part] =
    &[CORRELATION, Tags, Array(&[Sized, Array(PRODUCE_PARTITION), Tags]), THROTTLE, EndpointTags];

const PRODUCE_BY_ID: &[Part] =
    &[CORRELATION, Tags, Array(&[UUID, Array(PRODUCE_PARTITION), Tags]), THROTTLE, EndpointTags];

/// Index, error, base offset, append time, start offset; failed records; text; current leader among the tags.
const PRODUCE_PARTITION: &[Part] =
    &[Fixed(4), ERROR, Fixed(8), Fixed(8), Fixed(8), Array(&[Fixed(4), Sized, Tags]), Sized, Tags];

/// Session id before the topics.
const FETCH: &[Part] =
    &[CORRELATION, Tags, THROTTLE, ERROR, Fixed(4), Array(&[UUID, Array(FETCH_PARTITION), Tags]), EndpointTags];

/// Index, error, high watermark, last stable and start offset; aborted transactions; preferred replica; records;
/// diverging epoch, current leader and snapshot among the tags.
const FETCH_PARTITION: &[Part] =
    &[Fixed(4), ERROR, Fixed(8), Fixed(8), Fixed(8), Array(&[Fixed(8), Fixed(8), Tags]), Fixed(4), Sized, Tags];

/// Lock time before the topics.
const SHARE_FETCH: &[Part] = &[
    CORRELATION,
    Tags,
    THROTTLE,
    ERROR,
    Sized,
    Fixed(4),
    Array(&[UUID, Array(SHARE_FETCH_PARTITION), Tags]),
    Endpoints,
    Tags,
];

/// Index; fetch error; acknowledge error; current leader, a struct; records; acquired runs.
const SHARE_FETCH_PARTITION: &[Part] =
    &[Fixed(4), ERROR, Sized, ERROR, Sized, Fixed(8), Tags, Sized, Array(&[Fixed(8), Fixed(8), Fixed(2), Tags]), Tags];

const SHARE_ACKNOWLEDGE_1: &[Part] =
    &[CORRELATION, Tags, THROTTLE, ERROR, Sized, Array(SHARE_ACKNOWLEDGE_TOPIC), Endpoints, Tags];

/// Lock time before the topics.
const SHARE_ACKNOWLEDGE_2: &[Part] =
    &[CORRELATION, Tags, THROTTLE, ERROR, Sized, Fixed(4), Array(SHARE_ACKNOWLEDGE_TOPIC), Endpoints, Tags];

/// Partitions: index; error; current leader, a struct.
const SHARE_ACKNOWLEDGE_TOPIC: &[Part] = &[UUID, Array(&[Fixed(4), ERROR, Sized, Fixed(8), Tags, Tags]), Tags];
