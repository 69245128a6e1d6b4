//! What forwarding costs: direct, through a bare relay (`copy_bidirectional`, 64 KiB), and through a pair, in turns of
//! one run against a scripted broker on loopback. JSON on stdout, one line a kind; CPU is the forwarding process' own.
//!
//! `cargo run --release -p streamside-proxy --example relay_bench [-- --rounds N] [--requests N] [--mib N] [--idle N]
//! [--only KIND]`
//!
//! Kinds: `small` (requests of 120 bytes streamed), `whole` (the same, collected both ways), `produce` (100 KiB
//! requests), `fetch` (1 MiB answers streamed), `filter` (the same behind a filter), `idle` (memory of idle connections).

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use streamside_proxy::handler::{Answer, Filter, Handler, Head, Mapped, Plan, Treat};
use streamside_proxy::pair::{self, Options, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const FILTERED: i16 = 10_001;
const STREAMED: i16 = 10_002;
const WHOLE: i16 = 10_003;

/// Buffers of the bare relay.
const RELAY_BYTES: usize = 64 * 1024;

struct Kind {
    name: &'static str,
    api_key: i16,
    request: usize,
    answer: usize,
    connections: usize,
    in_flight: usize,
    /// Bytes that count as payload.
    bulk: bool,
}

const KINDS: [Kind; 5] = [
    Kind { name: "small", api_key: STREAMED, request: 120, answer: 100, connections: 8, in_flight: 1, bulk: false },
    Kind { name: "whole", api_key: WHOLE, request: 120, answer: 100, connections: 8, in_flight: 1, bulk: false },
    Kind {
        name: "produce",
        api_key: PRODUCE,
        request: 100 << 10,
        answer: 50,
        connections: 2,
        in_flight: 4,
        bulk: true,
    },
    Kind { name: "fetch", api_key: FETCH, request: 80, answer: 1 << 20, connections: 2, in_flight: 4, bulk: true },
    Kind { name: "filter", api_key: FILTERED, request: 80, answer: 1 << 20, connections: 2, in_flight: 4, bulk: true },
];

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["broker", port] => runtime.block_on(broker(port.parse()?)),
        ["relay", port, to] => runtime.block_on(forward(port.parse()?, to.parse()?, relay)),
        ["pair", port, to] => runtime.block_on(forward(port.parse()?, to.parse()?, pair)),
        _ => runtime.block_on(measure(&arguments)),
    }
}

async fn measure(arguments: &[String]) -> Outcome<()> {
    let number = |name: &str, or: u64| {
        arguments.iter().skip_while(|a| *a != name).nth(1).and_then(|n| n.parse().ok()).unwrap_or(or)
    };
    let only = arguments.iter().skip_while(|a| *a != "--only").nth(1);
    let (rounds, requests, mib) = (number("--rounds", 3), number("--requests", 20_000), number("--mib", 512));
    let ports = free_ports(3)?;
    let broker = Process::start(&["broker"], ports[0], None).await?;
    let relay = Process::start(&["relay"], ports[1], Some(broker.port)).await?;
    let pair = Process::start(&["pair"], ports[2], Some(broker.port)).await?;
    for kind in KINDS.iter().filter(|kind| only.is_none_or(|only| only == kind.name)) {
        let total = if kind.bulk { (mib << 20) / (kind.request + kind.answer) as u64 } else { requests };
        let ways = [("direct", &broker), ("relay", &relay), ("us", &pair)];
        let mut runs: [Vec<Run>; 3] = Default::default();
        for way in ways {
            run(kind, way.1, total / 5).await?;
        }
        for round in 0..rounds {
            for turn in 0..3 {
                // Forwards and backwards in turn: drift hits all alike.
                let turn = if round % 2 == 0 { turn } else { 2 - turn };
                runs[turn].push(run(kind, ways[turn].1, total).await?);
            }
        }
        let figures: Vec<String> = ways.iter().zip(&runs).map(|((name, _), runs)| said(name, kind, runs)).collect();
        println!("{{\"kind\":\"{}\",{}}}", kind.name, figures.join(","));
    }
    if only.is_none_or(|only| only == "idle") {
        let count = number("--idle", 1000);
        println!(
            "{{\"kind\":\"idle\",\"connections\":{count},\"relay_bytes\":{},\"us_bytes\":{}}}",
            idle(&relay, count).await?,
            idle(&pair, count).await?
        );
    }
    Ok(())
}

fn said(name: &str, kind: &Kind, runs: &[Run]) -> String {
    let median = |f: &dyn Fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(f).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let gib = |r: &Run| r.bytes as f64 / f64::from(1 << 30);
    if kind.bulk {
        let (rate, cpu) = (median(&|r| gib(r) * 1024.0 / r.seconds), median(&|r| r.cpu / gib(r)));
        return format!("\"{name}\":{{\"mib_per_s\":{rate:.0},\"cpu_s_per_gib\":{cpu:.3}}}");
    }
    let (rate, cpu) = (median(&|r| r.requests as f64 / r.seconds), median(&|r| r.cpu * 1e5 / r.requests as f64));
    let (p50, p99) = (median(&|r| r.p50), median(&|r| r.p99));
    format!("\"{name}\":{{\"per_s\":{rate:.0},\"cpu_s_per_100k\":{cpu:.3},\"p50_us\":{p50:.0},\"p99_us\":{p99:.0}}}")
}

struct Run {
    requests: u64,
    bytes: u64,
    seconds: f64,
    cpu: f64,
    p50: f64,
    p99: f64,
}

async fn run(kind: &Kind, way: &Process, total: u64) -> Outcome<Run> {
    let mut streams = Vec::new();
    for _ in 0..kind.connections {
        streams.push(connect(way.port).await?);
    }
    let (began, cpu) = (Instant::now(), way.cpu_seconds()?);
    let each = total / kind.connections as u64;
    let (api_key, request, answer, in_flight) = (kind.api_key, kind.request, kind.answer, kind.in_flight);
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|stream| tokio::spawn(load(stream, api_key, request, answer, in_flight, each)))
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    let requests = times.len() as u64;
    Ok(Run {
        requests,
        bytes: requests * (request + answer) as u64,
        seconds: began.elapsed().as_secs_f64(),
        cpu: way.cpu_seconds()? - cpu,
        p50: at(0.5),
        p99: at(0.99),
    })
}

/// Sends the same request again and again, so many in flight; how long each took.
async fn load(
    mut stream: TcpStream,
    api_key: i16,
    request: usize,
    answer: usize,
    in_flight: usize,
    total: u64,
) -> Outcome<Vec<Duration>> {
    let mut frame = BytesMut::new();
    frame.put_u32(request as u32);
    frame.put_i16(api_key);
    frame.put_i16(9);
    frame.put_i32(1);
    // No client id, no tags, no transactional id, acks: all.
    frame.put_slice(&[255, 255, 0, 0, 255, 255]);
    frame.put_u32(answer as u32);
    frame.resize(4 + request, 7);
    let (mut from, mut to) = stream.split();
    let (mut times, mut sent_at) = (Vec::new(), std::collections::VecDeque::new());
    let mut sent = 0;
    let mut scratch = vec![0; 256 << 10];
    let mut due = 4 + answer;
    while (times.len() as u64) < total {
        let behind = sent < total && sent_at.len() < in_flight;
        if behind {
            sent_at.push_back(Instant::now());
            sent += 1;
        }
        // Writing must not wait while answers are not read.
        let mut left: &[u8] = if behind { &frame } else { &[] };
        loop {
            tokio::select! {
                n = to.write(left), if !left.is_empty() => left = &left[n?..],
                n = from.read(&mut scratch), if left.is_empty() || !sent_at.is_empty() => {
                    let mut n = n?;
                    if n == 0 {
                        return Err("closed".into());
                    }
                    while n >= due {
                        n -= due;
                        due = 4 + answer;
                        times.push(sent_at.pop_front().ok_or("more answers than requests")?.elapsed());
                    }
                    due -= n;
                    if left.is_empty() { break; }
                }
                else => break,
            }
            if left.is_empty() && sent_at.len() < in_flight && sent < total {
                break;
            }
        }
    }
    Ok(times)
}

/// Answers each request by as many bytes as it says, as fast as it can.
async fn broker(port: u16) -> Outcome<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let mut input = BytesMut::with_capacity(256 << 10);
            let mut output = vec![0; 2 << 20];
            while stream.read_buf(&mut input).await.unwrap_or(0) > 0 {
                while let Some(length) = input.first_chunk::<4>().map(|b| u32::from_be_bytes(*b) as usize)
                    && input.len() >= 4 + length
                {
                    let frame = input.split_to(4 + length);
                    let answer = frame.get(18..22).and_then(<[u8]>::first_chunk).map_or(4, |b| u32::from_be_bytes(*b));
                    let answer = answer as usize;
                    output[..4].copy_from_slice(&(answer as u32).to_be_bytes());
                    output[4..8].copy_from_slice(&frame[8..12]);
                    if stream.write_all(&output[..4 + answer]).await.is_err() {
                        return;
                    }
                }
                input.reserve(256 << 10);
            }
        });
    }
}

async fn forward<F>(port: u16, to: u16, how: impl Fn(TcpStream, TcpStream) -> F + Copy + Send + 'static) -> Outcome<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        tokio::spawn(async move {
            if let Ok(upstream) = connect(to).await {
                how(client, upstream).await;
            }
        });
    }
}

async fn relay(mut client: TcpStream, mut upstream: TcpStream) {
    let _ = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, RELAY_BYTES, RELAY_BYTES).await;
}

async fn pair(client: TcpStream, upstream: TcpStream) {
    let (_draining, drain) = tokio::sync::watch::channel(false);
    let options = Options::default();
    pair::run(Stream::Tcp(client), Stream::Tcp(upstream), Passes, &options, drain).await;
}

struct Passes;

impl Handler for Passes {
    fn head(&mut self, head: Head) -> Treat {
        match head.api_key {
            WHOLE => Treat::Whole(1 << 20),
            FILTERED => Treat::Stream(Answer::Filter(Box::new(First(Some(60))))),
            _ => Treat::Stream(Answer::Stream),
        }
    }

    fn request(&mut self, _head: Head, _body: &BytesMut) -> Plan {
        Plan::Forward(None, Answer::Whole { max: 1 << 20, map: Box::new(|body| Mapped::Frame(framed(&body), None)) })
    }
}

fn framed(body: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(4 + body.len());
    frame.put_u32(body.len() as u32);
    frame.put_slice(body);
    frame
}

/// Looks at the first bytes, and lets the rest pass.
struct First(Option<usize>);

impl Filter for First {
    fn pass(&mut self, chunk: &mut [u8]) -> Result<(), String> {
        self.0 = self.0.and_then(|left| left.checked_sub(chunk.len()));
        Ok(())
    }
}

/// Bytes of memory of one idle connection.
async fn idle(way: &Process, count: u64) -> Outcome<u64> {
    run(&KINDS[0], way, 1000).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = way.resident_bytes()?;
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = connect(way.port).await?;
        load_once(&mut stream).await?;
        held.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(way.resident_bytes()?.saturating_sub(before) / count.max(1))
}

async fn load_once(stream: &mut TcpStream) -> Outcome<()> {
    let mut frame = vec![0, 0, 0, 18, 0x27, 0x12, 0, 9, 0, 0, 0, 1, 255, 255, 0, 0, 255, 255, 0, 0, 0, 50];
    stream.write_all(&frame).await?;
    frame.resize(54, 0);
    stream.read_exact(&mut frame).await?;
    Ok(())
}

async fn connect(port: u16) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn free_ports(count: usize) -> Outcome<Vec<u16>> {
    // Below the ephemeral range: a connect loop to a free port there can connect to itself.
    let free: Vec<u16> =
        (12_500..12_900).filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect();
    if free.len() == count { Ok(free) } else { Err("no free port from 12500 to 12899".into()) }
}

/// This program again, in another role; ended with its scope.
struct Process {
    child: Child,
    port: u16,
}

impl Process {
    async fn start(role: &[&str], port: u16, to: Option<u16>) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(role).arg(port.to_string()).args(to.map(|to| to.to_string())).stdin(Stdio::null());
        let process = Process { child: command.spawn()?, port };
        let deadline = Instant::now() + Duration::from_secs(5);
        while connect(port).await.is_err() {
            if Instant::now() > deadline {
                return Err(format!("{role:?} does not listen").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(process)
    }

    /// Of the scheduler, to the nanosecond.
    fn cpu_seconds(&self) -> Outcome<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id()))?;
        let nanoseconds: f64 = text.split(' ').next().ok_or("no schedstat")?.parse()?;
        Ok(nanoseconds / 1e9)
    }

    fn resident_bytes(&self) -> Outcome<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()))?;
        let pages: u64 = text.split(' ').nth(1).ok_or("no statm")?.parse()?;
        Ok(pages * 4096)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
