package locks;

import static locks.Checks.expires;
import static locks.Checks.verify;

import java.time.Duration;
import java.util.Set;
import java.util.UUID;

/**
 * ShedLock with any provider. A lock can only be released with the object returned by its claim, so there is no stranger.
 * Outside safe mode it deletes the lock without checking its owner, so a late release frees the next holder's lock.
 */
abstract class ShedLocks implements Library {
    /** Returns a contender whose locks are called {@code prefix:environment:name}. */
    abstract ShedLockHolder connect(Duration ttl);

    abstract boolean looksWhoseItIs();

    @Override
    public Contender contender(Duration ttl) {
        return connect(ttl);
    }

    @Override
    public Set<String> lacks() {
        return looksWhoseItIs() ? Set.of("stranger", "wait") : Set.of("stranger", "late", "wait");
    }

    @Override
    public boolean canName(String key) {
        return key.matches("[^:]+:[^:]+:.+");
    }

    @Override
    public String newKey() {
        return "job-lock:tests:" + UUID.randomUUID();
    }

    @Override
    public void more(Checks checks) throws Exception {
        checks.check("at-least", this::atLeast);
    }

    /** A job that ends too soon keeps its lock until lockAtLeastFor is over. */
    private void atLeast() throws Exception {
        String key = newKey();
        ShedLockHolder mine = connect(Duration.ofSeconds(60));
        ShedLockHolder other = connect(Duration.ofSeconds(60));
        long start = System.nanoTime();
        verify(mine.tryAcquire(key, AT_LEAST), "a free lock was refused");
        verify(mine.release(key), "the holder could not release");
        expires(start, AT_LEAST, () -> other.tryAcquire(key));
        other.release(key);
    }

    private static final Duration AT_LEAST = Duration.ofSeconds(1);
}
