//! String commands that locks seldom use, and bitmaps and HyperLogLogs, which are strings.

pub(crate) const STRINGS: &str = r#"
    MSET a 1 b 2
    MGET a b absent
    MSET a
    MSETNX a 9 c 9
    MSETNX c 3 d 4
    MGET a b c d
    SETRANGE a 3 xyz
    GET a
    SETRANGE absent 0 ""
    EXISTS absent
    SETRANGE new 2 x
    GET new
    SETRANGE a -1 x
    INCRBYFLOAT f 0.1
    INCRBYFLOAT f 0.2
    INCRBYFLOAT f 5e3
    INCRBYFLOAT f abc
    INCRBYFLOAT a 1
    SUBSTR a 0 1
    LCS a b
    LCS a a LEN
    LCS a new IDX
    EXPIRE f 100
    INCRBYFLOAT f 1
    [within 2] TTL f
    MSET f 1
    TTL f
"#;

pub(crate) const BITMAPS: &str = r#"
    GETBIT absent 0
    BITCOUNT absent
    BITPOS absent 1
    BITPOS absent 0
    SETBIT b 7 1
    SETBIT b 7 0
    SETBIT b 7 1
    SETBIT b 100 1
    GET b
    GETBIT b 7
    GETBIT b 8
    GETBIT b 99999
    SETBIT b -1 1
    SETBIT b 1 2
    SETBIT b abc 1
    SETBIT b 4294967296 1
    BITCOUNT b
    BITCOUNT b 0 0
    BITCOUNT b 1 -1
    BITCOUNT b 5 30 BIT
    BITPOS b 1
    BITPOS b 0
    BITPOS b 1 2
    BITPOS b 2
    SET c abc
    BITOP AND d b c
    BITOP OR d b c
    GET d
    BITOP XOR d b c
    BITOP NOT d c
    GET d
    BITOP NOT d b c
    BITOP NOSUCH d c
    BITOP AND d absent
    EXISTS d
    BITFIELD f SET u8 0 255 GET u4 0 INCRBY u8 0 10
    BITFIELD f OVERFLOW SAT INCRBY u8 0 255
    BITFIELD f OVERFLOW FAIL INCRBY u8 0 255
    BITFIELD f GET u65 0
    BITFIELD_RO f GET u8 0
    BITFIELD_RO f SET u8 0 1
    BITFIELD f
"#;

pub(crate) const HYPERLOGLOGS: &str = r#"
    PFCOUNT absent
    PFADD p a b c
    PFADD p a
    PFADD p
    PFADD empty
    PFCOUNT p
    PFCOUNT p empty absent
    PFADD q c d
    PFCOUNT p q
    PFMERGE d p q
    PFCOUNT d
    PFMERGE d absent
    PFCOUNT d
    SET text abc
    PFADD text a
    PFCOUNT text
    PFMERGE d text
    TYPE p
    PFCOUNT
    EVAL "redis.call('pfadd', KEYS[1], 'x') return redis.call('pfcount', KEYS[1])" 1 scripted
"#;

/// Commands that work on keys of any type.
pub(crate) const ANY_TYPE: &str = r#"
    SET s v
    HSET h f v
    RPUSH l a b c
    SADD set 1 2
    ZADD z 1 a
    XADD x 1-1 f v
    TYPE h
    TYPE l
    TYPE set
    TYPE z
    TYPE x
    EXISTS s h l set z x absent
    TOUCH s h absent
    OBJECT ENCODING s
    OBJECT ENCODING h
    OBJECT ENCODING l
    OBJECT ENCODING set
    OBJECT ENCODING z
    OBJECT ENCODING absent
    OBJECT REFCOUNT s
    DUMP s
    DUMP h
    DUMP absent
    RENAME s s2
    RENAME s s2
    RENAME h h
    RENAMENX s2 h
    RENAMENX s2 s
    COPY h h2
    COPY h h2
    COPY h s REPLACE
    COPY absent s
    COPY h h
    HGETALL s
    EXPIRE l 100
    RENAME l l2
    [within 2] TTL l2
    COPY l2 l3
    [within 2] TTL l3
    SORT l2 ALPHA DESC
    SORT l2
    SORT l2 ALPHA LIMIT 0 1
    SORT l2 ALPHA STORE sorted
    LRANGE sorted 0 -1
    SORT_RO l2 ALPHA
    SORT absent
    SORT set
    EXISTS z
    SELECT 1
    ZRANGE z 0 -1
    SELECT 0
    DEL h h2 absent
    UNLINK l2 l3
    [any order] KEYS *
    EXPIRE set 100
    PERSIST set
    EXPIRE x 0
    EXISTS x
"#;
