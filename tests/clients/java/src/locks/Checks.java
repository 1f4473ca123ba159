package locks;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** Runs named checks and reports each on a line of its own. */
final class Checks {
    interface Check {
        void run() throws Exception;
    }

    private final Set<String> lacking;

    Checks(Set<String> lacking) {
        this.lacking = lacking;
    }

    void check(String name, Check check) throws Exception {
        if (lacking.contains(name)) {
            System.out.println(name + "\tnone");
            return;
        }
        try {
            check.run();
        } catch (Throwable failure) {
            System.err.println(name + " failed: " + failure.getMessage());
            throw failure;
        }
        System.out.println(name + "\tpassed");
    }

    static void verify(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void eventually(Callable<Boolean> condition, String otherwise) throws Exception {
        eventually(PATIENCE, condition, otherwise);
    }

    static void eventually(Duration patience, Callable<Boolean> condition, String otherwise) throws Exception {
        long deadline = System.nanoTime() + patience.toNanos();
        while (!condition.call()) {
            verify(System.nanoTime() < deadline, otherwise);
            Thread.sleep(10);
        }
    }

    /** Checks that somebody else gets the lock in the end, but not before {@code least} has passed since {@code start}. */
    static void expires(long start, Duration least, Callable<Boolean> taken) throws Exception {
        eventually(taken, "the lock did not expire");
        long aliveMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        verify(aliveMs >= least.toMillis() - CLOCKS_DIFFER_MS, "the lock expired after " + aliveMs + " ms");
    }

    /** Runs work in another thread: libraries identify holders by their threads, so a waiter needs one. */
    static <T> Future<T> inAnotherThread(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        new Thread(task).start();
        return task;
    }

    static <T> T await(Future<T> work) throws Exception {
        return work.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
    }

    /** Time limit for anything that must happen. No check asserts that something is fast. */
    static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final long CLOCKS_DIFFER_MS = 20;
}
