package locks;

import static locks.Checks.await;
import static locks.Checks.eventually;
import static locks.Checks.inAnotherThread;
import static locks.Checks.verify;
import static locks.Library.randomKey;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Redisson's locks for one holder: the common one, fair, spinning, several at once. */
final class RedissonExclusive {
    private final RedissonClient mine;
    private final RedissonClient other;

    RedissonExclusive(RedissonClient mine, RedissonClient other) {
        this.mine = mine;
        this.other = other;
    }

    void run(Checks checks) throws Exception {
        checks.check("reentrant", this::reentrant);
        checks.check("thread", this::threadsAreStrangers);
        checks.check("force", this::force);
        checks.check("fair", this::fair);
        checks.check("spin", this::spin);
        checks.check("multi", this::multi);
    }

    private void reentrant() {
        String key = randomKey();
        JavaLocks.reenters(mine.getLock(key), other.getLock(key));
    }

    private void threadsAreStrangers() throws Exception {
        RLock lock = mine.getLock(randomKey());
        lock.lock();
        verify(!await(inAnotherThread(lock::tryLock)), "two threads of one client hold one lock");
        verify(await(inAnotherThread(() -> refusesToUnlock(lock))), "another thread could unlock");
        verify(lock.isHeldByCurrentThread(), "another thread freed the lock");
        lock.unlock();
    }

    private static boolean refusesToUnlock(RLock lock) {
        try {
            lock.unlock();
            return false;
        } catch (IllegalMonitorStateException notOurs) {
            return true;
        }
    }

    /** Frees the lock whoever holds it, and wakes a waiter. */
    private void force() throws Exception {
        String key = randomKey();
        other.getLock(key).lock();
        Future<Void> waiter = JavaLocks.waiter(mine.getLock(key));
        Thread.sleep(300);
        verify(!waiter.isDone(), "the one who waits did not wait for the lock");
        verify(mine.getLock(key).forceUnlock(), "nothing was freed");
        await(waiter);
        verify(!mine.getLock(key).forceUnlock(), "the lock was there after everybody had left");
    }

    /** Waiters get the lock in the order in which they came, whatever client they belong to. */
    private void fair() throws Exception {
        String key = randomKey();
        RLock lock = other.getFairLock(key);
        lock.lock();
        List<Integer> order = new CopyOnWriteArrayList<>();
        List<Future<Void>> waiters = new ArrayList<>();
        for (int number = 1; number <= 3; number++) {
            int turn = number;
            RedissonClient client = turn % 2 == 0 ? mine : other;
            waiters.add(JavaLocks.waiter(client.getFairLock(key), () -> order.add(turn)));
            eventually(() -> queueLength(key) == turn, "waiter " + turn + " did not queue");
        }
        verify(order.isEmpty(), "one who waits did not wait for the lock");
        lock.unlock();
        for (Future<Void> waiter : waiters) {
            await(waiter);
        }
        verify(order.equals(List.of(1, 2, 3)), "1, 2 and 3 queued, and got the lock in the order " + order);
    }

    private long queueLength(String key) {
        return mine.getScript(StringCodec.INSTANCE).<Long>eval(
                RScript.Mode.READ_WRITE,
                "return redis.call('llen', KEYS[1])",
                RScript.ReturnType.VALUE,
                List.of("redisson_lock_queue:{" + key + "}"));
    }

    private void spin() throws Exception {
        String key = randomKey();
        RLock lock = mine.getSpinLock(key);
        verify(lock.tryLock(), "a free lock was refused");
        verify(!other.getSpinLock(key).tryLock(), "two hold one lock");
        Future<Void> waiter = JavaLocks.waiter(other.getSpinLock(key));
        Thread.sleep(300);
        verify(!waiter.isDone(), "the one who spins did not wait for the lock");
        lock.unlock();
        await(waiter);
    }

    /** All or none: a client that gets only some of the locks keeps none of them. */
    private void multi() {
        List<String> keys = List.of(randomKey(), randomKey(), randomKey());
        RLock last = other.getLock(keys.get(2));
        verify(last.tryLock(), "a free lock was refused");
        RLock all = mine.getMultiLock(keys.stream().map(mine::getLock).toArray(RLock[]::new));
        verify(!all.tryLock(), "all were taken though one was not free");
        keys.subList(0, 2).forEach(key -> JavaLocks.changesHands(other.getLock(key)));
        last.unlock();
        verify(all.tryLock(), "free locks were refused");
        keys.forEach(key -> verify(!other.getLock(key).tryLock(), "two hold one lock of several"));
        all.unlock();
        keys.forEach(key -> JavaLocks.changesHands(other.getLock(key)));
    }
}
