//! Steady heartbeats: members that have joined and settled, and send nothing new.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::codec;
use streamside_testkit::connection::{Shape, api};
use tokio::runtime::Runtime;

use crate::echo::Echo;
use crate::load::{Lanes, Pace, Window, median, run};
use crate::{Outcome, Plan, round};

/// Members that answered the same member epoch in a whole round.
struct Settled {
    frames: Vec<Vec<u8>>,
    /// Everything behind the correlation id of one answer: what the echo answers.
    answer: Vec<u8>,
}

/// A member's name and group.
fn name(run: &str, members: usize, groups: usize, i: usize) -> (String, String) {
    (format!("bench-{run}-{members}-g{:04}", i % groups), format!("m{i:021}"))
}

/// Joins all over a few connections, then beats until no epoch moves.
fn settle(port: u16, run: &str, members: usize, groups: usize) -> Outcome<Settled> {
    const SETTLERS: usize = 8;
    let epochs: Mutex<BTreeMap<usize, i64>> = Mutex::default();
    let each = |work: &(dyn Fn(&mut Client, usize) -> Outcome<i64> + Sync)| -> Outcome<bool> {
        let moved: Outcome<Vec<bool>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..SETTLERS)
                .map(|t| {
                    let epochs = &epochs;
                    scope.spawn(move || -> Outcome<bool> {
                        let mut client = Client::open(port, "bench")?;
                        let mut moved = false;
                        for i in (t..members).step_by(SETTLERS) {
                            let epoch = work(&mut client, i)?;
                            moved |=
                                epochs.lock().unwrap_or_else(PoisonError::into_inner).insert(i, epoch) != Some(epoch);
                        }
                        Ok(moved)
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().map_err(|_| "a settler panicked")?).collect()
        });
        Ok(moved?.contains(&true))
    };
    let good = |answer: &Value| -> Outcome<i64> {
        match (answer["ErrorCode"].as_i64(), answer["MemberEpoch"].as_i64()) {
            (Some(0), Some(epoch)) => Ok(epoch),
            _ => Err(format!("a heartbeat was refused: {answer}").into()),
        }
    };
    let of = |i: usize| name(run, members, groups, i);
    each(&|client, i| good(&client.join(&of(i).0, &of(i).1)?))?;
    let known = |i: usize| epochs.lock().unwrap_or_else(PoisonError::into_inner).get(&i).copied().unwrap_or(0);
    let uneven = || (groups..members).any(|i| known(i) != known(i % groups));
    for round in 0.. {
        if !each(&|client, i| good(&client.beat(&of(i).0, &of(i).1, known(i))?))? && !uneven() {
            break;
        }
        if round > 20 {
            return Err("the groups do not settle".into());
        }
    }
    let heartbeat = api(&json!("StreamsGroupHeartbeat"))?;
    let body = |i: usize| json!({"GroupId": of(i).0, "MemberId": of(i).1, "MemberEpoch": known(i)});
    let mut client = Client::open(port, "bench")?;
    let id = client.connection.send(heartbeat, 1, &body(0), &Shape::default())?;
    let answer = [&[0][..], &client.connection.receive(id, Duration::from_secs(5))?.bytes].concat();
    let frame = |i: usize| -> Outcome<Vec<u8>> {
        let header = json!({"RequestApiKey": 88, "RequestApiVersion": 1, "CorrelationId": i, "ClientId": "bench"});
        let mut data = codec::encode_request_header(2, &header)?;
        data.extend(codec::encode(&heartbeat.request, 1, &body(i))?);
        Ok([&u32::try_from(data.len())?.to_be_bytes(), data.as_slice()].concat())
    };
    Ok(Settled { frames: (0..members).map(frame).collect::<Outcome<_>>()?, answer })
}

/// Frames dealt to `connections` lanes in turn.
fn deal(frames: Vec<Vec<u8>>, connections: usize) -> Lanes {
    let mut lanes = vec![Vec::new(); connections.min(frames.len())];
    let count = lanes.len();
    for (i, frame) in frames.into_iter().enumerate() {
        lanes[i % count].push(frame);
    }
    Arc::new(lanes)
}

/// One in flight on each of 100 connections, as fast as it goes.
pub fn flat_out(plan: &Plan, runtime: &Runtime) -> Outcome<Value> {
    let mut out = Vec::new();
    for (members, groups) in [(100, 1), (1000, 10), (10_000, 100), (3000, 1)] {
        let server = plan.setup().start()?;
        let settled = settle(server.port, "flat", members, groups)?;
        let echo = Echo::start(&settled.answer)?;
        let lanes = deal(settled.frames, 100);
        let (mut shares, mut last) = (Vec::new(), None);
        for _ in 0..plan.rounds() {
            let window = plan.window();
            let own = runtime.block_on(run(server.port, server.pid(), Arc::clone(&lanes), Pace::FlatOut, window))?;
            let bare = runtime.block_on(run(echo.port, echo.pid(), Arc::clone(&lanes), Pace::FlatOut, window))?;
            shares.push(own.per_cpu_second() / bare.per_cpu_second());
            last = Some((own, bare));
        }
        out.push(pair(&mut shares, last, json!({"members": members, "groups": groups, "connections": 100})));
    }
    Ok(Value::from(out))
}

/// 5,000 members on 5,000 connections at one heartbeat in five seconds: 1,000 a second.
pub fn paced(plan: &Plan, runtime: &Runtime) -> Outcome<Value> {
    let (members, period) = if plan.quick { (500, Duration::from_millis(500)) } else { (5000, Duration::from_secs(5)) };
    let server = plan.setup().start()?;
    let settled = settle(server.port, "paced", members, members / 100)?;
    let echo = Echo::start(&settled.answer)?;
    let lanes = deal(settled.frames, members);
    let (mut shares, mut last) = (Vec::new(), None);
    for _ in 0..plan.rounds() {
        let window = plan.window().max(period * 2);
        let pace = Pace::Every(period);
        let own = runtime.block_on(run(server.port, server.pid(), Arc::clone(&lanes), pace, window))?;
        let bare = runtime.block_on(run(echo.port, echo.pid(), Arc::clone(&lanes), pace, window))?;
        shares.push(own.per_cpu_second() / bare.per_cpu_second());
        last = Some((own, bare));
    }
    let shape = json!({"members": members, "connections": members, "rate": members as f64 / period.as_secs_f64()});
    Ok(pair(&mut shares, last, shape))
}

/// The last round's figures of both, and the median share over all rounds.
fn pair(shares: &mut [f64], last: Option<(Window, Window)>, mut shape: Value) -> Value {
    if let Some((mut own, mut bare)) = last {
        shape["server"] = own.report();
        shape["echo"] = bare.report();
    }
    shape["share_of_echo"] = json!(round(median(shares)));
    shape
}
