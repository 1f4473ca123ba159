package shop;

import static shop.Checks.check;

import java.util.Map;
import org.redisson.spring.starter.RedissonAutoConfigurationCustomizer;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.context.annotation.Bean;

/** A Spring Boot shop, whose starter connects through Redisson. It runs its checks and ends. */
@SpringBootApplication
@EnableCaching
public class Main {
    /** Time to live of a lock without a lease, renewed after a third of it. */
    static final long WATCHDOG_MS = 3_000;

    public static void main(String[] words) {
        try (var shop = new SpringApplication(Main.class).run(settings())) {
            shop.getBean(Values.class).checks().forEach((name, action) -> check(name, action));
            shop.getBean(Caches.class).checks().forEach((name, action) -> check(name, action));
            shop.getBean(Locks.class).checks().forEach((name, action) -> check(name, action));
        } catch (RuntimeException error) {
            error.printStackTrace();
            System.err.println(words[0] + ": " + String.valueOf(error.getMessage()).replaceAll("\\s+", " "));
            System.exit(1);
        }
        System.exit(0);
    }

    private static String[] settings() {
        var settings = Map.of(
            "spring.data.redis.url", "redis://" + System.getenv("REDLOCK_ADDRESS"),
            "spring.data.redis.timeout", Checks.PATIENCE.toSeconds() + "s",
            "spring.cache.type", "redis",
            "spring.cache.redis.time-to-live", "10m",
            "spring.main.banner-mode", "off",
            "logging.level.root", "error");
        return settings.entrySet().stream().map(it -> "--" + it.getKey() + "=" + it.getValue()).toArray(String[]::new);
    }

    @Bean
    RedissonAutoConfigurationCustomizer watchdog() {
        return config -> config.setLockWatchdogTimeout(WATCHDOG_MS);
    }
}
