"""Takes locks with redis-py: `SET NX PX`, and scripts by `EVALSHA`."""

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from answers import failure
from journal import obey

RELEASE = """if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end"""
EXTEND = """if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
else
  return 0
end"""

clients = {}


class Lock:
    def __init__(self, servers, key, token, patience_s):
        self.server, self.key, self.token = servers[0], key, token
        if self.server not in clients:
            clients[self.server] = connect(self.server, patience_s)
        self.client, self.release_script, self.extend_script = clients[self.server]

    def claim(self, px):
        return self.answer(lambda: self.client.set(self.key, self.token, nx=True, px=px), {True: "yes", None: "no"})

    def extend(self, px):
        return self.answer(lambda: self.extend_script(keys=[self.key], args=[self.token, px]), YES_OR_NO)

    def release(self):
        return self.answer(lambda: self.release_script(keys=[self.key], args=[self.token]), YES_OR_NO)

    def answer(self, action, meaning):
        try:
            reply = action()
        except redis.RedisError as error:
            kind, text = failure(error)
            if kind == "lost":
                clients.pop(self.server, None)
            return kind, text
        return meaning.get(reply, "odd"), repr(reply)


def connect(server, patience_s):
    host, port = server.rsplit(":", 1)
    client = redis.Redis(
        host=host,
        port=int(port),
        socket_timeout=patience_s,
        socket_connect_timeout=patience_s,
        retry=Retry(NoBackoff(), 0),
        single_connection_client=False,
    )
    return client, client.register_script(RELEASE), client.register_script(EXTEND)


YES_OR_NO = {1: "yes", 0: "no"}

obey(Lock)
