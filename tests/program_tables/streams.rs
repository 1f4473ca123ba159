//! Streams with entries that name their own id, and places on the map.

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
    ZCARD g
"#;
