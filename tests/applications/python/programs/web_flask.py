"""Flask with Flask-Session and Flask-Caching, and redis-py's lock for who makes a report."""

from threading import Thread

from flask import Flask, session
from flask_caching import Cache
from flask_session import Session
from redis import Redis

from helpers import PATIENCE_S, URL, check

client = Redis.from_url(URL)
app = Flask("shop")
app.config.update(
    SECRET_KEY="of a test", SESSION_TYPE="redis", SESSION_REDIS=client, CACHE_TYPE="RedisCache", CACHE_REDIS_URL=URL
)
Session(app)
cache = Cache(app)


@app.get("/visit")
def count_visit():
    session["visits"] = session.get("visits", 0) + 1
    return str(session["visits"])


@app.get("/slow")
@cache.cached(timeout=600)
def slow_page():
    return f"made {client.incr('shop:pages')} times"


@cache.memoize(timeout=600)
def price(product):
    return [product, client.incr("shop:prices")]


@app.get("/report")
def report():
    with client.lock("lock:report", timeout=600, sleep=0.01, blocking_timeout=PATIENCE_S):
        made = cache.get("report") or f"made {client.incr('shop:reports')} times"
        cache.set("report", made)
    return made


def run(_):
    with check("sessions"):
        ann, bob = app.test_client(), app.test_client()
        assert [ann.get("/visit").text for _ in range(3)] == ["1", "2", "3"]
        assert bob.get("/visit").text == "1"
    with check("cached view"):
        assert {app.test_client().get("/slow").text for _ in range(3)} == {"made 1 times"}
    with check("memoize"), app.app_context():
        assert price("pen") == price("pen") == ["pen", 1] and price("book") == ["book", 2]
        cache.delete_memoized(price, "pen")
        assert price("pen") == ["pen", 3] and price("book") == ["book", 2]
    with check("lock"):
        threads = [Thread(target=lambda: app.test_client().get("/report")) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert client.get("shop:reports") == b"1", "the report was made more than once"
    with check("clear"):
        assert cache.clear()
        assert app.test_client().get("/slow").text == "made 2 times"
        assert ann.get("/visit").text == "4", "sessions were cleared with the cache"
    with check("lock held"):
        # Held at the end.
        assert client.lock("lock:night", timeout=600).acquire()
        assert client.lock("lock:night", timeout=600).locked()
        assert not client.lock("lock:night", timeout=600).acquire(blocking=False)
