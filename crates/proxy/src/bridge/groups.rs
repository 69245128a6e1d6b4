//! APIs 89 and 42 between their versions (kip1331 §§1.5, 1.7). Older shapes lack fields and order none differently, so
//! reading an old one gives the new shape with defaults; what an old version has no place for is dropped here.

use streamside_wire::messages::delete_groups::DeleteGroupsResponse;
use streamside_wire::messages::streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};

/// A describe as `version` can say it.
pub fn describe_request_to(request: &mut StreamsGroupDescribeRequest, version: i16) {
    if version < 1 {
        request.include_topology_description = false;
    }
}

/// A describe's answer, in version 1 shape, as `version` can say it.
pub fn describe_answer_to(answer: &mut StreamsGroupDescribeResponse, version: i16) {
    if version < 1 {
        for group in &mut answer.groups {
            group.topology_description = None;
            group.topology_description_status = 0;
            group.assignor_name = None;
        }
    }
}

/// A delete's answer, in version 3 shape, as `version` can say it.
pub fn delete_answer_to(answer: &mut DeleteGroupsResponse, version: i16) {
    if version < 3 {
        for result in &mut answer.results {
            result.error_message = None;
        }
    }
}
