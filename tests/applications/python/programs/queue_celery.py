"""Celery behind a long backlog, with celery-once to refuse duplicates and RedBeat to fire schedules."""

import json
import uuid

import redis
from celery import Celery, chord, group
from celery.schedules import schedule
from celery_once import AlreadyQueued, QueueOnce
from redbeat import RedBeatSchedulerEntry

from helpers import PATIENCE_S, URL, background, check, eventually, expect

BACKLOG = 50_000
BATCH = 1_000
LAST = 9

app = Celery("shop", broker=URL, backend=URL)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"queue_order_strategy": "priority"},
    ONCE={"backend": "celery_once.backends.Redis", "settings": {"url": URL, "default_timeout": 600}},
    # Long enough for a scheduler on a busy machine.
    redbeat_lock_timeout=20,
)
client = redis.Redis.from_url(URL)


@app.task(ignore_result=True)
def count_visit():
    client.incr("shop:visits")


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(base=QueueOnce)
def send_invoice(customer):
    client.rpush("shop:invoices", customer)
    return customer


@app.task(ignore_result=True)
def tick():
    client.incr("shop:ticks")


def run(_):
    with check("backlog"):
        fill_backlog()
    with check("once"):
        waiting = send_invoice.delay("first")
        expect(AlreadyQueued, lambda: send_invoice.delay("first"))
        assert 0 < client.ttl("qo_programs.queue_celery.send_invoice_customer-first") <= 600, "the lock has no end"
    with background("celery", "-A", "programs.queue_celery", "worker", "--concurrency=2", "--loglevel=INFO"):
        work(waiting)
        beat()
    with check("nothing lost"):
        # A worker that ends may execute some and still put them back.
        visits = int(client.get("shop:visits")) + queued()
        assert BACKLOG <= visits <= BACKLOG + 100, f"{BACKLOG} visits became {visits}"
    with check("purge"):
        tick.delay()
        assert app.control.purge() > 0, "there was nothing to purge"
        assert app.control.purge() == 0, "a purged queue is not empty"
    # No worker is left, so this lock is held at the end.
    send_invoice.delay("last")


def fill_backlog():
    """As many messages as a night without workers leaves behind: the first one of Celery's, the others like it."""
    count_visit.apply_async(priority=LAST)
    [queue] = client.scan_iter("celery*")
    message = json.loads(client.rpop(queue))
    for _ in range(0, BACKLOG, BATCH):
        client.lpush(queue, *(with_new_ids(message) for _ in range(BATCH)))
    assert queued() == BACKLOG


def with_new_ids(message):
    task = str(uuid.uuid4())
    headers = {**message["headers"], "id": task, "root_id": task}
    properties = {**message["properties"], "correlation_id": task, "delivery_tag": str(uuid.uuid4())}
    return json.dumps({**message, "headers": headers, "properties": properties})


def queued():
    with app.connection_for_read() as connection:
        return connection.default_channel.queue_declare("celery", passive=True).message_count


def work(waiting):
    with check("results"):
        assert add.delay(2, 3).get(PATIENCE_S) == 5
        assert group(add.s(i, i) for i in range(20))().get(PATIENCE_S) == [2 * i for i in range(20)]
    with check("chord"):
        assert chord((add.s(i, 1) for i in range(10)), total.s())().get(PATIENCE_S) == 55
    with check("later"):
        assert add.apply_async((3, 4), countdown=1).get(PATIENCE_S) == 7
    with check("once again"):
        assert waiting.get(PATIENCE_S) == "first"
        eventually(lambda: send_invoice.delay("second"), "a task is queued")
        eventually(lambda: client.lrange("shop:invoices", 0, -1) == [b"first", b"second"], "each invoice was sent once")
        assert not client.exists("qo_programs.queue_celery.send_invoice_customer-first"), "the lock of a done task is left"
    with check("remote control"):
        [answer] = app.control.ping(timeout=5)
        assert list(answer.values()) == [{"ok": "pong"}]
        assert app.control.inspect(timeout=5).registered(), "the worker does not tell its tasks"


def beat():
    RedBeatSchedulerEntry("tick", "programs.queue_celery.tick", schedule(1, app=app), app=app).save()
    command = ("celery", "-A", "programs.queue_celery", "beat", "-S", "redbeat.RedBeatScheduler", "--max-interval=1")
    with background(*command) as first:
        with check("schedule"):
            ticks_go_on()
            holder = client.get("redbeat::lock")
            assert holder, "the scheduler works without its lock"
        with background(*command):
            with check("one scheduler"):
                ticks_go_on()
                assert client.get("redbeat::lock") == holder, "a second scheduler took the lock"
            with check("takeover"):
                first.kill()
                eventually(lambda: client.get("redbeat::lock") not in (None, holder), "the second scheduler took over")
                ticks_go_on()
    with check("end of the schedule"):
        assert not client.exists("redbeat::lock"), "a scheduler that ended still has its lock"


def ticks_go_on():
    before = ticks()
    eventually(lambda: ticks() >= before + 3, "a schedule fired three times")


def ticks():
    return int(client.get("shop:ticks") or 0)
