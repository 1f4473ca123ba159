package locks;

import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** Spring Data's connections, over the driver named by the property {@code driver}: lettuce or jedis. */
final class SpringConnections {
    static RedisConnectionFactory connect() {
        Address address = Address.given();
        RedisStandaloneConfiguration server = new RedisStandaloneConfiguration(address.host(), address.port());
        return switch (System.getProperty("driver")) {
            case "lettuce" -> lettuce(server);
            case "jedis" -> jedis(server);
            default -> throw new IllegalArgumentException("-Ddriver=lettuce or -Ddriver=jedis?");
        };
    }

    private static RedisConnectionFactory lettuce(RedisStandaloneConfiguration server) {
        LettuceConnectionFactory factory = new LettuceConnectionFactory(server);
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }

    private static RedisConnectionFactory jedis(RedisStandaloneConfiguration server) {
        JedisConnectionFactory factory = new JedisConnectionFactory(server);
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }
}
