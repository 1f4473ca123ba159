package shop;

import static shop.Checks.eventually;
import static shop.Checks.same;
import static shop.Checks.that;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.cache.annotation.CacheEvict;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.ScanOptions;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;
import org.springframework.data.redis.listener.ChannelTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;
import org.springframework.stereotype.Component;
import org.springframework.stereotype.Service;

/** Spring's own uses of its connection: cached methods, templates and listeners. */
@Component
class Caches {
    private final Catalogue catalogue;
    private final StringRedisTemplate template;
    private final RedisMessageListenerContainer listeners;

    Caches(Catalogue catalogue, StringRedisTemplate template, RedisMessageListenerContainer listeners) {
        this.catalogue = catalogue;
        this.template = template;
        this.listeners = listeners;
    }

    Map<String, Checks.Action> checks() {
        var checks = new LinkedHashMap<String, Checks.Action>();
        checks.put("cached method", this::cached);
        checks.put("template", this::values);
        checks.put("transaction", this::transaction);
        checks.put("pipeline", this::pipeline);
        checks.put("listener", this::listen);
        return checks;
    }

    private void cached() throws Exception {
        String pen = kept("pen");
        catalogue.change("pen");
        eventually("one is forgotten", () -> !catalogue.describe("pen").equals(pen));
        String ink = kept("ink");
        catalogue.changeAll();
        eventually("all are forgotten", () -> !catalogue.describe("ink").equals(ink));
        kept("ink");
        Long left = template.getExpire("catalogue::ink");
        that(left != null && left > 0 && left <= 600, "it is kept for " + left + " s");
    }

    /** Spring caches and evicts in the background. Two equal descriptions in a row mean that one came from the cache. */
    private String kept(String product) throws Exception {
        eventually("a description is kept", () -> catalogue.describe(product).equals(catalogue.describe(product)));
        return catalogue.describe(product);
    }

    private void values() {
        template.opsForValue().set("greeting", "hello", Duration.ofMinutes(10));
        same(false, template.opsForValue().setIfAbsent("greeting", "bye"), "what is there already");
        same("hello", template.opsForValue().get("greeting"), "the greeting");
        template.opsForHash().putAll("product", Map.of("name", "pen", "price", "3"));
        same(Map.of("name", "pen", "price", "3"), template.opsForHash().entries("product"), "the product");
        same(2L, template.opsForList().rightPushAll("tasks", "write", "read"), "the tasks");
        try (var keys = template.scan(ScanOptions.scanOptions().match("greet*").count(1000).build())) {
            same(List.of("greeting"), keys.stream().toList(), "the keys that are found");
        }
        var script = RedisScript.of("return redis.call('INCRBY', KEYS[1], ARGV[1])", Long.class);
        same(7L, template.execute(script, List.of("counter"), "7"), "the answer of a script");
    }

    private void transaction() {
        var answers = template.execute(new SessionCallback<List<Object>>() {
            @Override
            @SuppressWarnings("unchecked")
            public <K, V> List<Object> execute(RedisOperations<K, V> operations) {
                var session = (RedisOperations<String, String>) operations;
                session.multi();
                session.opsForValue().set("balance", "7");
                session.opsForValue().increment("balance", 3);
                return session.exec();
            }
        });
        same(List.of(true, 10L), answers, "the answers of the transaction");
    }

    private void pipeline() {
        var answers = template.executePipelined((RedisCallback<Object>) connection -> {
            for (int i = 0; i < 200; i++) {
                connection.stringCommands().set(bytes("page:" + i), bytes("text " + i));
            }
            return null;
        });
        same(200, answers.size(), "the answers");
        same(List.of("text 7", "text 8"), template.opsForValue().multiGet(List.of("page:7", "page:8")), "two of the pages");
    }

    private void listen() throws Exception {
        var heard = new ConcurrentLinkedQueue<String>();
        listeners.addMessageListener((message, pattern) -> heard.add(new String(message.getBody(), StandardCharsets.UTF_8)), new ChannelTopic("orders"));
        eventually("somebody listens", () -> template.convertAndSend("orders", "one pen") == 1);
        eventually("it is heard", () -> heard.contains("one pen"));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}

/** Counts its calls, so that its answers show which of them came from the cache. */
@Service
class Catalogue {
    private final AtomicInteger asked = new AtomicInteger();

    @Cacheable("catalogue")
    public String describe(String product) {
        return product + " " + asked.incrementAndGet();
    }

    @CacheEvict("catalogue")
    public void change(String product) {}

    @CacheEvict(cacheNames = "catalogue", allEntries = true)
    public void changeAll() {}
}
