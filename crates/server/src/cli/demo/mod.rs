//! `demo`: a server of its own, members that join over TCP and push real topologies when they are asked, and what the
//! tools show of it.

mod application;

use std::io;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use streamside_client::{Cluster, Error, Member, MemberOptions, Options};
use streamside_plugin::Registry;
use streamside_topology::write::Escape;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::args::DemoArgs;
use super::inspect::{groups_text, topology_text};
use super::temporary::Temporary;
use super::{Exit, complain, say, serve};
use crate::config::Sources;
use crate::daemon::Daemon;
use crate::logging::escaped;
use crate::signals::{Asked, Signals};
use application::Application;

/// How long the members may take to be asked and to have pushed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Width of the tables where the output is no terminal.
const WIDTH: usize = 100;

/// Starts a server of its own and plays members until a signal ends it.
pub fn demo(args: &DemoArgs, registry: &Registry) -> io::Result<Exit> {
    let folder = Temporary::new("demo")?;
    play(args, registry, folder.path())
}

fn play(args: &DemoArgs, registry: &Registry, folder: &Path) -> io::Result<Exit> {
    let applications = application::all().map_err(io::Error::other)?;
    let sources = Sources {
        overrides: vec![
            format!("listeners=PLAINTEXT://127.0.0.1:{}", args.port),
            "streamside.http.listen=127.0.0.1:0".to_owned(),
            format!("streamside.data.dir={}", folder.display()),
            format!("streamside.topics={}", application::topics(&applications)),
            "group.streams.initial.rebalance.delay.ms=0".to_owned(),
            "group.streams.assignment.interval.ms=0".to_owned(),
            "group.streams.min.heartbeat.interval.ms=500".to_owned(),
            "group.streams.heartbeat.interval.ms=500".to_owned(),
            "streamside.log.level=warn".to_owned(),
        ],
        // Neither a file nor the environment: the demonstration is the same everywhere.
        ..Sources::default()
    };
    serve::run(&sources, registry, |daemon, signals| show(args, daemon, applications, signals))
}

async fn show(args: &DemoArgs, daemon: Daemon, applications: Vec<Application>, mut signals: Signals) -> Exit {
    let bootstrap = daemon.address().to_string();
    say(&format!("A Streamside of its own serves at {bootstrap}. Applications start and join over TCP:\n"));
    let count = applications.iter().map(|application| application.members).sum();
    let groups = applications.len();
    let (tell, told) = mpsc::channel(64);
    let end = watch::Sender::new(false);
    let mut members = JoinSet::new();
    for application in applications {
        for number in 1..=application.members {
            members.spawn(member(bootstrap.clone(), application.clone(), number, tell.clone(), end.subscribe()));
        }
    }
    drop(tell);
    let exit = tokio::select! {
        exit = watch_members(&bootstrap, told, count, groups) => exit,
        () = ended(&mut signals) => Exit::Good,
    };
    if exit == Exit::Good && !args.once {
        say(&next(&bootstrap, &daemon));
        ended(&mut signals).await;
        say("\nThe members leave, the server ends, its folder is removed.");
    }
    end.send_replace(true);
    let leave = async { while members.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(5), leave).await;
    members.abort_all();
    daemon.stop(Duration::from_secs(5)).await;
    exit
}

async fn ended(signals: &mut Signals) {
    while signals.next().await != Asked::End {}
}

/// What a member tells.
enum Told {
    Joined { line: String },
    Pushed { line: String },
    Failed { line: String },
}

/// Prints what the members tell until all have joined and every group was described, then what the tools show.
async fn watch_members(bootstrap: &str, mut told: mpsc::Receiver<Told>, members: usize, groups: usize) -> Exit {
    let (mut joined, mut pushed) = (0, 0);
    let watched = tokio::time::timeout(PATIENCE, async {
        while joined < members || pushed < groups {
            match told.recv().await {
                Some(Told::Joined { line }) => {
                    joined += 1;
                    say(&line);
                }
                Some(Told::Pushed { line }) => {
                    pushed += 1;
                    say(&line);
                }
                Some(Told::Failed { line }) => {
                    complain(&line);
                    return false;
                }
                None => return false,
            }
        }
        true
    });
    if !watched.await.unwrap_or(false) {
        complain("the members did not get as far as they should");
        return Exit::No;
    }
    // Nobody reads what is told from now on; the members go on without being heard.
    tokio::spawn(async move { while told.recv().await.is_some() {} });
    match tables(bootstrap).await {
        Ok(text) => {
            say(text.trim_end());
            Exit::Good
        }
        Err(error) => {
            complain(&error.to_string());
            Exit::Unreachable
        }
    }
}

async fn tables(bootstrap: &str) -> Result<String, Error> {
    let cluster = Cluster::connect(bootstrap, Options::default()).await?;
    settled(&cluster).await?;
    let terminal = io::stdout().is_terminal();
    let escape = if terminal { Escape::Terminal } else { Escape::Exact };
    let groups = groups_text(&cluster, Some(WIDTH)).await?;
    let topology = topology_text(&cluster, "word-count", escape).await?.unwrap_or_default();
    Ok(format!(
        "\n$ streamside groups --bootstrap-server {bootstrap}\n{groups}\n\
         $ streamside topology --bootstrap-server {bootstrap} --group word-count\n{topology}"
    ))
}

/// Waits until every group is stable; not for ever, since the tables are worth showing anyway.
async fn settled(cluster: &Cluster) -> Result<(), Error> {
    for _ in 0..50 {
        if cluster.list_groups(&["streams"]).await?.iter().all(|group| group.state == "Stable") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

fn next(bootstrap: &str, daemon: &Daemon) -> String {
    let mut text = format!(
        "\nIt goes on serving until Ctrl-C. From another terminal:\n\
         \x20 streamside groups   --bootstrap-server {bootstrap}\n\
         \x20 streamside members  --bootstrap-server {bootstrap} --group game-leaderboard\n\
         \x20 streamside topology --bootstrap-server {bootstrap} --group retail-items --format describe\n\
         \x20 kafka-streams-groups.sh --bootstrap-server {bootstrap} --describe --group orders --topology"
    );
    if let Some(address) = daemon.http_address() {
        text.push_str(&format!("\n  curl http://{address}/metrics"));
    }
    text
}

/// One member: joins, beats, pushes when it is asked, leaves at the end.
async fn member(
    bootstrap: String,
    application: Application,
    number: usize,
    tell: mpsc::Sender<Told>,
    mut end: watch::Receiver<bool>,
) {
    if let Err(error) = live(&bootstrap, &application, number, &tell, &mut end).await {
        let line = escaped(&format!("{} member {number}: {error}", application.id));
        let _ = tell.send(Told::Failed { line }).await;
    }
}

async fn live(
    bootstrap: &str,
    application: &Application,
    number: usize,
    tell: &mpsc::Sender<Told>,
    end: &mut watch::Receiver<bool>,
) -> Result<(), Error> {
    let id = application.id;
    let options = Options { client_id: format!("{id}-{number}"), ..Options::default() };
    let cluster = Cluster::connect(bootstrap, options).await?;
    let options =
        MemberOptions { group_id: id.to_owned(), topology: application.topology.clone(), ..MemberOptions::default() };
    let mut member = Member::new(cluster, options);
    let mut joined = false;
    loop {
        let answer = member.beat().await?;
        if !joined {
            joined = true;
            let line = format!("  {id} member {number} has joined at epoch {}", answer.member_epoch);
            let _ = tell.send(Told::Joined { line }).await;
        }
        if member.is_asked() {
            member.push(application.description.to_wire()).await?;
            let nodes = application.description.node_count();
            let line = format!("  {id} member {number} was asked for the topology and has pushed {nodes} nodes");
            let _ = tell.send(Told::Pushed { line }).await;
        }
        let told_to_end = tokio::time::timeout(member.interval(), end.wait_for(|end| *end)).await.is_ok();
        if told_to_end {
            return member.leave().await;
        }
    }
}
