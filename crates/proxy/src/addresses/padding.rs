//! Bytes that stand where addresses stood: as many, all zero but for the lengths that make them unknown tagged fields,
//! which every client passes over.

use smallvec::SmallVec;

/// The highest tag number of one byte: Kafka numbers upwards from 0, so no client will know it soon. Numbers just below
/// serve where more than one field is needed.
const LAST: u8 = 127;

/// The highest tag number of two bytes, for lengths that cannot be filled behind a number of one.
const LAST_OF_TWO_BYTES: [u8; 2] = [0xff, 0x7f];

/// The most fields that are written. Kafka 4.4 sends at most one where we write any.
const MOST_FIELDS: u32 = 100;

/// What is written over the end of an answer: some bytes, then zeros.
#[derive(Debug, Default)]
pub(super) struct Padding {
    start: SmallVec<[u8; 16]>,
    written: usize,
}

impl Padding {
    /// `count` tagged fields that take `bytes` bytes. `None`: there are no such.
    pub(super) fn fields(count: u32, bytes: usize) -> Option<Self> {
        let mut padding = Padding::default();
        padding.push_fields(count, bytes).map(|()| padding)
    }

    /// An empty array and the tag section behind it, in `bytes` bytes. `None`: there are no such.
    pub(super) fn array_and_tags(bytes: usize) -> Option<Self> {
        let mut padding = Padding { start: SmallVec::from_slice(&[1, 1]), written: 0 };
        padding.push_fields(1, bytes.checked_sub(2)?).map(|()| padding)
    }

    fn push_fields(&mut self, count: u32, bytes: usize) -> Option<()> {
        let count = u8::try_from(count).ok().filter(|count| (1..=MOST_FIELDS).contains(&u32::from(*count)))?;
        for number in LAST - (count - 1)..LAST {
            self.start.extend_from_slice(&[number, 0]);
        }
        let bytes = bytes.checked_sub(2 * usize::from(count - 1))?;
        // Length and value fill any number of bytes but those where the length grows by a byte: 129, 16,386 and so on.
        let length = if let Some(length) = length_filling(bytes.checked_sub(1)?) {
            self.start.push(LAST);
            length
        } else {
            self.start.extend_from_slice(&LAST_OF_TWO_BYTES);
            length_filling(bytes.checked_sub(2)?)?
        };
        let mut rest = length;
        while rest >= 0x80 {
            self.start.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.start.push(rest as u8);
        Some(())
    }

    /// Writes the next bytes.
    pub(super) fn write(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
        let start = self.start.get(self.written..).unwrap_or_default();
        for (byte, wanted) in bytes.iter_mut().zip(start) {
            *byte = *wanted;
        }
        self.written = self.written.saturating_add(bytes.len());
    }
}

/// The length that takes `bytes` bytes together with what it counts.
fn length_filling(bytes: usize) -> Option<u32> {
    (1..=5).find_map(|own| {
        let length = u32::try_from(bytes.checked_sub(own)?).ok()?;
        let digits = (32 - length.leading_zeros()).div_ceil(7).max(1);
        (digits as usize == own).then_some(length)
    })
}

#[cfg(test)]
mod tests {
    use super::{Padding, length_filling};

    #[test]
    fn every_number_of_bytes_but_one_at_each_growth_can_be_filled() {
        let cannot: Vec<usize> = (1..3_000_000).filter(|bytes| length_filling(*bytes).is_none()).collect();
        assert_eq!(cannot, [129, 16_386, 2_097_155]);
    }

    #[test]
    fn too_few_bytes_and_too_many_fields_are_refused() {
        assert!(Padding::fields(1, 1).is_none());
        assert!(Padding::fields(1, 2).is_some());
        assert!(Padding::fields(3, 5).is_none());
        assert!(Padding::fields(3, 6).is_some());
        assert!(Padding::fields(0, 100).is_none());
        assert!(Padding::fields(101, 1000).is_none());
        assert!(Padding::array_and_tags(3).is_none());
        assert!(Padding::array_and_tags(4).is_some());
    }
}
