package locks;

import static locks.Checks.verify;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;

/** Redisson 4: the locks of 3.17, and locks with a fencing token. */
final class Redisson4Locks extends RedissonLocks {
    public static void main(String[] arguments) {
        Suite.run(new Redisson4Locks(), arguments);
    }

    @Override
    public void more(Checks checks) throws Exception {
        super.more(checks);
        checks.check("fenced", this::fenced);
    }

    /** Every holder has a higher token than those before, so that storage can refuse writers that come too late. */
    private void fenced() throws InterruptedException {
        String key = newKey();
        RFencedLock here = connect(WATCHDOG).getFencedLock(key);
        RFencedLock there = connect(WATCHDOG).getFencedLock(key);
        long first = here.lockAndGetToken();
        // Without a time it would wait for the lock, despite its name.
        verify(there.tryLockAndGetToken(0, TimeUnit.SECONDS) == null, "two hold one lock");
        here.unlock();
        long second = there.lockAndGetToken();
        verify(second > first, "token " + second + " came after token " + first);
        verify(there.getToken() == second, "the token changed while the lock was held");
        there.unlock();
        long third = here.lockAndGetToken();
        verify(third > second, "token " + third + " came after token " + second);
        here.unlock();
    }

    private static final Duration WATCHDOG = Duration.ofSeconds(30);
}
