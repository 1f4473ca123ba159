package locks;

import java.time.Duration;
import net.javacrumbs.shedlock.provider.redis.jedis4.JedisLockProvider;
import redis.clients.jedis.JedisPooled;

/** ShedLock 5 over Jedis: it has no safe mode yet, and calls every lock {@code job-lock:environment:name}. */
final class ShedLockJedis extends ShedLocks {
    public static void main(String[] arguments) {
        Suite.run(new ShedLockJedis(), arguments);
    }

    @Override
    ShedLockHolder connect(Duration ttl) {
        Address address = Address.given();
        JedisPooled jedis = new JedisPooled(address.host(), address.port());
        return new ShedLockHolder(space -> new JedisLockProvider(jedis, space.environment()), jedis::pttl, ttl);
    }

    @Override
    boolean looksWhoseItIs() {
        return false;
    }

    @Override
    public boolean canName(String key) {
        return super.canName(key) && key.startsWith("job-lock:");
    }
}
