//! Bytes in: every read is checked against what is left, and every reservation against a budget.

use std::borrow::Cow;

use bytes::Bytes;

use crate::MAX_STRING_BYTES;
use crate::error::{DecodeError, Malformed};
use crate::utf8;

/// Heap bytes that [`Reader::new`] allows for one byte of input. The densest honest input, an array of empty
/// strings, takes 24.
pub const HEAP_PER_BYTE: usize = 32;

/// Heap bytes that [`Reader::new`] allows on top.
pub const HEAP_BASE: usize = 4096;

/// The most elements of an array that Kafka 4.4 reads.
pub const MAX_ELEMENTS: usize = 1_000_000;

/// The most tagged fields of one struct that Kafka 4.4 reads.
pub const MAX_TAGS: usize = 10_000;

/// An array's first reservation, in bytes, where less input than that is left.
const FIRST_RESERVATION: usize = 1024;

/// Reads primitives from borrowed bytes and counts the heap that decoded values take.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    heap_left: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; decoded values may take [`HEAP_PER_BYTE`] times their length and [`HEAP_BASE`] of heap.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::with_heap_limit(bytes, bytes.len().saturating_mul(HEAP_PER_BYTE).saturating_add(HEAP_BASE))
    }

    /// Reads `bytes`; decoded values may take `limit` bytes of heap.
    pub fn with_heap_limit(bytes: &'a [u8], limit: usize) -> Self {
        Reader { rest: bytes, heap_left: limit }
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Heap bytes that may still be taken.
    pub fn heap_left(&self) -> usize {
        self.heap_left
    }

    /// Takes `bytes` from the heap budget; to be called before they are reserved.
    #[inline]
    pub fn charge(&mut self, bytes: usize) -> Result<(), DecodeError> {
        match self.heap_left.checked_sub(bytes) {
            Some(left) => {
                self.heap_left = left;
                Ok(())
            }
            None => Err(DecodeError::new(Malformed::TooMuchMemory)),
        }
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.truncated(n)),
        }
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(self.truncated(N)),
        }
    }

    #[cold]
    fn truncated(&self, wanted: usize) -> DecodeError {
        DecodeError::new(Malformed::Truncated { wanted, left: self.rest.len() })
    }

    /// One byte; as in Java, anything but zero is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.chunk::<1>()? != [0])
    }

    /// One signed byte.
    #[inline]
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        self.chunk().map(i8::from_be_bytes)
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.chunk().map(i16::from_be_bytes)
    }

    /// Two bytes, big-endian, without sign.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.chunk().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.chunk().map(i32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.chunk().map(i64::from_be_bytes)
    }

    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self) -> Result<[u8; 16], DecodeError> {
        self.chunk()
    }

    /// A variable-length integer of at most five bytes; bits beyond the 32nd are lost, as in Java.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        match self.rest.split_first() {
            Some((&byte, tail)) if byte < 0x80 => {
                self.rest = tail;
                Ok(u32::from(byte))
            }
            _ => self.long_uvarint(),
        }
    }

    fn long_uvarint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.chunk::<1>()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::new(Malformed::VarintTooLong))
    }

    /// A compact length (stored plus one); `None` for null. As in Java, what does not fit 31 bits counts as negative.
    #[inline]
    fn compact_len(&mut self) -> Result<Option<usize>, DecodeError> {
        let stored = self.uvarint()?.cast_signed();
        Ok(usize::try_from(stored.wrapping_sub(1)).ok())
    }

    /// Length of an array or of bytes; `None` for null, which as in Java is any negative length.
    #[inline]
    pub fn len(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        if flexible { self.compact_len() } else { Ok(usize::try_from(self.i32()?).ok()) }
    }

    /// A string; `None` for null. Bytes that are not UTF-8 become U+FFFD, grouped as Java groups them.
    #[inline]
    pub fn string(&mut self, flexible: bool) -> Result<Option<Cow<'a, str>>, DecodeError> {
        let len = if flexible { self.compact_len()? } else { usize::try_from(self.i16()?).ok() };
        let Some(len) = len else { return Ok(None) };
        if len > MAX_STRING_BYTES {
            return Err(DecodeError::new(Malformed::StringTooLong(len)));
        }
        let bytes = self.take(len)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(Cow::Borrowed(text))),
            Err(_) => self.repaired(bytes).map(Some),
        }
    }

    #[cold]
    fn repaired(&mut self, bytes: &[u8]) -> Result<Cow<'a, str>, DecodeError> {
        self.charge(bytes.len().saturating_mul(3))?;
        Ok(Cow::Owned(utf8::decode_as_java(bytes)))
    }

    /// Bytes, copied; `None` for null.
    pub fn bytes(&mut self, flexible: bool) -> Result<Option<Bytes>, DecodeError> {
        let Some(len) = self.len(flexible)? else {
            return Ok(None);
        };
        let bytes = self.take(len)?;
        self.charge(len)?;
        Ok(Some(Bytes::copy_from_slice(bytes)))
    }

    /// `count` elements, each read by `read`. Nothing is reserved on the strength of the count alone: room grows with
    /// the elements that were really there.
    #[inline]
    pub fn elements<T>(
        &mut self,
        count: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.check_count(count, MAX_ELEMENTS)?;
        let size = size_of::<T>().max(1);
        let first = (self.remaining().max(FIRST_RESERVATION) / size).max(1);
        let mut out: Vec<T> = Vec::new();
        while out.len() < count {
            if out.len() == out.capacity() {
                let more = count.min(first.max(out.len().saturating_mul(2))) - out.len();
                self.charge(more.saturating_mul(size))?;
                out.reserve_exact(more);
            }
            out.push(read(self)?);
        }
        Ok(out)
    }

    /// Refuses a count of elements of at least one byte each that cannot be, or that is above `max`.
    #[inline]
    pub(crate) fn check_count(&self, count: usize, max: usize) -> Result<(), DecodeError> {
        let left = self.remaining();
        if count > left {
            Err(DecodeError::new(Malformed::TooManyElements { count, left }))
        } else if count > max {
            Err(DecodeError::new(Malformed::OverMaximum(count)))
        } else {
            Ok(())
        }
    }

    /// A reader of the next `n` bytes alone, with the same heap budget; give it back with [`Reader::leave`].
    pub fn enter(&mut self, n: usize) -> Result<Reader<'a>, DecodeError> {
        Ok(Reader { rest: self.take(n)?, heap_left: self.heap_left })
    }

    /// Ends what [`Reader::enter`] began: nothing may be left.
    pub fn leave(&mut self, inner: Reader<'a>) -> Result<(), DecodeError> {
        self.heap_left = inner.heap_left;
        match inner.remaining() {
            0 => Ok(()),
            left => Err(DecodeError::new(Malformed::TagTooLong(left))),
        }
    }
}
