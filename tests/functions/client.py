"""Libraries of functions with redis-py: an ordinary server passes as well."""

import os
import sys

import redis

LIBRARY = """#!lua name=counters
local function add(keys, args)
  return redis.call('INCRBY', keys[1], args[1])
end
redis.register_function('add', add)
redis.register_function{function_name='value', callback=function(keys)
  return redis.call('GET', keys[1])
end, flags={'no-writes'}, description='What it is'}
"""


def main():
    client = redis.Redis.from_url("redis://" + os.environ["REDLOCK_ADDRESS"], decode_responses=True)
    assert client.function_load(LIBRARY) == "counters"
    try:
        client.function_load(LIBRARY)
        sys.exit("loaded twice")
    except redis.ResponseError as error:
        assert "Library 'counters' already exists" in str(error), error
    assert client.function_load(LIBRARY, replace=True) == "counters"
    assert client.fcall("add", 1, "n", 3) == 3
    assert client.fcall_ro("value", 1, "n") == "3"
    with client.pipeline(transaction=True) as pipeline:
        pipeline.fcall("add", 1, "n", 2)
        pipeline.fcall("value", 1, "n")
        assert pipeline.execute() == [5, "5"]
    with client.pipeline(transaction=False) as pipeline:
        for _ in range(50):
            pipeline.fcall("add", 1, "n", 1)
        assert pipeline.execute() == list(range(6, 56))
    (library,) = client.function_list(library="count*", withcode=True)
    assert library[library.index("library_code") + 1] == LIBRARY, library
    stats = client.function_stats()
    assert "libraries_count" in str(stats), stats
    binary = redis.Redis.from_url("redis://" + os.environ["REDLOCK_ADDRESS"])
    payload = binary.function_dump()
    assert client.function_delete("counters")
    try:
        client.fcall("add", 1, "n", 3)
        sys.exit("called although it is deleted")
    except redis.ResponseError as error:
        assert "Function not found" in str(error), error
    assert binary.function_restore(payload)
    assert client.fcall("add", 1, "n", 1) == 56
    assert client.function_flush()
    assert client.function_list() == []
    print("functions: passed")


main()
