"""What the checks ask of a lock library. Each module here shows one library that way, and calls it as applications do."""

from dataclasses import dataclass

PATIENCE_S = 20
LONG_S = 60
LONGER_S = 90


@dataclass
class Server:
    """Where the library finds its Redis, and in which version of the protocol it talks to it (None: its own choice)."""

    host: str
    port: int
    protocol: int | None

    def options(self):
        protocol = {} if self.protocol is None else {"protocol": self.protocol}
        return {"host": self.host, "port": self.port, **protocol}


class Lock:
    """One holder's view of one lock."""

    def acquire(self):
        """Takes the lock if it is free; tells whether it did."""
        raise NotImplementedError

    def wait(self):
        """Takes the lock as soon as it is free; tells whether it did in `PATIENCE_S`."""
        raise NotImplementedError

    def extend(self):
        """Prolongs the lock, so that more than `LONG_S` is left."""
        raise NotImplementedError

    def release(self):
        """True: released. False: the library says that it was not held. None: the library does not tell."""
        raise NotImplementedError

    def release_as_stranger(self):
        """Asks the server for a release with a token that is not the holder's; answers as `release` does."""
        raise NotImplementedError


class Library:
    """One library at one server."""

    # The distribution whose version is in the table of clients.
    package: str
    # The prefix that the library puts before a lock's name to get its key.
    prefix = ""
    # This library's own checks: functions that take the library, named like the checks.
    more = ()

    def __init__(self, server: Server):
        raise NotImplementedError

    def lock(self, name: str, ttl_s: float = LONG_S) -> Lock:
        """A new holder of the lock of that name."""
        raise NotImplementedError

    def pttl(self, key: str) -> int:
        """PTTL of a key, asked past the library."""
        raise NotImplementedError

    def name_of(self, key: str):
        """The name of the lock whose key on the wire is `key`, or None if there is no such lock."""
        return key.removeprefix(self.prefix) if key.startswith(self.prefix) else None

    def key_of(self, name: str):
        return self.prefix + name
