//! Bytes out.

use bytes::{BufMut, BytesMut};

use crate::MAX_STRING_BYTES;
use crate::error::{EncodeError, Unencodable};

/// Appends primitives to a buffer. After an error the buffer ends with half a message: the caller cuts it off.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut BytesMut,
}

impl<'b> Writer<'b> {
    /// Appends to `out`.
    pub fn new(out: &'b mut BytesMut) -> Self {
        Writer { out }
    }

    /// Bytes as they are, without a length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// One byte, 0 or 1.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.out.put_u8(u8::from(value));
    }

    /// One signed byte.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    /// Two bytes, big-endian, without sign.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.out.put_u16(value);
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    /// Eight bytes, big-endian.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    /// A variable-length integer of one to five bytes.
    #[inline]
    pub fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// Length of an array or of bytes; `None` for null.
    #[inline]
    pub fn len(&mut self, len: Option<usize>, flexible: bool) -> Result<(), EncodeError> {
        let Some(len) = len else {
            if flexible {
                self.uvarint(0);
            } else {
                self.i32(-1);
            }
            return Ok(());
        };
        // The stored form of a compact length is one larger and must stay a positive 32-bit number.
        match i32::try_from(len) {
            Ok(stored) if stored < i32::MAX => {
                if flexible {
                    self.uvarint(stored.unsigned_abs() + 1);
                } else {
                    self.i32(stored);
                }
                Ok(())
            }
            _ => Err(EncodeError::new(Unencodable::TooLarge(len))),
        }
    }

    /// A string; `None` for null.
    #[inline]
    pub fn string(&mut self, value: Option<&str>, flexible: bool) -> Result<(), EncodeError> {
        let Some(text) = value else {
            if flexible {
                self.uvarint(0);
            } else {
                self.i16(-1);
            }
            return Ok(());
        };
        if text.len() > MAX_STRING_BYTES {
            return Err(EncodeError::new(Unencodable::StringTooLong(text.len())));
        }
        if flexible {
            self.uvarint(text.len() as u32 + 1);
        } else {
            self.i16(text.len() as i16);
        }
        self.raw(text.as_bytes());
        Ok(())
    }

    /// Bytes with their length; `None` for null.
    pub fn bytes(&mut self, value: Option<&[u8]>, flexible: bool) -> Result<(), EncodeError> {
        self.len(value.map(<[u8]>::len), flexible)?;
        self.raw(value.unwrap_or_default());
        Ok(())
    }
}
