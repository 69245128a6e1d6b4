//! From when until when a certificate is good: the two dates of RFC 5280 §4.1.2.5, and nothing else of it.

/// Seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Of a certificate in DER form; `None`: it is none.
pub(super) fn of(certificate: &[u8]) -> Option<Validity> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    if let Some((_, behind)) = expect(rest, VERSION) {
        rest = behind;
    }
    // Serial number, algorithm, issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        (_, rest) = expect(rest, tag)?;
    }
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some(Validity { not_before, not_after })
}

/// One element: its content and what is behind it.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    if *found != tag {
        return None;
    }
    let (length, rest) = match *first {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (digits.iter().fold(0, |all, digit| all << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    if let Some((text, rest)) = expect(bytes, UTC_TIME) {
        let year = number(text.get(..2)?)?;
        let century = if year < 50 { 2000 } else { 1900 };
        return Some((seconds(century + year, text.get(2..)?)?, rest));
    }
    let (text, rest) = expect(bytes, GENERALIZED_TIME)?;
    Some((seconds(number(text.get(..4)?)?, text.get(4..)?)?, rest))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |all, digit| digit.is_ascii_digit().then(|| all * 10 + i64::from(digit - b'0')))
}

/// `MMDDHHMMSSZ` of a year.
fn seconds(year: i64, rest: &[u8]) -> Option<i64> {
    let at = |from: usize| number(rest.get(from..from + 2)?);
    if rest.len() != 11 || rest.last() != Some(&b'Z') {
        return None;
    }
    let (month, day, hour, minute, second) = (at(0)?, at(2)?, at(4)?, at(6)?, at(8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days from the first of March of year 0, so that a leap day ends a year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dates_of_a_certificate_are_read() {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2024, 2, 29);
        // From 2050 on dates are written in the longer form.
        for (end, expected) in [((2026, 3, 1), 1_772_323_200), ((2051, 1, 1), 2_556_144_000)] {
            params.not_after = rcgen::date_time_ymd(end.0, end.1, end.2);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            let expected = Validity { not_before: 1_709_164_800, not_after: expected };
            assert_eq!(of(certificate.der()), Some(expected));
            for cut in 0..certificate.der().len().min(200) {
                // Cut anywhere it is none, or was cut behind the dates.
                assert!(of(&certificate.der()[..cut]).is_none());
            }
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        assert_eq!(seconds(1970, b"0101000000Z"), Some(0));
        assert_eq!(seconds(2000, b"0301000000Z"), Some(951_868_800));
        for text in [&b"0101000000"[..], b"1301000000Z", b"0132000000Z", b"0101240000Z", b"01010000+0Z", b""] {
            assert_eq!(seconds(1970, text), None);
        }
    }
}
