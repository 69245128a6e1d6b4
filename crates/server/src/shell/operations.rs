//! What takes several steps: push, describe, delete, the cleanup cycle. Each step is a decision; in between lie the
//! journal and the plugin.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::join_all;
use streamside_coordinator::batch;
use streamside_coordinator::decision::Read;
use streamside_coordinator::description::{PreparedPush, describe};
use streamside_coordinator::group::GroupSettings;
use streamside_coordinator::watched::beat::Beat;
use streamside_coordinator::{Compat, Effect, Input, LogLine, Millis, OpId, PluginFailure, Reply, Sensor, Standing};
use streamside_plugin::{Failure, Late, Operation, Runner, Stamp};
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::delete_groups::DeletableGroupResult;
use streamside_wire::messages::incremental_alter_configs::AlterableConfig;
use streamside_wire::messages::streams_group_describe::DescribedGroup;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::journal::{JournalError, Point};
use super::limits::{DECISIONS_IN_A_ROW, OPERATION_PATIENCE, OPERATIONS_IN_FLIGHT};
use super::shards::{Outcome, SharedShards};
use crate::metrics::{Metrics, PluginOp};

/// Carries out decisions that span several steps.
pub struct Operations {
    shards: SharedShards,
    runner: Option<Arc<Runner>>,
    metrics: Arc<Metrics>,
    permits: Semaphore,
    cleaning: AtomicBool,
}

/// A push whose payload is ready.
#[derive(Debug)]
pub struct Push {
    /// The group's id.
    pub group: String,
    /// Who pushes.
    pub member: String,
    /// The topology epoch that the member knows.
    pub topology_epoch: i32,
    /// Converted, encoded, hashed.
    pub payload: PreparedPush,
}

/// What one decision means for a step: it is answered, or the plugin is to be called.
enum Step {
    Replied(Reply<'static>),
    Set { op: OpId, group: Arc<str>, epoch: i32, description: Bytes, sequence: u64 },
    Delete { op: OpId, group: Arc<str>, sequence: u64 },
    Nothing,
}

impl Operations {
    /// With no `runner` the feature is off.
    #[must_use]
    pub fn new(shards: SharedShards, runner: Option<Arc<Runner>>, metrics: Arc<Metrics>) -> Self {
        let permits = Semaphore::new(OPERATIONS_IN_FLIGHT);
        Self { shards, runner, metrics, permits, cleaning: AtomicBool::new(false) }
    }

    /// Carries out effects that call no plugin.
    pub fn carry_out(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Record(sensor, n) => self.metrics.record(sensor, n),
                Effect::Log(LogLine::Info(line)) => tracing::info!("{}", line),
                Effect::Log(LogLine::Warn(line)) => tracing::warn!("{}", line),
                Effect::Log(LogLine::Error(line)) => tracing::error!("{}", line),
                Effect::PushSettled(result) => self.metrics.push_settled(result),
                Effect::LimitHit(limit) => self.metrics.limit_hit(limit),
                Effect::TopologyChanged(_) => self.metrics.topology_changed(),
                Effect::PluginSet { .. } | Effect::PluginDelete { .. } => {
                    debug_assert!(false, "plugin calls are steps of an operation");
                }
            }
        }
    }

    /// Waits until a decision is durable, carries out its effects, and tells what comes next.
    async fn settle(&self, outcome: Outcome<'static>) -> Result<Step, JournalError> {
        self.carry_out(outcome.now);
        self.shards.journal().wait(outcome.point).await?;
        let mut step = outcome.reply.map_or(Step::Nothing, Step::Replied);
        let mut others = Vec::new();
        for effect in outcome.after_durable {
            match effect {
                Effect::PluginSet { op, group, epoch, description, sequence } => {
                    step = Step::Set { op, group, epoch, description, sequence };
                }
                Effect::PluginDelete { op, group, sequence } => step = Step::Delete { op, group, sequence },
                other => others.push(other),
            }
        }
        self.carry_out(others);
        Ok(step)
    }

    /// A push from its first check to its answer: error code and message.
    pub async fn push(&self, push: Push) -> (i16, Option<String>) {
        let op = self.shards.operation();
        let Push { group, member, topology_epoch, payload } = push;
        self.pushed(&group, Input::Push { op, group: &group, member: &member, topology_epoch, payload }).await
    }

    /// Beside a broker: a push whose pusher's standing is known.
    pub async fn verified_push(&self, push: Push, standing: Standing) -> (i16, Option<String>) {
        let op = self.shards.operation();
        let Push { group, member, topology_epoch, payload } = push;
        let (group, member) = (&*group, &*member);
        let input = Input::VerifiedPush { op, group, member, topology_epoch, payload, standing };
        self.pushed(group, input).await
    }

    async fn pushed(&self, group: &str, input: Input<'_>) -> (i16, Option<String>) {
        let Some(_permit) = self.turn().await else { return store_failed() };
        let outcome = self.shards.decide(group, input).map(detached);
        let mut step = match outcome {
            Ok(outcome) => self.settle(outcome).await,
            Err(e) => Err(e),
        };
        if let Ok(Step::Set { op, group, epoch, description, sequence }) = step {
            let result = self.call_set(op, &group, epoch, description, sequence).await;
            let input = || Input::SetOutcome { op, result: result.clone(), late: false };
            step = match self.decide_outcome(&group, input).await {
                Ok(outcome) => self.settle(outcome).await,
                Err(e) => Err(e),
            };
        }
        match step {
            Ok(Step::Replied(Reply::Push { error_code, error_message, .. })) => (error_code, error_message),
            _ => store_failed(),
        }
    }

    /// A place among the operations under way, or `None` when there is none for too long.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(Ok(permit)) = tokio::time::timeout(OPERATION_PATIENCE, self.permits.acquire()).await {
            return Some(permit);
        }
        self.metrics.limit_hit("operations");
        None
    }

    /// Decides on what became of a plugin call. While the journal is behind this waits: without its outcome a call
    /// would be under way for ever.
    async fn decide_outcome(
        &self,
        group: &str,
        input: impl Fn() -> Input<'static>,
    ) -> Result<Outcome<'static>, JournalError> {
        let journal = self.shards.journal();
        loop {
            match self.shards.decide(group, input()).map(detached) {
                Err(JournalError::Backlog) => journal.wait(journal.latest_point()).await?,
                decided => return decided,
            }
        }
    }

    async fn call_set(
        &self,
        op: OpId,
        group: &str,
        epoch: i32,
        bytes: Bytes,
        sequence: u64,
    ) -> Result<(), PluginFailure> {
        let Some(runner) = &self.runner else { return Err(PluginFailure::Contract) };
        let began = Instant::now();
        let stamp = Stamp { sequence, at: self.shards.clock().millis() };
        let verdict = runner.set(op.0, group, epoch, bytes, stamp).await;
        self.metrics.plugin_call(PluginOp::Set, began.elapsed());
        failure_of(verdict)
    }

    async fn call_delete(&self, op: OpId, group: &str, sequence: u64) -> Result<(), PluginFailure> {
        let Some(runner) = &self.runner else { return Err(PluginFailure::Contract) };
        let began = Instant::now();
        let stamp = Stamp { sequence, at: self.shards.clock().millis() };
        let verdict = runner.delete(op.0, group, stamp).await;
        self.metrics.plugin_call(PluginOp::Delete, began.elapsed());
        failure_of(verdict)
    }

    /// A mutation that had missed its deadline has ended after all (H3).
    pub async fn late(&self, late: Late) {
        let op = OpId(late.op);
        let result = failure_of(late.result);
        let input = || match late.operation {
            Operation::Delete => Input::DeleteOutcome { op, result: result.clone(), late: true },
            // Only mutations are told late.
            Operation::Set | Operation::Get => Input::SetOutcome { op, result: result.clone(), late: true },
        };
        match self.decide_outcome(&late.group, input).await {
            Ok(outcome) => {
                if self.settle(outcome).await.is_err() {
                    tracing::warn!(group = %late.group, "a late plugin result could not be journalled");
                }
            }
            Err(e) => tracing::warn!(error = %e, "a late plugin result could not be journalled"),
        }
    }

    /// StreamsGroupDescribe: entries in Kafka's order, descriptions spliced in.
    pub async fn describe(&self, ids: Vec<String>, include: bool, authorized_operations: i32) -> Vec<DescribedGroup> {
        let split = batch::split_describe(&ids);
        // Without descriptions nothing is waited for but the journal.
        let turn = if include { self.turn().await.map(Some) } else { Some(None) };
        let Some(_permit) = turn else {
            let entries = split.ids.iter().map(|group| not_now(group)).collect();
            return batch::join_describe(self.shards.config().compat, split.refused, entries, false);
        };
        let mut entries = Vec::with_capacity(split.ids.len());
        let mut reads = Vec::new();
        let mut point: Option<Point> = None;
        for (place, group) in split.ids.into_iter().enumerate() {
            if place % DECISIONS_IN_A_ROW == DECISIONS_IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
            let entry = match self.shards.decide(group, Input::Describe { group, include_description: include }) {
                Ok(outcome) => {
                    self.carry_out(outcome.now);
                    point = Some(point.map_or(outcome.point, |p| p.and(outcome.point)));
                    match outcome.reply {
                        Some(Reply::Described { entry, read }) => {
                            reads.extend(read.map(|read| (entries.len(), read)));
                            *entry
                        }
                        _ => not_now(group),
                    }
                }
                Err(_) => not_now(group),
            };
            entries.push(entry);
        }
        if let Some(point) = point
            && self.shards.journal().wait(point).await.is_err()
        {
            reads.clear();
            for entry in &mut entries {
                *entry = not_now(&entry.group_id);
            }
        }
        let any_fatal = self.attach(&mut entries, reads, |entry| *entry = not_now(&entry.group_id)).await;
        for entry in &mut entries {
            if entry.error_code == 0 {
                entry.authorized_operations = authorized_operations;
            }
        }
        batch::join_describe(self.shards.config().compat, split.refused, entries, any_fatal)
    }

    /// Reads what entries need, all at once, and attaches it; `trouble` of our own is put into the entry. Whether the
    /// plugin is broken beyond a call.
    async fn attach(
        &self,
        entries: &mut [DescribedGroup],
        reads: Vec<(usize, Read)>,
        trouble: fn(&mut DescribedGroup),
    ) -> bool {
        let attached = join_all(reads.into_iter().map(|(slot, read)| async move {
            let result = self.call_get(&read.group, read.epoch).await;
            let input = Input::GetOutcome { group: &read.group, epoch: read.epoch, token: read.token, result };
            let attached = match self.shards.decide(&read.group, input).map(detached) {
                Ok(outcome) => self.settle(outcome).await,
                Err(e) => Err(e),
            };
            (slot, attached)
        }))
        .await;
        let mut any_fatal = false;
        for (slot, attached) in attached {
            let Some(entry) = entries.get_mut(slot) else { continue };
            match attached {
                Ok(Step::Replied(Reply::Attached { status, description, fatal })) => {
                    any_fatal |= fatal;
                    batch::attach(entry, status, description);
                }
                _ => trouble(entry),
            }
        }
        any_fatal
    }

    /// Beside a broker: takes in what it told of groups, `asked_at` being when it was asked. With `include` the entries
    /// without an error get our descriptions; where we have none, the broker's own stays.
    pub async fn described(&self, entries: &mut Vec<DescribedGroup>, asked_at: Millis, include: bool) {
        // Without a turn the entries are taken in, and their descriptions are told to be in trouble.
        let turn = if include { self.turn().await } else { None };
        let include_description = turn.is_some();
        let mut reads = Vec::new();
        let mut point: Option<Point> = None;
        let mut theirs = Vec::new();
        for (place, entry) in entries.iter_mut().enumerate() {
            if place % DECISIONS_IN_A_ROW == DECISIONS_IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
            let input = Input::BrokerDescribed { entry, asked_at, include_description };
            let outcome = self.shards.decide(&entry.group_id, input).map(detached);
            let mut status = describe::ERROR;
            if let Ok(outcome) = outcome {
                self.carry_out(outcome.now);
                self.carry_out(outcome.after_durable);
                point = Some(point.map_or(outcome.point, |p| p.and(outcome.point)));
                if let Some(Reply::Entry { status: decided, read }) = outcome.reply
                    && include_description
                {
                    status = decided;
                    reads.extend(read.map(|read| (place, read)));
                }
            }
            if include && entry.error_code == 0 {
                theirs.push((place, entry.topology_description_status, entry.topology_description.take()));
                batch::attach(entry, status, None);
            }
        }
        if !include {
            return;
        }
        if let Some(point) = point
            && self.shards.journal().wait(point).await.is_err()
        {
            for (place, _) in reads.drain(..) {
                entries.get_mut(place).into_iter().for_each(unread);
            }
        }
        if self.attach(entries, reads, unread).await && self.shards.config().compat == Compat::Kafka {
            // Those that the broker's front refused are no part of the batch (kip1331 §5.1).
            let refused = [ErrorCode::GROUP_AUTHORIZATION_FAILED.0, ErrorCode::INVALID_GROUP_ID.0];
            let (refused, rest) = std::mem::take(entries).into_iter().partition(|e| refused.contains(&e.error_code));
            *entries = batch::join_describe(Compat::Kafka, refused, rest, true);
            return;
        }
        // AVAILABLE counts more than ERROR, ERROR more than NOT_STORED.
        for (place, status, description) in theirs {
            if let Some(entry) = entries.get_mut(place)
                && entry.error_code == 0
                && entry.topology_description_status < status
            {
                entry.topology_description = description;
                entry.topology_description_status = status;
            }
        }
    }

    async fn call_get(&self, group: &str, epoch: i32) -> Result<Option<Bytes>, PluginFailure> {
        let Some(runner) = &self.runner else { return Err(PluginFailure::Contract) };
        let began = Instant::now();
        let verdict = runner.get(group, epoch).await;
        self.metrics.plugin_call(PluginOp::Get, began.elapsed());
        failure_of(verdict)
    }

    /// DeleteGroups: every id on its own, in the form of `version`.
    pub async fn delete(&self, ids: Vec<String>, version: i16) -> Vec<DeletableGroupResult> {
        let turn = &self.turn().await;
        join_all(batch::split_delete(&ids).into_iter().map(|id| async move {
            let (error_code, error_message) = match turn {
                Some(_) => self.delete_one(id).await,
                None => (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0, None),
            };
            batch::delete_result(version, id, error_code, error_message)
        }))
        .await
    }

    async fn delete_one(&self, group: &str) -> (i16, Option<String>) {
        let op = self.shards.operation();
        self.deleted(group, Input::Delete { op, group }).await
    }

    /// Beside a broker: the plugin's part of one id of a delete, before the broker's. Code 0: the broker may be asked now.
    pub async fn verified_delete(&self, group: &str) -> (i16, Option<String>) {
        let Some(_permit) = self.turn().await else { return (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0, None) };
        let op = self.shards.operation();
        self.deleted(group, Input::VerifiedDelete { op, group }).await
    }

    /// Beside a broker: its answer to one id of a delete.
    pub fn broker_deleted(&self, group: &str, error_code: i16, asked_at: Millis) {
        match self.shards.decide(group, Input::BrokerDeleted { group, error_code, asked_at }) {
            Ok(outcome) => {
                self.carry_out(outcome.now);
                self.carry_out(outcome.after_durable);
            }
            Err(e) => tracing::warn!(group, error = %e, "a deleted group could not be journalled"),
        }
    }

    /// Beside a broker: a heartbeat that it answered. Whether the member is to be asked for its description, and whether
    /// the group is to be described behind the heartbeat. Never waits.
    pub fn beat(&self, beat: Beat<'_>) -> (bool, bool) {
        let Beat { request, version, answer, connection } = beat;
        let input = Input::Beat { request, version, answer, connection };
        let Ok(outcome) = self.shards.decide(&request.group_id, input) else { return (false, false) };
        self.carry_out(outcome.now);
        self.carry_out(outcome.after_durable);
        match outcome.reply {
            Some(Reply::Beat { ask, describe }) => (ask, describe),
            _ => (false, false),
        }
    }

    async fn deleted(&self, group: &str, input: Input<'_>) -> (i16, Option<String>) {
        let mut step = match self.shards.decide(group, input).map(detached) {
            Ok(outcome) => self.settle(outcome).await,
            Err(e) => Err(e),
        };
        if let Ok(Step::Delete { op, group, sequence }) = step {
            step = self.finish_delete(op, &group, sequence).await;
        }
        match step {
            Ok(Step::Replied(Reply::Deleted { error_code, error_message, .. })) => (error_code, error_message),
            _ => (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0, None),
        }
    }

    async fn finish_delete(&self, op: OpId, group: &str, sequence: u64) -> Result<Step, JournalError> {
        let result = self.call_delete(op, group, sequence).await;
        let input = || Input::DeleteOutcome { op, result: result.clone(), late: false };
        let outcome = self.decide_outcome(group, input).await?;
        self.settle(outcome).await
    }

    /// Changes of one group's own settings: error code and message.
    pub async fn alter(&self, group: &str, changes: &[AlterableConfig], validate_only: bool) -> (i16, Option<String>) {
        let input = Input::Alter { group, changes, validate_only };
        match self.settled(group, input).await {
            Some(Reply::Altered { error_code, error_message }) => (error_code, error_message),
            _ => (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0, None),
        }
    }

    /// The settings that a group has of its own.
    ///
    /// # Errors
    /// When the journal fails meanwhile.
    pub async fn settings(&self, group: &str) -> Result<Option<Arc<GroupSettings>>, ErrorCode> {
        match self.settled(group, Input::Settings { group }).await {
            Some(Reply::Settings(settings)) => Ok(settings),
            _ => Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        }
    }

    /// Every group with settings of its own, or nothing when the journal fails meanwhile.
    pub async fn groups_with_settings(&self) -> Option<Vec<Arc<str>>> {
        let journal = self.shards.journal();
        let began = journal.begin_read()?;
        let groups = self.shards.look(|c| c.groups_with_settings().cloned().collect::<Vec<_>>());
        journal.end_read(began).await.ok()?;
        Some(groups.into_iter().flatten().collect())
    }

    /// The reply to what is decided in one step.
    async fn settled(&self, group: &str, input: Input<'_>) -> Option<Reply<'static>> {
        let outcome = self.shards.decide(group, input).map(detached).ok()?;
        match self.settle(outcome).await {
            Ok(Step::Replied(reply)) => Some(reply),
            _ => None,
        }
    }

    /// Every streams group, or nothing when the journal fails meanwhile.
    pub async fn list(&self) -> Option<Vec<streamside_coordinator::decision::ListedGroup>> {
        let journal = self.shards.journal();
        let began = journal.begin_read()?;
        let mut rows = Vec::new();
        for index in 0..self.shards.len() {
            let outcome = self.shards.decide_in(index, None, Input::List).ok()?;
            if let Some(Reply::Listed(listed)) = outcome.reply {
                rows.extend(listed);
            }
        }
        // A list reads all groups: what it shows must be durable as well.
        journal.end_read(began).await.ok()?;
        Some(rows)
    }

    /// Which of `groups` are known streams groups.
    ///
    /// # Errors
    /// The code for a client when the journal fails meanwhile.
    pub async fn known<'g>(&self, groups: impl IntoIterator<Item = &'g str>) -> Result<Vec<bool>, ErrorCode> {
        let (known, point) = self.shards.known(groups);
        if let Some(point) = point {
            let durable = self.shards.journal().wait(point).await;
            durable.map_err(|_| ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)?;
        }
        Ok(known)
    }

    /// One topology cleanup cycle over all shards (kip1331 §7.3); a cycle that would overlap is dropped.
    pub async fn cleanup_cycle(&self) {
        if self.runner.is_none() {
            return;
        }
        if self.cleaning.swap(true, Ordering::AcqRel) {
            tracing::warn!("Topology-description cleanup cycle skipped: previous cycle is still in flight.");
            return;
        }
        let _over = Over(&self.cleaning);
        self.metrics.record(Sensor::CleanupCycle, 1);
        join_all((0..self.shards.len()).map(|index| self.cleanup_shard(index))).await;
    }

    async fn cleanup_shard(&self, index: usize) {
        let first_op = self.shards.operations(u64::from(u32::MAX));
        let Ok(outcome) = self.shards.decide_in(index, None, Input::CleanupCycle { first_op }) else {
            return;
        };
        self.carry_out(outcome.now);
        if self.shards.journal().wait(outcome.point).await.is_err() {
            tracing::warn!("the cleanup cycle could not mark its groups; the next cycle tries again");
            return;
        }
        let mut deletes = Vec::new();
        let mut others = Vec::new();
        for effect in outcome.after_durable {
            match effect {
                Effect::PluginDelete { op, group, sequence } => deletes.push((op, group, sequence)),
                other => others.push(other),
            }
        }
        self.carry_out(others);
        join_all(deletes.into_iter().map(|(op, group, sequence)| async move {
            if self.finish_delete(op, &group, sequence).await.is_err() {
                tracing::warn!(
                    group = %group,
                    "the cleanup cycle could not record its outcome; the next cycle tries again"
                );
            }
        }))
        .await;
    }

    /// The cleanup cycle's work for the shards of these groups, at once. Left to the cycle while one is under way.
    pub async fn cleanup_now(&self, groups: Vec<String>) {
        if self.runner.is_none() || self.cleaning.swap(true, Ordering::AcqRel) {
            return;
        }
        let _over = Over(&self.cleaning);
        let shards: BTreeSet<usize> = groups.iter().map(|group| self.shards.shard_of(group)).collect();
        join_all(shards.into_iter().map(|index| self.cleanup_shard(index))).await;
    }

    /// The offset-expiration sweep over all shards (kip1331 §7.2).
    pub fn sweep(&self) {
        for index in 0..self.shards.len() {
            if let Ok(outcome) = self.shards.decide_in(index, None, Input::Sweep) {
                self.carry_out(outcome.now);
                self.carry_out(outcome.after_durable);
            }
        }
    }

    /// Fires the timers of one shard; whether that could be done.
    pub fn tick(&self, index: usize) -> bool {
        let Ok(outcome) = self.shards.decide_in(index, None, Input::Tick) else { return false };
        self.carry_out(outcome.now);
        self.carry_out(outcome.after_durable);
        true
    }

    /// An operator's retry: forgets a refusal and a back-off. Whether the group is known.
    pub async fn retry(&self, group: &str) -> Result<bool, JournalError> {
        if self.shards.known([group]).0 != [true] {
            return Ok(false);
        }
        let outcome = self.shards.decide(group, Input::Retry { group })?;
        self.settle(detached(outcome)).await?;
        Ok(true)
    }

    /// Tells every shard what the plugin holds (H1); a plugin that cannot list is checked at the next read.
    pub async fn check_against_list(&self) {
        let Some(runner) = &self.runner else { return };
        let Some(listed) = runner.list().await else { return };
        let entries = match failure_of(listed) {
            Ok(entries) => entries,
            Err(e) => {
                tracing::warn!(error = ?e, "the plugin could not list its descriptions; they are checked at the next read");
                return;
            }
        };
        let mut parts: Vec<Vec<(Arc<str>, i32)>> = vec![Vec::new(); self.shards.len()];
        for (group, epoch) in entries {
            if let Some(part) = parts.get_mut(self.shards.shard_of(&group)) {
                part.push((Arc::from(group), epoch));
            }
        }
        for (index, entries) in parts.into_iter().enumerate() {
            match self.shards.decide_in(index, None, Input::PluginListed { entries }) {
                Ok(outcome) => {
                    self.carry_out(outcome.now);
                    self.carry_out(outcome.after_durable);
                }
                Err(e) => tracing::warn!(error = %e, "the check of stored descriptions could not be journalled"),
            }
        }
    }
}

/// Lowers its flag at the end, a panic's too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A push that met trouble of our own.
fn store_failed() -> (i16, Option<String>) {
    (
        ErrorCode::STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED.0,
        Some("store_failed: the description could not be recorded; it will be asked for again".to_owned()),
    )
}

/// An outcome whose reply borrows nothing.
fn detached(outcome: Outcome<'_>) -> Outcome<'static> {
    let reply = outcome.reply.and_then(|reply| match reply {
        Reply::Heartbeat(_) => None,
        Reply::Push { op, error_code, error_message, reason } => {
            Some(Reply::Push { op, error_code, error_message, reason })
        }
        Reply::Described { entry, read } => Some(Reply::Described { entry, read }),
        Reply::Attached { status, description, fatal } => Some(Reply::Attached { status, description, fatal }),
        Reply::Deleted { op, error_code, error_message } => Some(Reply::Deleted { op, error_code, error_message }),
        Reply::Altered { error_code, error_message } => Some(Reply::Altered { error_code, error_message }),
        Reply::Beat { ask, describe } => Some(Reply::Beat { ask, describe }),
        Reply::Entry { status, read } => Some(Reply::Entry { status, read }),
        Reply::Settings(settings) => Some(Reply::Settings(settings)),
        Reply::Listed(rows) => Some(Reply::Listed(rows)),
        Reply::Done => Some(Reply::Done),
    });
    Outcome { reply, now: outcome.now, after_durable: outcome.after_durable, point: outcome.point }
}

/// A broker's entry whose description meets trouble of our own.
fn unread(entry: &mut DescribedGroup) {
    batch::attach(entry, describe::ERROR, None);
}

/// An entry that meets trouble of our own: retriable for every client.
fn not_now(group: &str) -> DescribedGroup {
    DescribedGroup {
        group_id: group.to_owned(),
        error_code: ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0,
        ..DescribedGroup::default()
    }
}

fn failure_of<T>(outcome: streamside_plugin::Outcome<T>) -> Result<T, PluginFailure> {
    use streamside_plugin::Outcome;
    match outcome {
        Outcome::Ok(value) => Ok(value),
        Outcome::Failure(failure) => Err(plugin_failure(failure)),
        Outcome::TimedOut => Err(PluginFailure::TimedOut),
        Outcome::Busy => Err(PluginFailure::Busy),
        Outcome::Crashed(text) => {
            tracing::error!(panic = %text, "the plugin panicked; only its call is lost");
            Err(PluginFailure::Crashed)
        }
    }
}

fn plugin_failure(failure: Failure) -> PluginFailure {
    match failure {
        Failure::Permanent { message } => PluginFailure::Permanent { message },
        Failure::Transient { message, retry_after } => PluginFailure::Transient {
            message,
            retry_after_ms: retry_after.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        },
        Failure::Contract => PluginFailure::Contract,
        Failure::Fatal => PluginFailure::Fatal,
        Failure::Store { trouble, message } => PluginFailure::Store {
            full: trouble == streamside_plugin::StoreTrouble::Full,
            message: format!("{}: {message}", trouble.word()),
        },
        other => PluginFailure::Transient { message: other.client_message(), retry_after_ms: None },
    }
}
