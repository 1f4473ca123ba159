"""Small things the checks of several libraries need."""

import os
import time
import uuid

from libraries import PATIENCE_S


def new_name():
    return f"lock {uuid.uuid4()}"


def eventually(condition):
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "gave up waiting"
        time.sleep(0.01)


def expect(error, action):
    try:
        action()
    except error:
        return
    raise AssertionError(f"{action} should raise {error}")


def middle():
    """Lets whoever runs the suite break something while a lock is held, and goes on when that is done."""
    path = os.environ.get("REDLOCK_MIDDLE")
    if path is None:
        return
    with open(path, "x", encoding="utf-8"):
        pass
    limit = time.monotonic() + 30
    while not os.path.exists(f"{path}.done"):
        assert time.monotonic() < limit, f"nobody wrote {path}.done"
        time.sleep(0.01)
