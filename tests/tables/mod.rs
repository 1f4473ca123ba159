//! The command lines that `same_as_redis` sends to a plain Redis and to the proxy. `support::side_by_side` explains the
//! marks.

/// Every option of SET, in any order and letter case.
pub(crate) const SET: &str = r#"
    SET k v
    GET k
    TTL k
    SET k v2 NX
    SET k v2 XX
    SET absent v XX
    EXISTS absent
    SET k v EX 100
    [within 10] TTL k
    SET k v PX 100000
    [within 10000] PTTL k
    SET k v EXAT {now+100}
    [within 10] TTL k
    SET k v PXAT {nowms+100000}
    [within 10000] PTTL k
    SET k v3 KEEPTTL
    [within 10000] PTTL k
    SET k v
    PTTL k
    SET k v4 GET
    SET fresh v GET
    SET k v5 NX GET
    SET k v6 XX GET
    SET absent v XX GET
    SET fresh2 v NX GET
    GET fresh2
    SET k v7 EX 100 GET
    [within 10] TTL k
    SET k v8 GET KEEPTTL
    [within 10] TTL k
    SET k v9 KEEPTTL GET XX
    [within 10] TTL k
    DEL k
    SET k v NX PX 100000
    SET k w PX 100000 NX
    DEL k
    SET k v EX 100 NX
    SET k v NX EX 100
    set k v px 100000 xx
    sEt k v2 Ex 100 xX gEt
    GET k
    [within 10] TTL k
    DEL k
    SET k v NX PXAT {nowms+100000}
    [within 10000] PTTL k
    SET k v EXAT {now+100} NX
    SET k v XX EXAT {now+200}
    [within 10] TTL k
    SET k v PXAT {nowms-1000}
    EXISTS k
    SET k v EXAT 1
    EXISTS k
    SET k ""
    GET k
    STRLEN k
    SET "" v
    GET ""
    DEL ""
    SET k v PX 31557600000000
    [within 10000] PTTL k
    SET k v EX 31557600000
    [within 10] TTL k
    SET k 'with "quotes" and spaces'
    GET k
    SET NX PX
    GET NX
"#;

pub(crate) const SET_ERRORS: &str = r#"
    SET
    SET k
    SET k v FOO
    SET k v NX XX
    SET k v XX NX
    SET k v EX
    SET k v PX
    SET k v EXAT
    SET k v EX 10 PX 10
    SET k v EX 10 EX 10
    SET k v EX 10 KEEPTTL
    SET k v KEEPTTL EX 10
    SET k v PXAT 10 EX 10
    SET k v NX NX
    SET k v GET GET
    DEL k
    SET k v EX abc
    SET k v EX 1.5
    SET k v EX ""
    SET k v EX " 1"
    SET k v EX 0
    SET k v EX -1
    SET k v PX 0
    SET k v PX -1
    SET k v PX NX
    SET k v PX 10x
    SET k v EXAT 0
    SET k v EXAT -1
    SET k v PXAT 0
    SET k v PXAT -1
    SET k v EX 9223372036854775807
    SET k v EX 9223372036854776
    SET k v EX 9223372036854775808
    SET k v PX 9223372036854775807
    SET k v EXAT 9223372036854775807
    SET k v EXAT 9223372036854776
    SET k v NX PX 100 FOO
    SET k v NX PX 100 NX XX
    SET k v PERSIST
    EXISTS k
    SET k kept
    SET k v EX 0
    SET k v NX EX 0
    SET k v XX PX -5 GET
    GET k
"#;

pub(crate) const OLD_SETTERS: &str = r#"
    SETNX k v
    SETNX k w
    GET k
    TTL k
    SETEX k 100 v2
    [within 10] TTL k
    SETNX k w
    GET k
    PSETEX k 100000 v3
    [within 10000] PTTL k
    GET k
    SETEX k 0 v
    SETEX k -1 v
    SETEX k abc v
    SETEX k 9223372036854775807 v
    PSETEX k 0 v
    PSETEX k -1 v
    PSETEX k 1.5 v
    PSETEX k 9223372036854775807 v
    GET k
    GETSET k v4
    TTL k
    GETSET absent first
    GET absent
    GETDEL k
    GETDEL k
    EXISTS k
    setex k 100 v
    [within 10] ttl k
"#;

pub(crate) const READS: &str = r#"
    GET absent
    SET a 1
    SET b 22
    SET c ""
    MGET a b c absent a
    MGET absent
    STRLEN a
    STRLEN c
    STRLEN absent
    EXISTS a
    EXISTS a a b absent
    TYPE a
    TYPE absent
    GETRANGE b 0 -1
    GETRANGE b 0 0
    GETRANGE b -1 -1
    GETRANGE b 5 10
    GETRANGE b 1 0
    GETRANGE absent 0 -1
    GETRANGE b x 1
    GETRANGE b 0 1.5
    GETRANGE b -100 100
    GETEX a
    TTL a
    GETEX a EX 100
    [within 10] TTL a
    GETEX a PX 200000
    [within 10000] PTTL a
    GETEX a EXAT {now+300}
    [within 10] TTL a
    GETEX a PXAT {nowms+400000}
    [within 10000] PTTL a
    GETEX a
    [within 10000] PTTL a
    GETEX a PERSIST
    TTL a
    GETEX a EX 0
    GETEX a EX -1
    GETEX a PX abc
    GETEX a EX 10 PERSIST
    GETEX a FOO
    GETEX a EX
    GETEX a NX
    GETEX absent EX 10
    GETEX absent PERSIST
    GETEX a EXAT 1
    EXISTS a
    TOUCH b c absent
    TOUCH absent
"#;

pub(crate) const NUMBERS: &str = r#"
    INCR n
    INCR n
    INCRBY n 40
    DECR n
    DECRBY n 1
    GET n
    INCRBY n -100
    DECRBY n -100
    SET n 10 EX 100
    INCR n
    [within 10] TTL n
    INCRBY n abc
    INCRBY n 1.5
    INCRBY n ""
    DECRBY n abc
    SET s text
    INCR s
    DECR s
    INCRBY s 1
    SET s "1 "
    INCR s
    SET s 9223372036854775807
    INCR s
    GET s
    SET s -9223372036854775808
    DECR s
    DECRBY s 1
    DECRBY s -9223372036854775808
    INCRBY s 9223372036854775808
    GET s
    APPEND a hello
    APPEND a " world"
    GET a
    APPEND a ""
    STRLEN a
    EXPIRE a 100
    APPEND a !
    [within 10] TTL a
    GET a
"#;

pub(crate) const EXPIRY: &str = r#"
    TTL absent
    PTTL absent
    EXPIRETIME absent
    PEXPIRETIME absent
    EXPIRE absent 10
    PERSIST absent
    SET k v
    TTL k
    PTTL k
    EXPIRETIME k
    PEXPIRETIME k
    PERSIST k
    EXPIRE k 100
    [within 10] TTL k
    [within 10000] PTTL k
    [within 10] EXPIRETIME k
    [within 10000] PEXPIRETIME k
    PERSIST k
    TTL k
    PERSIST k
    PEXPIRE k 100000
    [within 10000] PTTL k
    EXPIREAT k {now+200}
    [within 10] TTL k
    PEXPIREAT k {nowms+300000}
    [within 10000] PTTL k
    EXPIRE k abc
    EXPIRE k 1.5
    EXPIRE k 9223372036854775807
    EXPIRE k -9223372036854775808
    PEXPIRE k 9223372036854775807
    PEXPIRE k abc
    EXPIREAT k 9223372036854775807
    EXPIREAT k abc
    PEXPIREAT k abc
    [within 10000] PTTL k
    EXPIRE k 0
    EXISTS k
    SET k v
    EXPIRE k -1
    EXISTS k
    SET k v
    PEXPIRE k -1
    EXISTS k
    SET k v
    EXPIREAT k 1
    EXISTS k
    SET k v
    PEXPIREAT k {nowms-1000}
    EXISTS k
    SET k v EX 100
    GETSET k w
    TTL k
"#;

pub(crate) const EXPIRY_CONDITIONS: &str = r#"
    SET k v
    EXPIRE k 100 XX
    EXPIRE k 100 GT
    TTL k
    EXPIRE k 100 NX
    EXPIRE k 500 NX
    [within 10] TTL k
    EXPIRE k 50 GT
    EXPIRE k 200 GT
    [within 10] TTL k
    EXPIRE k 500 LT
    EXPIRE k 150 LT
    [within 10] TTL k
    EXPIRE k 300 XX
    [within 10] TTL k
    EXPIRE k 400 xx gt
    [within 10] TTL k
    PEXPIRE k 50000 lt
    [within 10000] PTTL k
    PEXPIRE k 500000 gt
    [within 10000] PTTL k
    PEXPIRE k 500000 nx
    EXPIREAT k {now+50} LT
    EXPIREAT k {now+20} GT
    PEXPIREAT k {nowms+90000} XX
    [within 10000] PTTL k
    PERSIST k
    EXPIRE k 100 LT
    [within 10] TTL k
    EXPIRE k 100 NX XX
    EXPIRE k 100 NX GT
    EXPIRE k 100 NX LT
    EXPIRE k 100 GT LT
    EXPIRE k 100 FOO
    EXPIRE k 100 NX FOO
    EXPIRE k abc FOO
    EXPIRE absent 100 NX
    EXPIRE absent 100 FOO
    EXPIRE k -1 GT
    EXISTS k
    EXPIRE k -1 LT
    EXISTS k
"#;

pub(crate) const KEYSPACE: &str = r#"
    DBSIZE
    KEYS *
    SCAN 0
    SET a:1 v
    SET a:2 v
    SET b v EX 100
    DBSIZE
    [any order] KEYS *
    [any order] KEYS a:*
    [any order] KEYS ?
    [any order] KEYS a:[12]
    KEYS c*
    KEYS ""
    [any order] SCAN 0 COUNT 1000
    [any order] SCAN 0 MATCH a:* COUNT 1000
    [any order] SCAN 0 COUNT 1000 TYPE string
    [any order] SCAN 0 COUNT 1000 TYPE list
    [any order] SCAN 0 count 1000 match b
    SCAN abc
    SCAN 0 COUNT 0
    SCAN 0 COUNT abc
    SCAN 0 COUNT
    SCAN 0 FOO
    SCAN 0 MATCH
    DEL a:1 a:2 absent
    UNLINK b b
    DEL absent
    UNLINK absent
    DBSIZE
    SET a v
    SET b v
    UNLINK a b absent
    SET a v
    FLUSHDB
    DBSIZE
    SET a v
    FLUSHALL
    DBSIZE
    SET a v
    FLUSHALL ASYNC
    FLUSHALL SYNC
    FLUSHDB SYNC
    FLUSHALL FOO
    FLUSHDB FOO
    FLUSHALL SYNC ASYNC
"#;

pub(crate) const DATABASES: &str = r#"
    SET k zero
    SELECT 1
    GET k
    SET k one NX
    SELECT 15
    GET k
    DBSIZE
    SELECT 0
    GET k
    SELECT 16
    SELECT -1
    SELECT abc
    SELECT 9999999999999999999
    SELECT ""
    GET k
    SELECT 1
    GET k
    EVAL {release} 1 k zero
    EVAL {release} 1 k one
    GET k
    SELECT 0
    GET k
    SELECT 1
    SET k again PX 100000
    FLUSHDB
    SELECT 0
    GET k
"#;

pub(crate) const SCRIPTS: &str = r#"
    EVALSHA {sha_release} 1 k mine
    SCRIPT EXISTS {sha_release}
    SCRIPT LOAD {release}
    SCRIPT EXISTS {sha_release} 0000000000000000000000000000000000000000 {sha_extend}
    SET k mine NX PX 100000
    EVALSHA {sha_release} 1 k other
    EVALSHA {sha_release} 1 k mine
    EVALSHA {sha_release} 1 k mine
    SET k mine NX PX 100000
    EVALSHA {sha_extend} 1 k mine 200000
    EVAL {extend} 1 k mine 200000
    [within 10000] PTTL k
    EVALSHA {sha_extend} 1 k mine 300000
    [within 10000] PTTL k
    EVAL {extend} 1 k other 900000
    [within 10000] PTTL k
    eval {release} 1 k other
    eval {release} 1 k mine
    evalsha {sha_release} 1 k mine
    SCRIPT FLUSH
    SCRIPT EXISTS {sha_release}
    EVALSHA {sha_release} 1 k mine
    SCRIPT FLUSH SYNC
    SCRIPT FLUSH ASYNC
    script load {release}
    script exists {sha_release}
    EVALSHA "" 1 k
    EVALSHA tooshort 1 k
    EVALSHA 0123456789abcdef0123456789abcdef01234567 0
"#;

pub(crate) const SCRIPT_ERRORS: &str = r#"
    EVAL
    EVAL {release}
    EVAL {release} abc
    EVAL {release} -1
    EVAL {release} 3 k
    EVAL {release} 1
    EVAL {release} 99999999999999999999 k
    EVALSHA
    EVALSHA {sha_release}
    EVALSHA {sha_release} abc
    EVALSHA {sha_release} -1
    EVALSHA {sha_release} 2 k
    SCRIPT
    SCRIPT FOO
    SCRIPT FOO bar
    SCRIPT LOAD
    SCRIPT LOAD {release} extra
    SCRIPT EXISTS
    SCRIPT FLUSH FOO
    SCRIPT FLUSH SYNC ASYNC
"#;

/// Marked `[shape]` where the replies say that the two are different servers.
pub(crate) const CONNECTION: &str = r#"
    PING
    PING hello
    PING ""
    ECHO hello
    ECHO ""
    CLIENT GETNAME
    CLIENT SETNAME tester
    CLIENT GETNAME
    CLIENT SETNAME ""
    CLIENT GETNAME
    [shape: every server counts its own clients] CLIENT ID
    [shape: addresses and counters differ] CLIENT INFO
    [shape: addresses and counters differ] CLIENT LIST
    CLIENT NO-EVICT ON
    CLIENT NO-EVICT off
    CLIENT REPLY ON
    client setname Lower
    client getname
    AUTH secret
    AUTH default secret
    AUTH nobody secret
    [shape: version and client id differ] HELLO
    [shape: replication offsets differ] ROLE
    [shape: time goes on] TIME
    WAIT 0 10
    RESET
    CLIENT GETNAME
    PING
    SELECT 3
    SET k three
    RESET
    GET k
"#;

pub(crate) const CONNECTION_ERRORS: &str = r#"
    PING a b
    ECHO
    ECHO a b
    HELLO abc
    HELLO 1
    HELLO 4
    HELLO 99999999999999999999
    HELLO 3 FOO
    HELLO 3 AUTH
    HELLO 3 AUTH default
    HELLO 3 SETNAME
    HELLO 3 SETNAME "a b"
    HELLO 3 AUTH nobody secret
    CLIENT
    CLIENT FOO
    CLIENT FOO bar
    CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none
    CLIENT SETNAME
    CLIENT SETNAME "a b"
    CLIENT SETNAME a b
    CLIENT GETNAME a
    CLIENT ID a
    CLIENT REPLY
    CLIENT REPLY FOO
    CLIENT NO-EVICT FOO
    CLIENT NO-EVICT
    CLIENT KILL
    CLIENT KILL 1.2.3.4:5
    CLIENT KILL ID abc
    CLIENT LIST FOO
    AUTH
    AUTH a b c
    WAIT abc 0
    WAIT 0 abc
    WAIT 0 -1
    WAIT 0
    SELECT
    SELECT 0 0
    TIME now
    ROLE a
    RESET a
"#;

pub(crate) const SERVER: &str = r#"
    [shape: another server's numbers] INFO
    [shape: another server's numbers] INFO server
    [shape: another server's numbers] INFO server replication
    INFO nosuchsection
    [shape: a proxy knows its own commands] COMMAND COUNT
    [shape: a proxy knows its own commands] COMMAND
    COMMAND INFO nosuchcommand
    [shape: the categories of access control are the server's own] COMMAND INFO get
    COMMAND FOO
    COMMAND COUNT a
    COMMAND GETKEYS MSET a 1 b 2
    COMMAND GETKEYS EVAL x 2 a b c
    COMMAND GETKEYS EVAL x 0 a
    COMMAND GETKEYS EVAL x 3 a
    COMMAND GETKEYS EVAL x some a
    COMMAND GETKEYS LMPOP 2 a b LEFT
    COMMAND GETKEYS BLMPOP 0 2 a b LEFT
    COMMAND GETKEYS ZMPOP 9 a MIN
    COMMAND GETKEYS LMPOP 0 a LEFT
    COMMAND GETKEYS ZINTER 2 a b WITHSCORES
    COMMAND GETKEYS ZUNIONSTORE d 2 a b
    COMMAND GETKEYS ZUNIONSTORE d x a b
    COMMAND GETKEYS ZUNIONSTORE d 0 a b
    COMMAND GETKEYS BLPOP a b 0
    COMMAND GETKEYS SORT a BY w_* DESC
    COMMAND GETKEYS SORT a STORE b STORE c
    COMMAND GETKEYS SORT_RO a BY b
    COMMAND GETKEYS GEORADIUS a 1 1 1 m STORE d
    COMMAND GETKEYS PING x
    COMMAND GETKEYS SCRIPT LOAD x
    COMMAND GETKEYS FOO x
    COMMAND GETKEYSANDFLAGS GET a
    COMMAND GETKEYSANDFLAGS MSET a 1 b 2
    COMMAND GETKEYSANDFLAGS SET a get
    COMMAND GETKEYSANDFLAGS SET a 1 NX Get
    COMMAND GETKEYSANDFLAGS SETNX a 1
    COMMAND GETKEYSANDFLAGS DEL a b
    COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0
    COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0 get i5 7
    COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0 SET u8 0 1
    COMMAND GETKEYSANDFLAGS BITFIELD a GET u8
    COMMAND GETKEYSANDFLAGS BITFIELD a
    COMMAND GETKEYSANDFLAGS BITOP AND a b c
    COMMAND GETKEYSANDFLAGS RENAME a b
    COMMAND GETKEYSANDFLAGS RENAMENX a b
    COMMAND GETKEYSANDFLAGS COPY a b
    COMMAND GETKEYSANDFLAGS LMOVE a b LEFT LEFT
    COMMAND GETKEYSANDFLAGS PFMERGE a b c
    COMMAND GETKEYSANDFLAGS SINTERSTORE a b c
    COMMAND GETKEYSANDFLAGS ZUNIONSTORE a 2 b c
    COMMAND GETKEYSANDFLAGS SORT a BY w STORE c
    COMMAND GETKEYSANDFLAGS SORT_RO a BY w GET g
    COMMAND GETKEYSANDFLAGS GEORADIUS a 1 1 1 m STORE b STOREDIST c
    COMMAND GETKEYSANDFLAGS EVAL x 2 a b c
    COMMAND GETKEYSANDFLAGS EVAL_RO x 2 a b c
    COMMAND GETKEYSANDFLAGS EVAL x 0
    COMMAND GETKEYSANDFLAGS EVAL x 9 a
    COMMAND GETKEYSANDFLAGS XGROUP CREATE k g 0
    COMMAND GETKEYSANDFLAGS xgroup Destroy k g
    COMMAND GETKEYSANDFLAGS XINFO STREAM k
    COMMAND GETKEYSANDFLAGS OBJECT ENCODING k
    COMMAND GETKEYSANDFLAGS BLPOP a b 0
    COMMAND GETKEYSANDFLAGS SPUBLISH c m
    COMMAND GETKEYSANDFLAGS PING x
    COMMAND GETKEYSANDFLAGS GET a b
    COMMAND GETKEYSANDFLAGS FOO x
    COMMAND GETKEYSANDFLAGS GET
    COMMAND GETKEYSANDFLAGS
    CONFIG GET databases
    CONFIG GET timeout
    CONFIG GET nosuchparameter
    CONFIG GET
    CONFIG
    CONFIG FOO
    CLUSTER NODES
    CLUSTER SLOTS
    CLUSTER SHARDS
    CLUSTER INFO
    CLUSTER MYID
    CLUSTER KEYSLOT k
    cluster nodes
    CLUSTER
    SENTINEL MASTERS
    SENTINEL
    sentinel get-master-addr-by-name mymaster
    DBSIZE extra
"#;

pub(crate) const UNKNOWN: &str = r#"
    NOSUCHCOMMAND
    nosuchcommand
    NoSuchCommand a
    NOSUCHCOMMAND a b c
    CONFIG|GET maxmemory
    XGROUP|CREATE stream group $ MKSTREAM
    NOSUCHCOMMAND "with spaces" ""
    NOSUCHCOMMAND 0123456789012345678901234567890123456789 0123456789012345678901234567890123456789 0123456789012345678901234567890123456789 0123456789012345678901234567890123456789 0123456789012345678901234567890123456789
    NOSUCHCOMMAND0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789
    NOSUCHCOMMAND 'quo"te' "it's"
    "" a
    GET\r\n k
    PING\n
"#;

pub(crate) const ARITY: &str = r#"
    GET
    GET a b
    SETNX k
    SETNX k v w
    SETEX k 10
    SETEX k 10 v w
    PSETEX k 10
    GETSET k
    GETDEL
    GETDEL a b
    GETEX
    MGET
    STRLEN
    STRLEN a b
    EXISTS
    TYPE
    TYPE a b
    TTL
    TTL a b
    PTTL
    EXPIRETIME
    PEXPIRETIME
    EXPIRE k
    PEXPIRE k
    EXPIREAT k
    PEXPIREAT k
    PERSIST
    PERSIST a b
    DEL
    UNLINK
    TOUCH
    INCR
    INCR a b
    DECR
    INCRBY k
    INCRBY k 1 2
    DECRBY k
    APPEND k
    APPEND k v w
    GETRANGE k 0
    KEYS
    KEYS a b
    SCAN
    get
    Expire k
"#;

/// Large integers, which pass through Lua on their way.
pub(crate) const LARGE_INTEGERS: &str = r#"
    HINCRBY h f 9223372036854775807
    HGET h f
    HINCRBY h f -1
    HINCRBY h small -9223372036854775808
    HINCRBY h f 10
    MULTI
    HINCRBY h f -1
    INCRBY n 9007199254740993
    DECRBY n 1
    INCR n
    DECR n
    EXEC
    GET n
"#;

/// Unknown subcommands are rejected before a transaction queues them, before a subscriber is refused, and before
/// masters see them.
pub(crate) const SUBCOMMANDS: &str = r#"
    MULTI
    OBJECT ENCODING
    EXEC
    XGROUP NOPE
    XGROUP CREATE
    XGROUP CREATE k
    OBJECT ENCODING k x
    OBJECT NOPE k
    XINFO STREAM
    SCRIPT KILL x
    CLUSTER NOPE
    CLUSTER INFO x
    CLUSTER INFO
    LATENCY GRAPH
    LATENCY GRAPH event
    COMMAND GETKEYS
    ACL NOPE
    ACL HELP
    CLIENT HELP
    COMMAND HELP
    CONFIG HELP
    CONFIG HELP x
    LATENCY HELP
    OBJECT HELP
    PUBSUB HELP
    SCRIPT HELP
    SLOWLOG HELP
    XGROUP HELP
    XINFO HELP
    MULTI
    CONFIG HELP
    OBJECT HELP
    SCRIPT KILL
    EXEC
    MULTI
    CLIENT NOPE
    EXEC
    COMMAND LIST FILTERBY ACLCAT nope
    COMMAND LIST FILTERBY MODULE nope
    [any order] COMMAND LIST FILTERBY PATTERN xg*
    [any order] COMMAND LIST FILTERBY PATTERN z*store
    [any order] COMMAND LIST FILTERBY ACLCAT transaction
    COMMAND LIST FILTERBY NOPE x
    COMMAND LIST FILTERBY
"#;

/// A watched key that was rewritten with its old value still keeps `EXEC` from running.
pub(crate) const WRITTEN_AS_IT_WAS: &str = r#"
    RPUSH l a
    WATCH l
    [other] LMOVE l l RIGHT RIGHT
    MULTI
    EXEC
    WATCH l
    [other] LSET l 0 a
    MULTI
    EXEC
    WATCH l
    [other] LMOVE absent l RIGHT RIGHT
    MULTI
    EXEC
    HSET h f v
    WATCH h
    [other] HSET h f v
    MULTI
    EXEC
    PFADD p a
    WATCH p
    [other] PFMERGE p
    MULTI
    EXEC
    SADD s a
    SINTERSTORE t s
    WATCH t
    [other] SINTERSTORE t s
    MULTI
    EXEC
    WATCH absent
    [other] SINTERSTORE absent nothing
    MULTI
    EXEC
"#;

/// The order in which Redis checks the words of a command.
pub(crate) const SEVERAL_MISTAKES: &str = r#"
    EVALSHA nosuch abc
    EVALSHA nosuch -1
    EVALSHA ffffffffffffffffffffffffffffffffffffffff abc
    EVALSHA_RO nosuch abc
    MULTI
    EVALSHA nosuch abc
    EXEC
    BLPOP l inf
    BLPOP l -inf
    BLPOP l 1e400
    BLPOP l 9223372036854776
    BLPOP l nan
    BLPOP l ""
    BLPOP l " 1"
    BLPOP l abc
    BZMPOP nan 0.01 3 k
    BZMPOP nan 1 3 k
    BZMPOP nan 1 k MIN COUNT 0
    BZMPOP nan 1 k MIN COUNT
    BZMPOP nan 1 k MIN COUNT 1 x
    BZMPOP nan 1 k MIN
    BLMPOP nan 1 k NOPE
    BLMPOP nan 1 k LEFT
    BLMOVE a b NOPE LEFT nan
    BLMOVE a b RIGHT LEFT nan
    SELECT 4611686018427387904
    SELECT -2147483649
    SELECT 2147483647
    SELECT 16
    SELECT abc
    HELLO 3 AUTH a b c
    HELLO 2 SETNAME "two words" NOPE
    HELLO 2 SETNAME fine NOPE
    CLIENT GETNAME
    CONFIG SET NOPE 1
    CONFIG SET NoPe 1 nope 2
    XPENDING absent group
    XINFO GROUPS absent
    SADD s a
    XRANGE absent - + COUNT 0
    XADD x 5-1 a 1
    XRANGE x - + COUNT 0
    XREVRANGE x + - COUNT -1
    GEOADD g 13.361389 38.115556 a
    GEORADIUS g 13 38 100 km WITHCOORD
"#;

/// Each master keeps a set in its own order.
pub(crate) const WITHOUT_WEIGHTS: &str = r#"
    SADD e a b c d
    [any order] SORT e ALPHA BY w*
    [any order] SORT_RO e ALPHA BY w*
    [any order] SORT e ALPHA BY w* GET # GET w*
    SORT e ALPHA
    SORT e ALPHA DESC LIMIT 1 2
    SORT e ALPHA STORE to
    LRANGE to 0 -1
    SORT absent
    SORT e
"#;

/// In RESP2, a subscriber may send little other than unsubscriptions.
pub(crate) const EXEC_OF_SUBSCRIBER: &str = r#"
    PSUBSCRIBE *
    EXEC
    XINFO STREAM
    SCRIPT NOPE
    PUNSUBSCRIBE *
    [other] PSUBSCRIBE *
    PUBLISH "" m
    SSUBSCRIBE ""
    PUBSUB SHARDCHANNELS
"#;
