//! WATCH: EXEC returns nil when a watched key has changed.

pub(crate) const UNDISTURBED: &str = r#"
    SET k v
    WATCH k
    MULTI
    SET k w
    EXEC
    GET k
    WATCH absent
    MULTI
    SET absent v
    EXEC
    GET absent
    WATCH k
    GET k
    [other] GET k
    [other] SET unwatched v
    MULTI
    INCR n
    EXEC
    WATCH k absent n nothing
    MULTI
    GET n
    EXEC
    WATCH k k k
    MULTI
    EXEC
    WATCH
    UNWATCH extra
    UNWATCH
    WATCH k
    [other] RENAME k k
    MULTI
    GET k
    EXEC
    WATCH never
    [other] DEL never
    MULTI
    GET never
    EXEC
    WATCH k
    [other] SET k w NX
    [other] EXPIRE never 10
    MULTI
    GET k
    EXEC
"#;

pub(crate) const DISTURBED: &str = r#"
    SET k v
    WATCH k
    [other] SET k theirs
    MULTI
    SET k mine
    EXEC
    GET k
    MULTI
    SET k mine
    EXEC
    WATCH created
    [other] SET created v
    MULTI
    SET created mine
    EXEC
    GET created
    WATCH created
    [other] DEL created
    MULTI
    SET created mine
    EXEC
    EXISTS created
    WATCH k
    SET k "changed by itself"
    MULTI
    SET k mine
    EXEC
    GET k
    WATCH a k
    [other] INCR a
    MULTI
    GET a
    EXEC
    WATCH a
    [other] EXPIRE a 100
    MULTI
    GET a
    EXEC
    WATCH a
    [other] PERSIST a
    MULTI
    GET a
    EXEC
    WATCH h
    [other] HSET h f v
    MULTI
    HGET h f
    EXEC
    WATCH h
    [other] HSET h f w
    MULTI
    HGET h f
    EXEC
    WATCH l
    [other] RPUSH l a
    MULTI
    LLEN l
    EXEC
    WATCH s
    [other] SADD s a
    MULTI
    SCARD s
    EXEC
    WATCH z
    [other] ZADD z 1 a
    MULTI
    ZCARD z
    EXEC
    WATCH k
    [other] EVAL "return redis.call('set', KEYS[1], 'by a script')" 1 k
    MULTI
    GET k
    EXEC
    WATCH k
    [other] RENAME k k2
    MULTI
    GET k2
    EXEC
    WATCH k2
    [other] MULTI
    [other] SET k2 "by a transaction"
    [other] EXEC
    MULTI
    GET k2
    EXEC
    WATCH k2
    [other] SET k2 again
    MULTI
    NOSUCHCOMMAND
    EXEC
    MULTI
    GET k2
    EXEC
    WATCH k2
    MULTI
    GET k2
    [other] SET k2 "while queueing"
    EXEC
    GET k2
"#;

pub(crate) const FORGOTTEN: &str = r#"
    SET k v
    WATCH k
    [other] SET k w
    UNWATCH
    MULTI
    GET k
    EXEC
    WATCH k
    MULTI
    DISCARD
    [other] SET k x
    MULTI
    GET k
    EXEC
    WATCH k
    [other] SET k y
    MULTI
    DISCARD
    MULTI
    GET k
    EXEC
    WATCH k
    MULTI
    EXEC
    [other] SET k z
    MULTI
    GET k
    EXEC
    WATCH k
    [other] SET k a
    MULTI
    GET k
    EXEC
    MULTI
    GET k
    EXEC
    WATCH k
    [other] SET k b
    RESET
    MULTI
    GET absent
    EXEC
"#;

pub(crate) const DATABASES: &str = r#"
    SET k zero
    SELECT 1
    SET k one
    WATCH k
    [other] SET k changed
    MULTI
    GET k
    EXEC
    WATCH k
    SELECT 0
    [other] SELECT 1
    [other] SET k changed
    MULTI
    GET k
    EXEC
    GET k
    WATCH k
    [other] SELECT 0
    [other] FLUSHDB
    MULTI
    SET k back
    EXEC
    EXISTS k
"#;

/// Redis counts changes, not values: a key that was restored to its old value has still changed.
pub(crate) const PUT_BACK: &str = r#"
    SET k v
    WATCH k
    [other] SET k v
    MULTI
    GET k
    EXEC
    WATCH k
    [other] SET k w
    [other] SET k v
    MULTI
    GET k
    EXEC
    WATCH absent
    [other] SET absent v
    [other] DEL absent
    MULTI
    GET absent
    EXEC
"#;
