package locks;

/** The scripts of the Redis documentation that only touch a lock if it is ours. */
final class OwnedScripts {
    static final String RELEASE = """
            if redis.call("get",KEYS[1]) == ARGV[1] then
                return redis.call("del",KEYS[1])
            else
                return 0
            end""";

    static final String EXTEND = """
            if redis.call("get",KEYS[1]) == ARGV[1] then
                return redis.call("pexpire",KEYS[1],ARGV[2])
            else
                return 0
            end""";
}
