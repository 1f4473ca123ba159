"""What locks promise that several may hold."""

from checks import EXTENDED_MS, HOLD_MS, SHORT_MS, eventually
from expect import expect
from shared_locks import Reader, SemaphoreOfTwo, Writer


def readers(paces):
    """Readers share, and a writer that has announced itself gets in as soon as the last of them is out."""
    key = paces.new_key()
    first, second = Reader(paces.mine, key), Reader(paces.other, key)
    writer = Writer(paces.other, key)
    expect(first.take(HOLD_MS) and second.take(HOLD_MS), "readers do not share")
    expect(not writer.take(HOLD_MS), "a writer got in among readers")
    expect(first.extend(EXTENDED_MS), "a reader could not extend")
    expect(writer.announce(HOLD_MS), "a writer could not announce itself")
    expect(not Reader(paces.mine, key).take(HOLD_MS), "a reader got in before a writer that waits")
    first.release()
    expect(not writer.take(HOLD_MS), "a writer got in beside the last reader")
    second.release()
    expect(not second.extend(HOLD_MS), "extended after its release")
    expect(writer.take(HOLD_MS), "the writer that waited did not get in")
    expect(not first.take(HOLD_MS), "a reader got in beside a writer")
    paces.release(writer)
    expect(first.take(HOLD_MS), "a reader was refused what is free")
    first.release()


def semaphore(paces):
    """As many holders as permits, and one more as soon as one of them leaves or runs out."""
    key = paces.new_key()
    brief, lasting, third = SemaphoreOfTwo(paces.mine, key), SemaphoreOfTwo(paces.other, key), SemaphoreOfTwo(paces.mine, key)
    expect(brief.take(SHORT_MS) and lasting.take(HOLD_MS), "two permits were not given")
    expect(not third.take(HOLD_MS), "two permits went to three")
    eventually("a permit that ran out is free", lambda: third.take(HOLD_MS))
    expect(not brief.extend(HOLD_MS), "a permit that had run out was extended")
    expect(lasting.release(), "the holder was told that it holds nothing")
    expect(brief.take(HOLD_MS), "a permit that was given back was refused")
    for lock in (brief, third):
        paces.release(lock)
