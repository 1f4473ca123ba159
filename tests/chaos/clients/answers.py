"""What redis-py raises, as the journals of the tests have it."""

import redis


def failure(error):
    """Whether a client was told an error or nothing, and its words. What was lost needs a new connection."""
    # Some error replies are connection errors to redis-py (`LOADING`): the connection is still good.
    if isinstance(error, redis.exceptions.BusyLoadingError):
        return "error", f"LOADING {error}"
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError)):
        return "lost", repr(error)
    return "error", code_and_text(error)


def code_and_text(error):
    """redis-py cuts the first word off the errors that it has classes for."""
    code = {redis.exceptions.OutOfMemoryError: "OOM", redis.exceptions.NoScriptError: "NOSCRIPT"}.get(type(error), "")
    status = getattr(error, "status_code", "") or code
    text = str(error)
    return text if text.startswith(status) else f"{status} {text}"
