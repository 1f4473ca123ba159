"""Dramatiq: a worker with results, a mutex and other rate limiters."""

import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import Barrier, ConcurrentRateLimiter, WindowRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as Limits
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend as ResultsBackend

from helpers import PATIENCE_S, URL, background, check, eventually

PATIENCE_MS = PATIENCE_S * 1000

broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=ResultsBackend(url=URL)))
dramatiq.set_broker(broker)
limits = Limits(url=URL)
client = redis.Redis.from_url(URL)

MUTEX = ConcurrentRateLimiter(limits, "mutex:report", limit=1, ttl=600_000)
PAIR = ConcurrentRateLimiter(limits, "mutex:pair", limit=2, ttl=600_000)


@dramatiq.actor(store_results=True)
def add(a, b):
    return a + b


@dramatiq.actor(max_retries=3, min_backoff=100, max_backoff=200)
def succeed_at_last():
    tries = client.incr("shop:tries")
    assert tries >= 3, f"try {tries} fails"


@dramatiq.actor(max_retries=1_000, min_backoff=10, max_backoff=50, throws=())
def print_alone(kind):
    """Retries until it has the mutex, as Dramatiq's manual has it."""
    with {"report": MUTEX, "pair": PAIR}[kind].acquire():
        client.rpush(f"shop:{kind}", client.incr(f"shop:{kind}:printing"))
        time.sleep(0.1)
        client.decr(f"shop:{kind}:printing")


def run(_):
    with background("dramatiq", "programs.queue_dramatiq", "--processes=1", "--threads=4"):
        with check("results"):
            assert get(add.send(2, 3)) == 5
            group = dramatiq.group(add.message(i, i) for i in range(20)).run()
            assert list(group.get_results(block=True, timeout=PATIENCE_MS)) == [2 * i for i in range(20)]
        with check("pipeline"):
            assert get((add.message(1, 2) | add.message(3)).run()) == 6
        with check("retry"):
            succeed_at_last.send()
            eventually(lambda: client.get("shop:tries") == b"3", "the third try succeeds")
        with check("later"):
            assert get(add.send_with_options(args=(3, 4), delay=500)) == 7
        with check("mutex"):
            assert at_a_time("report", 6) == 1, "two held the mutex"
        with check("two at a time"):
            assert at_a_time("pair", 8) <= 2, "three held what two may hold"
    with check("mutex here"):
        with MUTEX.acquire(), MUTEX.acquire(raise_on_failure=False) as again:
            assert not again, "the mutex was taken twice"
        # A released one stays behind as a count of 0, until its TTL.
        assert client.get("mutex:report") == b"0" and client.ttl("mutex:report") > 0
    with check("window"):
        window = WindowRateLimiter(limits, "mails", limit=3, window=600)
        assert [allowed(window) for _ in range(5)] == [True, True, True, False, False]
    with check("barrier"):
        barrier = Barrier(limits, "all-printed", ttl=600_000)
        assert barrier.create(2)
        assert not barrier.wait(block=False)
        assert barrier.wait(timeout=1_000)


def get(message):
    return message.get_result(block=True, timeout=PATIENCE_MS)


def at_a_time(kind, prints):
    for _ in range(prints):
        print_alone.send(kind)
    eventually(lambda: client.llen(f"shop:{kind}") == prints, f"all of {prints} were printed")
    return max(map(int, client.lrange(f"shop:{kind}", 0, -1)))


def allowed(limiter):
    with limiter.acquire(raise_on_failure=False) as acquired:
        return acquired
