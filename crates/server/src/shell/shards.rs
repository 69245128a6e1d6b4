//! The coordinator's shards: `decide`, journal, `apply` under one short lock, and nothing else under it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, TryLockError};

use streamside_coordinator::{
    Config, Coordinator, Decision, Durable, Effect, Input, Millis, OpId, Record, Reply, Volatile,
};

use streamside_wire::messages::streams_group_describe::DescribedGroup;

use super::clock::Clock;
use super::journal::{Journal, JournalError, Point, caught};
use super::limits::SHARDS;

struct Shard {
    coordinator: Coordinator,
    /// The journal's generation that this memory was loaded in.
    generation: u64,
}

/// All groups of this process.
pub struct Shards {
    shards: Box<[Mutex<Shard>]>,
    config: RwLock<Arc<Config>>,
    journal: Journal,
    clock: Clock,
    operations: AtomicU64,
}

/// What one decision leaves to be done outside of the lock.
pub struct Outcome<'a> {
    /// The reply, if the operation ends here.
    pub reply: Option<Reply<'a>>,
    /// Carried out at once.
    pub now: Vec<Effect>,
    /// Carried out once `point` is durable.
    pub after_durable: Vec<Effect>,
    /// What the reply and the later effects wait for.
    pub point: Point,
}

impl Shards {
    /// Restores all groups from `records`.
    #[must_use]
    pub fn restore(config: Config, journal: Journal, clock: Clock, records: Vec<Durable>) -> Self {
        let generation = journal.generation();
        let shards = split(records)
            .into_iter()
            .map(|records| {
                let coordinator = Coordinator::restore(shard_config(&config), clock.now(), records);
                Mutex::new(Shard { coordinator, generation })
            })
            .collect();
        let config = RwLock::new(Arc::new(config));
        Self { shards, config, journal, clock, operations: AtomicU64::new(1) }
    }

    /// Replaces all memory by what the disk holds, after a failed commit.
    pub fn reload(&self, records: Vec<Durable>, generation: u64) {
        let config = self.config();
        for (shard, records) in self.shards.iter().zip(split(records)) {
            let mut shard = lock(shard);
            let old = std::mem::replace(&mut shard.coordinator, Coordinator::new(shard_config(&config)));
            shard.coordinator = old.reloaded(shard_config(&config), self.clock.now(), records);
            shard.generation = generation;
        }
    }

    /// A new operation id.
    pub fn operation(&self) -> OpId {
        OpId(self.operations.fetch_add(1, Ordering::Relaxed))
    }

    /// A block of operation ids that nobody else gets; the first of them.
    pub fn operations(&self, count: u64) -> OpId {
        OpId(self.operations.fetch_add(count, Ordering::Relaxed))
    }

    /// The shard of a group.
    #[must_use]
    pub fn shard_of(&self, group: &str) -> usize {
        shard_of(group, self.shards.len())
    }

    /// How many shards there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Whether there are none (never).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Decides on `input` in the shard of `group`, journals and applies.
    ///
    /// # Errors
    /// When the journal takes nothing now: nothing was applied.
    pub fn decide<'a>(&self, group: &str, input: Input<'a>) -> Result<Outcome<'a>, JournalError> {
        self.decide_in(self.shard_of(group), Some(group), input)
    }

    /// Decides on `input` in one shard; `group` names the group whose journal position a reply waits for.
    ///
    /// # Errors
    /// When the journal takes nothing now, or the decision met a defect of ours: nothing was applied.
    pub fn decide_in<'a>(
        &self,
        index: usize,
        group: Option<&str>,
        input: Input<'a>,
    ) -> Result<Outcome<'a>, JournalError> {
        let now = self.clock.now();
        let Some(shard) = self.shards.get(index) else { return Err(JournalError::Failed) };
        let mut shard = lock(shard);
        let decided = caught(|| shard.coordinator.decide(now, input));
        let Decision { records, now: at_once, after_durable, reply } = decided.map_err(|panic| {
            tracing::error!(%panic, group, "a decision met a defect of ours; it changed nothing");
            JournalError::Defect
        })?;
        let durable = records.iter().any(|r| matches!(r, Record::Durable(_)));
        let generation = shard.generation;
        let mut point = Point::at(generation, 0);
        if durable {
            point = self.journal.submit(records.iter().filter_map(|r| match r {
                Record::Durable(d) => Some(d),
                Record::Volatile(_) => None,
            }))?;
        }
        let applied = caught(|| apply(&mut shard.coordinator, records, point));
        if let Err(panic) = applied {
            tracing::error!(%panic, group, "a change met a defect of ours; all groups are reloaded from the journal");
            self.journal.distrust_memory();
            return Err(JournalError::Defect);
        }
        if let Some(group) = group {
            point = point.and(Point::at(generation, shard.coordinator.position(group)));
        }
        drop(shard);
        Ok(Outcome { reply, now: at_once, after_durable, point })
    }

    /// Which of `groups` there are, as far as `point` is durable.
    #[must_use]
    pub fn known<'g>(&self, groups: impl IntoIterator<Item = &'g str>) -> (Vec<bool>, Option<Point>) {
        let mut point: Option<Point> = None;
        let known = groups.into_iter().map(|group| {
            let shard = self.shards.get(self.shard_of(group)).map(lock)?;
            let read = Point::at(shard.generation, shard.coordinator.position(group));
            point = Some(point.map_or(read, |p| p.and(read)));
            shard.coordinator.group_id(group)
        });
        (known.map(|id| id.is_some()).collect(), point)
    }

    /// At which epoch a group's member is, if it is one; `None`: there is no such group.
    #[must_use]
    pub fn member_epoch(&self, group: &str, member: &str) -> Option<Option<i32>> {
        let shard = self.shards.get(self.shard_of(group)).map(lock)?;
        shard.coordinator.group_id(group).map(|_| shard.coordinator.member_epoch(group, member))
    }

    /// Beside a broker: whether a push of this member on this connection needs no question to the broker.
    #[must_use]
    pub fn is_recent_member(&self, group: &str, member: &str, connection: u64) -> bool {
        let now = self.clock.now();
        let shard = self.shards.get(self.shard_of(group)).map(lock);
        shard.is_some_and(|shard| shard.coordinator.is_recent_member(now, group, member, connection))
    }

    /// Whether the plugin may hold something of a group.
    #[must_use]
    pub fn may_hold(&self, group: &str) -> bool {
        self.shards.get(self.shard_of(group)).map(lock).is_some_and(|shard| shard.coordinator.may_hold(group))
    }

    /// Beside a broker: gives the members of a described group the task offsets that they reported, where the broker
    /// gave none.
    pub fn fill_task_offsets(&self, entry: &mut DescribedGroup) {
        let Some(shard) = self.shards.get(self.shard_of(&entry.group_id)).map(lock) else { return };
        for member in &mut entry.members {
            if !member.task_offsets.is_empty() || !member.task_end_offsets.is_empty() {
                continue;
            }
            let seen = shard.coordinator.watched().member(&entry.group_id, &member.member_id);
            if let Some(reported) = seen.and_then(|seen| seen.reported.as_deref()) {
                member.task_offsets.clone_from(&reported.offsets);
                member.task_end_offsets.clone_from(&reported.ends);
            }
        }
    }

    /// The earliest timer of one shard. `None` as well while a decision is under way in it: whoever looks at all shards
    /// must not wait for one.
    #[must_use]
    pub fn next_deadline(&self, index: usize) -> Option<Millis> {
        let shard = match self.shards.get(index)?.try_lock() {
            Ok(shard) => shard,
            Err(TryLockError::Poisoned(shard)) => shard.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        shard.coordinator.next_deadline()
    }

    /// Runs `look` on every shard's coordinator in turn; it must be short.
    pub fn look<T>(&self, mut look: impl FnMut(&Coordinator) -> T) -> Vec<T> {
        self.shards.iter().map(|s| look(&lock(s).coordinator)).collect()
    }

    /// The clock of all decisions.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The settings of the coordinator.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Takes settings that may change while running; see [`Config::retune`].
    pub fn retune(&self, to: &Config) {
        let mut config = Config::clone(&self.config());
        config.retune(to);
        let of_a_shard = shard_config(&config);
        *self.config.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(config);
        for shard in &self.shards {
            lock(shard).coordinator.retune(&of_a_shard);
        }
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }
}

fn apply(coordinator: &mut Coordinator, records: impl IntoIterator<Item = Record>, point: Point) {
    let mut touched: Vec<streamside_coordinator::GroupId> = Vec::new();
    for record in records {
        if let Record::Durable(d) = &record {
            let group = d.group();
            if touched.last() != Some(group) {
                touched.push(group.clone());
            }
        }
        coordinator.apply(record);
    }
    for group in touched {
        coordinator.apply(Record::Volatile(Volatile::Journalled { group, position: point.position() }));
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Panics are caught where a decision is made and where it is applied; none leaves a shard half changed.
    shard.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn shard_config(config: &Config) -> Config {
    let mut config = config.clone();
    config.limits.max_groups = config.limits.max_groups.div_ceil(SHARDS);
    config
}

fn split(records: Vec<Durable>) -> Vec<Vec<Durable>> {
    let mut parts: Vec<Vec<Durable>> = (0..SHARDS).map(|_| Vec::new()).collect();
    for record in records {
        let index = shard_of(record.group(), SHARDS);
        if let Some(part) = parts.get_mut(index) {
            part.push(record);
        }
    }
    parts
}

/// Kafka's placing of a group: `abs(String.hashCode)` modulo the number of partitions.
fn shard_of(group: &str, shards: usize) -> usize {
    let hash = group.encode_utf16().fold(0i32, |h, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let positive = if hash == i32::MIN { 0 } else { hash.abs() };
    usize::try_from(positive).unwrap_or(0) % shards
}

/// Shared by everything that works on groups.
pub type SharedShards = Arc<Shards>;

#[cfg(test)]
mod tests {
    use super::shard_of;

    #[test]
    fn groups_are_placed_as_kafka_places_them() {
        // "g".hashCode() = 103, "ab".hashCode() = 3105, and a text whose hash is Integer.MIN_VALUE counts as 0.
        assert_eq!(shard_of("g", 50), 3);
        assert_eq!(shard_of("ab", 50), 5);
        assert_eq!(shard_of("polygenelubricants", 50), 0);
    }
}
