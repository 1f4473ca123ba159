package shop;

import static shop.Checks.PATIENCE;
import static shop.Checks.eventually;
import static shop.Checks.same;
import static shop.Checks.that;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.redisson.api.BatchOptions;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RTopic;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.StringCodec;
import org.springframework.stereotype.Component;

/** Redisson's other objects: maps, queues, topics and more. */
@Component
class Values {
    private final RedissonClient redisson;

    Values(RedissonClient redisson) {
        this.redisson = redisson;
    }

    Map<String, Checks.Action> checks() {
        var checks = new LinkedHashMap<String, Checks.Action>();
        checks.put("map", this::map);
        checks.put("map with times", this::mapWithTimes);
        checks.put("topic", this::topic);
        checks.put("queue", this::queue);
        checks.put("collections", this::collections);
        checks.put("batch", this::batch);
        checks.put("semaphore", this::semaphore);
        checks.put("rate limit", this::rateLimit);
        return checks;
    }

    private void map() {
        RMap<String, Integer> prices = redisson.getMap("prices");
        same(null, prices.put("pen", 3), "what was there before");
        same(3, prices.put("pen", 4), "the price before");
        same(4, prices.putIfAbsent("pen", 5), "the price that is there");
        same(true, prices.replace("pen", 4, 6), "a price that is replaced");
        Map<String, Integer> many = IntStream.range(0, 500).boxed().collect(Collectors.toMap(i -> "product-" + i, i -> i));
        prices.putAll(many);
        same(501, prices.size(), "the number of prices");
        same(many, prices.getAll(many.keySet()), "the prices");
        same(124_750, prices.entrySet().stream().filter(it -> !it.getKey().equals("pen")).mapToInt(Map.Entry::getValue).sum(), "their sum");
        same(6, prices.remove("pen"), "a price that is removed");
    }

    private void mapWithTimes() throws Exception {
        RMapCache<String, String> guests = redisson.getMapCache("guests");
        guests.put("ann", "here", 1, TimeUnit.SECONDS);
        guests.put("bob", "here", 10, TimeUnit.MINUTES);
        that(guests.remainTimeToLive("bob") > 0, "a value that has no end");
        eventually("one has gone", () -> guests.get("ann") == null);
        same("here", guests.get("bob"), "the other");
    }

    private void topic() throws Exception {
        RTopic news = redisson.getTopic("news");
        var heard = new ConcurrentLinkedQueue<String>();
        int listener = news.addListener(String.class, (channel, message) -> heard.add(channel + " " + message));
        int pattern = redisson.getPatternTopic("ne*").addListener(String.class, (of, channel, message) -> heard.add(of + " " + message));
        same(2L, news.publish("extra"), "those who listen");
        eventually("both have heard it", () -> heard.size() == 2);
        that(heard.containsAll(List.of("news extra", "ne* extra")), "what was heard: " + heard);
        news.removeListener(listener);
        redisson.getPatternTopic("ne*").removeListener(pattern);
        eventually("nobody listens", () -> news.publish("nothing") == 0);
    }

    private void queue() throws Exception {
        RBlockingQueue<String> mails = redisson.getBlockingQueue("mails");
        var taken = CompletableFuture.supplyAsync(() -> take(mails));
        mails.add("first");
        same("first", taken.get(PATIENCE.toSeconds(), TimeUnit.SECONDS), "the mail that was waited for");
        same(null, mails.poll(100, TimeUnit.MILLISECONDS), "a mail that nobody sends");
        mails.addAll(List.of("second", "third"));
        same(List.of("second", "third"), mails.readAll(), "the mails");
    }

    private static String take(RBlockingQueue<String> mails) {
        try {
            return mails.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private void collections() {
        var scores = redisson.getScoredSortedSet("scores");
        scores.add(3, "ann");
        scores.add(5, "bob");
        same(List.of("bob", "ann"), List.copyOf(scores.valueRangeReversed(0, -1)), "those with scores");
        same(2L, redisson.getAtomicLong("visits").addAndGet(2), "the visits");
        redisson.getBucket("picture").set(new byte[500_000], Duration.ofMinutes(10));
        same(500_000, ((byte[]) redisson.getBucket("picture").get()).length, "the size of a picture");
        same(true, redisson.getSet("tags").addAll(List.of("blue", "new")), "tags");
        same(2, redisson.getSet("tags").size(), "the number of tags");
        var transaction = redisson.createTransaction(TransactionOptions.defaults());
        transaction.getBucket("balance", StringCodec.INSTANCE).set("7");
        transaction.rollback();
        same(false, redisson.getBucket("balance").isExists(), "what was rolled back");
    }

    private void batch() {
        for (var mode : BatchOptions.ExecutionMode.values()) {
            var batch = redisson.createBatch(BatchOptions.defaults().executionMode(mode));
            IntStream.range(0, 100).forEach(i -> batch.getAtomicLong("count:" + mode).incrementAndGetAsync());
            same(100, batch.execute().getResponses().size(), "the answers, " + mode);
            same(100L, redisson.getAtomicLong("count:" + mode).get(), "the count, " + mode);
        }
    }

    private void semaphore() {
        var seats = redisson.getSemaphore("seats");
        same(true, seats.trySetPermits(2), "the seats");
        same(List.of(true, true, false), List.of(seats.tryAcquire(), seats.tryAcquire(), seats.tryAcquire()), "the seats that are taken");
        seats.release();
        same(true, seats.tryAcquire(), "the seat that is free again");
    }

    private void rateLimit() {
        RRateLimiter calls = redisson.getRateLimiter("calls");
        calls.trySetRate(RateType.OVERALL, 3, Duration.ofMinutes(10));
        same(3L, IntStream.range(0, 5).filter(i -> calls.tryAcquire()).count(), "the calls that were let through");
    }
}
