"""Small things that several applications need."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

HOST, PORT = os.environ["REDLOCK_ADDRESS"].rsplit(":", 1)
URL = f"redis://{HOST}:{PORT}/0"
PATIENCE_S = 60
HERE = Path(__file__).parent
LINES_OF_A_LOG = 40


@contextmanager
def check(name):
    """What is done inside is one check: it passes, or the program ends with a sentence that names it."""
    try:
        yield
    except Exception as error:
        # An assertion without a message is reported with its line of code.
        reason = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
        raise AssertionError(f"the check {name} failed: {reason}") from error
    print(f"{name}\tpassed", flush=True)


def eventually(condition, what):
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, f"gave up waiting until {what}"
        time.sleep(0.05)


def expect(error, action):
    try:
        action()
    except error:
        return
    raise AssertionError(f"there should have been {error.__name__}")


@contextmanager
def background(*command):
    """Runs a command of an installed package, such as a worker, and ends it as an operator would. Its log is shown if all fails."""
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile("w+") as log:
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield process
        except Exception:
            log.seek(0)
            sys.stderr.writelines(log.readlines()[-LINES_OF_A_LOG:])
            raise
        finally:
            end(process)


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"{process.args[0]} did not end when it was asked to") from None
