package locks;

/** One who takes locks. */
interface Contender {
    /** Takes the lock if it is free, without waiting. */
    boolean tryAcquire(String key) throws Exception;

    /** Waits until the lock is free, and takes it. */
    default void acquire(String key) throws Exception {
        throw new UnsupportedOperationException("does not wait for locks");
    }

    /** Gives the lock back; false if the library says that it was not ours. */
    boolean release(String key) throws Exception;

    /** Prolongs a lock that is held; false if the library says that it is not. */
    boolean extend(String key) throws Exception;

    /** PTTL of the lock, through the library where it has that. */
    long ttlMs(String key) throws Exception;
}
