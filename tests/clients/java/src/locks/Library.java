package locks;

import java.time.Duration;
import java.util.Set;
import java.util.UUID;

/** A library as an application uses it, connected to the server at REDLOCK_ADDRESS. */
interface Library {
    /** Returns a contender with its own connections and identity, whose locks live for {@code ttl}. */
    Contender contender(Duration ttl) throws Exception;

    /** Returns the common checks that this library does not support. */
    default Set<String> lacks() {
        return Set.of();
    }

    /** Returns whether a lock of this library can have exactly this name on the wire. */
    default boolean canName(String key) {
        return true;
    }

    default String newKey() {
        return randomKey();
    }

    static String randomKey() {
        return "lock:" + UUID.randomUUID();
    }

    /** Runs the checks that are specific to this library. */
    default void more(Checks checks) throws Exception {}
}
