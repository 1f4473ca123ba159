"""RedBeat (Celery): redis-py's lock with an extension script of its own, so that only one scheduler beats."""

from threading import Thread
from types import SimpleNamespace

import redis
from celery import Celery
from redbeat.schedulers import LUA_EXTEND_TO_SCRIPT, RedBeatScheduler, acquire_distributed_beat_lock

from helpers import eventually, new_name
from libraries import LONG_S, LONGER_S, Library
from libraries.redis_py import RedisPyLock


class RedBeatLock(RedisPyLock):
    """The lock as `acquire_distributed_beat_lock` makes it. That function itself only knows how to wait for ever."""

    def __init__(self, client, name, ttl_s):
        super().__init__(client.lock(name, timeout=ttl_s, sleep=0.01))
        self.lock.lua_extend = client.register_script(LUA_EXTEND_TO_SCRIPT)

    def extend(self):
        # Sets the remaining time.
        assert self.lock.extend(LONGER_S)


class RedBeat(Library):
    package = "celery-redbeat"

    def __init__(self, server):
        self.url = f"redis://{server.host}:{server.port}/0"
        self.client = redis.Redis.from_url(self.url, decode_responses=True)

    def lock(self, name, ttl_s=LONG_S):
        return RedBeatLock(self.client, name, ttl_s)

    def pttl(self, key):
        return self.client.pttl(key)

    def scheduler(self, name):
        app = Celery(broker=self.url)
        app.conf.redbeat_redis_url = self.url
        return RedBeatScheduler(app, lock_key=name, lock_timeout=LONG_S, lazy=True, max_interval=0.05)


def scheduler(library):
    """Of two schedulers the second starts when the first has ended."""
    name = new_name()
    first, second = library.scheduler(name), library.scheduler(name)
    acquire_distributed_beat_lock(SimpleNamespace(scheduler=first))
    waiting = Thread(target=acquire_distributed_beat_lock, args=[SimpleNamespace(scheduler=second)], daemon=True)
    waiting.start()
    waiting.join(0.3)
    assert first.lock.owned() and second.lock is None
    first.close()
    # The token is thread-local, so the lock object exists but does not own the lock in this thread.
    eventually(lambda: second.lock is not None)
    assert second.lock.locked() and not library.lock(name).acquire()


RedBeat.more = (scheduler,)
LIBRARY = RedBeat
