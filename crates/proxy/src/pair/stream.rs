//! One side of a pair: a plain socket, or anything that carries bytes both ways.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Both directions of an encrypted connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// One side of a pair. Whoever makes the socket sets `TCP_NODELAY`: the engine writes what belongs together at once, so
/// holding small writes back only adds latency.
pub enum Stream {
    /// Plaintext.
    Tcp(TcpStream),
    /// Anything else, TLS above all.
    Other(Box<dyn Duplex>),
}

impl Stream {
    /// Reads what is there, as much as fits. An encrypted stream gives a record at a time, which would each cost a write to
    /// the other side.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(into);
        match self {
            Stream::Tcp(tcp) => ready!(Pin::new(tcp).poll_read(cx, &mut buffer))?,
            Stream::Other(other) => {
                while buffer.remaining() > 0 {
                    let before = buffer.filled().len();
                    match Pin::new(&mut *other).poll_read(cx, &mut buffer) {
                        Poll::Ready(Ok(())) if buffer.filled().len() > before => {}
                        // The end, or an error, comes again where something came before it.
                        Poll::Ready(read) if before == 0 => read?,
                        Poll::Pending if before == 0 => return Poll::Pending,
                        _ => {}
                    }
                    if buffer.filled().len() == before {
                        break;
                    }
                }
            }
        }
        Poll::Ready(Ok(buffer.filled().len()))
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(tcp) => Pin::new(tcp).poll_write(cx, from),
            Stream::Other(other) => Pin::new(other).poll_write(cx, from),
        }
    }

    pub(super) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, from),
            Stream::Other(other) => Pin::new(other).poll_write_vectored(cx, from),
        }
    }

    /// What was written is on its way. A plain socket has nothing to flush.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(_) => Poll::Ready(Ok(())),
            Stream::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}
