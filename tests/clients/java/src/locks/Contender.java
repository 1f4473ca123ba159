package locks;

/** A client that takes locks. */
interface Contender {
    /** Takes the lock if it is free, without waiting. */
    boolean tryAcquire(String key) throws Exception;

    /** Waits until the lock is free, and takes it. */
    default void acquire(String key) throws Exception {
        throw new UnsupportedOperationException("does not wait for locks");
    }

    /** Releases the lock. Returns false if the library says that it was not ours. */
    boolean release(String key) throws Exception;

    /** Extends a held lock. Returns false if the library says that it is not held. */
    boolean extend(String key) throws Exception;

    /** Returns the PTTL of the lock, through the library if it supports that. */
    long ttlMs(String key) throws Exception;
}
