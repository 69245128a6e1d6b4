//! What stands in the file, layout 1.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `layout`, `stored_bytes` | number |
//! | `current` | group | (topology epoch, version) of the description that a get serves |
//! | `versions` | (group, version) | format byte, then [`VersionMeta`] in postcard |
//! | `bodies` | (group, version) | how it is packed, then the packed description |
//!
//! Bodies stand apart so that listing, pruning and history indexes never read them. The format byte of `versions` lets
//! a later build add fields (who pushed it) without a new layout.

use bytes::Bytes;
use redb::TableDefinition;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::limits::MAX_DESCRIPTION_BYTES;

pub(super) const LAYOUT: u64 = 1;
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const CURRENT: TableDefinition<'_, &str, (i32, u64)> = TableDefinition::new("current");
pub(super) const VERSIONS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("versions");
pub(super) const BODIES: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("bodies");
pub(super) const META_LAYOUT: &str = "layout";
pub(super) const META_STORED: &str = "stored_bytes";

const FORMAT: u8 = 1;
const PACKED_RAW: u8 = 0;
const PACKED_LZ4: u8 = 1;
/// LZ4 cannot expand a byte to more than this; a length beyond it is damage.
const LZ4_MAX_EXPANSION: usize = 255;
/// Counted for a version besides its group ids and its body: keys, page slack.
const VERSION_OVERHEAD: u64 = 128;

/// What is known of a stored version without its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VersionMeta {
    /// Milliseconds since the Unix epoch.
    pub(super) at: i64,
    pub(super) epoch: i32,
    /// SHA-256 of the description.
    pub(super) hash: [u8; 32],
    /// Bytes of the description.
    pub(super) length: u32,
    /// Bytes of its body in the file.
    pub(super) packed: u32,
}

impl VersionMeta {
    pub(super) fn encode(&self) -> Vec<u8> {
        // A struct of fixed shape into a growing buffer cannot fail.
        let start = vec![FORMAT];
        postcard::to_extend(self, start).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<VersionMeta, Damage> {
        match bytes.split_first() {
            Some((&FORMAT, rest)) => postcard::from_bytes(rest).map_err(|_| Damage("its index entry is unreadable")),
            Some(_) => Err(Damage("its index entry has an unknown form")),
            None => Err(Damage("its index entry is empty")),
        }
    }

    /// What this version counts towards the store's bound.
    pub(super) fn weight(&self, group: &str) -> u64 {
        2 * group.len() as u64 + u64::from(self.packed) + VERSION_OVERHEAD
    }
}

/// A stored copy cannot be what was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage(pub(super) &'static str);

/// Packs a description: compressed, or as it is where that is not smaller.
pub(super) fn pack(description: &[u8]) -> Vec<u8> {
    let mut packed = vec![0; 1 + lz4_flex::block::get_maximum_output_size(description.len())];
    if let Some((kind, body)) = packed.split_first_mut()
        && let Ok(length) = lz4_flex::block::compress_into(description, body)
        && length < description.len()
    {
        *kind = PACKED_LZ4;
        packed.truncate(1 + length);
        return packed;
    }
    packed.clear();
    packed.push(PACKED_RAW);
    packed.extend_from_slice(description);
    packed
}

/// Unpacks a body and checks it against what the index says.
pub(super) fn unpack(meta: &VersionMeta, packed: &[u8]) -> Result<Bytes, Damage> {
    let length = meta.length as usize;
    let description = match packed.split_first() {
        Some((&PACKED_RAW, body)) => Bytes::copy_from_slice(body),
        Some((&PACKED_LZ4, body)) => {
            // Checked before a byte is reserved.
            if length > MAX_DESCRIPTION_BYTES || length > body.len().saturating_mul(LZ4_MAX_EXPANSION) {
                return Err(Damage("its length is impossible"));
            }
            let mut out = vec![0; length];
            match lz4_flex::block::decompress_into(body, &mut out) {
                Ok(n) if n == length => Bytes::from(out),
                Ok(_) => return Err(Damage("it unpacks to another length")),
                Err(_) => return Err(Damage("it does not unpack")),
            }
        }
        Some(_) => return Err(Damage("it is packed in an unknown way")),
        None => return Err(Damage("it is empty")),
    };
    if description.len() != length || hash(&description) != meta.hash {
        return Err(Damage("its hash does not fit"));
    }
    Ok(description)
}

pub(super) fn hash(description: &[u8]) -> [u8; 32] {
    Sha256::digest(description).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta_of(description: &[u8], packed: &[u8]) -> VersionMeta {
        VersionMeta {
            at: 1,
            epoch: 0,
            hash: hash(description),
            length: description.len() as u32,
            packed: packed.len() as u32,
        }
    }

    #[test]
    fn what_is_packed_unpacks_and_shrinks_where_it_can() {
        let repetitive = b"KSTREAM-SOURCE-0000000001".repeat(1_000);
        let packed = pack(&repetitive);
        assert!(packed.len() < repetitive.len() / 50, "{} bytes", packed.len());
        assert_eq!(unpack(&meta_of(&repetitive, &packed), &packed).unwrap(), repetitive);
        let short = b"ab";
        let packed = pack(short);
        assert_eq!(packed, [PACKED_RAW, b'a', b'b']);
        assert_eq!(unpack(&meta_of(short, &packed), &packed).unwrap(), &short[..]);
        assert_eq!(unpack(&meta_of(b"", &pack(b"")), &pack(b"")).unwrap(), &b""[..]);
    }

    #[test]
    fn h1_each_damage_is_told_and_a_promised_gigabyte_reserves_nothing() {
        let description = b"KSTREAM-SOURCE-0000000001".repeat(20);
        let packed = pack(&description);
        let good = meta_of(&description, &packed);
        let huge = VersionMeta { length: u32::MAX, ..good.clone() };
        assert_eq!(unpack(&huge, &packed), Err(Damage("its length is impossible")));
        let mut flipped = packed.clone();
        *flipped.last_mut().unwrap() ^= 1;
        assert!(unpack(&good, &flipped).is_err());
        let mut wrong = good.clone();
        wrong.hash[0] ^= 1;
        assert_eq!(unpack(&wrong, &packed), Err(Damage("its hash does not fit")));
        assert_eq!(unpack(&good, &[]), Err(Damage("it is empty")));
        assert_eq!(unpack(&good, &[9, 1]), Err(Damage("it is packed in an unknown way")));
        assert!(VersionMeta::decode(&[FORMAT, 1]).is_err());
        assert_eq!(VersionMeta::decode(&[2]), Err(Damage("its index entry has an unknown form")));
        assert_eq!(VersionMeta::decode(&good.encode()), Ok(good));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_in_the_file_are_damage_or_a_description_never_a_panic(
            length in 0u32..5_000, packed in proptest::collection::vec(proptest::num::u8::ANY, 0..200)
        ) {
            let meta = VersionMeta { at: 0, epoch: 0, hash: [0; 32], length, packed: 0 };
            proptest::prop_assert!(unpack(&meta, &packed).is_err());
            let _ = VersionMeta::decode(&packed);
        }
    }
}
