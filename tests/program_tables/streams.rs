//! Streams with explicit entry ids, and geospatial keys.

pub(crate) const STREAMS: &str = r#"
    XLEN absent
    XRANGE absent - +
    XADD x 1-1 f v
    XADD x 1-2 f v g w
    XADD x 1-2 f v
    XADD x 0-0 f v
    XADD x 1-* f v
    XADD x abc f v
    XADD x 5-0 f
    XADD absent NOMKSTREAM 1-1 f v
    XLEN x
    XDEL x 1-2 9-9
    XTRIM x MAXLEN 2
    XLEN x
    DEL x
    XADD x 1-1 a 1
    XADD x 2-1 b 2
    XADD x 3-1 c 3
    XRANGE x - +
    XRANGE x 2 +
    XRANGE x (1-1 + COUNT 1
    XREVRANGE x + -
    XRANGE x abc +
    XADD x MAXLEN 2 4-1 d 4
    XLEN x
    XADD x MINID 4 5-1 e 5
    XRANGE x - +
    XSETID x 9-9
    XADD x 8-1 f v
    XINFO STREAM absent
    XGROUP CREATE x g 0
    XGROUP CREATE x g 0
    XGROUP CREATE absent g 0
    XGROUP CREATE made g 0 MKSTREAM
    XACK x g 4-1
    XACK x g 4-1
    XGROUP CREATECONSUMER x g d
    XGROUP DELCONSUMER x g d
    XGROUP SETID x g 0
    XGROUP DESTROY x g
    XGROUP DESTROY x g
    EVAL "return redis.call('xadd', KEYS[1], '10-1', 'f', 'v')" 1 x
    EVAL "return redis.call('xrange', KEYS[1], '-', '+')" 1 x
    EVAL "return redis.call('xread', 'count', 1, 'streams', KEYS[1], '0')" 1 x
    EVAL "return redis.call('xread', 'streams', KEYS[1], KEYS[2], '0')" 2 x y
    XGROUP CREATE x g 0
    EVAL "return redis.call('xreadgroup', 'group', 'g', 'streams', 'count', 1, 'streams', KEYS[1], '>')" 1 x
    EVAL "return redis.call('xreadgroup', 'group', 'g', 'c', 'noack', 'streams', KEYS[1])" 1 x
    EVAL "return redis.call('xreadgroup', 'group', 'g', 'c', 'count')" 1 x
    EVAL "return redis.pcall('xreadgroup').err" 1 x
"#;

/// Reads of existing entries, which return at once, also with `BLOCK` and in `MULTI`.
pub(crate) const READ: &str = r#"
    XREAD STREAMS absent 0
    XREAD STREAMS absent $
    XREAD COUNT 1 STREAMS absent absent2 0 0
    XADD x 1-1 f v
    XADD x 1-2 f v g w
    XADD x 2-1 h u
    XADD y 1-1 a b
    XREAD STREAMS x 0
    xread streams x 0-0
    XREAD STREAMS x 1-1
    XREAD STREAMS x 1
    XREAD STREAMS x 2-1
    XREAD STREAMS x 9-9
    XREAD STREAMS x $
    XREAD COUNT 1 STREAMS x 0
    XREAD COUNT 0 STREAMS x 0
    XREAD COUNT -5 STREAMS x 0
    XREAD COUNT 2 COUNT 1 STREAMS x 0
    XREAD COUNT 1000 STREAMS x 0
    XREAD STREAMS y x 0 0
    XREAD STREAMS x y 0 0
    XREAD STREAMS x y 0 1-1
    XREAD STREAMS x y 9-9 0
    XREAD COUNT 1 STREAMS x absent y 0 0 $
    XREAD STREAMS x x 0 1-2
    XREAD BLOCK 0 STREAMS x 0
    XREAD BLOCK 0 COUNT 1 STREAMS absent x 0 1-1
    XREAD COUNT 1 BLOCK 1000 STREAMS y x $ 0
    XREAD BLOCK 20 STREAMS x $
    XREAD BLOCK 20 STREAMS x y $ 1-1
    XREAD BLOCK 20 STREAMS absent 0
    XREAD BLOCK 20 STREAMS absent $
    XREAD BLOCK x STREAMS x 0
    XREAD BLOCK -1 STREAMS x 0
    XREAD BLOCK 1.5 STREAMS x 0
    XREAD BLOCK 9223372036854775808 STREAMS x 0
    XREAD COUNT x STREAMS x 0
    XREAD COUNT 1 x y
    XREAD COUNT 1 COUNT 1
    XREAD COUNT 1 STREAMS
    XREAD NOACK STREAMS x 0
    XREAD GROUP g c STREAMS x 0
    XREAD COUNT 1 GROUP g
    XREAD nonsense STREAMS x 0
    XREAD STREAMS x y 0
    XREAD STREAMS x abc
    XREAD STREAMS x >
    XREAD STREAMS x -
    XREAD STREAMS x +
    XREAD BLOCK 0 STREAMS x abc
    XREAD BLOCK 0 STREAMS x >
    XREAD STREAMS x
    XREAD
    SET s v
    XREAD STREAMS s 0
    XREAD STREAMS x s 0 0
    XREAD STREAMS x s 0 $
    XREAD STREAMS x s abc 0
    XREAD BLOCK 0 STREAMS s $
    XREAD BLOCK 0 STREAMS x s $ $
    SET lock v NX PX 100000
    XREAD STREAMS lock 0
    XREAD BLOCK 0 STREAMS lock $
    XDEL x 2-1
    XREAD STREAMS x 1-2
    XREAD BLOCK 20 STREAMS x 1-2
    XADD streams 1-1 f v
    XREAD STREAMS streams 0
    XREAD STREAMS withscores 0
    MULTI
    XREAD STREAMS x 0
    XREAD STREAMS x y 0 0
    XREAD STREAMS absent 0
    XREAD BLOCK 0 STREAMS x $
    XREAD BLOCK 0 COUNT 1 STREAMS absent x $ 0
    XREAD BLOCK x STREAMS x $
    XREAD STREAMS x abc
    XREAD STREAMS s 0
    XREAD STREAMS x y 0
    XADD x 3-1 f v
    XREAD BLOCK 0 STREAMS x 2-1
    EXEC
    PING
"#;

/// Reads of existing entries by consumers of a group, which records the delivery.
pub(crate) const DELIVERED: &str = r#"
    XREADGROUP GROUP g c STREAMS absent >
    XGROUP CREATE x g $ MKSTREAM
    XGROUP CREATE x h 0
    XREADGROUP GROUP g c STREAMS x >
    [within 1000] XINFO GROUPS x
    XREADGROUP GROUP g c STREAMS x >
    XADD x 1-1 f v
    XADD x 1-2 f v g w
    XADD x 2-1 h u
    XREADGROUP GROUP g c COUNT 1 STREAMS x >
    XREADGROUP GROUP g d COUNT 1 STREAMS x >
    XREADGROUP GROUP g c STREAMS x 0
    XREADGROUP GROUP g d STREAMS x 0
    XREADGROUP GROUP g d COUNT 5 STREAMS x 1-2
    XPENDING x g
    XREADGROUP NOACK GROUP g d STREAMS x >
    XPENDING x g
    XREADGROUP GROUP g d STREAMS x >
    XREADGROUP GROUP h c BLOCK 0 STREAMS x >
    XREADGROUP GROUP h c BLOCK 20 STREAMS x >
    XREADGROUP GROUP h c BLOCK 0 STREAMS x 0
    XREADGROUP GROUP h c BLOCK 0 COUNT 1 STREAMS x 1-1
    XREADGROUP GROUP h new BLOCK 0 STREAMS x 0
    XREADGROUP GROUP h newer BLOCK 20 STREAMS x >
    XINFO GROUPS x
    XDEL x 1-1
    XREADGROUP GROUP g c STREAMS x 0
    XREADGROUP GROUP h c STREAMS x 0
    XACK x h 1-1 1-2
    XREADGROUP GROUP h c STREAMS x 0
    XGROUP CREATE y g 0 MKSTREAM
    XADD y 5-5 a b
    XADD x 6-6 a b
    XREADGROUP GROUP g c STREAMS x y > >
    XREADGROUP GROUP g c STREAMS x y > 0
    XREADGROUP GROUP g c STREAMS y x 0 0
    XREADGROUP GROUP g c BLOCK 20 STREAMS x y > >
    XREADGROUP GROUP nobody c STREAMS x >
    XREADGROUP GROUP h c STREAMS x y > >
    XREADGROUP GROUP g c STREAMS x $
    XREADGROUP GROUP g c STREAMS x abc
    XREADGROUP GROUP g c BLOCK 0 STREAMS x $
    XREADGROUP GROUP nobody c BLOCK 0 STREAMS x >
    XREADGROUP GROUP g c BLOCK x STREAMS x >
    XREADGROUP GROUP g c BLOCK -1 STREAMS x >
    XREADGROUP GROUP g c STREAMS x y >
    XREADGROUP COUNT 1 NOACK STREAMS x y > >
    XREADGROUP GROUP g c COUNT 1 nonsense x
    XREADGROUP GROUP g c
    SET s v
    XREADGROUP GROUP g c STREAMS s >
    XREADGROUP GROUP g c STREAMS x s > >
    SET lock v NX PX 100000
    XREADGROUP GROUP g c BLOCK 0 STREAMS lock >
    XADD x 7-1 f v
    MULTI
    XREADGROUP GROUP g c BLOCK 0 STREAMS x >
    XREADGROUP GROUP g c BLOCK 0 STREAMS x >
    XREADGROUP GROUP g c STREAMS x 6-6
    XREADGROUP GROUP g fresh STREAMS x y > >
    XREADGROUP GROUP g c BLOCK x STREAMS x >
    XREADGROUP GROUP nobody c STREAMS x >
    XREADGROUP COUNT 1 NOACK STREAMS x y > >
    XPENDING x g
    EXEC
    XINFO GROUPS x
    XADD x 8-1 f v
    XREADGROUP GROUP g c NOACK STREAMS x >
    XPENDING x g
    XACK x g 7-1
    DEL x
    XREADGROUP GROUP g c STREAMS x >
"#;

/// Ids generated by the server.
pub(crate) const MADE_IDS: &str = r#"
    XADD x 9999999999999-5 f v
    XADD x * f v
    XADD x * f v
    XADD x MAXLEN 2 * f v
    XADD x MAXLEN = 2 * f v
    XADD x NOMKSTREAM MINID 1-1 * f v
    XADD x MAXLEN ~ 100 LIMIT 5 * f v
    XADD x 9999999999999-* f v
    XRANGE x - +
    XADD absent NOMKSTREAM * f v
    EXISTS absent
    XADD x MAXLEN * f v
    XADD x MAXLEN ~ * f v
    XADD x LIMIT 5 * f v
    XADD x *
    XADD x * f
    XADD x * f v g
    [shape: the time] XADD * * f v
    DEL *
    XADD large 99999999999999999-18446744073709551615 f v
    XADD large * f v
    XADD large * f v
    XADD large 18446744073709551614-18446744073709551615 f v
    XADD large * f v
    XADD large 18446744073709551615-18446744073709551615 f v
    XADD large * f v
    XGROUP CREATE made g 0 MKSTREAM
    [shape: the time] XADD made * f v
    [shape: the time] XADD new * f v
    EVAL "return redis.call('xadd', KEYS[1], '*', 'f', 'v')" 1 x
    EVAL "redis.setresp(3) return redis.call('xadd', KEYS[1], '*', 'f', 'v')" 1 x
    EVAL "return redis.call(ARGV[1], KEYS[1], 'maxlen', 1, '*', 'f', 'v')" 1 x xadd
    EVAL "return redis.call('xadd', KEYS[1], 'nomkstream', '*', 'f', 'v')" 1 absent
    SET text v
    XADD text * f v
    MULTI
    XADD x * f v
    XADD x * f v
    EXEC
"#;

/// Entries that are delivered, and claimed.
pub(crate) const CLAIMS: &str = r#"
    XADD x 1-1 f v
    XADD x 2-1 f v
    XADD x 3-1 f v
    XADD x 4-1 f v
    XCLAIM x g c 0 1-1
    XAUTOCLAIM x g c 0 0
    XPENDING x g - + 5
    XGROUP CREATE x g 0
    XAUTOCLAIM x g c 0 0
    XPENDING x g - + 5
    XCLAIM x g c 0 1-1
    XCLAIM x g c 0 1-1 2-1 9-9 FORCE
    [within 2000] XPENDING x g - + 5
    [within 2000] XPENDING x g - + 1
    [within 2000] XPENDING x g (1-1 + 5
    [within 2000] XPENDING x g - + 5 c
    XPENDING x g - + 5 nobody
    XPENDING x g - + 0
    XPENDING x g - + -1
    XPENDING x g IDLE 1000000 - + 5
    [within 2000] XPENDING x g IDLE 0 - + 5
    XPENDING x g IDLE x - + 5
    XPENDING x g IDLE 5 - +
    XPENDING x g - +
    XPENDING x g a b 5
    XPENDING absent g - + 5
    XPENDING x g
    XCLAIM x g d 1000000 1-1 2-1
    XCLAIM x g d 0 1-1 JUSTID
    XCLAIM x g d 0 1-1 IDLE 500000 RETRYCOUNT 7
    [within 2000] XPENDING x g - + 5
    XCLAIM x g e 400000 1-1 2-1
    XCLAIM x g e 0 1-1 TIME 1000 JUSTID
    XCLAIM x g c 1000000000 1-1 JUSTID
    XCLAIM x g c 0 1-1 TIME 99999999999999 JUSTID
    [within 2000] XPENDING x g - + 5
    XCLAIM x g c x 1-1
    XCLAIM x g c -5 1-1 JUSTID
    XCLAIM x g c 0 1-1 IDLE x
    XCLAIM x g c 0 1-1 TIME x
    XCLAIM x g c 0 1-1 IDLE
    XCLAIM x g c 0 1-1 NONSENSE
    XCLAIM x g c 0 1-1 2-
    XCLAIM x g c 9223372036854775807 1-1
    XCLAIM x g c 0 7-7 LASTID 3-1
    XAUTOCLAIM x g d 1000000 0
    XAUTOCLAIM x g d 0 0 COUNT 1
    XAUTOCLAIM x g d 0 2-1 JUSTID
    XAUTOCLAIM x g d 0 (1-1
    XAUTOCLAIM x g d 0 - COUNT 0
    XAUTOCLAIM x g d x 0
    XAUTOCLAIM x g d 0 x
    XAUTOCLAIM x g d 0 0 NONSENSE
    XCLAIM x g d 0 3-1 4-1 FORCE JUSTID
    XDEL x 2-1 3-1
    XAUTOCLAIM x g e 0 0 COUNT 2
    XAUTOCLAIM x g e 1000000 0
    XAUTOCLAIM x g e 0 0 JUSTID
    XCLAIM x g e 0 4-1 JUSTID
    XACK x g 1-1
    XPENDING x g
    XADD x 5-1 f v
    XADD x 6-1 f v
    EVAL "return redis.call('xreadgroup', 'GROUP', 'g', 'r', 'COUNT', 1, 'STREAMS', KEYS[1], '>')" 1 x
    EVAL "redis.setresp(3) return redis.call('xreadgroup', 'GROUP', 'g', 'r', 'STREAMS', KEYS[1], '>').map[KEYS[1]]" 1 x
    EVAL "return redis.call('xreadgroup', 'GROUP', 'g', 'r', 'STREAMS', KEYS[1], '>')" 1 x
    [within 2000] XPENDING x g - + 9 r
    EVAL "return redis.call('xreadgroup', 'GROUP', 'g', 'r', 'STREAMS', KEYS[1], '0')" 1 x
    XDEL x 5-1
    EVAL "return redis.call('xreadgroup', 'GROUP', 'g', 'r', 'STREAMS', KEYS[1], '0')" 1 x
    [within 2000] XPENDING x g - + 9 r
    [within 2000] EVAL "return redis.call('xpending', KEYS[1], 'g', '-', '+', 9)" 1 x
    EVAL "return redis.call('xpending', KEYS[1], 'g', 'IDLE', 1000000, '-', '+', 9)" 1 x
    EVAL "return redis.call('xclaim', KEYS[1], 'g', 'c', 0, '6-1', 'TIME', 5)" 1 x
    EVAL "redis.setresp(3) return redis.call('xautoclaim', KEYS[1], 'g', 'c', 1, 0, 'COUNT', 9)" 1 x
    XADD x 7-1 f v
    EVAL "return redis.call('xreadgroup', 'GROUP', 'g', 'r', 'NOACK', 'STREAMS', KEYS[1], '>')" 1 x
    XPENDING x g - + 9 r
    SET text v
    XCLAIM text g c 0 1-1
    XAUTOCLAIM text g c 0 0
    XPENDING text g - + 5
    XCLAIM x g
    XAUTOCLAIM x g c 0
"#;

pub(crate) const PLACES: &str = r#"
    GEODIST absent a b
    GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    GEOADD g 13.361389 38.115556 Palermo
    GEOADD g XX CH 13.5 38.1 Palermo
    GEOADD g NX 0 0 Palermo
    GEOADD g 200 0 nowhere
    GEOADD g abc 0 nowhere
    GEOADD g 1 1
    GEODIST g Palermo Catania
    GEODIST g Palermo Catania km
    GEODIST g Palermo nowhere
    GEODIST g Palermo Catania parsec
    GEOHASH g Palermo Catania nowhere
    GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC
    GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHDIST WITHCOORD COUNT 1
    GEOSEARCH g FROMMEMBER Palermo BYBOX 400 400 km DESC
    GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km
    ZRANGE d 0 -1
    GEORADIUS g 15 37 200 km ASC
    GEORADIUS_RO g 15 37 200 km ASC
    GEORADIUSBYMEMBER g Palermo 200 km ASC WITHDIST
    GEORADIUSBYMEMBER g Palermo 200 km STORE near
    ZRANGE near 0 -1
    GEORADIUSBYMEMBER_RO g Catania 100 km
    GEORADIUSBYMEMBER g nobody 100 km
    GEORADIUSBYMEMBER g Palermo
    ZCARD g
"#;
