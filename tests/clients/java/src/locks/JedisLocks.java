package locks;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.params.SetParams;

/** The lock of the Redis documentation, as Jedis users write it: SET NX PX, scripts by EVAL. */
abstract class JedisLocks implements Library {
    abstract UnifiedJedis connect(Address address);

    @Override
    public Contender contender(Duration ttl) {
        return new Holder(connect(Address.given()), UUID.randomUUID().toString(), ttl.toMillis());
    }

    @Override
    public Set<String> lacks() {
        return Set.of("wait");
    }

    private record Holder(UnifiedJedis jedis, String token, long ttl) implements Contender {
        @Override
        public boolean tryAcquire(String key) {
            return jedis.set(key, token, SetParams.setParams().nx().px(ttl)) != null;
        }

        @Override
        public boolean release(String key) {
            return jedis.eval(OwnedScripts.RELEASE, List.of(key), List.of(token)).equals(1L);
        }

        @Override
        public boolean extend(String key) {
            return jedis.eval(OwnedScripts.EXTEND, List.of(key), List.of(token, Long.toString(ttl))).equals(1L);
        }

        @Override
        public long ttlMs(String key) {
            return jedis.pttl(key);
        }
    }
}
