"""Django with django-redis: cache, sessions and a cached view, and `cache.lock` for who fills the cache."""

from threading import Thread

import django
from django.conf import settings
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from django.views.decorators.cache import cache_page

from helpers import PATIENCE_S, URL, check, eventually

settings.configure(
    SECRET_KEY="of a test",
    ALLOWED_HOSTS=["testserver"],
    ROOT_URLCONF=__name__,
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL}},
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
)
django.setup()


def count_visit(request):
    request.session["visits"] = request.session.get("visits", 0) + 1
    return HttpResponse(str(request.session["visits"]))


def leave(request):
    request.session.flush()
    return HttpResponse("bye")


@cache_page(600)
def slow_page(request):
    cache.add("pages", 0)
    return HttpResponse(f"made {cache.incr('pages')} times")


urlpatterns = [path("visit", count_visit), path("leave", leave), path("slow", slow_page)]


def run(_):
    with check("cache"):
        keep_values()
    with check("many"):
        cache.set_many({f"product:{i}": {"price": i} for i in range(500)}, timeout=600)
        assert cache.get_many([f"product:{i}" for i in range(500)]) == {f"product:{i}": {"price": i} for i in range(500)}
        assert len(cache.keys("product:*")) == 500
    with check("delete_pattern"):
        cache.set("other", 1)
        assert cache.delete_pattern("product:*") == 500
        assert cache.get("product:7") is None and cache.get("other") == 1
    with check("large value"):
        picture = bytes(range(256)) * 2_000
        cache.set("picture", picture)
        assert cache.get("picture") == picture
    with check("cached view"):
        pages = [Client().get("/slow").content for _ in range(3)]
        assert pages[0] == pages[1] == pages[2], f"the view was not cached: {pages}"
    with check("sessions"):
        keep_sessions()
    with check("clear"):
        assert cache.clear() is not False
        assert cache.get("other") is None and cache.keys("*") == []
    with check("lock"):
        fill_once()
    with check("lock held"):
        # Held at the end.
        assert cache.lock("lock:night", timeout=600).acquire()
        assert not cache.lock("lock:night", timeout=600).acquire(blocking=False)
        assert 0 < cache.ttl("lock:night") <= 600
        cache.set("night", "quiet")


def keep_values():
    cache.set("greeting", "hello", timeout=600)
    assert cache.get("greeting") == "hello" and 0 < cache.ttl("greeting") <= 600
    assert not cache.add("greeting", "bye") and cache.get("greeting") == "hello"
    assert cache.touch("greeting", 900) and 600 < cache.ttl("greeting") <= 900
    assert cache.get_or_set("made", lambda: "made", 600) == "made"
    cache.set("count", 1)
    assert cache.incr("count") == 2 and cache.incr("count", 10) == 12 and cache.decr("count", 2) == 10
    assert cache.delete("greeting") and cache.get("greeting") is None and not cache.has_key("greeting")


def keep_sessions():
    ann, bob = Client(), Client()
    assert [ann.get("/visit").content for _ in range(3)] == [b"1", b"2", b"3"]
    assert bob.get("/visit").content == b"1"
    assert ann.get("/leave").content == b"bye" and ann.get("/visit").content == b"1"


def fill_once():
    """Many find the cache empty, and one of them fills it."""
    cache.set("fills", 0)

    def fill():
        with cache.lock("lock:fill", timeout=600, sleep=0.01, blocking_timeout=PATIENCE_S):
            if cache.get("filled") is None:
                cache.incr("fills")
                cache.set("filled", True)

    threads = [Thread(target=fill) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert cache.get("fills") == 1, "the cache was filled more than once"
    eventually(lambda: not cache.has_key("lock:fill"), "the lock is released")
