package locks;

import static locks.Checks.inAnotherThread;
import static locks.Checks.verify;

import java.time.Duration;
import java.util.Arrays;

/**
 * The command line of every library: {@code check}, {@code hold KEY...} and {@code try KEY...}.
 *
 * Ends the process itself: libraries leave threads running that would keep it alive.
 */
final class Suite {
    static void run(Library library, String[] arguments) {
        endEvenIfALibraryHangs();
        try {
            String[] keys = Arrays.copyOfRange(arguments, 1, arguments.length);
            switch (arguments[0]) {
                case "check" -> new Paces(library).run();
                case "hold" -> hold(library, keys);
                case "try" -> tryAll(library, keys);
                default -> throw new IllegalArgumentException("check, hold or try? not " + arguments[0]);
            }
        } catch (Throwable failure) {
            failure.printStackTrace();
            end(1);
        }
        end(0);
    }

    private static void hold(Library library, String[] keys) throws Exception {
        Contender holder = library.contender(HELD_FOR);
        for (String key : keys) {
            if (library.canName(key)) {
                verify(holder.tryAcquire(key), key + " is not free");
                System.out.println("held\t" + key);
            }
        }
    }

    private static void tryAll(Library library, String[] keys) throws Exception {
        Contender contender = library.contender(HELD_FOR);
        for (String key : keys) {
            if (library.canName(key)) {
                System.out.println((contender.tryAcquire(key) ? "taken\t" : "refused\t") + key);
            }
        }
    }

    private static void endEvenIfALibraryHangs() {
        Thread main = Thread.currentThread();
        inAnotherThread(() -> {
            Thread.sleep(TOO_LONG.toMillis());
            System.err.println("not done after " + TOO_LONG.toSeconds() + " s: the library hangs in");
            Arrays.stream(main.getStackTrace()).forEach(frame -> System.err.println("\tat " + frame));
            end(1);
            return null;
        });
    }

    /** Exits at once: System.exit would run the shutdown hooks of libraries, which release held locks. */
    private static void end(int status) {
        System.out.flush();
        Runtime.getRuntime().halt(status);
    }

    private static final Duration HELD_FOR = Duration.ofSeconds(120);
    /** Many times the usual duration, even with the longest wait in the middle. */
    private static final Duration TOO_LONG = Duration.ofSeconds(180);
}
