"""RESP as a .NET client speaks it: frames out in batches of its choosing, replies back with their wire types."""

import socket

PATIENCE_S = 20


class Simple(bytes):
    """`+OK`: not the same as a bulk string to somebody who waits for QUEUED."""


class Error(bytes):
    """`-ERR ...`: a value here, for half of the handshake's commands may fail."""


class Verbatim(bytes):
    """`=15\\r\\ntxt:...`: what INFO is in RESP3."""


class Push(list):
    """`>3`: out of band in RESP3."""


class Connection:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    def ask(self, *commands):
        """Sends all commands in one write, as a pipelining client does, and reads one reply for each."""
        self._socket.sendall(b"".join(map(frame, commands)))
        return [self._read() for _ in commands]

    def _read(self):
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"the connection was closed after {line!r}")
        return self._of_type(line[:1], line[1:-2])

    def _of_type(self, kind, head):
        if kind in _SCALARS:
            return _SCALARS[kind](head)
        size = int(head)
        if size < 0:
            return None
        if kind in b"$=":
            body = self._replies.read(size + 2)[:-2]
            return Verbatim(body[4:]) if kind == b"=" else body
        if kind == b"%":
            return {self._read(): self._read() for _ in range(size)}
        return _AGGREGATES[kind](self._read() for _ in range(size))


def frame(command):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


_SCALARS = {
    b"+": Simple,
    b"-": Error,
    b":": int,
    b"_": lambda _: None,
    b"#": lambda head: head == b"t",
    b",": float,
    b"(": int,
}
_AGGREGATES = {b"*": list, b"~": list, b">": Push}
