"""StackExchange.Redis's multiplexer: one connection for everything, and in RESP2 a second one for subscriptions.

What it sends and reads is that of the versions named below, database 1 throughout, so that every SELECT it slips in is seen.
"""

import uuid
from dataclasses import dataclass

from expect import expect, expect_reply, expect_type
from resp import Connection, Error, Push, Simple

DATABASE = 1
MASTER_CHANGED = "__Booksleeve_MasterChanged"
OK = Simple(b"OK")


@dataclass(frozen=True)
class Version:
    """What a version adds to the handshake."""

    number: str
    hello: bool = False  # 3.x: asks for RESP3
    introduces_itself: bool = False  # 2.6.104: CLIENT SETINFO; 2.7.4: CLIENT ID
    looks_for_sentinel: bool = False  # 2.1.0
    compares_on_server: bool = False  # 2.10.1: DELEX and SET IFEQ where the server has them
    read_only_setting: str = "slave-read-only"

    @property
    def client_name(self):
        return f"host(SE.Redis-v{self.number})" if self.introduces_itself else "host"


V1 = Version("1.2.6")
V2 = Version("2.8.24", introduces_itself=True, looks_for_sentinel=True)
V3 = Version("3.1.31", True, True, True, True, "replica-read-only")


class Multiplexer:
    def __init__(self, version, address, password=None):
        self.version = version
        self._password = password
        self._database = 0
        self._hashes = {}
        self._interactive = Connection(address)
        self._shake_hands()
        self._subscriber = self._interactive if version.hello else self._second_connection(address)
        self._subscribe()

    def run(self, *command):
        """One command on the database of the locks."""
        return self._batch(command)[-1]

    def script(self, text, keys, arguments):
        """SCRIPT LOAD and EVAL in one write the first time, later EVALSHA with the SHA1 that the server gave."""
        rest = (len(keys), *keys, *arguments)
        if text in self._hashes:
            return self.run("EVALSHA", self._hashes[text], *rest)
        loaded, *_, reply = self._interactive.ask(("SCRIPT", "LOAD", text), *self._select(), ("EVAL", text, *rest))
        expect(isinstance(loaded, bytes) and len(loaded) == 40, f"SCRIPT LOAD: {loaded!r}")
        self._hashes[text] = loaded
        return reply

    def if_equal(self, key, value, command, between=lambda: None):
        """A transaction under the condition StringEqual. The write lock is kept until GET is answered, so that nothing comes
        between WATCH and EXEC on this connection; `between` is another client's chance."""
        watched, held = self._batch(("WATCH", key), ("GET", key))[-2:]
        expect_reply(watched, OK, "WATCH")
        if held != value:
            expect_reply(self.run("UNWATCH"), OK, "UNWATCH")
            return False
        between()
        opened, queued, executed = self._interactive.ask(("MULTI",), command, ("EXEC",))
        self._database = None
        expect_reply(opened, OK, "MULTI")
        expect_reply(queued, Simple(b"QUEUED"), command[0])
        if executed is None:
            return False
        expect(isinstance(executed, list) and len(executed) == 1, f"EXEC: {executed!r}")
        return True

    def keep_alive(self):
        expect_reply(self._interactive.ask(("PING",))[0], Simple(b"PONG"), "PING")
        reply = self._subscriber.ask(("PING",))[0]
        expect_reply(reply, Simple(b"PONG") if self.version.hello else [b"pong", b""], "PING of the subscriber")

    def _batch(self, *commands):
        return self._interactive.ask(*self._select(), *commands)

    def _select(self):
        """Which database a connection is in is unknown after EXEC: it selects again."""
        if self._database == DATABASE:
            return []
        self._database = DATABASE
        return [("SELECT", DATABASE)]

    def _shake_hands(self):
        """All in one write: one reply too many or too few, and each later one answers the wrong command."""
        steps = self._credentials() + self._hello() + self._introduction() + self._discovery() + [self._tracer()]
        self._take_steps(self._interactive, steps)

    def _second_connection(self, address):
        connection = Connection(address)
        self._take_steps(connection, self._credentials() + self._introduction() + [self._tracer()])
        return connection

    def _take_steps(self, connection, steps):
        replies = connection.ask(*(command for command, _ in steps))
        for (command, look), reply in zip(steps, replies):
            look(reply, " ".join(map(str, command[:2])))

    def _subscribe(self):
        reply = self._subscriber.ask(("SUBSCRIBE", MASTER_CHANGED))[0]
        expect_reply(reply, (Push if self.version.hello else list)([b"subscribe", MASTER_CHANGED.encode(), 1]), "SUBSCRIBE")

    def _credentials(self):
        return [(("AUTH", self._password), is_ok)] if self._password else []

    def _hello(self):
        return [(("HELLO", 3), is_hello)] if self.version.hello else []

    def _introduction(self):
        steps = [(("CLIENT", "SETNAME", self.version.client_name), is_ok)]
        if self.version.introduces_itself:
            steps += [
                (("CLIENT", "SETINFO", "lib-name", "SE.Redis"), is_anything),
                (("CLIENT", "SETINFO", "lib-ver", self.version.number), is_anything),
                (("CLIENT", "ID"), is_integer),
            ]
        return steps

    def _discovery(self):
        steps = [(("CONFIG", "GET", name), is_setting) for name in ("timeout", self.version.read_only_setting, "databases")]
        if self.version.looks_for_sentinel:
            steps.append((("SENTINEL", "MASTERS"), is_error))
        return steps + [
            (("INFO", "replication"), is_master),
            (("INFO", "server"), self._learn_server),
            (("CLUSTER", "NODES"), is_error),
            (("GET", "__Booksleeve_TieBreak"), is_nil),
        ]

    def _tracer(self):
        raw = uuid.uuid4().bytes
        return ("ECHO", raw), lambda reply, what: expect_reply(reply, raw, what)

    def _learn_server(self, reply, what):
        numbers = info(reply, what)[b"redis_version"].split(b".")
        newest = tuple(map(int, numbers)) >= (8, 3, 224)
        self.compares_on_server = self.version.compares_on_server and newest


def is_ok(reply, what):
    expect_reply(reply, OK, what)


def is_error(reply, what):
    """Any other answer means something: a sentinel, a cluster."""
    expect_type(reply, Error, what)


def is_nil(reply, what):
    expect(reply is None, f"{what}: {reply!r}")


def is_integer(reply, what):
    expect_type(reply, int, what)


def is_setting(reply, what):
    expect_type(reply, (list, dict), what)


def is_anything(reply, what):
    """Redis before 7.2 has no SETINFO, and the client does not mind."""


def is_hello(reply, what):
    expect_type(reply, dict, what)
    seen = reply.get(b"proto"), reply.get(b"mode"), reply.get(b"role"), type(reply.get(b"id"))
    expect(seen == (3, b"standalone", b"master", int), f"{what}: {reply!r}")


def is_master(reply, what):
    expect(info(reply, what).get(b"role") == b"master", f"{what}: {reply!r}")


def info(reply, what):
    expect_type(reply, bytes, what)
    expect(not isinstance(reply, (Simple, Error)), f"{what}: {reply!r}")
    return dict(line.split(b":", 1) for line in reply.split(b"\r\n") if b":" in line)
