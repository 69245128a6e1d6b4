//! Base64 for the two JSON forms of bytes: standard with padding for `bytes`, URL-safe without for `uuid`.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn encode(alphabet: &[u8; 64], bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().enumerate().fold(0_u32, |all, (i, b)| all | u32::from(*b) << (16 - 8 * i));
        for i in 0..=chunk.len() {
            let index = group >> (18 - 6 * i) & 63;
            out.push(char::from(alphabet[index as usize]));
        }
    }
    out
}

/// Standard alphabet, padded.
pub(crate) fn standard(bytes: &[u8]) -> String {
    let mut out = encode(STANDARD, bytes);
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

/// URL-safe alphabet, no padding: how Kafka writes a UUID.
pub(crate) fn url_safe(bytes: &[u8]) -> String {
    encode(URL_SAFE, bytes)
}

/// Bytes of either alphabet, padding optional; `None` for anything else.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u8);
    for byte in text.trim_end_matches('=').bytes() {
        let value = STANDARD.iter().position(|a| *a == byte).or_else(|| URL_SAFE.iter().position(|a| *a == byte))?;
        bits = (bits << 6 | value as u32) & 0x3fff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_round_trip() {
        assert_eq!(standard(b"Ma"), "TWE=");
        assert_eq!(url_safe(&[0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        for length in 0..20_u8 {
            let bytes: Vec<u8> = (0..length).map(|i| i.wrapping_mul(97) ^ 0xf5).collect();
            assert_eq!(decode(&standard(&bytes)).unwrap(), bytes);
            assert_eq!(decode(&url_safe(&bytes)).unwrap(), bytes);
        }
        assert_eq!(decode("a b"), None);
    }
}
