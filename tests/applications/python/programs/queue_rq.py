"""RQ: a worker with its scheduler, results, retries, and the lock of whoever cleans the registries."""

from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, Worker
from rq.command import send_shutdown_command
from rq.scheduler import RQScheduler

from helpers import PATIENCE_S, URL, background, check, eventually

# Commands that wait for results block for that long.
connection = Redis.from_url(URL, socket_timeout=PATIENCE_S + 10)
queue = Queue("mails", connection=connection)


def add(a, b):
    return a + b


def fail():
    raise ValueError("no such customer")


def succeed_at_last():
    tries = connection.incr("mails:tries")
    if tries < 3:
        raise ValueError(f"try {tries} fails")
    return tries


def run(_):
    with background("rq", "worker", "--url", URL, "--with-scheduler", "--name", "worker", "mails") as worker:
        with check("results"):
            assert result_of(queue.enqueue(add, 2, 3)).return_value == 5
            result = result_of(queue.enqueue(fail))
            assert result.type == result.Type.FAILED and "no such customer" in result.exc_string
        with check("many"):
            jobs = queue.enqueue_many([Queue.prepare_data(add, (i, i)) for i in range(20)])
            assert [result_of(job).return_value for job in jobs] == [2 * i for i in range(20)]
        with check("dependency"):
            first = queue.enqueue(add, 1, 1)
            assert result_of(queue.enqueue(add, 3, 4, depends_on=first)).return_value == 7
        with check("retry"):
            job = queue.enqueue(succeed_at_last, retry=Retry(max=3))
            eventually(lambda: job.return_value() == 3, "the third try succeeds")
        with check("later"):
            assert result_of(queue.enqueue_in(timedelta(seconds=1), add, 5, 6)).return_value == 11
        with check("scheduler lock"):
            assert 0 < connection.ttl("rq:scheduler-lock:mails") <= 61, "the scheduler works without its lock"
            assert RQScheduler([queue], connection).acquire_locks() == set(), "a second scheduler got the lock"
        with check("worker known"):
            [known] = Worker.all(queue=queue)
            assert known.name == "worker" and known.ip_address != "unknown"
        with check("shutdown command"):
            send_shutdown_command(connection, "worker")
            worker.wait(PATIENCE_S)
            assert not connection.exists("rq:scheduler-lock:mails"), "a worker that ended still has its scheduler's lock"
    with check("cleaning lock"):
        # The worker took it on starting, and released it after cleaning. Here it is held at the
        # end.
        assert queue.acquire_maintenance_lock(), "nobody cleans, and the lock is refused"
        assert not queue.acquire_maintenance_lock(), "two clean at a time"
        assert 0 < connection.ttl(queue.registry_cleaning_key) <= 899


def result_of(job):
    result = job.latest_result(timeout=PATIENCE_S)
    assert result, f"{job.func_name} has no result after {PATIENCE_S} s"
    return result
