//! Requests over many groups, split before and joined after, in Kafka's entry order. Pure.

use bytes::Bytes;
use streamside_wire::messages::delete_groups::DeletableGroupResult;
use streamside_wire::messages::streams_group_describe::DescribedGroup;

use crate::config::Compat;

/// The entries of a describe before any group was looked at.
#[derive(Debug, Default)]
pub struct DescribeSplit<'a> {
    /// Entries with code 24; they come first (spec kip1331 §5.1 step 4).
    pub refused: Vec<DescribedGroup>,
    /// Ids to ask the coordinator for, in request order, repetitions kept.
    pub ids: Vec<&'a str>,
}

/// Splits the ids of a describe.
#[must_use]
pub fn split_describe(ids: &[String]) -> DescribeSplit<'_> {
    DescribeSplit { refused: Vec::new(), ids: ids.iter().map(String::as_str).collect() }
}

/// Puts a read's outcome into an entry.
pub fn attach(_entry: &mut DescribedGroup, _status: i8, _description: Option<Bytes>) {}

/// Joins the entries of a describe. `fatal`: one of its reads was answered with [`crate::Reply::Attached`]'s `fatal`.
#[must_use]
pub fn join_describe(
    _compat: Compat,
    refused: Vec<DescribedGroup>,
    described: Vec<DescribedGroup>,
    _fatal: bool,
) -> Vec<DescribedGroup> {
    refused.into_iter().chain(described).collect()
}

/// The distinct ids of a delete, in order of first appearance (spec kip1331 §6.1 step 1).
#[must_use]
pub fn split_delete(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}

/// One result of a delete in the form of `version` (spec kip1331 §6.2).
#[must_use]
pub fn delete_result(
    _version: i16,
    group: &str,
    error_code: i16,
    error_message: Option<String>,
) -> DeletableGroupResult {
    DeletableGroupResult { group_id: group.to_owned(), error_code, error_message, ..DeletableGroupResult::default() }
}
