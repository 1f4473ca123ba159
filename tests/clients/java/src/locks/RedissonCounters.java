package locks;

import static locks.Checks.PATIENCE;
import static locks.Checks.await;
import static locks.Checks.eventually;
import static locks.Checks.inAnotherThread;
import static locks.Checks.verify;
import static locks.Library.randomKey;

import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Redisson's counters: semaphores and a latch. */
final class RedissonCounters {
    private final RedissonClient mine;
    private final RedissonClient other;

    RedissonCounters(RedissonClient mine, RedissonClient other) {
        this.mine = mine;
        this.other = other;
    }

    void run(Checks checks) throws Exception {
        checks.check("semaphore", this::semaphore);
        checks.check("permits", this::permitsThatExpire);
        checks.check("latch", this::latch);
    }

    private void semaphore() {
        String key = randomKey();
        RSemaphore semaphore = mine.getSemaphore(key);
        verify(semaphore.trySetPermits(2), "the semaphore could not be set up");
        verify(semaphore.tryAcquire() && semaphore.tryAcquire(), "a free permit was refused");
        verify(!other.getSemaphore(key).tryAcquire(), "three have one of two permits");
        semaphore.release();
        verify(other.getSemaphore(key).tryAcquire(), "a released permit was not free");
        semaphore.delete();
    }

    private void permitsThatExpire() throws Exception {
        String key = randomKey();
        RPermitExpirableSemaphore semaphore = mine.getPermitExpirableSemaphore(key);
        verify(semaphore.trySetPermits(1), "the semaphore could not be set up");
        verify(semaphore.tryAcquire(0, 1, TimeUnit.SECONDS) != null, "a free permit was refused");
        RPermitExpirableSemaphore elsewhere = other.getPermitExpirableSemaphore(key);
        eventually(() -> acquiredForLong(elsewhere), "the permit did not expire");
        verify(semaphore.tryAcquire() == null, "two have the only permit");
        semaphore.delete();
    }

    private static boolean acquiredForLong(RPermitExpirableSemaphore semaphore) throws InterruptedException {
        String permit = semaphore.tryAcquire(0, 60, TimeUnit.SECONDS);
        if (permit == null) {
            return false;
        }
        semaphore.release(permit);
        return semaphore.tryAcquire(0, 60, TimeUnit.SECONDS) != null;
    }

    private void latch() throws Exception {
        String key = randomKey();
        RCountDownLatch latch = mine.getCountDownLatch(key);
        verify(latch.trySetCount(2), "the latch could not be set up");
        Future<Boolean> waiter =
                inAnotherThread(() -> other.getCountDownLatch(key).await(PATIENCE.toSeconds(), TimeUnit.SECONDS));
        latch.countDown();
        Thread.sleep(300);
        verify(!waiter.isDone(), "the latch opened too soon");
        latch.countDown();
        verify(await(waiter), "the latch did not open");
    }
}
