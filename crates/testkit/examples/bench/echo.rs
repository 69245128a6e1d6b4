//! The yardstick: a tokio server that reads a frame and writes a canned answer, and does nothing else.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use streamside_testkit::codec::{hex, unhex};
use streamside_testkit::server::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Outcome;

/// The echo as a child, ended with its scope.
pub struct Echo {
    child: Child,
    /// On 127.0.0.1.
    pub port: u16,
}

impl Echo {
    /// Starts this program again as an echo that answers every frame with `answer` (all behind the correlation id).
    pub fn start(answer: &[u8]) -> Outcome<Self> {
        let port = free_port()?;
        let child = Command::new(std::env::current_exe()?)
            .args(["echo", &port.to_string(), &hex(answer)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let echo = Self { child, port };
        let deadline = Instant::now() + Duration::from_secs(5);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > deadline {
                return Err("the echo does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(echo)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Worker threads of the echo and of the server: the server's own default, said to both.
pub fn workers() -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1)
}

/// Runs the echo: the same runtime flavour and worker threads as the server's.
pub fn serve(port: u16, answer: &str) -> Outcome<()> {
    let answer = unhex(answer).ok_or("the answer is not hex")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers()).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(connection(stream, answer.clone()));
        }
    })
}

async fn connection(mut stream: TcpStream, answer: Vec<u8>) -> std::io::Result<()> {
    let mut input = Vec::with_capacity(4096);
    let mut output = Vec::with_capacity(4096);
    let length = (answer.len() as u32 + 4).to_be_bytes();
    while stream.read_buf(&mut input).await? > 0 {
        let mut done = 0;
        while let Some(frame) = whole_frame(&input[done..]) {
            output.extend(length);
            output.extend(&input[done + 8..done + 12]);
            output.extend(&answer);
            done += frame;
        }
        input.drain(..done);
        stream.write_all(&output).await?;
        output.clear();
    }
    Ok(())
}

/// Length of the frame at the front, its own four bytes included; `None` while it is not whole.
fn whole_frame(input: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*input.first_chunk()?) as usize;
    (length >= 8 && input.len() >= 4 + length).then_some(4 + length)
}
