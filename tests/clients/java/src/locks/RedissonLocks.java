package locks;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson on a single server. A holder is a thread of a client, so every contender has its own client. */
class RedissonLocks implements Library {
    public static void main(String[] arguments) {
        Suite.run(new RedissonLocks(), arguments);
    }

    static RedissonClient connect(Duration watchdogTimeout) {
        Address address = Address.given();
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogTimeout.toMillis());
        config.useSingleServer().setAddress("redis://" + address.host() + ":" + address.port());
        return Redisson.create(config);
    }

    @Override
    public Contender contender(Duration ttl) {
        return new Holder(connect(UNUSED), ttl.toMillis());
    }

    @Override
    public void more(Checks checks) throws Exception {
        RedissonClient mine = connect(WATCHED);
        RedissonClient other = connect(UNUSED);
        checks.check("watchdog", () -> {
            String key = newKey();
            JavaLocks.outlives(WATCHED, mine.getLock(key), other.getLock(key));
        });
        new RedissonExclusive(mine, other).run(checks);
        new RedissonShared(mine, other).run(checks);
        new RedissonCounters(mine, other).run(checks);
    }

    private record Holder(RedissonClient redisson, long ttl) implements Contender {
        @Override
        public boolean tryAcquire(String key) throws InterruptedException {
            return redisson.getLock(key).tryLock(0, ttl, TimeUnit.MILLISECONDS);
        }

        @Override
        public void acquire(String key) {
            redisson.getLock(key).lock(ttl, TimeUnit.MILLISECONDS);
        }

        /** Unlocks as often as the lock was entered. */
        @Override
        public boolean release(String key) {
            RLock lock = redisson.getLock(key);
            try {
                do {
                    lock.unlock();
                } while (lock.isHeldByCurrentThread());
                return true;
            } catch (IllegalMonitorStateException notOurs) {
                return false;
            }
        }

        /** Entering again restarts the lease. */
        @Override
        public boolean extend(String key) throws InterruptedException {
            return tryAcquire(key);
        }

        @Override
        public long ttlMs(String key) {
            return redisson.getLock(key).remainTimeToLive();
        }
    }

    private static final Duration WATCHED = Duration.ofSeconds(3);
    /** The watchdog's own default: no check waits for it. */
    private static final Duration UNUSED = Duration.ofSeconds(30);
}
