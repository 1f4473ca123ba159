"""What a client needs to see, and the end of the program if it does not."""

import sys


def expect(ok, complaint):
    if not ok:
        sys.exit(complaint)


def expect_reply(reply, wanted, what):
    """Of the same type too: RESP's `+OK` and `$2 OK` are two things to most clients."""
    expect(type(reply) is type(wanted) and reply == wanted, f"{what}: {reply!r} where {wanted!r} was needed")


def expect_type(reply, types, what):
    expect(isinstance(reply, types), f"{what}: {reply!r}")
