package locks;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.scheduling.concurrent.SimpleAsyncTaskScheduler;

/** Spring Integration's RedisLockRegistry. The property {@code type} says how it waits: SPIN_LOCK or PUB_SUB_LOCK. */
final class SpringLocks implements Library {
    public static void main(String[] arguments) {
        Suite.run(new SpringLocks(), arguments);
    }

    @Override
    public Contender contender(Duration ttl) {
        return new Registries(ttl);
    }

    /** Its keys are called {@code registry:lock}. */
    @Override
    public boolean canName(String key) {
        int colon = key.indexOf(':');
        return colon > 0 && colon < key.length() - 1;
    }

    @Override
    public void more(Checks checks) throws Exception {
        checks.check("reentrant", () -> {
            String name = UUID.randomUUID().toString();
            JavaLocks.reenters(registry("lock", LONG).obtain(name), registry("lock", LONG).obtain(name));
        });
        checks.check("watchdog", () -> {
            String name = UUID.randomUUID().toString();
            RedisLockRegistry renewing = registry("lock", WATCHED);
            renewing.setRenewalTaskScheduler(new SimpleAsyncTaskScheduler());
            JavaLocks.outlives(WATCHED, renewing.obtain(name), registry("lock", LONG).obtain(name));
        });
    }

    private static RedisLockRegistry registry(String name, Duration ttl) {
        return registry(SpringConnections.connect(), name, ttl);
    }

    private static RedisLockRegistry registry(RedisConnectionFactory connections, String name, Duration ttl) {
        RedisLockRegistry registry = new RedisLockRegistry(connections, name, ttl.toMillis());
        registry.setRedisLockType(RedisLockType.valueOf(System.getProperty("type")));
        return registry;
    }

    /** A registry has one TTL and one prefix for all its locks, so there is one registry for each prefix. */
    private static final class Registries implements Contender {
        private final RedisConnectionFactory connections = SpringConnections.connect();
        private final StringRedisTemplate redis = new StringRedisTemplate(connections);
        private final Map<String, RedisLockRegistry> registries = new HashMap<>();
        private final Duration ttl;

        Registries(Duration ttl) {
            this.ttl = ttl;
        }

        @Override
        public boolean tryAcquire(String key) {
            return lock(key).tryLock();
        }

        @Override
        public void acquire(String key) {
            lock(key).lock();
        }

        @Override
        public boolean release(String key) {
            try {
                lock(key).unlock();
                return true;
            } catch (IllegalStateException | ConcurrentModificationException notOurs) {
                return false;
            }
        }

        @Override
        public boolean extend(String key) {
            registryOf(key).renewLock(nameIn(key));
            return true;
        }

        @Override
        public long ttlMs(String key) {
            return redis.getExpire(key, TimeUnit.MILLISECONDS);
        }

        private Lock lock(String key) {
            return registryOf(key).obtain(nameIn(key));
        }

        private RedisLockRegistry registryOf(String key) {
            String name = key.substring(0, key.indexOf(':'));
            return registries.computeIfAbsent(name, unknown -> registry(connections, name, ttl));
        }

        private static String nameIn(String key) {
            return key.substring(key.indexOf(':') + 1);
        }
    }

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Duration WATCHED = Duration.ofSeconds(2);
}
