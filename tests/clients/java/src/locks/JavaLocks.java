package locks;

import static locks.Checks.verify;

import java.time.Duration;
import java.util.concurrent.Future;
import java.util.concurrent.locks.Lock;

/** Checks for libraries whose locks are {@link Lock}s of Java. */
final class JavaLocks {
    static void reenters(Lock mine, Lock other) {
        verify(mine.tryLock(), "a free lock was refused");
        verify(mine.tryLock(), "the holder could not enter again");
        mine.unlock();
        verify(!other.tryLock(), "the lock was free though entered twice and left once");
        mine.unlock();
        changesHands(other);
    }

    /** Checks that a lock with this {@code ttl} is renewed in the background for as long as it is held. */
    static void outlives(Duration ttl, Lock mine, Lock other) throws Exception {
        verify(mine.tryLock(), "a free lock was refused");
        long end = System.nanoTime() + ttl.toNanos() * 3 / 2;
        while (System.nanoTime() < end) {
            verify(!other.tryLock(), "the lock was not renewed");
            Thread.sleep(100);
        }
        mine.unlock();
        changesHands(other);
    }

    /** Starts a thread that waits for the lock, and releases it again. */
    static Future<Void> waiter(Lock lock, Runnable whileHeld) {
        return Checks.inAnotherThread(() -> {
            lock.lock();
            whileHeld.run();
            lock.unlock();
            return null;
        });
    }

    static Future<Void> waiter(Lock lock) {
        return waiter(lock, () -> {});
    }

    /** Checks that the lock is free for somebody else. */
    static void changesHands(Lock other) {
        verify(other.tryLock(), "a released lock was not free");
        other.unlock();
    }
}
