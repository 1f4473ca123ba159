package locks;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;

/** ShedLock over Spring Data. The property {@code safe} says whether it checks a lock's owner before changing it. */
final class ShedLockSpring extends ShedLocks {
    public static void main(String[] arguments) {
        Suite.run(new ShedLockSpring(), arguments);
    }

    @Override
    ShedLockHolder connect(Duration ttl) {
        RedisConnectionFactory connections = SpringConnections.connect();
        StringRedisTemplate redis = new StringRedisTemplate(connections);
        return new ShedLockHolder(
                space -> provider(connections, space), key -> redis.getExpire(key, TimeUnit.MILLISECONDS), ttl);
    }

    @Override
    boolean looksWhoseItIs() {
        return Boolean.getBoolean("safe");
    }

    private LockProvider provider(RedisConnectionFactory connections, ShedLockHolder.Space space) {
        return new RedisLockProvider.Builder(connections)
                .keyPrefix(space.prefix())
                .environment(space.environment())
                .safeUpdate(looksWhoseItIs())
                .build();
    }
}
