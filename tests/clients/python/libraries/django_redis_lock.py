"""django-redis: `cache.lock`, redis-py's lock under the cache's own keys."""

import django
import redis
from django.conf import settings
from django.core.cache import caches

from helpers import new_name
from libraries import LONG_S, Library
from libraries.redis_py import RedisPyLock


class DjangoRedis(Library):
    package = "django-redis"
    # No KEY_PREFIX, version 1.
    prefix = ":1:"

    def __init__(self, server):
        location = f"redis://{server.host}:{server.port}/0"
        settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": location}})
        django.setup()
        self.cache = caches["default"]
        self.client = redis.Redis(**server.options())

    def lock(self, name, ttl_s=LONG_S):
        return RedisPyLock(self.cache.lock(name, timeout=ttl_s, sleep=0.01))

    def pttl(self, key):
        return self.client.pttl(key)


def with_block(library):
    name = new_name()
    with library.cache.lock(name, timeout=LONG_S):
        assert not library.lock(name).acquire()
    assert library.lock(name).acquire()


DjangoRedis.more = (with_block,)
LIBRARY = DjangoRedis
