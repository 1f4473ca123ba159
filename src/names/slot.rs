//! The shard of a key: by its hash slot, as in Redis Cluster (`keyHashSlot` in `cluster.c`).

/// Number of hash slots.
pub const SLOTS: u16 = 16384;

/// Returns the hash slot of a key: the CRC16 of what stands between its first `{` and the next `}`, or of all of it if
/// there is nothing between them.
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// Returns the index of the shard, among `shards`, that serves a slot.
pub fn shard_of(slot: u16, shards: usize) -> usize {
    usize::from(slot) * shards / usize::from(SLOTS)
}

fn tag(key: &[u8]) -> &[u8] {
    let inside = key.iter().position(|byte| *byte == b'{').map(|at| &key[at + 1..]);
    let tag = inside.and_then(|rest| Some(&rest[..rest.iter().position(|byte| *byte == b'}')?]));
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// CRC-16/XMODEM (`crc16.c`).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The keys that one cluster of masters serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    shard: usize,
    shards: usize,
}

impl Share {
    /// All keys.
    pub const ALL: Self = Self { shard: 0, shards: 1 };

    /// Returns the keys of one of several shards.
    pub fn of(shard: usize, shards: usize) -> Self {
        Self { shard, shards: shards.max(1) }
    }

    /// Whether the share includes a key.
    pub fn includes(self, key: &[u8]) -> bool {
        self.is_all() || shard_of(slot(key), self.shards) == self.shard
    }

    /// Whether the share includes all keys.
    pub fn is_all(self) -> bool {
        self.shards == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots are those that `CLUSTER KEYSLOT` of Redis 7 tells.
    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, expected) in [
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("a{foo}{bar}", 12182),
            ("somekey", 11058),
            ("foo{hash_tag}", 2515),
            ("", 0),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(slot(b"{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot(b"{foo"), crc16(b"{foo") % SLOTS);
        assert_eq!(slot(b"{{foo}}"), crc16(b"{foo") % SLOTS);
    }

    #[test]
    fn every_slot_has_one_shard_and_shards_have_equal_parts() {
        for shards in 1..=256 {
            let mut counts = vec![0; shards];
            (0..SLOTS).for_each(|slot| counts[shard_of(slot, shards)] += 1);
            let (least, most) = (counts.iter().min(), counts.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{counts:?}");
        }
    }

    #[test]
    fn a_key_is_in_one_share() {
        let holders = |key: &[u8]| (0..3).filter(|at| Share::of(*at, 3).includes(key)).count();
        assert!((0..100).all(|n| holders(format!("key {n}").as_bytes()) == 1));
        assert!(Share::ALL.includes(b"foo"));
    }
}
