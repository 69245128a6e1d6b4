//! `streamside groups`.

use serde::Serialize;
use streamside_client::{Cluster, DescribedStreamsGroup, Error};

use super::{ErrorJson, GOOD, GroupsArgs, Screen, Status, Trouble, connect, describe, json, lost, streams_groups};
use crate::cli::table::Table;

/// One group as machines read it; what is unknown is null.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    group: String,
    state: Option<String>,
    members: Option<usize>,
    group_epoch: Option<i32>,
    assignment_epoch: Option<i32>,
    topology_epoch: Option<i32>,
    assignor: Option<String>,
    description_status: Option<Status>,
    error: Option<ErrorJson>,
}

impl Row {
    fn of(group: &str, answer: Result<DescribedStreamsGroup, Error>) -> Self {
        let group = group.to_owned();
        match answer {
            Err(error) => Self { group, error: Some(ErrorJson::from(&error)), ..Self::default() },
            Ok(described) => Self {
                group,
                description_status: Some(Status::of(&described)),
                state: Some(described.group.group_state),
                members: Some(described.group.members.len()),
                group_epoch: Some(described.group.group_epoch),
                assignment_epoch: Some(described.group.assignment_epoch),
                topology_epoch: described.group.topology.map(|topology| topology.epoch),
                assignor: described.group.assignor_name,
                error: None,
            },
        }
    }
}

pub(super) async fn run(args: &GroupsArgs, screen: &mut Screen<'_>) -> Result<u8, Trouble> {
    let cluster = connect(&args.cluster).await?;
    let ids = if args.group.is_empty() { streams_groups(&cluster).await? } else { args.group.clone() };
    let (mut rows, mut code) = (Vec::new(), GOOD);
    describe(&cluster, &ids, true, |id, answer| {
        if let Err(error) = &answer {
            lost(screen, &mut code, id, error)?;
        }
        rows.push(Row::of(id, answer));
        Ok(())
    })
    .await?;
    if args.json {
        screen.say(&json(rows)?)?;
    } else if rows.is_empty() {
        screen.tell("The cluster has no streams groups.")?;
    } else {
        screen.say(&table(&rows, screen.width))?;
    }
    Ok(code)
}

fn table(rows: &[Row], width: Option<usize>) -> String {
    let mut table = Table::new(&["GROUP", "STATE", "MEMBERS", "EPOCH", "DESCRIPTION"]);
    for row in rows {
        let dash = || "-".to_owned();
        table.row([
            row.group.clone(),
            row.state.clone().unwrap_or_else(dash),
            row.members.map_or_else(dash, |n| n.to_string()),
            row.group_epoch.map_or_else(dash, |n| n.to_string()),
            row.description_status.map_or_else(dash, |status| status.words().to_owned()),
        ]);
    }
    table.text(width)
}

/// The table of a whole cluster, as the command prints it.
///
/// # Errors
/// Why the cluster could not be asked.
pub(in crate::cli) async fn text(cluster: &Cluster, width: Option<usize>) -> Result<String, Error> {
    let listed = cluster.list_groups(&["streams"]).await?;
    let ids: Vec<&str> = listed.iter().map(|group| group.group_id.as_str()).collect();
    let answers = cluster.describe_streams_groups(&ids, true).await?;
    let rows: Vec<Row> = ids.into_iter().zip(answers).map(|(id, answer)| Row::of(id, answer)).collect();
    Ok(table(&rows, width))
}
