"""Takes locks with redlock-py: Redlock in the client, on every master."""

import logging

import redis
import redlock
from redis.backoff import NoBackoff
from redis.retry import Retry

from journal import obey

# As long as the proxy waits for a master. Without a limit a master that stands still would stop every client.
ANSWER_TIMEOUT_S = 0.2

managers = {}


class Lock:
    def __init__(self, servers, key, _token, _patience_s):
        self.key = key
        names = ",".join(servers)
        if names not in managers:
            managers[names] = redlock.Redlock([options(server) for server in servers], retry_count=1, retry_delay=0.01)
        self.manager = managers[names]

    def claim(self, px):
        try:
            self.held = self.manager.lock(self.key, px)
        except redlock.MultipleRedlockException as error:
            return "error", str(error)
        return ("yes", "") if self.held else ("no", "")

    def release(self):
        try:
            self.manager.unlock(self.held)
        except redlock.MultipleRedlockException as error:
            return "error", str(error)
        return "yes", ""


def options(server):
    host, port = server.rsplit(":", 1)
    return {
        "host": host,
        "port": int(port),
        "socket_timeout": ANSWER_TIMEOUT_S,
        "socket_connect_timeout": ANSWER_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
    }


# It logs every release that did not reach a master.
logging.disable()
obey(Lock)
