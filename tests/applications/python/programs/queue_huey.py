"""Huey: a consumer, schedules, pipelines and `lock_task`, with each of its two ways to keep results and locks."""

from types import SimpleNamespace

from huey import RedisExpireHuey, RedisHuey
from huey.exceptions import TaskException, TaskLockedException
from redis import Redis

from helpers import PATIENCE_S, URL, background, check, eventually, expect

client = Redis.from_url(URL)


def tasks_of(huey):
    @huey.task()
    def add(a, b):
        return a + b

    @huey.task(retries=2)
    def succeed_at_last():
        tries = client.incr("shop:tries")
        assert tries == 3, f"try {tries} fails"
        return tries

    @huey.task()
    @huey.lock_task("report")
    def report():
        client.incr("shop:reports")
        eventually(lambda: client.exists("shop:paper"), "there is paper")
        return "printed"

    return SimpleNamespace(**{task.task_class.__name__: task for task in (add, succeed_at_last, report)})


plain = RedisHuey("plain", url=URL)
expiring = RedisExpireHuey("expiring", url=URL)
tasks = {plain: tasks_of(plain), expiring: tasks_of(expiring)}


def run(application):
    name, huey = {"huey": ("plain", plain), "huey-expire": ("expiring", expiring)}[application]
    with background("huey_consumer", f"programs.queue_huey.{name}", "--workers=3", "--scheduler-interval=1"):
        work(huey, tasks[huey])
        lock(huey, tasks[huey])
    with check("lock held"):
        # Held at the end.
        assert huey.lock_task("last").acquire()
        assert huey.is_locked("last")
        expect(TaskLockedException, huey.lock_task("last").acquire)


def work(huey, task):
    with check("results"):
        assert get(task.add(2, 3)) == 5
        assert get(task.add.map([(i, i) for i in range(20)])) == [2 * i for i in range(20)]
    with check("pipeline"):
        assert get(huey.enqueue(task.add.s(1, 2).then(task.add, 3))) == [3, 6]
    with check("retry"):
        result = task.succeed_at_last()
        eventually(lambda: client.get("shop:tries") == b"3", "the task was tried three times")
        eventually(lambda: succeeded(result), "the third try succeeds")
    with check("later"):
        assert get(task.add.schedule((3, 4), delay=1)) == 7
    with check("revoke"):
        late = task.add.schedule((5, 6), delay=600)
        late.revoke()
        assert late.is_revoked()
        late.restore()
        assert not late.is_revoked()


def get(result):
    return result.get(blocking=True, timeout=PATIENCE_S)


def succeeded(result):
    try:
        return result.get(preserve=True) == 3
    except TaskException:
        # Left over from an earlier attempt.
        result.reset()
        return False


def lock(huey, task):
    with check("lock"):
        printing = task.report()
        eventually(lambda: client.get("shop:reports") == b"1", "the report is being printed")
        assert huey.is_locked("report")
        refused = task.report()
        expect(TaskException, lambda: get(refused))
        client.set("shop:paper", "A4")
        assert get(printing) == "printed"
        eventually(lambda: not huey.is_locked("report"), "the lock is released")
        assert client.get("shop:reports") == b"1", "two reports were printed at a time"
