//! Where a produce request says whether it wants an answer.

/// Finds `acks` in a produce request of which only the beginning is there. Remembers how far it came, so that a header
/// that arrives byte by byte is read once.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcksScan {
    flexible: bool,
    transactional: bool,
    stage: Stage,
    at: usize,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    ClientId,
    TagCount,
    Tags(u32),
    TransactionalId,
    Acks,
}

/// What a look at the beginning came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acks {
    Known(i16),
    /// It stands further behind.
    More,
    /// This is no produce request; the broker will say so.
    Malformed,
}

/// Key, version and correlation id stand in front of the client id.
const FIXED_BYTES: usize = 8;

impl AcksScan {
    pub(super) fn new(version: i16) -> Self {
        AcksScan { flexible: version >= 9, transactional: version >= 3, stage: Stage::ClientId, at: FIXED_BYTES }
    }

    /// Looks at the body of a frame, or at as much of it as is there; always from its beginning.
    pub(super) fn look(&mut self, body: &[u8]) -> Acks {
        loop {
            let rest = body.get(self.at..).unwrap_or_default();
            match self.stage {
                Stage::ClientId => {
                    let Some(taken) = short_string(rest) else { return Acks::More };
                    self.at += taken;
                    self.stage = if self.flexible { Stage::TagCount } else { self.behind_header() };
                }
                Stage::TagCount => match varint(rest) {
                    Varint::Value(count, taken) => {
                        self.at += taken;
                        self.stage = Stage::Tags(count);
                    }
                    Varint::More => return Acks::More,
                    Varint::Malformed => return Acks::Malformed,
                },
                Stage::Tags(0) => self.stage = self.behind_header(),
                Stage::Tags(left) => {
                    let (tag, size) = match varint(rest) {
                        Varint::Value(_, tag) => (tag, varint(rest.get(tag..).unwrap_or_default())),
                        other => (0, other),
                    };
                    match size {
                        Varint::Value(bytes, taken) => {
                            self.at = self.at.saturating_add(tag + taken).saturating_add(bytes as usize);
                            self.stage = Stage::Tags(left - 1);
                        }
                        Varint::More => return Acks::More,
                        Varint::Malformed => return Acks::Malformed,
                    }
                }
                Stage::TransactionalId if self.flexible => match varint(rest) {
                    Varint::Value(length, taken) => {
                        self.at = self.at.saturating_add(taken).saturating_add((length as usize).saturating_sub(1));
                        self.stage = Stage::Acks;
                    }
                    Varint::More => return Acks::More,
                    Varint::Malformed => return Acks::Malformed,
                },
                Stage::TransactionalId => {
                    let Some(taken) = short_string(rest) else { return Acks::More };
                    self.at += taken;
                    self.stage = Stage::Acks;
                }
                Stage::Acks => {
                    return rest.first_chunk::<2>().map_or(Acks::More, |acks| Acks::Known(i16::from_be_bytes(*acks)));
                }
            }
        }
    }

    fn behind_header(&self) -> Stage {
        if self.transactional { Stage::TransactionalId } else { Stage::Acks }
    }
}

/// Bytes of a nullable string with two bytes of length; `None` while the length is not there.
fn short_string(rest: &[u8]) -> Option<usize> {
    let length = i16::from_be_bytes(*rest.first_chunk::<2>()?);
    Some(2 + usize::try_from(length).unwrap_or(0))
}

enum Varint {
    Value(u32, usize),
    More,
    Malformed,
}

fn varint(rest: &[u8]) -> Varint {
    let mut value = 0_u64;
    for (index, byte) in rest.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return u32::try_from(value).map_or(Varint::Malformed, |value| Varint::Value(value, index + 1));
        }
    }
    if rest.len() < 5 { Varint::More } else { Varint::Malformed }
}

#[cfg(test)]
mod tests {
    use super::{Acks, AcksScan};

    /// Looks at every beginning of `body` with one scan; it is known exactly when the last byte of acks is there.
    fn look(version: i16, body: &[u8], end: usize) -> Acks {
        let mut scan = AcksScan::new(version);
        for length in 0..end {
            assert_eq!(scan.look(&body[..length]), Acks::More, "{length} of {end}");
        }
        let found = scan.look(&body[..end]);
        assert_eq!(AcksScan::new(version).look(body), found, "at once");
        found
    }

    #[test]
    fn acks_are_found_in_every_header() {
        // v0: no transactional id. v3: null. v8: "tx". v9: tags (one of two bytes), compact null; v12: compact "tx".
        let v0 = [0, 0, 0, 0, 0, 0, 0, 7, 0, 2, b'm', b'e', 0, 0, 9, 9];
        assert_eq!(look(0, &v0, 14), Acks::Known(0));
        let v3 = [0, 0, 0, 3, 0, 0, 0, 7, 255, 255, 255, 255, 255, 255, 9];
        assert_eq!(look(3, &v3, 14), Acks::Known(-1));
        let v8 = [0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 2, b't', b'x', 0, 1, 9];
        assert_eq!(look(8, &v8, 16), Acks::Known(1));
        let v9 = [0, 0, 0, 9, 0, 0, 0, 7, 0, 1, b'a', 1, 0x85, 1, 2, 8, 8, 0, 0, 0, 9];
        assert_eq!(look(9, &v9, 20), Acks::Known(0));
        let v12 = [0, 0, 0, 12, 0, 0, 0, 7, 255, 255, 0, 3, b't', b'x', 0, 0, 9];
        assert_eq!(look(12, &v12, 16), Acks::Known(0));
    }

    #[test]
    fn what_is_no_produce_request_is_left_to_the_broker() {
        let endless = [0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 255, 255, 255, 255, 255, 1];
        assert_eq!(AcksScan::new(9).look(&endless), Acks::Malformed);
    }
}
