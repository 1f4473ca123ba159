package locks;

import java.time.Duration;
import java.util.Set;
import java.util.UUID;

/** A library as an application uses it, connected to whatever listens at REDLOCK_ADDRESS. */
interface Library {
    /** Somebody with connections and an identity of its own, whose locks live for {@code ttl}. */
    Contender contender(Duration ttl) throws Exception;

    /** The common checks that this library has nothing for. */
    default Set<String> lacks() {
        return Set.of();
    }

    /** Whether a lock of this library can have exactly this name on the wire. */
    default boolean canName(String key) {
        return true;
    }

    default String newKey() {
        return randomKey();
    }

    static String randomKey() {
        return "lock:" + UUID.randomUUID();
    }

    /** What this library has beyond the common checks. */
    default void more(Checks checks) throws Exception {}
}
