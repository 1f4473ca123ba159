package locks;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.Set;
import java.util.UUID;

/** The lock of the Redis documentation, as Lettuce users write it: SET NX PX, scripts by SCRIPT LOAD and EVALSHA. */
final class LettuceLocks implements Library {
    public static void main(String[] arguments) {
        Suite.run(new LettuceLocks(), arguments);
    }

    @Override
    public Contender contender(Duration ttl) {
        Address address = Address.given();
        RedisClient client = RedisClient.create(RedisURI.create(address.host(), address.port()));
        return new Holder(client.connect().sync(), UUID.randomUUID().toString(), ttl.toMillis());
    }

    @Override
    public Set<String> lacks() {
        return Set.of("wait");
    }

    private record Holder(RedisCommands<String, String> redis, String token, long ttl) implements Contender {
        @Override
        public boolean tryAcquire(String key) {
            return redis.set(key, token, SetArgs.Builder.nx().px(ttl)) != null;
        }

        @Override
        public boolean release(String key) {
            return run(OwnedScripts.RELEASE, key, token);
        }

        @Override
        public boolean extend(String key) {
            return run(OwnedScripts.EXTEND, key, token, Long.toString(ttl));
        }

        @Override
        public long ttlMs(String key) {
            return redis.pttl(key);
        }

        private boolean run(String script, String key, String... values) {
            String digest = redis.scriptLoad(script);
            Long done = redis.evalsha(digest, ScriptOutputType.INTEGER, new String[] {key}, values);
            return done == 1;
        }
    }
}
