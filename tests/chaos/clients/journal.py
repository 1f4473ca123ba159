"""What a client tells the journal, and hears from it. README.md describes the lines."""

import os
import socket
import time


class Journal:
    def __init__(self):
        host, port = os.environ["CHAOS_JOURNAL"].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines = self.socket.makefile("r", encoding="utf-8")

    def tell(self, line):
        self.socket.sendall(f"{line}\n".encode())

    def ask(self, line):
        self.tell(line)
        return self.lines.readline().split()

    def call(self, operation, px, action):
        """Times one request, and returns what kind of answer it got."""
        self.tell(f"ask {time.monotonic_ns()} {operation} {px}")
        kind, text = action()
        at = time.monotonic_ns()
        self.tell(f"answer {at} {kind} {' '.join(text.split())}")
        return kind


def obey(take):
    """Does what the journal orders; `take` makes a lock of a library for (servers, key, token, patience in seconds)."""
    journal = Journal()
    journal.tell("hello")
    while True:
        order, *words = journal.ask("turn") or ["end"]
        if order == "end":
            return
        if order == "rest":
            time.sleep(int(words[0]) / 1000)
            continue
        if order == "free":
            server, key, token, patience = words
            lock = take([server], key, token, int(patience) / 1000)
            journal.call("release", 0, lock.release)
            continue
        servers, key, token, *numbers = words
        px, hold, extend, release, patience = map(int, numbers)
        lock = take(servers.split(","), key, token, patience / 1000)
        if journal.call("claim", px, lambda: lock.claim(px)) == "yes":
            work(journal, lock, px, hold, extend)
            if release:
                journal.call("release", px, lock.release)


def work(journal, lock, px, hold, extend):
    journal.ask("enter")
    time.sleep(hold / 1000)
    if extend and journal.call("extend", px, lambda: lock.extend(px)) == "yes":
        time.sleep(hold / 1000)
    journal.ask("leave")
