//! Tagged fields that we do not know: kept as they came and written back.

use bytes::BytesMut;

use crate::error::{DecodeError, EncodeError, Unencodable};
use crate::reader::{MAX_TAGS, Reader};
use crate::value::{Layout, Value};
use crate::writer::Writer;

/// Unknown tagged fields of one struct. Empty ones take a pointer's room and no heap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags(Option<Box<List>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct List(Vec<(u32, Box<[u8]>)>);

impl Tags {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Tag numbers and bytes in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.0.iter().flat_map(|list| &list.0).map(|(tag, bytes)| (*tag, &bytes[..]))
    }

    /// Adds a field; tags must ascend for the struct to be encodable.
    pub fn push(&mut self, tag: u32, bytes: &[u8]) {
        self.0.get_or_insert_default().0.push((tag, bytes.into()));
    }

    /// Reads a struct's whole tag section. `known` is asked first for each tag with a reader of its value; true means
    /// that it took the field.
    #[inline]
    pub(crate) fn read<'a>(
        r: &mut Reader<'a>,
        known: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<Self, DecodeError> {
        match r.uvarint()? {
            0 => Ok(Tags::default()),
            count => Self::read_some(r, count, known),
        }
    }

    fn read_some<'a>(
        r: &mut Reader<'a>,
        count: u32,
        mut known: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<Self, DecodeError> {
        r.check_count(count as usize, MAX_TAGS)?;
        let mut tags = Tags::default();
        for _ in 0..count {
            let (tag, size) = (r.uvarint()?, r.uvarint()?);
            let mut value = r.enter(size as usize)?;
            let bytes = value.rest();
            if known(tag, &mut value)? {
                r.leave(value)?;
            } else {
                tags.grow(count as usize, r)?;
                r.charge(bytes.len())?;
                tags.push(tag, bytes);
            }
        }
        Ok(tags)
    }

    /// Makes room for one field of `count` that are promised, and accounts for it.
    fn grow(&mut self, count: usize, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        if self.is_empty() {
            r.charge(size_of::<List>())?;
        }
        let list = &mut self.0.get_or_insert_default().0;
        if list.len() == list.capacity() {
            let more = count.min((2 * list.len()).max(4)) - list.len();
            r.charge(more * size_of::<(u32, Box<[u8]>)>())?;
            list.reserve_exact(more);
        }
        Ok(())
    }

    /// Writes a struct's tag section: `known` fields and these, in ascending order.
    #[inline]
    pub(crate) fn write(&self, w: &mut Writer<'_>, known: KnownTags) -> Result<(), EncodeError> {
        if self.is_empty() && known.0.is_empty() {
            w.uvarint(0);
            return Ok(());
        }
        self.write_some(w, known)
    }

    fn write_some(&self, w: &mut Writer<'_>, known: KnownTags) -> Result<(), EncodeError> {
        if !self.iter().map(|(tag, _)| tag).is_sorted_by(|a, b| a < b) {
            return Err(EncodeError::new(Unencodable::TagOrder));
        }
        let mut all: Vec<(u32, &[u8])> = known.0.iter().map(|(tag, bytes)| (*tag, &bytes[..])).collect();
        all.extend(self.iter());
        all.sort_by_key(|(tag, _)| *tag);
        if !all.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(EncodeError::new(Unencodable::TagOrder));
        }
        w.uvarint(size(all.len())?);
        for (tag, bytes) in all {
            w.uvarint(tag);
            w.uvarint(size(bytes.len())?);
            w.raw(bytes);
        }
        Ok(())
    }
}

fn size(len: usize) -> Result<u32, EncodeError> {
    u32::try_from(len).map_err(|_| EncodeError::new(Unencodable::TooLarge(len)))
}

/// Encoded tagged fields of a schema, gathered before their section is written.
#[derive(Default)]
pub(crate) struct KnownTags(Vec<(u32, BytesMut)>);

impl KnownTags {
    pub(crate) fn add<'a, T: Value<'a>>(&mut self, tag: u32, value: &T, l: Layout) -> Result<(), EncodeError> {
        let mut bytes = BytesMut::new();
        value.write(&mut Writer::new(&mut bytes), l)?;
        self.0.push((tag, bytes));
        Ok(())
    }
}
