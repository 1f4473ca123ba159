"""Uses data with redis-py, as the ledger of the tests says: one order and one answer a line, in JSON."""

import json
import os
import socket
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from answers import failure

clients = {}


def main():
    host, port = os.environ["CHAOS_JOURNAL"].rsplit(":", 1)
    lines = socket.create_connection((host, int(port))).makefile("rw", encoding="utf-8")
    for line in lines:
        order = json.loads(line)
        json.dump(answer(order), lines)
        lines.write("\n")
        lines.flush()
        time.sleep(order["rest_ms"] / 1000)


def answer(order):
    server = order["server"]
    try:
        if server not in clients:
            clients[server] = connect(server, order["patience_ms"] / 1000)
        return ["told", plain(run(clients[server], order["commands"]))]
    except redis.RedisError as error:
        kind, text = failure(error)
        if kind == "lost":
            clients.pop(server, None)
        return [kind, text]


def run(client, commands):
    if len(commands) == 1:
        return client.execute_command(*commands[0])
    transaction = client.pipeline(transaction=True)
    for command in commands:
        transaction.execute_command(*command)
    return transaction.execute()


def plain(reply):
    """`OK` is true, nil is null."""
    if isinstance(reply, bytes):
        return reply.decode()
    if isinstance(reply, list):
        return [plain(item) for item in reply]
    return reply


def connect(server, patience_s):
    host, port = server.rsplit(":", 1)
    return redis.Redis(
        host=host,
        port=int(port),
        socket_timeout=patience_s,
        socket_connect_timeout=patience_s,
        retry=Retry(NoBackoff(), 0),
    )


main()
