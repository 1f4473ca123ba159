package locks;

import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;

/** A contender that takes locks through ShedLock's providers, and keeps the returned objects to release them. */
final class ShedLockHolder implements Contender {
    /** The prefix of a lock's name. A provider only knows one of these. */
    record Space(String prefix, String environment) {}

    private final Function<Space, LockProvider> connect;
    private final ToLongFunction<String> pttl;
    private final Duration ttl;
    private final Map<Space, LockProvider> providers = new HashMap<>();
    private final Map<String, SimpleLock> held = new HashMap<>();

    ShedLockHolder(Function<Space, LockProvider> connect, ToLongFunction<String> pttl, Duration ttl) {
        this.connect = connect;
        this.pttl = pttl;
        this.ttl = ttl;
    }

    @Override
    public boolean tryAcquire(String key) {
        return tryAcquire(key, Duration.ZERO);
    }

    boolean tryAcquire(String key, Duration atLeast) {
        String[] parts = key.split(":", 3);
        LockProvider provider = providers.computeIfAbsent(new Space(parts[0], parts[1]), connect);
        return keep(key, provider.lock(new LockConfiguration(Instant.now(), parts[2], ttl, atLeast)));
    }

    @Override
    public boolean release(String key) {
        held.remove(key).unlock();
        return true;
    }

    @Override
    public boolean extend(String key) {
        return keep(key, held.remove(key).extend(ttl, Duration.ZERO));
    }

    @Override
    public long ttlMs(String key) {
        return pttl.applyAsLong(key);
    }

    private boolean keep(String key, Optional<SimpleLock> lock) {
        lock.ifPresent(got -> held.put(key, got));
        return lock.isPresent();
    }
}
