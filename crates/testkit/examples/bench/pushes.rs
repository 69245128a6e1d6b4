//! Pushes and describes of descriptions of many sizes, one after the other on one connection.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use streamside_testkit::client::Client;
use streamside_testkit::codec;
use streamside_testkit::process;
use streamside_testkit::schema::Catalog;
use streamside_testkit::server::Server;
use streamside_testkit::topologies::chain;

use crate::load::median;
use crate::{Outcome, Plan, round};

/// Sizes in nodes.
const SIZES: [usize; 4] = [10, 150, 1000, 5000];

/// Encoded once, sent as raw bytes: the codec of the load must not be what is measured.
fn frame(key: i16, version: i16, body: &Value) -> Outcome<Vec<u8>> {
    let api = Catalog::get().api(key).ok_or("no such api")?;
    let header = json!({"RequestApiKey": key, "RequestApiVersion": version, "CorrelationId": 1, "ClientId": "bench"});
    let mut data = codec::encode_request_header(2, &header)?;
    data.extend(codec::encode(&api.request, version, body)?);
    Ok([&u32::try_from(data.len())?.to_be_bytes(), data.as_slice()].concat())
}

/// Sends frames in turn for `window`; `good` looks at each answer.
fn measure(
    server: &Server,
    client: &mut Client,
    frames: &[Vec<u8>],
    window: Duration,
    good: fn(&[u8]) -> bool,
) -> Outcome<Value> {
    let mut times = Vec::new();
    let mut bytes = 0;
    let (before, began) = (process::cpu(server.pid()).ok_or("the server is gone")?, Instant::now());
    for frame in frames.iter().cycle() {
        let sent = Instant::now();
        client.connection.send_raw(frame)?;
        let answer = client.connection.read_frame(Duration::from_secs(30))?;
        if !good(&answer) {
            return Err(format!("an answer with an error: {}", codec::hex(&answer[..answer.len().min(80)])).into());
        }
        bytes = answer.len();
        times.push(sent.elapsed().as_secs_f64() * 1e6);
        if began.elapsed() > window && times.len() >= 20 {
            break;
        }
    }
    let cpu = process::cpu(server.pid()).ok_or("the server is gone")? - before;
    let count = times.len();
    let middle = median(&mut times);
    Ok(json!({
        "requests": count,
        "cpu_us_each": round(cpu.as_secs_f64() * 1e6 / count as f64),
        "p50_us": middle.round(),
        "p99_us": times.get(count * 99 / 100).map(|t| t.round()),
        "request_bytes": frames.first().map(Vec::len),
        "answer_bytes": bytes,
    }))
}

/// Each size with groups of its own.
pub fn all(plan: &Plan) -> Outcome<Value> {
    let mut out = Vec::new();
    for nodes in SIZES {
        // A server each, and one that lets the largest size through whole.
        let server = plan.setup().set("streamside.description.max.bytes", 16 << 20).start()?;
        let mut client = Client::open(server.port, "bench")?;
        let mut pushes = Vec::new();
        // Bytes that differ from those stored, so that every push is a write: two descriptions in turn.
        for variant in 0..2 {
            for group in 0..10 {
                let name = format!("bench-{nodes}-{group}");
                if variant == 0 && client.join(&name, "m")?["ErrorCode"] != 0 {
                    return Err("a join was refused".into());
                }
                let mut description = chain(nodes);
                description["Subtopologies"][0]["Nodes"][0]["SourceTopics"] = json!([format!("topic-{variant}")]);
                let body =
                    json!({"GroupId": name, "MemberId": "m", "TopologyEpoch": 0, "TopologyDescription": description});
                pushes.push(frame(93, 0, &body)?);
            }
        }
        let pushed = measure(&server, &mut client, &pushes, plan.window(), |a| a.get(9..11) == Some(&[0, 0]))?;
        let describe = |group: usize| {
            frame(89, 1, &json!({"GroupIds": [format!("bench-{nodes}-{group}")], "IncludeTopologyDescription": true}))
        };
        let describes = (0..10).map(describe).collect::<Outcome<Vec<_>>>()?;
        // Behind correlation id, tags, throttle time and a list of one group stands that group's error code.
        let described = measure(&server, &mut client, &describes, plan.window(), |a| {
            a.get(9..12) == Some(&[2, 0, 0]) && a.len() > 500
        })?;
        out.push(json!({"nodes": nodes, "push": pushed, "describe": described}));
    }
    Ok(Value::from(out))
}
