package locks;

import static locks.Checks.await;
import static locks.Checks.expires;
import static locks.Checks.inAnotherThread;
import static locks.Checks.verify;

import java.time.Duration;
import java.util.concurrent.Future;

/** The checks of every lock, followed by those of this library alone. */
final class Paces {
    private final Library library;
    private final Checks checks;
    private final Contender first;
    private final Contender second;
    private final Contender brief;

    Paces(Library library) throws Exception {
        this.library = library;
        checks = new Checks(library.lacks());
        first = library.contender(LONG);
        second = library.contender(LONG);
        brief = library.contender(SHORT);
    }

    void run() throws Exception {
        String key = library.newKey();
        checks.check("acquire", () -> verify(first.tryAcquire(key), "a free lock was refused"));
        Middle.pass();
        checks.check("refuse", () -> refuses(key));
        checks.check("extend", () -> extend(key));
        checks.check("stranger", () -> stranger(key));
        checks.check("release", () -> release(key));
        String shortLived = library.newKey();
        checks.check("expire", () -> expire(shortLived));
        checks.check("late", () -> late(shortLived));
        verify(second.release(shortLived), "the next holder could not release");
        checks.check("wait", this::waiting);
        library.more(checks);
        System.out.println("all locks held");
    }

    private void refuses(String key) throws Exception {
        verify(!second.tryAcquire(key), "two hold one lock");
        verify(first.ttlMs(key) > 0, "the refused one changed the lock");
    }

    private void extend(String key) throws Exception {
        Thread.sleep(500);
        long before = first.ttlMs(key);
        verify(first.extend(key), "the holder could not extend");
        long after = first.ttlMs(key);
        verify(after > before, "a TTL of " + before + " ms became one of " + after + " ms");
        verify(!second.tryAcquire(key), "the lock was free after it was extended");
    }

    private void stranger(String key) throws Exception {
        verify(!second.release(key), "the release of a stranger was not refused");
        verify(!second.tryAcquire(key), "a stranger freed the lock");
    }

    private void release(String key) throws Exception {
        verify(first.release(key), "the holder could not release");
        verify(second.tryAcquire(key), "a released lock was not free");
        verify(!first.tryAcquire(key), "two hold one lock after it changed hands");
        verify(second.release(key), "the second holder could not release");
    }

    /** The second contender gets the lock, and keeps it for the next check. */
    private void expire(String key) throws Exception {
        long start = System.nanoTime();
        verify(brief.tryAcquire(key), "a free lock was refused");
        expires(start, SHORT, () -> second.tryAcquire(key));
    }

    /** A holder whose lock has expired tries to release it when somebody else already holds it. */
    private void late(String key) throws Exception {
        brief.release(key);
        verify(!first.tryAcquire(key), "one who came too late freed the lock of the next holder");
    }

    /** The lock outlives our patience, so only its release lets the other contender in. */
    private void waiting() throws Exception {
        String key = library.newKey();
        verify(first.tryAcquire(key), "a free lock was refused");
        Future<Boolean> waiter = inAnotherThread(() -> {
            second.acquire(key);
            return second.release(key);
        });
        Thread.sleep(500);
        verify(!waiter.isDone(), "the one who waits did not wait for the lock");
        verify(first.release(key), "the holder could not release");
        verify(await(waiter), "the one who waited could not release");
    }

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Duration SHORT = Duration.ofSeconds(1);
}
