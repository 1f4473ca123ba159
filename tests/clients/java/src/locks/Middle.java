package locks;

import static locks.Checks.eventually;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/** The moment in the middle of a test, with a lock held, at which the harness may break something. */
final class Middle {
    /** Announces the moment by creating the file REDLOCK_MIDDLE, and continues when there is one that ends in .done. */
    static void pass() throws Exception {
        String announcement = System.getenv("REDLOCK_MIDDLE");
        if (announcement == null) {
            return;
        }
        Files.createFile(Path.of(announcement));
        Path done = Path.of(announcement + ".done");
        eventually(PATIENCE, () -> Files.exists(done), "nobody created " + done);
    }

    private static final Duration PATIENCE = Duration.ofSeconds(30);
}
