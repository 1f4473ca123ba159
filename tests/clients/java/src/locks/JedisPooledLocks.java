package locks;

import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.UnifiedJedis;

/** Jedis over its entry point up to 7. */
final class JedisPooledLocks extends JedisLocks {
    public static void main(String[] arguments) {
        Suite.run(new JedisPooledLocks(), arguments);
    }

    @Override
    UnifiedJedis connect(Address address) {
        return new JedisPooled(address.host(), address.port());
    }
}
