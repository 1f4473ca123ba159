package shop;

import static shop.Checks.PATIENCE;
import static shop.Checks.eventually;
import static shop.Checks.same;
import static shop.Checks.that;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.stereotype.Component;

/** The locks of the shop: all kinds of Redisson locks, and Spring Integration's. The others belong to another instance. */
@Component
class Locks {
    private final RedissonClient mine;
    private final RedissonClient theirs;
    private final RedisConnectionFactory connections;

    Locks(RedissonClient redisson, RedisConnectionFactory connections) {
        mine = redisson;
        theirs = Redisson.create(new Config(redisson.getConfig()));
        this.connections = connections;
    }

    Map<String, Checks.Action> checks() {
        var checks = new LinkedHashMap<String, Checks.Action>();
        checks.put("lock", this::lock);
        checks.put("lock waited for", this::waited);
        checks.put("watchdog", this::watchdog);
        checks.put("fair lock", this::fair);
        checks.put("read and write", this::readWrite);
        checks.put("several at once", this::several);
        checks.put("one at a time", this::oneAtATime);
        checks.put("lock registry", this::registry);
        checks.put("lock held", this::held);
        return checks;
    }

    private void lock() throws Exception {
        RLock report = mine.getLock("lock:report");
        RLock other = theirs.getLock("lock:report");
        same(List.of(true, true, 2), List.of(report.tryLock(), report.tryLock(), report.getHoldCount()), "taken twice");
        same(List.of(false, true, false), List.of(other.tryLock(), other.isLocked(), other.isHeldByCurrentThread()), "seen by another");
        report.unlock();
        same(false, other.tryLock(), "taken by another, while it is held once");
        report.unlock();
        same(true, other.tryLock(0, 600, TimeUnit.SECONDS), "taken by another");
        that(other.remainTimeToLive() > 0, "a lease without an end");
        same(List.of(false, true), List.of(report.tryLock(), report.forceUnlock()), "freed by force");
    }

    private void waited() throws Exception {
        RLock stock = mine.getLock("lock:stock");
        stock.lock();
        var other = CompletableFuture.supplyAsync(() -> within(theirs.getLock("lock:stock"), () -> "counted"));
        eventually("somebody waits for a message", () -> mine.getTopic("redisson_lock__channel:{lock:stock}").countSubscribers() > 0);
        that(!other.isDone(), "both have the lock");
        stock.unlock();
        same("counted", other.get(PATIENCE.toSeconds(), TimeUnit.SECONDS), "what is done after the release");
    }

    private static <T> T within(RLock lock, Callable<T> action) {
        lock.lock();
        try {
            return action.call();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        } finally {
            lock.unlock();
        }
    }

    /** A lock without a lease lasts for as long as its holder lives. */
    private void watchdog() throws Exception {
        RLock lock = mine.getLock("lock:long");
        lock.lock();
        long[] left = {lock.remainTimeToLive()};
        that(0 < left[0] && left[0] <= Main.WATCHDOG_MS, "the lock ends in " + left[0] + " ms");
        eventually("it is renewed", () -> {
            long before = left[0];
            left[0] = lock.remainTimeToLive();
            return left[0] > before;
        });
        lock.unlock();
    }

    private void fair() throws Exception {
        RLock mineFair = mine.getFairLock("lock:fair");
        mineFair.lock();
        var other = CompletableFuture.supplyAsync(() -> within(theirs.getFairLock("lock:fair"), () -> "done"));
        eventually("somebody is in the queue", () -> mine.getList("redisson_lock_queue:{lock:fair}").size() == 1);
        mineFair.unlock();
        same("done", other.get(PATIENCE.toSeconds(), TimeUnit.SECONDS), "what is done after the release");
    }

    private void readWrite() {
        var book = mine.getReadWriteLock("lock:book");
        var other = theirs.getReadWriteLock("lock:book");
        same(List.of(true, true, false), List.of(book.readLock().tryLock(), other.readLock().tryLock(), other.writeLock().tryLock()), "two read");
        book.readLock().unlock();
        other.readLock().unlock();
        same(List.of(true, false), List.of(other.writeLock().tryLock(), book.readLock().tryLock()), "one writes");
        other.writeLock().unlock();
    }

    private void several() {
        RLock both = mine.getMultiLock(mine.getLock("lock:left"), mine.getLock("lock:right"));
        same(true, both.tryLock(), "both");
        same(List.of(false, false), List.of(theirs.getLock("lock:left").tryLock(), theirs.getLock("lock:right").tryLock()), "one of them");
        both.unlock();
        same(true, theirs.getSpinLock("lock:left").tryLock(), "one of them, after that");
        theirs.getSpinLock("lock:left").unlock();
    }

    /** Eight threads of two instances change a number with no other protection. */
    private void oneAtATime() throws Exception {
        var number = mine.getBucket("number");
        number.set(0);
        var threads = Executors.newFixedThreadPool(8);
        for (int i = 0; i < 8; i++) {
            RLock lock = (i % 2 == 0 ? mine : theirs).getLock("lock:number");
            threads.submit(() -> {
                for (int j = 0; j < 10; j++) {
                    within(lock, () -> {
                        number.set((int) number.get() + 1);
                        return null;
                    });
                }
            });
        }
        threads.shutdown();
        that(threads.awaitTermination(PATIENCE.toSeconds(), TimeUnit.SECONDS), "it does not end");
        same(80, number.get(), "the number");
    }

    private void registry() throws Exception {
        var registry = new RedisLockRegistry(connections, "shop-lock", 600_000);
        var other = new RedisLockRegistry(connections, "shop-lock", 600_000);
        same(List.of(true, false), List.of(registry.obtain("mail").tryLock(), other.obtain("mail").tryLock()), "one of two");
        var waiting = CompletableFuture.supplyAsync(() -> {
            var lock = other.obtain("mail");
            lock.lock();
            lock.unlock();
            return "sent";
        });
        that(!waiting.isDone(), "both have the lock");
        registry.obtain("mail").unlock();
        same("sent", waiting.get(PATIENCE.toSeconds(), TimeUnit.SECONDS), "what is done after the release");
    }

    /** Leaves a lock held at the end. */
    private void held() throws Exception {
        same(true, mine.getLock("lock:night").tryLock(0, 600, TimeUnit.SECONDS), "a lock");
        same(false, theirs.getLock("lock:night").tryLock(), "the same lock for another");
        theirs.shutdown();
    }
}
