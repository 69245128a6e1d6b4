//! `streamside members`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use streamside_client::DescribedStreamsGroup;
use streamside_topology::text::sanitize;
use streamside_wire::messages::streams_group_describe::{Assignment, Member, TaskIds, TaskOffset};

use super::{ErrorJson, GOOD, MembersArgs, Screen, Trouble, connect, describe, json, lost};
use crate::cli::table::Table;

/// One group as machines read it.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupJson {
    group: String,
    state: Option<String>,
    group_epoch: Option<i32>,
    assignment_epoch: Option<i32>,
    members: Vec<MemberJson>,
    error: Option<ErrorJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberJson {
    member_id: String,
    instance_id: Option<String>,
    rack_id: Option<String>,
    process_id: String,
    client_id: String,
    client_host: String,
    member_epoch: i32,
    topology_epoch: i32,
    endpoint: Option<EndpointJson>,
    tags: BTreeMap<String, String>,
    classic: bool,
    assignment: AssignmentJson,
    target: AssignmentJson,
    task_offsets: Vec<OffsetJson>,
    task_end_offsets: Vec<OffsetJson>,
}

#[derive(Serialize)]
struct EndpointJson {
    host: String,
    port: u16,
}

#[derive(Serialize)]
struct AssignmentJson {
    active: Vec<TasksJson>,
    standby: Vec<TasksJson>,
    warmup: Vec<TasksJson>,
}

#[derive(Serialize)]
struct TasksJson {
    subtopology: String,
    partitions: Vec<i32>,
}

#[derive(Serialize)]
struct OffsetJson {
    subtopology: String,
    partition: i32,
    offset: i64,
}

impl From<DescribedStreamsGroup> for GroupJson {
    fn from(DescribedStreamsGroup { group, .. }: DescribedStreamsGroup) -> Self {
        Self {
            group: group.group_id,
            state: Some(group.group_state),
            group_epoch: Some(group.group_epoch),
            assignment_epoch: Some(group.assignment_epoch),
            members: group.members.into_iter().map(MemberJson::from).collect(),
            error: None,
        }
    }
}

impl From<Member> for MemberJson {
    fn from(member: Member) -> Self {
        Self {
            member_id: member.member_id,
            instance_id: member.instance_id,
            rack_id: member.rack_id,
            process_id: member.process_id,
            client_id: member.client_id,
            client_host: member.client_host,
            member_epoch: member.member_epoch,
            topology_epoch: member.topology_epoch,
            endpoint: member.user_endpoint.map(|e| EndpointJson { host: e.host, port: e.port }),
            tags: member.client_tags.into_iter().map(|tag| (tag.key, tag.value)).collect(),
            classic: member.is_classic,
            assignment: member.assignment.into(),
            target: member.target_assignment.into(),
            task_offsets: offsets(member.task_offsets),
            task_end_offsets: offsets(member.task_end_offsets),
        }
    }
}

impl From<Assignment> for AssignmentJson {
    fn from(assignment: Assignment) -> Self {
        let tasks = |ids: Vec<TaskIds>| {
            ids.into_iter()
                .map(|ids| TasksJson { subtopology: ids.subtopology_id, partitions: ids.partitions })
                .collect()
        };
        Self {
            active: tasks(assignment.active_tasks),
            standby: tasks(assignment.standby_tasks),
            warmup: tasks(assignment.warmup_tasks),
        }
    }
}

fn offsets(offsets: Vec<TaskOffset>) -> Vec<OffsetJson> {
    let offsets = offsets.into_iter();
    offsets.map(|o| OffsetJson { subtopology: o.subtopology_id, partition: o.partition, offset: o.offset }).collect()
}

pub(super) async fn run(args: &MembersArgs, screen: &mut Screen<'_>) -> Result<u8, Trouble> {
    let cluster = connect(&args.cluster).await?;
    let (mut found, mut code) = (Vec::new(), GOOD);
    describe(&cluster, &args.group, false, |id, answer| {
        found.push(match answer {
            Ok(described) => GroupJson::from(described),
            Err(error) => {
                lost(screen, &mut code, id, &error)?;
                GroupJson { group: id.to_owned(), error: Some(ErrorJson::from(&error)), ..GroupJson::default() }
            }
        });
        Ok(())
    })
    .await?;
    if args.json {
        screen.say(&json(found)?)?;
        return Ok(code);
    }
    let many = found.len() > 1;
    for (at, group) in found.iter().filter(|group| group.error.is_none()).enumerate() {
        if group.members.is_empty() {
            screen.tell(&format!("Streams group '{}' has no members.", group.group))?;
            continue;
        }
        let mut text = String::new();
        if many {
            let gap = if at > 0 { "\n" } else { "" };
            let _ = writeln!(text, "{gap}{}", sanitize(&group.group));
        }
        text.push_str(&table(group, screen.width));
        screen.say(&text)?;
    }
    Ok(code)
}

fn table(group: &GroupJson, width: Option<usize>) -> String {
    let mut table =
        Table::new(&["MEMBER", "CLIENT", "HOST", "EPOCH", "TOPOLOGY", "ACTIVE", "STANDBY", "WARM-UP", "ENDPOINT"]);
    for member in &group.members {
        let id = match &member.instance_id {
            Some(instance) => format!("{} ({instance})", member.member_id),
            None => member.member_id.clone(),
        };
        table.row([
            id,
            member.client_id.clone(),
            member.client_host.clone(),
            member.member_epoch.to_string(),
            member.topology_epoch.to_string(),
            tasks(&member.assignment.active),
            tasks(&member.assignment.standby),
            tasks(&member.assignment.warmup),
            member.endpoint.as_ref().map_or_else(|| "-".to_owned(), |e| format!("{}:{}", e.host, e.port)),
        ]);
    }
    table.text(width)
}

/// `0_0-3,7 1_2`: partitions behind their subtopology, neighbours as ranges; `-` for none.
fn tasks(tasks: &[TasksJson]) -> String {
    let mut text = String::new();
    for task in tasks {
        let mut partitions = task.partitions.clone();
        partitions.sort_unstable();
        let mut ranges: Vec<(i32, i32)> = Vec::new();
        for partition in partitions {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(partition) => *last = partition,
                _ => ranges.push((partition, partition)),
            }
        }
        if ranges.is_empty() {
            continue;
        }
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{}_", task.subtopology);
        for (at, (first, last)) in ranges.into_iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = if first == last { write!(text, "{comma}{first}") } else { write!(text, "{comma}{first}-{last}") };
        }
    }
    if text.is_empty() { "-".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_written_in_short() {
        let of = |subtopology: &str, partitions: &[i32]| TasksJson {
            subtopology: subtopology.to_owned(),
            partitions: partitions.to_vec(),
        };
        assert_eq!(tasks(&[]), "-");
        assert_eq!(tasks(&[of("0", &[])]), "-");
        assert_eq!(
            tasks(&[of("0", &[3, 0, 1, 2, 7]), of("1", &[2]), of("x", &[i32::MAX])]),
            "0_0-3,7 1_2 x_2147483647"
        );
    }
}
