//! Who should have which task: what an assignor is asked. The one that there is, is in [`super::sticky`].

use std::collections::BTreeMap;

use thiserror::Error;

use super::change::TaskOffsets;
use super::tasks::{AssignedTasks, SubtopologyId, Tasks};
use super::topics::ConfiguredSubtopology;
use crate::config::Compat;
use crate::record::MemberId;

/// A member as an assignor sees it.
#[derive(Clone, Copy, Debug)]
pub struct InputMember<'a> {
    /// Its id.
    pub id: &'a MemberId,
    /// The process that it runs in.
    pub process: &'a str,
    /// What it has now.
    pub assigned: &'a AssignedTasks,
    /// Offsets that it reported, by task.
    pub offsets: Option<&'a TaskOffsets>,
}

/// What an assignment is made from.
#[derive(Debug)]
pub struct Input<'a> {
    /// In the order of their ids, or of Kafka's table.
    pub members: Vec<InputMember<'a>>,
    /// With their numbers of tasks.
    pub subtopologies: &'a BTreeMap<SubtopologyId, ConfiguredSubtopology>,
    /// How many standbys a stateful task should have.
    pub standbys: i32,
    /// Whose order decides between equals.
    pub ties: Compat,
}

/// An assignor found no way.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no member can take a task")]
pub struct AssignError;

/// Assigns tasks to members. Equal inputs give equal assignments.
pub trait Assignor: std::fmt::Debug + Send + Sync {
    /// The members' tasks; members without any may be left out.
    ///
    /// # Errors
    /// A task that cannot be given to anybody.
    fn assign(&self, input: &Input<'_>) -> Result<BTreeMap<MemberId, Tasks>, AssignError>;
}
