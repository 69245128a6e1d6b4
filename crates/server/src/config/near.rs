//! Unknown keys that are near a known one are probably slips.

use super::keys::KEYS;

/// The known key that this unknown one is nearest to, if it is near at all.
pub fn nearest(name: &str) -> Option<&'static str> {
    // Kafka's own keys number hundreds and many are alike; only one or two slips, and few in short names, count.
    let allowed = if name.len() >= 12 { 2 } else { 1 };
    if name.len() > 256 {
        return None;
    }
    KEYS.iter()
        .filter(|key| !key.name.ends_with('*'))
        .filter_map(|key| {
            // A missing or wrong prefix, or `_` and `-` for a dot, is a slip too.
            let normal = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], ".");
            let (given, known) = (normal(name), normal(key.name));
            let known_short = known.strip_prefix("streamside.").unwrap_or(&known);
            let given_short = given.strip_prefix("streamside.").unwrap_or(&given);
            let away = distance(given_short, known_short);
            (away <= allowed).then_some((away, key.name))
        })
        .min()
        .map(|(_, name)| name)
}

/// Edit distance with neighbours swapped counted as one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let width = b.len() + 1;
    let mut rows = vec![(0..width).collect::<Vec<usize>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; width];
        for (j, y) in b.iter().enumerate() {
            let cost = usize::from(x != y);
            let mut best = (rows[i][j] + cost).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row[j + 1] = best;
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_near_and_kafkas_other_keys_are_not() {
        for (slip, known) in [
            ("group.streams.sesion.timeout.ms", "group.streams.session.timeout.ms"),
            ("streamside.data.dri", "streamside.data.dir"),
            ("data.dir", "streamside.data.dir"),
            ("streamside.data_dir", "streamside.data.dir"),
            ("Listeners", "listeners"),
            ("listener", "listeners"),
            ("streamside.http.listener", "streamside.http.listen"),
        ] {
            assert_eq!(nearest(slip), Some(known), "{slip}");
        }
        for other in [
            "broker.id",
            "log.dirs",
            "log.dir",
            "node.id",
            "group.consumer.session.timeout.ms",
            "process.roles",
            "socket.send.buffer.bytes",
            "num.network.threads",
            "log.retention.minutes",
            "group.share.max.size",
            "group.consumer.max.session.timeout.ms",
            "max.connection.creation.rate",
            "zookeeper.connect",
            "streamside.seed",
        ] {
            assert_eq!(nearest(other), None, "{other}");
        }
    }
}
