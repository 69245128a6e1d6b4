//! The order in which a Java hash table gives its keys. Kafka's texts and lists show it, so that `compat=kafka` has to
//! know it; ours are sorted (D8).

use std::collections::BTreeSet;

use crate::config::Compat;

/// Java's tables begin with so many places, and double when three quarters are taken.
const FIRST_PLACES: usize = 16;

/// Each key once: by Java's hash table as filled in the order given, or sorted.
pub(super) fn ordered<'a>(compat: Compat, keys: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if compat == Compat::Streamside {
        return keys.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    }
    let mut seen = BTreeSet::new();
    let mut keys: Vec<&str> = keys.into_iter().filter(|key| seen.insert(*key)).collect();
    let mut places = FIRST_PLACES;
    while keys.len() * 4 > places * 3 {
        places *= 2;
    }
    // Keys of one place stay in the order in which they came.
    keys.sort_by_key(|key| place(key, places));
    keys
}

/// Each key once, by a table of as many places as the next power of two from `places` has.
pub(super) fn in_table<'a>(keys: impl IntoIterator<Item = &'a str>, places: usize) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let mut keys: Vec<&str> = keys.into_iter().filter(|key| seen.insert(*key)).collect();
    let places = places.next_power_of_two();
    keys.sort_by_key(|key| place(key, places));
    keys
}

fn place(key: &str, places: usize) -> usize {
    let hash = hash(key);
    usize::try_from(hash ^ (hash >> 16)).unwrap_or(0) & (places - 1)
}

/// Java's hash of a string.
fn hash(key: &str) -> u32 {
    key.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

/// The golden ratio, as a fraction of 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// How many places Kafka's own table has that held `most` members at most: from four on it doubles as soon as 65 of 100
/// places of the larger one, rounded, are taken. It never shrinks.
pub(super) fn member_places(most: usize) -> u64 {
    let most = u64::try_from(most).unwrap_or(u64::MAX >> 8);
    let mut places = 4;
    while most >= (places * 2 * 65 + 50) / 100 {
        places *= 2;
    }
    places
}

/// The place of a member in that table: by the first bits of a multiplicative hash. Members of one place come newest
/// first.
pub(super) fn member_place(id: &str, places: u64) -> u64 {
    let hash = i64::from(hash(id).cast_signed()).cast_unsigned().wrapping_mul(GOLDEN);
    hash >> (u64::BITS - places.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::{member_place, member_places, ordered};
    use crate::config::Compat;

    #[test]
    fn d8_keys_come_in_the_order_of_javas_tables() {
        let names = ["app-rep2", "app-rep", "three", "two", "six", "one", "three2", "one"];
        assert_eq!(
            ordered(Compat::Kafka, names),
            ["six", "three2", "one", "app-rep", "app-rep2", "three", "two"],
            "as a broker listed them; `three` and `two` share a place"
        );
        assert_eq!(ordered(Compat::Streamside, names), ["app-rep", "app-rep2", "one", "six", "three", "three2", "two"]);
    }

    #[test]
    fn d8_a_table_grows_when_three_quarters_are_taken() {
        let names: Vec<String> = (0..13).map(|i| i.to_string()).collect();
        let order = ordered(Compat::Kafka, names.iter().map(String::as_str));
        assert_eq!(order, ["11", "12", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
    }

    #[test]
    fn d8_members_come_in_the_order_of_kafkas_own_table() {
        let order = |ids: &[&'static str]| {
            let places = member_places(ids.len());
            let mut ids: Vec<_> = ids.iter().copied().enumerate().collect();
            ids.sort_by_key(|(arrival, id)| (member_place(id, places), std::cmp::Reverse(*arrival)));
            ids.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
        };
        // As a broker described them.
        assert_eq!(order(&["m1", "m2"]), ["m2", "m1"]);
        assert_eq!(order(&["a", "b", "c", "d", "e"]), ["c", "e", "b", "d", "a"]);
        assert_eq!(order(&["alpha", "beta", "gamma", "delta"]), ["gamma", "alpha", "delta", "beta"]);
        let ten = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"];
        assert_eq!(order(&ten), ["m0", "m5", "m2", "m7", "m4", "m9", "m1", "m6", "m3", "m8"]);
        assert_eq!([1, 4, 5, 9, 10, 20, 21, 41, 42].map(member_places), [4, 4, 8, 8, 16, 16, 32, 32, 64]);
    }
}
