//! Text as Java's `String` reads it: never an error, and one U+FFFD for each malformed group.

/// Decodes `bytes` as UTF-8 the way the JDK does (recorded from Kafka 4.4.0): a sequence that is cut short is one group, so
/// `ED A0` gives one U+FFFD where Rust's lossy conversion gives two; an encoded surrogate is one group of three.
pub fn decode_as_java(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(&lead) = rest.first() {
        let (text, used) = match group(lead, rest) {
            Ok((c, used)) => (c, used),
            Err(used) => (char::REPLACEMENT_CHARACTER, used),
        };
        out.push(text);
        rest = rest.get(used.max(1)..).unwrap_or_default();
    }
    out
}

fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn low6(byte: u8) -> u32 {
    u32::from(byte & 0x3f)
}

/// The first group of `rest`: a character and its length, or the length of a malformed group.
fn group(lead: u8, rest: &[u8]) -> Result<(char, usize), usize> {
    let high = u32::from(lead);
    match (lead, rest) {
        (0x00..=0x7f, _) => Ok((char::from(lead), 1)),
        (0xc2..=0xdf, [_, b, ..]) if continues(*b) => scalar((high & 0x1f) << 6 | low6(*b), 2),
        (0xe0..=0xef, [_, b, ..]) if !continues(*b) || (lead == 0xe0 && *b < 0xa0) => Err(1),
        (0xe0..=0xef, [_, b, c, ..]) if continues(*c) => scalar((high & 0x0f) << 12 | low6(*b) << 6 | low6(*c), 3),
        (0xe0..=0xef, _) => Err(rest.len().min(2)),
        (0xf0..=0xf4, [_, b, ..]) if !continues(*b) || (lead == 0xf0 && *b < 0x90) || (lead == 0xf4 && *b > 0x8f) => {
            Err(1)
        }
        (0xf0..=0xf4, [_, _, c, ..]) if !continues(*c) => Err(2),
        (0xf0..=0xf4, [_, b, c, d, ..]) if continues(*d) => {
            scalar((high & 0x07) << 18 | low6(*b) << 12 | low6(*c) << 6 | low6(*d), 4)
        }
        (0xf0..=0xf4, _) => Err(rest.len().min(3)),
        _ => Err(1),
    }
}

fn scalar(code: u32, len: usize) -> Result<(char, usize), usize> {
    char::from_u32(code).map(|c| (c, len)).ok_or(len)
}

#[cfg(test)]
mod tests {
    use super::decode_as_java;

    #[test]
    fn settled_1_1_malformed_groups_as_the_jdk() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xed\xa0x", "\u{fffd}x"),
            (b"\xed\xa0\x80", "\u{fffd}"),
            (b"\xed\xa0\x80\xed\xb0\x80", "\u{fffd}\u{fffd}"),
            (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
            (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xe2\x82", "\u{fffd}"),
            (b"\xe2\x82A", "\u{fffd}A"),
            (b"\xe2A", "\u{fffd}A"),
            (b"\xf0\x9f\x98", "\u{fffd}"),
            (b"\xf0\x9f\x98A", "\u{fffd}A"),
            (b"\xf0\x9fA", "\u{fffd}A"),
            (b"\xf0\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf5\x80", "\u{fffd}\u{fffd}"),
            (b"\xc3", "\u{fffd}"),
            (b"\xc3(\xff\xf0\x9f\x98\x80", "\u{fffd}(\u{fffd}\u{1f600}"),
        ] {
            assert_eq!(decode_as_java(bytes), text, "{bytes:02x?}");
        }
    }
}
