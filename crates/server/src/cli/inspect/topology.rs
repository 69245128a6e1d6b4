//! `streamside topology`.

use std::path::Path;

use serde::Serialize;
use streamside_client::{Cluster, DescribedStreamsGroup, Error};
use streamside_topology::Description;
use streamside_topology::write::{Escape, Format, render};
use streamside_wire::messages::streams_group_describe::DescriptionField;

use super::coarse::Coarse;
use super::{
    ErrorJson, GOOD, NO, Screen, Status, TopologyArgs, Trouble, connect, describe, json, lost, read, streams_groups,
};

/// Longest text of one topology, in bytes.
const MAX_TEXT: usize = 64 * 1024 * 1024;

/// One group as machines read it.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    group: String,
    status: Option<Status>,
    topology_epoch: Option<i32>,
    topology: Option<serde_json::Value>,
    /// What heartbeats told, where there is no description.
    #[serde(skip_serializing_if = "Option::is_none")]
    coarse: Option<Coarse>,
    error: Option<ErrorJson>,
}

pub(super) async fn run(args: &TopologyArgs, screen: &mut Screen<'_>) -> Result<u8, Trouble> {
    let cluster = connect(&args.cluster).await?;
    let ids = if args.all_groups { streams_groups(&cluster).await? } else { args.group.clone() };
    let (mut rows, mut code) = (Vec::new(), GOOD);
    describe(&cluster, &ids, true, |id, answer| {
        let described = match answer {
            Ok(described) => described,
            Err(error) => {
                lost(screen, &mut code, id, &error)?;
                rows.push(Row { group: id.to_owned(), error: Some(ErrorJson::from(&error)), ..Row::default() });
                return Ok(());
            }
        };
        let status = Status::of(&described);
        let epoch = described.group.topology.as_ref().map(|topology| topology.epoch);
        let coarse = Coarse::of(described.group.topology.as_ref());
        let description = match description(described) {
            Ok(Some(description)) if status == Status::Available => Some(description),
            Ok(_) => {
                screen.tell(&status.sentence(id))?;
                None
            }
            Err(reason) => {
                screen.tell(&format!("The topology description of streams group '{id}' can't be used: {reason}"))?;
                None
            }
        };
        let Some(description) = description else {
            code = code.max(NO);
            if let Some(coarse) = coarse.as_ref().filter(|_| !args.json) {
                screen.say(&coarse.text(id))?;
            }
            let group = id.to_owned();
            rows.push(Row { group, status: Some(status), topology_epoch: epoch, coarse, ..Row::default() });
            return Ok(());
        };
        if args.json {
            let text = written(&description, Format::Json, Escape::Exact)?;
            let topology = serde_json::from_str(&text).map_err(std::io::Error::other)?;
            let group = id.to_owned();
            let topology = Some(topology);
            rows.push(Row { group, status: Some(status), topology_epoch: epoch, topology, ..Row::default() });
        } else {
            screen.say(&written(&description, args.format, screen.escape())?)?;
        }
        Ok(())
    })
    .await?;
    if args.json {
        screen.say(&json(rows)?)?;
    }
    Ok(code)
}

/// Draws what a file holds.
pub(super) fn draw(file: &Path, format: Format, screen: &mut Screen<'_>) -> Result<u8, Trouble> {
    let text = read(file)?;
    let description =
        Description::from_json(&text).map_err(|e| Trouble::Use(format!("{} is no topology: {e}", file.display())))?;
    screen.say(&written(&description, format, screen.escape())?)?;
    Ok(GOOD)
}

fn written(description: &Description, format: Format, escape: Escape) -> Result<String, Trouble> {
    let mut text = render(description, format, escape, MAX_TEXT).map_err(|e| Trouble::Use(e.to_string()))?;
    // The stock tool's text ends with its own empty line; the others get the end of their line here.
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// The answer's description; the error is a sentence for people.
fn description(described: DescribedStreamsGroup) -> Result<Option<Description>, String> {
    match described.group.topology_description {
        None => Ok(None),
        Some(DescriptionField::Decoded(wire)) => {
            Description::from_wire_owned(wire).map(Some).map_err(|e| e.client_message())
        }
        Some(DescriptionField::Encoded(bytes)) => Description::decode(&bytes).map(Some).map_err(|e| e.to_string()),
    }
}

/// A group's topology as the stock tool prints it; none when there is none.
///
/// # Errors
/// Why the cluster could not be asked.
pub(in crate::cli) async fn text(cluster: &Cluster, group: &str, escape: Escape) -> Result<Option<String>, Error> {
    let mut answers = cluster.describe_streams_groups(&[group], true).await?;
    let described = match answers.pop() {
        Some(answer) => answer?,
        None => return Ok(None),
    };
    let description = description(described).ok().flatten();
    Ok(description.and_then(|description| render(&description, Format::Kafka, escape, MAX_TEXT).ok()))
}
