//! Answers that are changed in place while they stream by: not a byte more or less, nothing held.
//!
//! An answer is walked by its shape, from length to length; what a length covers is passed over unseen,
//! records above all. The addresses stand at the very end of these answers, so from their first byte on everything is
//! overwritten with padding up to the end of the frame, whose length is known from the start: an
//! emptied array where there was an array, and one unknown tagged field of exactly the bytes that are left. Tagged fields
//! that a later broker might send behind the addresses go with them; where there are no addresses, they stay.

use smallvec::SmallVec;

use super::padding::Padding;
use super::shape::{self, Part};
use crate::handler::Filter;

/// Takes the addresses of nodes out of one answer to Produce, Fetch, ShareFetch or ShareAcknowledge.
#[derive(Debug)]
pub struct EndpointFilter {
    /// Structs that we are in, the innermost last. No shape is deeper than four.
    levels: SmallVec<[Level; 4]>,
    state: State,
    /// Fields of the current tag section that are still to come, the present one included.
    tags: u32,
    /// The current tag section is the one that may hold addresses; the number before, if any.
    own: Option<Option<u32>>,
    /// Bytes of the frame's body.
    length: Option<usize>,
    passed: usize,
}

#[derive(Debug)]
struct Level {
    parts: &'static [Part],
    /// Index of the next part.
    next: usize,
    /// Elements of the array behind this one.
    more: u32,
}

#[derive(Debug)]
enum State {
    /// So many bytes stay as they are; never 0.
    Skip(usize),
    /// A variable-length integer, as far as it is read.
    Number { what: What, value: u32, bytes: u32 },
    /// The first byte of an array of addresses.
    Endpoints,
    /// Everything from here on is overwritten.
    Over(Padding),
}

#[derive(Clone, Copy, Debug)]
enum What {
    Size,
    Count(&'static [Part]),
    Tags,
    Tag,
    TagSize,
}

impl State {
    fn number(what: What) -> Self {
        State::Number { what, value: 0, bytes: 0 }
    }
}

impl EndpointFilter {
    /// For the answer to a request of this key and version; `None`: that answer needs no filter.
    pub fn new(api_key: i16, version: i16) -> Option<Self> {
        let parts = shape::of(api_key, version)?;
        let levels = SmallVec::from_iter([Level { parts, next: 0, more: 0 }]);
        let mut filter =
            EndpointFilter { levels, state: State::Endpoints, tags: 0, own: None, length: None, passed: 0 };
        filter.state = filter.next_part();
        Some(filter)
    }

    /// Looks at the next bytes, at least one; returns how many are done with.
    fn step(&mut self, bytes: &mut [u8]) -> Result<usize, String> {
        match &mut self.state {
            State::Skip(left) => {
                let taken = bytes.len().min(*left);
                let left = *left - taken;
                self.state = self.skip_bytes(left);
                Ok(taken)
            }
            State::Number { what, value, bytes: read } => {
                let Some(byte) = bytes.first().copied() else { return Ok(0) };
                // Bits beyond the 32nd are lost, as in Java.
                *value |= u32::from(byte & 0x7f) << (7 * *read);
                *read += 1;
                if byte < 0x80 {
                    let (what, value, read) = (*what, *value, *read);
                    return self.number_read(what, value, read);
                }
                if *read >= 5 {
                    return Err("a variable-length integer is longer than five bytes".to_owned());
                }
                Ok(1)
            }
            State::Endpoints => match bytes.first() {
                // Null or empty.
                Some(0 | 1) => {
                    self.state = self.next_part();
                    Ok(1)
                }
                _ => self.overwrite(Padding::array_and_tags),
            },
            State::Over(padding) => {
                padding.write(bytes);
                Ok(bytes.len())
            }
        }
    }

    /// From the next byte on everything is overwritten.
    fn overwrite(&mut self, padding: impl FnOnce(usize) -> Option<Padding>) -> Result<usize, String> {
        let left = self.length.and_then(|length| length.checked_sub(self.passed));
        match left.and_then(padding) {
            Some(padding) => {
                self.state = State::Over(padding);
                Ok(0)
            }
            None => Err("addresses of nodes leave no room for what replaces them".to_owned()),
        }
    }

    /// A number of so many bytes ended with the next byte; returns whether that is done with.
    fn number_read(&mut self, what: What, value: u32, bytes: u32) -> Result<usize, String> {
        let stored = || i32::try_from(value).map_err(|_| format!("a length of {value} is too large"));
        self.state = match what {
            // A compact length is stored plus one; 0 is null.
            What::Size => {
                stored()?;
                self.skip_bytes(value.saturating_sub(1) as usize)
            }
            What::Count(parts) => {
                stored()?;
                if let Some(more) = value.checked_sub(2) {
                    self.levels.push(Level { parts, next: 0, more });
                }
                self.next_part()
            }
            What::Tags => {
                self.tags = value;
                self.skip_bytes(0)
            }
            What::Tag => {
                if let Some(before) = self.own {
                    // Java reads such numbers too, but no broker writes them, and the address behind one must not pass.
                    if before.is_some_and(|before| value <= before) || (value < 0x80) != (bytes == 1) {
                        return Err(format!("tagged field {value} out of order"));
                    }
                    if value == 0 {
                        let count = self.tags;
                        return self.overwrite(|left| Padding::fields(count, left));
                    }
                    self.own = Some(Some(value));
                }
                State::number(What::TagSize)
            }
            What::TagSize => {
                stored()?;
                self.tags = self.tags.saturating_sub(1);
                self.skip_bytes(value as usize)
            }
        };
        Ok(1)
    }

    /// The state in which so many bytes are passed over.
    fn skip_bytes(&mut self, bytes: usize) -> State {
        match bytes {
            0 if self.tags > 0 => State::number(What::Tag),
            0 => self.next_part(),
            _ => State::Skip(bytes),
        }
    }

    fn next_part(&mut self) -> State {
        while let Some(level) = self.levels.last_mut() {
            let Some(part) = level.parts.get(level.next) else {
                if level.more > 0 {
                    level.more -= 1;
                    level.next = 0;
                } else {
                    self.levels.pop();
                }
                continue;
            };
            level.next += 1;
            return match part {
                Part::Fixed(bytes) => State::Skip(*bytes),
                Part::Sized => State::number(What::Size),
                Part::Array(parts) => State::number(What::Count(parts)),
                Part::Tags => State::number(What::Tags),
                Part::EndpointTags => {
                    self.own = Some(None);
                    State::number(What::Tags)
                }
                Part::Endpoints => State::Endpoints,
            };
        }
        // What stands behind a body is read by nobody.
        State::Over(Padding::default())
    }
}

impl Filter for EndpointFilter {
    fn begin(&mut self, length: usize) {
        self.length = Some(length);
    }

    fn pass(&mut self, chunk: &mut [u8]) -> Result<(), String> {
        let mut at = 0;
        while let Some(rest) = chunk.get_mut(at..).filter(|rest| !rest.is_empty()) {
            let done = self.step(rest)?;
            self.passed = self.passed.saturating_add(done);
            at += done;
        }
        Ok(())
    }
}
