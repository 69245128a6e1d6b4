//! A broker that echoes, a handler of every kind, and a client that knows what must come.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use streamside_proxy::handler::{Answer, Exchange, Filter, Handler, Head, Mapped, Plan, Treat, Upstream};
use streamside_proxy::pair::{self, Ended, Options, Stats, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Api keys by which the test's handler decides.
pub const STREAMED: i16 = 10_007;
pub const FILTERED: i16 = 201;
pub const WHOLE: i16 = 202;
pub const CHANGED: i16 = 203;
pub const LOCAL: i16 = 204;
pub const EXCHANGE: i16 = 205;
pub const LATER: i16 = 206;
pub const FOLLOWED: i16 = 207;
pub const QUESTION: i16 = 208;
pub const SLOW: i16 = 209;
pub const PRODUCE: i16 = 0;

/// Added to the id of a question of ours.
pub const OURS: u64 = 1 << 32;

/// A request of the tests: what the broker echoes and how much it adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub api_key: i16,
    pub correlation_id: i32,
    pub id: u64,
    /// Questions of an exchange; acks of a produce.
    pub count: i16,
    pub answer_bytes: u32,
    pub filler: usize,
}

impl Ask {
    pub fn new(api_key: i16, id: u64) -> Self {
        Ask { api_key, correlation_id: id as i32, id, count: 1, answer_bytes: 0, filler: 0 }
    }

    /// Body of the frame.
    pub fn body(&self) -> BytesMut {
        let mut out = BytesMut::new();
        out.put_i16(self.api_key);
        out.put_i16(if self.api_key == PRODUCE { 9 } else { 0 });
        out.put_i32(self.correlation_id);
        if self.api_key == PRODUCE {
            // Client id, no tags, null transactional id.
            out.put_slice(&[0, 2, b'm', b'e', 0, 0]);
        }
        out.put_i16(self.count);
        out.put_u64(self.id);
        out.put_u32(self.answer_bytes);
        out.put_bytes(0x5a, self.filler);
        out
    }

    pub fn frame(&self) -> BytesMut {
        frame(&self.body())
    }

    /// Reads what [`Ask::body`] wrote.
    pub fn read(body: &[u8]) -> Self {
        let number = |at: usize, n: usize| body[at..at + n].iter().fold(0_u64, |v, b| v << 8 | u64::from(*b));
        let api_key = number(0, 2) as i16;
        let at = if api_key == PRODUCE { 14 } else { 8 };
        Ask {
            api_key,
            correlation_id: number(4, 4) as i32,
            count: number(at, 2) as i16,
            id: number(at + 2, 8),
            answer_bytes: number(at + 10, 4) as u32,
            filler: body.len() - at - 14,
        }
    }

    /// Body of the broker's answer: correlation id, id, filler.
    pub fn answer(&self) -> BytesMut {
        answer(self.correlation_id, self.id, self.answer_bytes as usize)
    }

    /// What the client gets, if it gets anything.
    pub fn expected(&self) -> Option<BytesMut> {
        let mut body = self.answer();
        match self.api_key {
            PRODUCE if self.count == 0 => return None,
            FILTERED => body[4..].iter_mut().for_each(|byte| *byte ^= 0xff),
            CHANGED => body.put_slice(b"mapped"),
            LATER => body.put_slice(b"later"),
            LOCAL => body.put_slice(b"local"),
            EXCHANGE | SLOW => body = answer(self.correlation_id, self.id, self.count as usize),
            _ => {}
        }
        Some(frame(&body))
    }
}

pub fn answer(correlation_id: i32, id: u64, filler: usize) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i32(correlation_id);
    out.put_u64(id);
    out.put_bytes(0xa5, filler);
    out
}

pub fn frame(body: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(4 + body.len());
    out.put_u32(body.len() as u32);
    out.put_slice(body);
    out
}

/// Inverts what is behind the correlation id, and wants to be told the length that comes.
#[derive(Default)]
struct Invert {
    length: usize,
    passed: usize,
}

impl Filter for Invert {
    fn begin(&mut self, length: usize) {
        assert_eq!((self.length, self.passed), (0, 0));
        self.length = length;
    }

    fn pass(&mut self, chunk: &mut [u8]) -> Result<(), String> {
        for byte in chunk {
            if self.passed >= 4 {
                *byte ^= 0xff;
            }
            self.passed += 1;
        }
        assert!(self.passed <= self.length, "{} bytes passed, {} were announced", self.passed, self.length);
        Ok(())
    }
}

/// Decides by api key; what it saw is written down.
#[derive(Clone, Default)]
pub struct Decider {
    pub seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
pub struct Seen {
    /// Answers to questions of ours.
    pub answered: u64,
    /// Questions whose answer never comes.
    pub lost: u64,
    /// Exchanges without a place that ran to their end.
    pub followed: u64,
}

impl Decider {
    /// Asks `count` questions, one behind the other, lets go of the upstream, takes its time, and answers.
    fn exchange(&self, ask: Ask, patience: u32, to_client: bool) -> Exchange {
        let seen = self.seen.clone();
        Box::new(move |mut upstream: Upstream| {
            Box::pin(async move {
                for n in 0..ask.count {
                    pause(patience).await;
                    let question = Ask { api_key: QUESTION, id: OURS + ask.id, count: n, answer_bytes: 3, ..ask };
                    match upstream.ask(Bytes::from(question.body())).await {
                        Ok(body) => {
                            assert_eq!(body, question.answer(), "the answer to a question of ours");
                            seen.lock().unwrap().answered += 1;
                        }
                        Err(_) => {
                            seen.lock().unwrap().lost += 1;
                            return Err("lost".to_owned());
                        }
                    }
                }
                drop(upstream);
                pause(patience).await;
                if to_client {
                    return Ok(Some(frame(&answer(ask.correlation_id, ask.id, ask.count as usize))));
                }
                seen.lock().unwrap().followed += 1;
                Ok(None)
            })
        })
    }
}

async fn pause(turns: u32) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

impl Handler for Decider {
    fn head(&mut self, head: Head) -> Treat {
        match head.api_key {
            FILTERED => Treat::Stream(Answer::Filter(Box::<Invert>::default())),
            WHOLE | CHANGED | LOCAL | EXCHANGE | LATER | FOLLOWED | SLOW => Treat::Whole(1 << 20),
            _ => Treat::Stream(Answer::Stream),
        }
    }

    fn request(&mut self, head: Head, body: &BytesMut) -> Plan {
        assert_eq!(body.len(), head.length, "all of the body is there");
        let ask = Ask::read(body);
        assert_eq!(ask.correlation_id, head.correlation_id);
        let whole = |map: Box<dyn FnOnce(BytesMut) -> Mapped + Send>| Answer::Whole { max: 1 << 20, map };
        match head.api_key {
            WHOLE => Plan::Forward(None, whole(Box::new(|body| Mapped::Frame(frame(&body), None)))),
            CHANGED => {
                // Under another correlation id: what the client said never meets the upstream.
                let other = Ask { correlation_id: 77, ..ask }.body();
                Plan::Forward(
                    Some(other),
                    whole(Box::new(move |mut body| {
                        body[..4].copy_from_slice(&ask.correlation_id.to_be_bytes());
                        body.put_slice(b"mapped");
                        Mapped::Frame(frame(&body), None)
                    })),
                )
            }
            LOCAL => {
                let mut body = ask.answer();
                body.put_slice(b"local");
                Plan::Local(frame(&body))
            }
            EXCHANGE => Plan::Exchange(self.exchange(ask, 1, true)),
            SLOW => Plan::Exchange(self.exchange(ask, 200, true)),
            LATER => Plan::Forward(
                None,
                whole(Box::new(|mut body| {
                    Mapped::Later(Box::pin(async move {
                        pause(20).await;
                        body.put_slice(b"later");
                        Ok(frame(&body))
                    }))
                })),
            ),
            _ => {
                let follow = self.exchange(ask, 1, false);
                Plan::Forward(None, whole(Box::new(|body| Mapped::Frame(frame(&body), Some(follow)))))
            }
        }
    }
}

/// What the broker saw.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Ask>>>);

impl Log {
    pub fn asks(&self) -> Vec<Ask> {
        self.0.lock().unwrap().clone()
    }
}

/// Echoes, in pieces of `piece` bytes, until its peer closes; then closes.
pub async fn echo<S: AsyncRead + AsyncWrite + Send>(stream: S, log: Log, piece: usize) {
    echo_until(stream, log, piece, usize::MAX).await;
}

/// The same, and is gone after so many bytes of answers.
pub async fn echo_until<S: AsyncRead + AsyncWrite + Send>(stream: S, log: Log, piece: usize, mut left: usize) {
    let (mut from, mut to) = tokio::io::split(stream);
    let (send, mut answers) = tokio::sync::mpsc::channel::<BytesMut>(16);
    let write = async move {
        while let Some(answer) = answers.recv().await {
            for part in answer.chunks(piece) {
                let part = part.get(..left).unwrap_or(part);
                left -= part.len();
                if to.write_all(part).await.is_err() || to.flush().await.is_err() || left == 0 {
                    return;
                }
            }
        }
        let _ = to.shutdown().await;
    };
    let read = async move {
        while let Some(body) = read_frame(&mut from).await {
            let ask = Ask::read(&body);
            log.0.lock().unwrap().push(ask);
            if ask.api_key == PRODUCE && ask.count == 0 {
                continue;
            }
            if send.send(frame(&ask.answer())).await.is_err() {
                break;
            }
        }
        drop(send);
        std::future::pending().await
    };
    tokio::select! { () = write => {}, () = read => {} }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Body of the next frame; `None` at the end.
pub async fn read_frame<R: AsyncRead + Unpin>(from: &mut R) -> Option<Vec<u8>> {
    let length = from.read_u32().await.ok()?;
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body).await.ok()?;
    Some(body)
}

pub fn options() -> Options {
    Options { max_request_bytes: 10 << 20, idle: Duration::from_secs(60), ..Options::default() }
}

/// A pair between two pipes that hold so many bytes.
pub struct Piped {
    pub client: DuplexStream,
    pub broker: DuplexStream,
    pub draining: watch::Sender<bool>,
    pub ended: JoinHandle<(Ended, Stats)>,
}

pub fn piped<H: Handler + 'static>(handler: H, options: Options, client_pipe: usize, broker_pipe: usize) -> Piped {
    let (client, ours) = tokio::io::duplex(client_pipe);
    let (upstream, broker) = tokio::io::duplex(broker_pipe);
    let (draining, drain) = watch::channel(false);
    let (ours, upstream) = (Stream::Other(Box::new(ours)), Stream::Other(Box::new(upstream)));
    let ended = tokio::spawn(async move { pair::run_counted(ours, upstream, handler, &options, drain).await });
    Piped { client, broker, draining, ended }
}

/// Nothing in these tests takes so long; a deadlock does.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("ends in time")
}
