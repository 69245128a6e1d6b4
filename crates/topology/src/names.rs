//! An ordered set of strings, as Kafka's model holds topics, stores and successors.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Deref;

use serde::{Deserialize, Deserializer};

/// Up to this many strings a scan is cheaper than a hash set.
const SCAN: usize = 16;

/// Strings without repetition, in the order of first occurrence (kip1331 §4.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Names(Vec<String>);

impl From<Vec<String>> for Names {
    fn from(mut strings: Vec<String>) -> Self {
        if strings.len() <= SCAN {
            let mut kept = 0;
            for i in 0..strings.len() {
                let (before, rest) = strings.split_at(i);
                if rest.first().is_some_and(|s| !before.iter().take(kept).any(|b| b == s)) {
                    strings.swap(kept, i);
                    kept += 1;
                }
            }
            strings.truncate(kept);
        } else {
            let mut seen = HashSet::with_capacity(strings.len());
            let first: Vec<bool> = strings.iter().map(|s| seen.insert(s.as_str())).collect();
            let mut first = first.into_iter();
            strings.retain(|_| first.next().unwrap_or(false));
        }
        Self(strings)
    }
}

impl<S: Into<String>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(iter: I) -> Self {
        Self::from(iter.into_iter().map(Into::into).collect::<Vec<String>>())
    }
}

impl From<Names> for Vec<String> {
    fn from(names: Names) -> Self {
        names.0
    }
}

impl Deref for Names {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // null stands for "none" in the topology files
        Ok(Self::from(Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default()))
    }
}

/// Java's `String.compareTo`: by UTF-16 code units. Differs from Rust's order only between characters above U+FFFF
/// (surrogates there) and U+E000 to U+FFFF.
pub fn utf16_order(a: &str, b: &str) -> Ordering {
    // where one is ASCII, no such two characters can be compared
    if a.is_ascii() || b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kip1331_4_2_repeated_strings_go_first_occurrence_order_stays() {
        let few = Names::from_iter(["b", "a", "b", "c", "a", "b"]);
        assert_eq!(few.deref(), ["b", "a", "c"]);
        let many: Names = (0..100).chain(0..100).rev().map(|i| i.to_string()).collect();
        let want: Vec<String> = (0..100).rev().map(|i| i.to_string()).collect();
        assert_eq!(many.deref(), want);
    }

    #[test]
    fn kip1331_11_3_sets_are_sorted_by_utf16_code_units() {
        let mut names = ["\u{ff5e}", "\u{1f980}", "b", "B", "a", "", "ä"];
        names.sort_by(|a, b| utf16_order(a, b));
        assert_eq!(names, ["", "B", "a", "b", "ä", "\u{1f980}", "\u{ff5e}"]);
    }
}
