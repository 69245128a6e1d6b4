//! Whose heartbeat is it, and what does it say about itself? (spec kip1071 §2.4 S2–S5, §2.6)

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, TaskIds};

use super::Records;
use super::leave::{known, member_tombstones, owner};
use super::metadata::{MemberMetadata, UserEndpoint};
use super::refusal::Refusal;
use super::state::{Group, Member};
use super::tasks::{AssignedTasks, CurrentAssignment, TaskSet, Tasks};
use super::validate::{JOIN, LEAVE_FOR_A_WHILE, double_task_list};
use crate::config::{Compat, Config};
use crate::input::ClientContext;
use crate::record::{Durable, MemberId, Record};

/// The member that a heartbeat is about, as it is before it.
#[derive(Debug)]
pub(super) struct Subject<'g> {
    pub(super) id: MemberId,
    /// What is stored of it; absent for a new one and for one that takes over from another id.
    pub(super) stored: Option<&'g Member>,
    pub(super) metadata: Cow<'g, MemberMetadata>,
    pub(super) current: Cow<'g, CurrentAssignment>,
    /// Neither known nor a replacement.
    pub(super) new: bool,
    /// The member whose place it takes.
    pub(super) replaces: Option<&'g Member>,
}

impl<'g> Subject<'g> {
    fn of(member: &'g Member) -> Self {
        Self {
            id: member.id.clone(),
            stored: Some(member),
            metadata: Cow::Borrowed(&member.metadata),
            current: Cow::Borrowed(&member.current),
            new: false,
            replaces: None,
        }
    }

    fn new(id: &str) -> Self {
        Self {
            id: Arc::from(id),
            stored: None,
            metadata: Cow::Owned(MemberMetadata::default()),
            current: Cow::Owned(CurrentAssignment::default()),
            new: true,
            replaces: None,
        }
    }

    /// A static member under a new id has what the old one had (spec kip1071 §2.6).
    fn replacing(old: &'g Member, id: &str) -> Self {
        let current = CurrentAssignment { member_epoch: 0, previous_member_epoch: 0, ..old.current.clone() };
        Self {
            id: Arc::from(id),
            stored: None,
            metadata: Cow::Borrowed(&old.metadata),
            current: Cow::Owned(current),
            new: false,
            replaces: Some(old),
        }
    }

    /// The id under which the target still has its tasks.
    pub(super) fn target_id(&self) -> &str {
        self.replaces.map_or(&self.id, |old| &old.id)
    }
}

/// Finds the member, or makes it at a join.
pub(super) fn resolve<'g>(
    group: &'g Group,
    request: &StreamsGroupHeartbeatRequest<'_>,
    config: &Config,
    records: &mut Records,
) -> Result<Subject<'g>, Refusal> {
    let id: &str = &request.member_id;
    if request.member_epoch != JOIN {
        let member = match request.instance_id.as_deref() {
            Some(instance) => owner(group, instance, id)?,
            None => known(group, id)?,
        };
        check_epoch(&member.current, request)?;
        return Ok(Subject::of(member));
    }
    let instance = request.instance_id.as_deref();
    // G2: a member that is there, by its id or its instance id, takes no new place.
    let has_place =
        group.members.contains_key(id) || instance.is_some_and(|instance| group.statics.contains_key(instance));
    if !has_place && group.members.len() >= usize::try_from(config.limits.max_members).unwrap_or(0) {
        return Err(Refusal::GroupFull(config.limits.max_members));
    }
    let owner = instance.and_then(|i| group.statics.get(i)).and_then(|owner| group.members.get(owner));
    let Some(old) = owner else {
        return Ok(group.members.get(id).map_or_else(|| Subject::new(id), Subject::of));
    };
    if old.current.member_epoch == LEAVE_FOR_A_WHILE {
        return Ok(replace(group, old, id, records));
    }
    // D12: the same member again, which a fenced one must be able to do.
    if config.compat == Compat::Streamside && old.id.as_ref() == id {
        return Ok(Subject::of(old));
    }
    Err(Refusal::UnreleasedInstance {
        member: id.to_owned(),
        instance: instance.unwrap_or_default().to_owned(),
        owner: old.id.as_ref().to_owned(),
    })
}

fn replace<'g>(group: &'g Group, old: &'g Member, id: &str, records: &mut Records) -> Subject<'g> {
    let subject = Subject::replacing(old, id);
    records.extend(member_tombstones(group, &old.id).map(Record::Durable));
    let (g, m) = (&group.id, &subject.id);
    let metadata = Some(old.metadata.clone());
    records.push(Record::Durable(Durable::Member { group: g.clone(), member: m.clone(), value: metadata }));
    if let Some(tasks) = group.target.get(&old.id) {
        let value = Some(tasks.as_ref().clone());
        records.push(Record::Durable(Durable::TargetMember { group: g.clone(), member: m.clone(), value }));
    }
    let value = Some(subject.current.as_ref().clone());
    records.push(Record::Durable(Durable::CurrentAssignment { group: g.clone(), member: m.clone(), value }));
    subject
}

/// Spec kip1071 §1.5 M2, M3.
fn check_epoch(current: &CurrentAssignment, request: &StreamsGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    let (known, received) = (current.member_epoch, request.member_epoch);
    let fenced = |relation| Err(Refusal::FencedEpoch { relation, received, known });
    if received > known {
        return fenced("greater");
    }
    // The answer that carried the new epoch may have been lost.
    if received < known && !(received == current.previous_member_epoch && has_all(&current.assigned, request)) {
        return fenced("smaller");
    }
    Ok(())
}

/// Whether the member tells what it has, and nothing that it was not given.
fn has_all(assigned: &AssignedTasks, request: &StreamsGroupHeartbeatRequest<'_>) -> bool {
    fn all(told: Option<&Vec<TaskIds>>, assigned: impl Fn(&str, i32) -> bool) -> bool {
        told.is_some_and(|told| told.iter().all(|t| t.partitions.iter().all(|p| assigned(&t.subtopology_id, *p))))
    }
    let r = request;
    all(r.active_tasks.as_ref(), |id, p| assigned.active.get(id).is_some_and(|epochs| epochs.contains_key(&p)))
        && all(r.standby_tasks.as_ref(), |id, p| assigned.standby.get(id).is_some_and(|own| own.contains(&p)))
        && all(r.warmup_tasks.as_ref(), |id, p| assigned.warmup.get(id).is_some_and(|own| own.contains(&p)))
}

/// What the member says it has; `None` when it does not say.
pub(super) fn owned_tasks(request: &StreamsGroupHeartbeatRequest<'_>) -> Result<Option<Tasks>, Refusal> {
    let (Some(active), Some(standby), Some(warmup)) =
        (&request.active_tasks, &request.standby_tasks, &request.warmup_tasks)
    else {
        return Ok(None);
    };
    Ok(Some(Tasks { active: task_set(active)?, standby: task_set(standby)?, warmup: task_set(warmup)? }))
}

fn task_set(tasks: &[TaskIds]) -> Result<TaskSet, Refusal> {
    // Kafka: two entries of one subtopology collide in a map (spec kip1071 §1.2). Ours has refused them in words.
    if double_task_list(tasks).is_some() {
        return Err(Refusal::Unexpected);
    }
    let with_partitions = tasks.iter().filter(|t| !t.partitions.is_empty());
    Ok(with_partitions
        .map(|t| (Arc::from(t.subtopology_id.as_str()), t.partitions.iter().copied().collect()))
        .collect())
}

/// The member's metadata with what the request says (spec kip1071 §1.3); `None`: nothing new.
pub(super) fn merged(
    base: &MemberMetadata,
    request: &StreamsGroupHeartbeatRequest<'_>,
    client: ClientContext<'_>,
) -> Option<MemberMetadata> {
    let r = request;
    let join = r.member_epoch == JOIN;
    let kept = |told: Option<&str>, known: Option<&str>| told.is_none() || told == known;
    let timeout = if r.rebalance_timeout_ms == -1 { base.rebalance_timeout_ms } else { r.rebalance_timeout_ms };
    let topology_epoch = r.topology.as_ref().map_or(base.topology_epoch, |t| t.epoch);
    let same_endpoint = match (&r.user_endpoint, &base.user_endpoint) {
        (Some(told), Some(known)) => told.host == known.host && told.port == known.port,
        (Some(_), None) => false,
        (None, known) => !join || known.is_none(),
    };
    let tags = || -> Option<BTreeMap<&str, &str>> {
        Some(r.client_tags.as_ref()?.iter().map(|t| (t.key.as_str(), t.value.as_str())).collect())
    };
    let same_tags = tags().is_none_or(|told| {
        told.into_iter().eq(base.client_tags.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    });
    let same = client.client_id == base.client_id.as_ref()
        && client.client_host == base.client_host.as_ref()
        && timeout == base.rebalance_timeout_ms
        && topology_epoch == base.topology_epoch
        && kept(r.instance_id.as_deref(), base.instance_id.as_deref())
        && kept(r.rack_id.as_deref(), base.rack_id.as_deref())
        && kept(r.process_id.as_deref(), Some(&base.process_id))
        && same_endpoint
        && same_tags;
    if same {
        return None;
    }
    let or_kept = |told: Option<&str>, known: &Option<Arc<str>>| told.map(Arc::from).or_else(|| known.clone());
    Some(MemberMetadata {
        instance_id: or_kept(r.instance_id.as_deref(), &base.instance_id),
        rack_id: or_kept(r.rack_id.as_deref(), &base.rack_id),
        client_id: Arc::from(client.client_id),
        client_host: Arc::from(client.client_host),
        rebalance_timeout_ms: timeout,
        topology_epoch,
        process_id: r.process_id.as_deref().map_or_else(|| base.process_id.clone(), Arc::from),
        user_endpoint: match &r.user_endpoint {
            Some(endpoint) => Some(UserEndpoint { host: endpoint.host.clone(), port: endpoint.port }),
            None if join => None,
            None => base.user_endpoint.clone(),
        },
        client_tags: match &r.client_tags {
            Some(tags) => tags.iter().map(|t| (t.key.clone(), t.value.clone())).collect(),
            None => base.client_tags.clone(),
        },
    })
}

/// Whether changed metadata calls for a new assignment (spec kip1071 §2.4 S5).
pub(super) fn bumps(old: &MemberMetadata, new: &MemberMetadata, is_static: bool, compat: Compat) -> bool {
    let placed_differently = old.topology_epoch != new.topology_epoch
        || old.rack_id != new.rack_id
        || old.client_tags != new.client_tags
        || old.process_id != new.process_id;
    if is_static {
        return placed_differently;
    }
    let told_differently = old.instance_id != new.instance_id || old.user_endpoint != new.user_endpoint;
    // D3: an address that changes on the way (NAT, proxies) moves no tasks.
    let seen_differently = old.client_id != new.client_id
        || old.client_host != new.client_host
        || old.rebalance_timeout_ms != new.rebalance_timeout_ms;
    placed_differently || told_differently || (compat == Compat::Kafka && seen_differently)
}
