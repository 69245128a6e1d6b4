//! What identifies an assignment topology, as far as a describe shows it.

use std::fmt::{self, Display};

use sha2::{Digest, Sha256};
use streamside_wire::messages::{streams_group_describe, streams_group_heartbeat};

/// A digest of the assignment topology's sorted subtopology ids with their sorted source, repartition-sink,
/// repartition-source and changelog names. Equal for a heartbeat's topology and for the describe of the same group.
/// Partition counts, replication factors, topic configs, copartition groups and the epoch do not count: a describe shows
/// them filled in, or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Fingerprint(pub [u8; 16]);

/// The four lists of one subtopology, in the order in which they are digested.
struct Part<'a> {
    id: &'a str,
    lists: [Vec<&'a str>; 4],
}

impl Fingerprint {
    /// Of the topology that a joining member sent.
    pub fn of_heartbeat(topology: &streams_group_heartbeat::Topology) -> Self {
        Self::of(topology.subtopologies.iter().map(|s| Part {
            id: &s.subtopology_id,
            lists: [
                s.source_topics.iter().map(String::as_str).collect(),
                s.repartition_sink_topics.iter().map(String::as_str).collect(),
                s.repartition_source_topics.iter().map(|t| t.name.as_str()).collect(),
                s.state_changelog_topics.iter().map(|t| t.name.as_str()).collect(),
            ],
        }))
    }

    /// Of the topology that a describe shows; `None` when it shows no subtopologies (null), since then nothing is known.
    pub fn of_described(topology: &streams_group_describe::Topology) -> Option<Self> {
        let subtopologies = topology.subtopologies.as_ref()?;
        Some(Self::of(subtopologies.iter().map(|s| Part {
            id: &s.subtopology_id,
            lists: [
                s.source_topics.iter().map(String::as_str).collect(),
                s.repartition_sink_topics.iter().map(String::as_str).collect(),
                s.repartition_source_topics.iter().map(|t| t.name.as_str()).collect(),
                s.state_changelog_topics.iter().map(|t| t.name.as_str()).collect(),
            ],
        })))
    }

    fn of<'a>(parts: impl Iterator<Item = Part<'a>>) -> Self {
        let mut parts: Vec<Part<'a>> = parts.collect();
        for list in parts.iter_mut().flat_map(|p| &mut p.lists) {
            list.sort_unstable();
            // a broker keeps the topics of a topology in sets
            list.dedup();
        }
        parts.sort_unstable_by(|a, b| a.id.cmp(b.id).then_with(|| a.lists.cmp(&b.lists)));
        // every list and name is led by its length, so that no two topologies give the same bytes
        let mut digest = Sha256::new();
        put_len(&mut digest, parts.len());
        for part in &parts {
            put(&mut digest, part.id);
            for list in &part.lists {
                put_len(&mut digest, list.len());
                for name in list {
                    put(&mut digest, name);
                }
            }
        }
        let mut first = [0; 16];
        first.iter_mut().zip(digest.finalize()).for_each(|(to, from)| *to = from);
        Self(first)
    }
}

fn put_len(digest: &mut Sha256, len: usize) {
    digest.update((len as u64).to_be_bytes());
}

fn put(digest: &mut Sha256, text: &str) {
    put_len(digest, text.len());
    digest.update(text);
}

/// Lower-case hexadecimal.
impl Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}
