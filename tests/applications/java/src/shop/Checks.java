package shop;

import java.time.Duration;
import java.util.Objects;

/** Helpers for all checks. */
final class Checks {
    static final Duration PATIENCE = Duration.ofSeconds(60);

    interface Action {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** Runs one check. If it fails, the program ends with a sentence that names it. */
    static void check(String name, Action action) {
        try {
            action.run();
        } catch (Exception | AssertionError error) {
            throw new IllegalStateException("the check " + name + " failed: " + error.getMessage(), error);
        }
        System.out.println(name + "\tpassed");
    }

    static void same(Object expected, Object actual, String what) {
        that(Objects.equals(expected, actual), what + " should be " + expected + ", not " + actual);
    }

    static void that(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    static void eventually(String what, Condition condition) throws Exception {
        long limit = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.holds()) {
            that(System.nanoTime() < limit, "gave up waiting until " + what);
            Thread.sleep(20);
        }
    }

    private Checks() {}
}
