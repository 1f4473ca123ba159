package locks;

import static locks.Checks.verify;
import static locks.Library.randomKey;

import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** Redisson's read-write lock: many readers or one writer. */
final class RedissonShared {
    private final RedissonClient mine;
    private final RedissonClient other;

    RedissonShared(RedissonClient mine, RedissonClient other) {
        this.mine = mine;
        this.other = other;
    }

    void run(Checks checks) throws Exception {
        checks.check("readers", this::readers);
        checks.check("writer", this::writer);
        checks.check("downgrade", this::downgrade);
    }

    private void readers() {
        String key = randomKey();
        RReadWriteLock here = mine.getReadWriteLock(key);
        RReadWriteLock there = other.getReadWriteLock(key);
        verify(here.readLock().tryLock(), "a free lock was refused to a reader");
        verify(there.readLock().tryLock(), "a second reader was refused");
        verify(!here.writeLock().tryLock(), "one writes what another reads");
        here.readLock().unlock();
        verify(!here.writeLock().tryLock(), "one writes what another still reads");
        there.readLock().unlock();
        JavaLocks.changesHands(here.writeLock());
    }

    private void writer() {
        String key = randomKey();
        RReadWriteLock here = mine.getReadWriteLock(key);
        RReadWriteLock there = other.getReadWriteLock(key);
        verify(here.writeLock().tryLock(), "a free lock was refused to a writer");
        verify(!there.readLock().tryLock(), "one reads what another writes");
        verify(!there.writeLock().tryLock(), "two write");
        here.writeLock().unlock();
        JavaLocks.changesHands(there.readLock());
        JavaLocks.changesHands(there.writeLock());
    }

    /** A writer becomes a reader without a gap in which another could write. */
    private void downgrade() {
        String key = randomKey();
        RReadWriteLock here = mine.getReadWriteLock(key);
        RReadWriteLock there = other.getReadWriteLock(key);
        verify(here.writeLock().tryLock(), "a free lock was refused to a writer");
        verify(here.readLock().tryLock(), "the writer could not read");
        here.writeLock().unlock();
        verify(!there.writeLock().tryLock(), "one writes what another reads");
        JavaLocks.changesHands(there.readLock());
        here.readLock().unlock();
        JavaLocks.changesHands(there.writeLock());
    }
}
