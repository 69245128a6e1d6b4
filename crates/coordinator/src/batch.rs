//! Requests over many groups, split before and joined after, in Kafka's entry order. Pure.
//!
//! A describe is split by [`split_describe`], each id decided by [`crate::Input::Describe`], each read's outcome put in
//! by [`attach`], and all joined by [`join_describe`]. A delete is split by [`split_delete`], each id decided by
//! [`crate::Input::Delete`], and each [`crate::Reply::Deleted`] put into the form of the request's version by
//! [`delete_result`].

use std::collections::HashSet;

use bytes::Bytes;
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::delete_groups::DeletableGroupResult;
use streamside_wire::messages::streams_group_describe::{DescribedGroup, DescriptionField};

use crate::config::Compat;

/// The first version of DeleteGroups whose results carry a message, and code 134 (spec kip1331 §6.2).
const DELETE_WITH_MESSAGE: i16 = 3;

/// The entries of a describe before any group was looked at.
#[derive(Debug, Default)]
pub struct DescribeSplit<'a> {
    /// Entries with code 24; they come first (spec kip1331 §5.1 step 4).
    pub refused: Vec<DescribedGroup>,
    /// Ids to ask the coordinator for, in request order, repetitions kept.
    pub ids: Vec<&'a str>,
}

/// Splits the ids of a describe (spec kip1331 §5.1 steps 4 and 5).
#[must_use]
pub fn split_describe(ids: &[String]) -> DescribeSplit<'_> {
    let mut split = DescribeSplit::default();
    for id in ids {
        if id.is_empty() {
            split
                .refused
                .push(DescribedGroup { error_code: ErrorCode::INVALID_GROUP_ID.0, ..DescribedGroup::default() });
        } else {
            split.ids.push(id);
        }
    }
    split
}

/// Puts a read's outcome into its entry: bytes encoded once are spliced, never decoded.
pub fn attach(entry: &mut DescribedGroup, status: i8, description: Option<Bytes>) {
    entry.topology_description_status = status;
    entry.topology_description = description.map(DescriptionField::Encoded);
}

/// Joins the entries of a describe. `fatal`: one of its reads was answered with `fatal` in
/// [`crate::Reply::Attached`]. Kafka then fails the whole batch, unknown ids too (spec kip1331 §5.2); by H7 we do not.
#[must_use]
pub fn join_describe(
    compat: Compat,
    refused: Vec<DescribedGroup>,
    mut described: Vec<DescribedGroup>,
    fatal: bool,
) -> Vec<DescribedGroup> {
    if fatal && compat == Compat::Kafka {
        for entry in &mut described {
            *entry = DescribedGroup {
                error_code: ErrorCode::UNKNOWN_SERVER_ERROR.0,
                group_id: std::mem::take(&mut entry.group_id),
                ..DescribedGroup::default()
            };
        }
    }
    let mut joined = refused;
    joined.append(&mut described);
    joined
}

/// The distinct ids of a delete, in order of first appearance (spec kip1331 §6.1 step 1). The empty id goes on and ends
/// at 69.
#[must_use]
pub fn split_delete(ids: &[String]) -> Vec<&str> {
    let mut seen = HashSet::with_capacity(ids.len());
    ids.iter().map(String::as_str).filter(|id| seen.insert(*id)).collect()
}

/// One result of a delete in the form of `version` (spec kip1331 §6.2).
#[must_use]
pub fn delete_result(
    version: i16,
    group: &str,
    error_code: i16,
    error_message: Option<String>,
) -> DeletableGroupResult {
    let old = version < DELETE_WITH_MESSAGE;
    let downgraded = old && error_code == ErrorCode::GROUP_DELETION_FAILED.0;
    DeletableGroupResult {
        group_id: group.to_owned(),
        error_code: if downgraded { ErrorCode::UNKNOWN_SERVER_ERROR.0 } else { error_code },
        error_message: error_message.filter(|_| !old),
        ..DeletableGroupResult::default()
    }
}
