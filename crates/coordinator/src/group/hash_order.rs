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

fn place(key: &str, places: usize) -> usize {
    let hash = key.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    usize::try_from(hash ^ (hash >> 16)).unwrap_or(0) & (places - 1)
}

#[cfg(test)]
mod tests {
    use super::ordered;
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
}
