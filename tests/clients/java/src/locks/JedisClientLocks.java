package locks;

import redis.clients.jedis.RedisClient;
import redis.clients.jedis.UnifiedJedis;

/** Jedis over its entry point since 7. */
final class JedisClientLocks extends JedisLocks {
    public static void main(String[] arguments) {
        Suite.run(new JedisClientLocks(), arguments);
    }

    @Override
    UnifiedJedis connect(Address address) {
        return RedisClient.create(address.host(), address.port());
    }
}
