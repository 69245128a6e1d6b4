//! How each type of field stands on the wire.

use std::borrow::Cow;

use bytes::Bytes;

use crate::error::{DecodeError, EncodeError, Malformed, Unencodable};
use crate::reader::Reader;
use crate::tree::Tree;
use crate::writer::Writer;

/// What decides a value's form besides its type.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The API version.
    pub version: i16,
    /// Compact lengths and tag sections.
    pub flexible: bool,
    /// The field may be null in this version.
    pub nullable: bool,
}

impl Layout {
    /// A value that may not be null.
    pub fn new(version: i16, flexible: bool) -> Self {
        Layout { version, flexible, nullable: false }
    }

    /// The same, nullable or not.
    #[inline]
    pub fn nullable(self, nullable: bool) -> Self {
        Layout { nullable, ..self }
    }
}

/// A type that has a form on the wire.
pub trait Value<'a>: Sized {
    /// Reads one value.
    fn read(r: &mut Reader<'a>, l: Layout) -> Result<Self, DecodeError>;
    /// Writes one value.
    fn write(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError>;
    /// Shows one value.
    fn tree(&self, version: i16) -> Tree;
}

/// A type that has a form for "none" as well. `Option` of it is a field that may be null.
pub trait Nullable<'a>: Value<'a> {
    /// Reads one value or null.
    fn read_nullable(r: &mut Reader<'a>, l: Layout) -> Result<Option<Self>, DecodeError>;
    /// Writes null.
    fn write_null(w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError>;
    /// Writes one value where null would have been possible.
    fn write_present(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        self.write(w, l)
    }
}

impl<'a, T: Nullable<'a>> Value<'a> for Option<T> {
    #[inline]
    fn read(r: &mut Reader<'a>, l: Layout) -> Result<Self, DecodeError> {
        if l.nullable { T::read_nullable(r, l.nullable(false)) } else { T::read(r, l).map(Some) }
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        match (self, l.nullable) {
            (Some(value), true) => value.write_present(w, l.nullable(false)),
            (Some(value), false) => value.write(w, l),
            (None, true) => T::write_null(w, l),
            (None, false) => Err(EncodeError::new(Unencodable::Null)),
        }
    }

    fn tree(&self, version: i16) -> Tree {
        self.as_ref().map_or(Tree::Null, |value| value.tree(version))
    }
}

macro_rules! number {
    ($($name:ident)+) => {$(
        impl<'a> Value<'a> for $name {
            #[inline]
            fn read(r: &mut Reader<'a>, _: Layout) -> Result<Self, DecodeError> {
                r.$name()
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>, _: Layout) -> Result<(), EncodeError> {
                w.$name(*self);
                Ok(())
            }

            fn tree(&self, _: i16) -> Tree {
                Tree::Int(i64::from(*self))
            }
        }
    )+};
}

number!(i8 i16 u16 i32 i64);

impl<'a> Value<'a> for bool {
    #[inline]
    fn read(r: &mut Reader<'a>, _: Layout) -> Result<Self, DecodeError> {
        r.bool()
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>, _: Layout) -> Result<(), EncodeError> {
        w.bool(*self);
        Ok(())
    }

    fn tree(&self, _: i16) -> Tree {
        Tree::Bool(*self)
    }
}

impl<'a> Value<'a> for [u8; 16] {
    #[inline]
    fn read(r: &mut Reader<'a>, _: Layout) -> Result<Self, DecodeError> {
        r.uuid()
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>, _: Layout) -> Result<(), EncodeError> {
        w.raw(self);
        Ok(())
    }

    fn tree(&self, _: i16) -> Tree {
        Tree::Uuid(*self)
    }
}

#[inline]
fn present<T>(value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| DecodeError::new(Malformed::Null))
}

impl<'a> Value<'a> for Cow<'a, str> {
    #[inline]
    fn read(r: &mut Reader<'a>, l: Layout) -> Result<Self, DecodeError> {
        present(r.string(l.flexible)?)
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.string(Some(self), l.flexible)
    }

    fn tree(&self, _: i16) -> Tree {
        Tree::Text(self.to_string())
    }
}

impl<'a> Nullable<'a> for Cow<'a, str> {
    #[inline]
    fn read_nullable(r: &mut Reader<'a>, l: Layout) -> Result<Option<Self>, DecodeError> {
        r.string(l.flexible)
    }

    #[inline]
    fn write_null(w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.string(None, l.flexible)
    }
}

fn owned(r: &mut Reader<'_>, text: Cow<'_, str>) -> Result<String, DecodeError> {
    if let Cow::Borrowed(text) = text {
        r.charge(text.len())?;
    }
    Ok(text.into_owned())
}

impl<'a> Value<'a> for String {
    fn read(r: &mut Reader<'a>, l: Layout) -> Result<Self, DecodeError> {
        let text = present(r.string(l.flexible)?)?;
        owned(r, text)
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.string(Some(self), l.flexible)
    }

    fn tree(&self, _: i16) -> Tree {
        Tree::Text(self.clone())
    }
}

impl<'a> Nullable<'a> for String {
    #[inline]
    fn read_nullable(r: &mut Reader<'a>, l: Layout) -> Result<Option<Self>, DecodeError> {
        let Some(text) = r.string(l.flexible)? else {
            return Ok(None);
        };
        owned(r, text).map(Some)
    }

    #[inline]
    fn write_null(w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.string(None, l.flexible)
    }
}

impl<'a> Value<'a> for Bytes {
    fn read(r: &mut Reader<'a>, l: Layout) -> Result<Self, DecodeError> {
        present(r.bytes(l.flexible)?)
    }

    fn write(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.bytes(Some(self), l.flexible)
    }

    fn tree(&self, _: i16) -> Tree {
        Tree::Bytes(self.to_vec())
    }
}

impl<'a> Nullable<'a> for Bytes {
    fn read_nullable(r: &mut Reader<'a>, l: Layout) -> Result<Option<Self>, DecodeError> {
        r.bytes(l.flexible)
    }

    fn write_null(w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.bytes(None, l.flexible)
    }
}

impl<'a, T: Value<'a>> Value<'a> for Vec<T> {
    #[inline]
    fn read(r: &mut Reader<'a>, l: Layout) -> Result<Self, DecodeError> {
        let count = present(r.len(l.flexible)?)?;
        r.elements(count, |r| T::read(r, l))
    }

    fn write(&self, w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.len(Some(self.len()), l.flexible)?;
        self.iter().try_for_each(|element| element.write(w, l))
    }

    fn tree(&self, version: i16) -> Tree {
        Tree::List(self.iter().map(|element| element.tree(version)).collect())
    }
}

impl<'a, T: Value<'a>> Nullable<'a> for Vec<T> {
    #[inline]
    fn read_nullable(r: &mut Reader<'a>, l: Layout) -> Result<Option<Self>, DecodeError> {
        let Some(count) = r.len(l.flexible)? else {
            return Ok(None);
        };
        r.elements(count, |r| T::read(r, l)).map(Some)
    }

    #[inline]
    fn write_null(w: &mut Writer<'_>, l: Layout) -> Result<(), EncodeError> {
        w.len(None, l.flexible)
    }
}

/// The marker byte before a struct that may be null: as in Java any negative one means null.
#[inline]
pub(crate) fn struct_follows(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    Ok(r.i8()? >= 0)
}
