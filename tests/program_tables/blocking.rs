//! Blocking commands that need not wait, or wait only for a moment.

pub(crate) const DATA_IS_THERE: &str = r#"
    RPUSH l a b c d e f g h i
    BLPOP l 0
    BRPOP l 0
    BLPOP absent l 0
    BRPOP absent l absent2 10
    BLMOVE l m LEFT RIGHT 0
    BRPOPLPUSH l m 0
    BLMPOP 0 2 absent l LEFT COUNT 2
    LRANGE l 0 -1
    LRANGE m 0 -1
    BLPOP l 0.5
    BLPOP m l 0
    EXISTS l
    ZADD z 1 a 2.5 b 3 c 4 d
    BZPOPMIN z 0
    BZPOPMAX absent z 0
    BZMPOP 0 1 z MIN
    ZRANGE z 0 -1 WITHSCORES
    XADD x 1-1 f v
"#;

pub(crate) const NOTHING_COMES: &str = r#"
    BLPOP absent 0.05
    BRPOP absent absent2 0.05
    BLMOVE absent m LEFT RIGHT 0.05
    BRPOPLPUSH absent m 0.05
    BLMPOP 0.05 1 absent LEFT
    BZPOPMIN absent 0.05
    BZPOPMAX absent 0.05
    BZMPOP 0.05 1 absent MIN
    EXISTS absent m
    BLPOP absent -1
    BLPOP absent abc
    BLPOP absent ""
    BLMOVE absent m UP LEFT 0.05
    BZPOPMIN absent -1
    BLMPOP 0.05 0 absent LEFT
    PING
"#;
