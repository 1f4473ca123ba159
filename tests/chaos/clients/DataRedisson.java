import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.RedissonFencedLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.CommonOptions;
import org.redisson.client.RedisConnectionException;
import org.redisson.client.RedisException;
import org.redisson.client.RedisOutOfMemoryException;
import org.redisson.client.RedisTimeoutException;
import org.redisson.config.Config;
import org.yaml.snakeyaml.Yaml;

/**
 * Uses objects of Redisson, as the ledger of the tests says: one order and one answer a line, in JSON. Each thread is a
 * client of the ledger. Those of a process share one Redisson for each server.
 */
public final class DataRedisson {
    public static void main(String[] threads) throws IOException {
        AT_WORK.set(Integer.parseInt(threads[0]));
        String[] journal = System.getenv("CHAOS_JOURNAL").split(":");
        for (int number = 0; number < Integer.parseInt(threads[0]); number++) {
            Socket socket = new Socket(journal[0], Integer.parseInt(journal[1]));
            socket.setTcpNoDelay(true);
            new Thread(() -> serve(socket)).start();
        }
    }

    private static void serve(Socket socket) {
        try (socket) {
            // All JSON is YAML.
            Yaml json = new Yaml();
            InputStreamReader reader = new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8);
            BufferedReader lines = new BufferedReader(reader);
            OutputStream answers = socket.getOutputStream();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Map<String, Object> order = json.load(line);
                answers.write((answer(order) + "\n").getBytes(StandardCharsets.UTF_8));
                Thread.sleep(((Number) order.get("rest_ms")).longValue());
            }
        } catch (IOException | InterruptedException failure) {
            failure.printStackTrace();
        } finally {
            if (AT_WORK.decrementAndGet() == 0) {
                System.exit(0);
            }
        }
    }

    private static String answer(Map<String, Object> order) throws InterruptedException {
        @SuppressWarnings("unchecked")
        List<String> words = ((List<List<String>>) order.get("commands")).get(0);
        int patienceMs = ((Number) order.get("patience_ms")).intValue();
        try {
            RedissonClient redisson =
                    CLIENTS.computeIfAbsent((String) order.get("server"), server -> connect(server, patienceMs));
            return "[\"told\", " + told(call(redisson, words, patienceMs)) + "]";
        } catch (RedisTimeoutException | RedisConnectionException | TimeoutException lost) {
            return failure("lost", lost.toString());
        } catch (RedisException error) {
            return failure(error.getCause() == null ? "error" : "lost", asTheServerSaidIt(error));
        }
    }

    private static Object call(RedissonClient redisson, List<String> words, int patienceMs)
            throws InterruptedException, TimeoutException {
        // It would repeat whatever gets TRYAGAIN or CLUSTERDOWN. But all that it remembers of an unlock it forgets after the
        // time of the repetitions that the whole client is set to, so these are not 0.
        CommonOptions object = CommonOptions.name(words.get(1)).retryAttempts(0);
        long[] numbers = words.stream().skip(2).mapToLong(Long::parseLong).toArray();
        return switch (words.get(0)) {
            case "semaphore.trySetPermits" -> redisson.getSemaphore(object).trySetPermits((int) numbers[0]);
            case "semaphore.tryAcquire" -> redisson.getSemaphore(object).tryAcquire();
            case "semaphore.release" -> {
                redisson.getSemaphore(object).release();
                yield null;
            }
            case "semaphore.availablePermits" -> redisson.getSemaphore(object).availablePermits();
            case "latch.trySetCount" -> redisson.getCountDownLatch(object).trySetCount(numbers[0]);
            case "latch.countDown" -> {
                redisson.getCountDownLatch(object).countDown();
                yield null;
            }
            case "latch.getCount" -> redisson.getCountDownLatch(object).getCount();
            case "limiter.trySetRate" -> {
                RRateLimiter limiter = redisson.getRateLimiter(object);
                yield limiter.trySetRate(RateType.OVERALL, numbers[0], Duration.ofMillis(numbers[1]));
            }
            case "limiter.tryAcquire" -> redisson.getRateLimiter(object).tryAcquire();
            // A number instead of a thread, so that nobody enters a lock twice.
            case "fenced.tryLockAndGetToken" -> {
                RedissonFencedLock lock = (RedissonFencedLock) redisson.getFencedLock(object);
                RFuture<Long> claim = lock.tryLockAndGetTokenAsync(numbers[1], numbers[2], MILLISECONDS, numbers[0]);
                yield claimed(claim, null, patienceMs);
            }
            case "fair.tryLock" -> {
                RLock lock = redisson.getFairLock(object);
                RFuture<Boolean> claim = lock.tryLockAsync(numbers[1], numbers[2], MILLISECONDS, numbers[0]);
                yield claimed(claim, false, patienceMs);
            }
            case "fenced.unlock" -> unlock(redisson.getFencedLock(object), numbers[0], patienceMs);
            case "fair.unlock" -> unlock(redisson.getFairLock(object), numbers[0], patienceMs);
            default -> throw new IllegalArgumentException(words.toString());
        };
    }

    private static boolean unlock(RLock lock, long holder, int patienceMs)
            throws InterruptedException, TimeoutException {
        try {
            await(lock.unlockAsync(holder), patienceMs);
            return true;
        } catch (IllegalMonitorStateException notOurs) {
            return false;
        }
    }

    /** One that waits sends several commands. When it cannot subscribe while it waits, its claim was refused before. */
    private static <T> T claimed(CompletionStage<T> claim, T refused, int patienceMs)
            throws InterruptedException, TimeoutException {
        try {
            return await(claim, patienceMs);
        } catch (RedisTimeoutException failure) {
            if (failure.getMessage().startsWith("Unable to acquire subscription lock")) {
                return refused;
            }
            throw failure;
        }
    }

    private static <T> T await(CompletionStage<T> future, int patienceMs)
            throws InterruptedException, TimeoutException {
        try {
            return future.toCompletableFuture().get(2L * patienceMs, MILLISECONDS);
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new IllegalStateException(failure);
        }
    }

    private static RedissonClient connect(String server, int patienceMs) {
        Config config = new Config();
        config.setThreads(2).setNettyThreads(2).setFairLockWaitTimeout(1000);
        config.useSingleServer()
                .setAddress("redis://" + server)
                .setRetryAttempts(1)
                .setTimeout(patienceMs)
                // Much of Java is loaded meanwhile.
                .setConnectTimeout(6 * patienceMs)
                .setSubscriptionTimeout(patienceMs)
                .setConnectionMinimumIdleSize(1);
        return Redisson.create(config);
    }

    private static String told(Object it) {
        return it instanceof Boolean yes ? (yes ? "1" : "0") : String.valueOf(it);
    }

    private static String failure(String kind, String text) {
        String line = text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ");
        return "[\"" + kind + "\", \"" + line + "\"]";
    }

    /** Redisson cuts the first word off one error. One that has a cause is its own: a command that was interrupted. */
    private static String asTheServerSaidIt(RedisException error) {
        if (error.getCause() != null) {
            return error + ": " + error.getCause();
        }
        return error instanceof RedisOutOfMemoryException ? "OOM " + error.getMessage() : error.getMessage();
    }

    private static final TimeUnit MILLISECONDS = TimeUnit.MILLISECONDS;
    private static final ConcurrentHashMap<String, RedissonClient> CLIENTS = new ConcurrentHashMap<>();
    private static final AtomicInteger AT_WORK = new AtomicInteger();
}
