//! The load: prepared frames on many connections, one in flight on each, flat out or at a pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use streamside_testkit::{codec, process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Outcome, round};

/// Frames of each connection, sent in turn.
pub type Lanes = Arc<Vec<Vec<Vec<u8>>>>;

/// What a window of load showed.
pub struct Window {
    done: u64,
    cpu: Duration,
    seconds: f64,
    latencies_us: Vec<u32>,
}

impl Window {
    /// Requests per CPU second of the server.
    pub fn per_cpu_second(&self) -> f64 {
        self.done as f64 / self.cpu.as_secs_f64()
    }

    /// CPU microseconds of the server for each request.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.done as f64
    }

    /// Latency at a share of all requests, in microseconds.
    pub fn latency_us(&mut self, share: f64) -> u32 {
        self.latencies_us.sort_unstable();
        let at = (self.latencies_us.len() as f64 * share) as usize;
        self.latencies_us.get(at.min(self.latencies_us.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// All of it for the report.
    pub fn report(&mut self) -> Value {
        json!({
            "requests": self.done,
            "per_second": (self.done as f64 / self.seconds).round(),
            "per_cpu_second": self.per_cpu_second().round(),
            "cpu_us_each": round(self.cpu_us()),
            "p50_us": self.latency_us(0.5),
            "p99_us": self.latency_us(0.99),
        })
    }
}

/// The middle one.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A frame's answer must carry error code 0: behind the correlation id come a tag section and the throttle time.
fn is_good(answer: &[u8]) -> bool {
    answer.get(9..11) == Some(&[0, 0])
}

/// How a lane sends.
#[derive(Clone, Copy)]
pub enum Pace {
    /// The next request as soon as the last is answered.
    FlatOut,
    /// One request in each period; what is late counts from the moment it was due.
    Every(Duration),
}

/// Opens a connection for each lane, warms up for a third of `window`, and measures for `window`.
pub async fn run(port: u16, pid: u32, lanes: Lanes, pace: Pace, window: Duration) -> Outcome<Window> {
    let mut streams = Vec::with_capacity(lanes.len());
    for _ in 0..lanes.len() {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let from = Instant::now() + window / 3;
    let until = from + window;
    // Answers count while this is set, so that they and the CPU clock are read over the very same window.
    let counting = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = streams
        .into_iter()
        .enumerate()
        .map(|(i, stream)| tokio::spawn(lane(stream, Arc::clone(&lanes), i, pace, Arc::clone(&counting), until)))
        .collect();
    tokio::time::sleep_until(from.into()).await;
    let (before, began) = (process::cpu(pid).ok_or("the server is gone")?, Instant::now());
    counting.store(true, Ordering::Relaxed);
    tokio::time::sleep_until(until.into()).await;
    counting.store(false, Ordering::Relaxed);
    let (cpu, seconds) = (process::cpu(pid).ok_or("the server is gone")? - before, began.elapsed().as_secs_f64());
    let mut latencies_us = Vec::new();
    for task in tasks {
        latencies_us.extend(task.await??);
    }
    Ok(Window { done: latencies_us.len() as u64, cpu, seconds, latencies_us })
}

/// One connection; gives the latencies of the answers that came inside the window.
async fn lane(
    mut stream: TcpStream,
    lanes: Lanes,
    index: usize,
    pace: Pace,
    counting: Arc<AtomicBool>,
    until: Instant,
) -> Outcome<Vec<u32>> {
    let frames = lanes.get(index).ok_or("no such lane")?;
    let mut latencies = Vec::new();
    let mut input = Vec::with_capacity(1024);
    let mut due = Instant::now();
    if let Pace::Every(period) = pace {
        // Lanes do not tick together.
        due += period.mul_f64(index as f64 / lanes.len() as f64);
    }
    for frame in frames.iter().cycle() {
        match pace {
            Pace::FlatOut => due = Instant::now(),
            Pace::Every(_) => tokio::time::sleep_until(due.min(until).into()).await,
        }
        if due >= until {
            break;
        }
        stream.write_all(frame).await?;
        read_answer(&mut stream, &mut input).await?;
        let end = Instant::now();
        if counting.load(Ordering::Relaxed) {
            latencies.push(u32::try_from(end.duration_since(due).as_micros()).unwrap_or(u32::MAX));
        }
        if let Pace::Every(period) = pace {
            due += period;
        }
    }
    Ok(latencies)
}

async fn read_answer(stream: &mut TcpStream, input: &mut Vec<u8>) -> Outcome<()> {
    input.clear();
    loop {
        if let Some(length) = input.first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if input.len() >= 4 + length {
                return if is_good(&input[4..]) {
                    Ok(())
                } else {
                    Err(format!("an answer with an error: {}", codec::hex(input)).into())
                };
            }
        }
        if stream.read_buf(input).await? == 0 {
            return Err("the server closed a connection".into());
        }
    }
}
