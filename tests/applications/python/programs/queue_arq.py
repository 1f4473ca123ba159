"""arq: two workers, jobs that are unique by their id, and a cron job that one of the workers runs."""

import asyncio
from datetime import timedelta

from arq import Retry, create_pool, cron
from arq.connections import RedisSettings

from helpers import PATIENCE_S, URL, background, check


async def add(ctx, a, b):
    return a + b


async def succeed_at_last(ctx):
    if ctx["job_try"] < 3:
        raise Retry(defer=0.1)
    return ctx["job_try"]


async def sleep_long(ctx):
    await asyncio.sleep(600)


async def tick(ctx):
    await ctx["redis"].rpush("shop:ticks", ctx["job_id"])


class WorkerSettings:
    functions = [add, succeed_at_last, sleep_long]
    cron_jobs = [cron(tick, second=set(range(60)), unique=True)]
    redis_settings = RedisSettings.from_dsn(URL)
    allow_abort_jobs = True
    poll_delay = 0.1


def run(_):
    asyncio.run(run_all())


async def run_all():
    pool = await create_pool(RedisSettings.from_dsn(URL))
    with check("unique"):
        first = await pool.enqueue_job("add", 1, 2, _job_id="invoice")
        assert await pool.enqueue_job("add", 1, 2, _job_id="invoice") is None, "one id was queued twice"
    with background("arq", "programs.queue_arq.WorkerSettings"), background("arq", "programs.queue_arq.WorkerSettings"):
        with check("results"):
            assert await get(first) == 3
            jobs = [await pool.enqueue_job("add", i, i) for i in range(20)]
            assert [await get(job) for job in jobs] == [2 * i for i in range(20)]
        with check("retry"):
            assert await get(await pool.enqueue_job("succeed_at_last")) == 3
        with check("later"):
            assert await get(await pool.enqueue_job("add", 3, 4, _defer_by=timedelta(seconds=1))) == 7
        with check("abort"):
            job = await pool.enqueue_job("sleep_long")
            while await job.status() != "in_progress":
                await asyncio.sleep(0.05)
            assert await job.abort(timeout=PATIENCE_S), "a job that runs was not aborted"
        with check("cron"):
            async with asyncio.timeout(PATIENCE_S):
                while await pool.llen("shop:ticks") < 4:
                    await asyncio.sleep(0.05)
            ticks = await pool.lrange("shop:ticks", 0, -1)
            assert len(ticks) == len(set(ticks)), "two workers ran one cron job"
    await pool.aclose()


async def get(job):
    return await job.result(timeout=PATIENCE_S, poll_delay=0.05)
