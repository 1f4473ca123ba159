<?php
/** Laravel: cache, locks, sessions, queues with a worker, and a schedule, all in one Redis. */

declare(strict_types=1);

use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Contracts\Console\Kernel as Console;
use Illuminate\Contracts\Http\Kernel as Http;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Bus;
use Illuminate\Support\Facades\Cache;
use Illuminate\Support\Facades\Queue;
use Illuminate\Support\Facades\RateLimiter;
use Illuminate\Support\Facades\Redis;
use Illuminate\Support\Facades\Route;
use Shop\{CountStock, CountVisit, Hopeless, SendInvoice, SendMail, SucceedAtLast};

const BACKLOG = 2_000;

function run(): void
{
    $shop = require __DIR__ . '/shop/bootstrap/app.php';
    $shop->make(Console::class)->bootstrap();
    check('cache', keep_values(...));
    check('many', keep_many(...));
    check('tags', keep_with_tags(...));
    check('rate limit', limit_the_rate(...));
    check('sessions', fn () => keep_sessions($shop));
    check('lock', lock_and_release(...));
    check('lock waited for', wait_for_a_lock(...));
    check('funnel', work_two_at_a_time(...));
    check('backlog', fill_the_backlog(...));
    work();
    check('schedule', schedule_on_one_server(...));
    check('flush', flush_the_cache(...));
    check('lock held', hold_a_lock(...));
}

function keep_values(): void
{
    Cache::put('greeting', 'hello', 600);
    expect('hello', Cache::get('greeting'), 'a value');
    expect([false, 'hello'], [Cache::add('greeting', 'bye', 600), Cache::get('greeting')], 'what is there already');
    expect(true, Cache::add('welcome', 'hello', 600), 'something new');
    Cache::forever('count', 1);
    expect([2, 12, 10], [Cache::increment('count'), Cache::increment('count', 10), Cache::decrement('count', 2)], 'a count');
    expect(['made', 'made'], [Cache::remember('made', 600, fn () => 'made'), Cache::remember('made', 600, fn () => 'again')], 'remembered');
    expect(['hello', null], [Cache::pull('greeting'), Cache::get('greeting')], 'a value that was pulled');
    $picture = random_bytes(500_000);
    Cache::put('picture', $picture, 600);
    expect(true, Cache::get('picture') === $picture, 'a large value');
}

function keep_many(): void
{
    $products = [];
    foreach (range(0, 499) as $i) {
        $products["product-$i"] = ['price' => $i];
    }
    expect(true, Cache::putMany($products, 600), 'keeping many');
    expect($products, Cache::many(array_keys($products)), 'many values');
    expect(true, Cache::deleteMultiple(array_keys($products)), 'deleting many');
    expect(null, Cache::get('product-7'), 'one of them');
}

function keep_with_tags(): void
{
    Cache::tags(['people', 'artists'])->put('ann', 'painter', 600);
    Cache::tags(['people', 'authors'])->put('bob', 'poet', 600);
    expect('painter', Cache::tags(['people', 'artists'])->get('ann'), 'a value with tags');
    Cache::tags('authors')->flush();
    expect(['painter', null], [Cache::tags(['people', 'artists'])->get('ann'), Cache::tags(['people', 'authors'])->get('bob')], 'what is left');
}

function limit_the_rate(): void
{
    $tries = array_map(fn () => RateLimiter::attempt('login', 3, fn () => 'in', 600), range(1, 5));
    expect(['in', 'in', 'in', false, false], $tries, 'tries to log in');
    $calls = 0;
    foreach (range(1, 5) as $_) {
        Redis::throttle('calls')->allow(3)->every(600)->block(0)->then(function () use (&$calls) {
            $calls++;
        }, fn () => null);
    }
    expect(3, $calls, 'calls that were let through');
}

function keep_sessions(Illuminate\Foundation\Application $shop): void
{
    Route::middleware('web')->get('/visit', function () {
        session(['visits' => session('visits', 0) + 1]);
        return (string) session('visits');
    });
    Route::middleware('web')->get('/leave', function () {
        session()->invalidate();
        return 'bye';
    });
    $ann = browser($shop->make(Http::class));
    $bob = browser($shop->make(Http::class));
    expect(['1', '2', '3'], [$ann('/visit'), $ann('/visit'), $ann('/visit')], 'the visits of Ann');
    expect(['1', 'bye', '1'], [$bob('/visit'), $ann('/leave'), $ann('/visit')], 'new visits');
}

/** A browser that keeps its cookies. */
function browser(Http $kernel): Closure
{
    $cookies = [];
    return function (string $path) use ($kernel, &$cookies) {
        // One process would otherwise keep one session.
        app('session')->forgetDrivers();
        $request = Request::create($path, 'GET', [], $cookies);
        $response = $kernel->handle($request);
        $kernel->terminate($request, $response);
        foreach ($response->headers->getCookies() as $cookie) {
            $cookies[$cookie->getName()] = $cookie->getValue();
        }
        return $response->getContent();
    };
}

function lock_and_release(): void
{
    $mine = Cache::lock('lock:report', 600);
    $theirs = Cache::lock('lock:report', 600);
    expect([true, false, false], [$mine->get(), $theirs->get(), $theirs->release()], 'taken, taken again, released by a stranger');
    expect(true, Cache::restoreLock('lock:report', $mine->owner())->release(), 'released by its owner in another place');
    expect('made', $theirs->get(fn () => 'made'), 'what is done with the lock');
    expect(true, $mine->get(), 'the lock, once that is done');
    $theirs->forceRelease();
    expect(true, Cache::lock('lock:endless', 0)->get(), 'a lock without an end');
    expect([false, true], [Cache::lock('lock:endless', 0)->get(), Cache::lock('lock:endless')->forceRelease() ?? true], 'freed by force');
}

function wait_for_a_lock(): void
{
    $first = Cache::lock('lock:short', 1);
    expect(true, $first->get(), 'a lock for a second');
    expect('made', Cache::lock('lock:short', 600)->block(PATIENCE_S, fn () => 'made'), 'what is done once it has run out');
    expect(true, $first->get(), 'the lock after that');
    try {
        Cache::lock('lock:short', 600)->block(0);
    } catch (LockTimeoutException) {
        return;
    }
    throw new RuntimeException('a lock was got twice');
}

function work_two_at_a_time(): void
{
    $inside = 0;
    $funnel = fn () => Redis::funnel('funnel:stock')->limit(2)->releaseAfter(600)->block(0);
    $refused = fn () => -1;
    $result = $funnel()->then(fn () => $funnel()->then(fn () => $funnel()->then(fn () => 3, $refused), $refused), $refused);
    expect([-1, 1], [$result, $funnel()->then(fn () => 1, $refused)], 'the third at a time, and the first after them');
}

function fill_the_backlog(): void
{
    Queue::bulk(array_map(fn () => new CountVisit(), range(1, BACKLOG)));
    expect(BACKLOG, Queue::size(), 'the size of the queue');
}

function work(): void
{
    // A worker with both queues would wait for mails first, for two seconds each time.
    $worker = ['php', 'artisan', 'queue:work', '--sleep=0', '--tries=3', '--backoff=0'];
    $mailer = [...$worker, '--queue=mails'];
    background($mailer, fn () => background($worker, fn () => background($worker, function () {
        check('results', function () {
            SendMail::dispatch('first')->onQueue('mails');
            eventually('a mail is sent', fn () => mails() === ['first']);
            eventually('all visits are counted', fn () => (int) Redis::get('visits') === BACKLOG);
        });
        check('later', function () {
            SendMail::dispatch('second')->onQueue('mails')->delay(1);
            eventually('a mail is sent later', fn () => mails() === ['first', 'second']);
        });
        check('retry', function () {
            SucceedAtLast::dispatch();
            Hopeless::dispatch();
            eventually('the third try succeeds', fn () => Redis::get('tries') === '3');
            eventually('a job has failed', fn () => Redis::get('hopeless') === '1');
        });
        check('chain', function () {
            Bus::chain([new SendMail('third'), new SendMail('fourth')])->onQueue('mails')->dispatch();
            eventually('one is sent after the other', fn () => array_slice(mails(), 2) === ['third', 'fourth']);
        });
        check('unique job', send_each_invoice_once(...));
        check('without overlapping', function () {
            Queue::bulk(array_map(fn () => new CountStock(), range(1, 10)));
            eventually('the stock was counted', fn () => Redis::get('stock:counted') === '10');
            expect(null, Redis::get('stock:overlaps') ?: null, 'counts at the same time');
        });
        eventually('the queues are empty', fn () => Queue::size() + Queue::size('mails') === 0);
    })));
    background($mailer, fn (Process $worker) => check('restart', function () use ($worker) {
        SendMail::dispatch('fifth')->onQueue('mails');
        eventually('the worker works', fn () => count(mails()) === 5);
        app(Console::class)->call('queue:restart');
        eventually('the worker ends', fn () => !$worker->runs());
    }));
    check('unique job queued', function () {
        // The lock of a job that no worker executes is held at the end.
        SendInvoice::dispatch('last');
        SendInvoice::dispatch('last');
        expect(1, Queue::size(), 'the invoices in the queue');
    });
}

function mails(): array
{
    return Redis::lrange('mails', 0, -1);
}

function send_each_invoice_once(): void
{
    SendInvoice::dispatch('first')->delay(1);
    SendInvoice::dispatch('first');
    SendInvoice::dispatch('second');
    eventually('the invoices are sent', fn () => count(Redis::lrange('invoices', 0, -1)) === 2);
    eventually('the lock of a done job is free', function () {
        SendInvoice::dispatch('first');
        return count(Redis::lrange('invoices', 0, -1)) >= 3;
    });
}

/** Of two servers that run the schedule for this minute, only one does the work. Those starting a minute later do not count. */
function schedule_on_one_server(): void
{
    eventually('both run in one minute', function () {
        $minute = intdiv(time(), 60);
        Redis::del('reports');
        background(['php', 'artisan', 'schedule:run'], fn ($one) => background(['php', 'artisan', 'schedule:run'], function ($other) use ($one) {
            eventually('both have ended', fn () => !$one->runs() && !$other->runs());
        }));
        return intdiv(time(), 60) === $minute;
    });
    expect('1', Redis::get('reports'), 'how often the report was made');
}

function flush_the_cache(): void
{
    expect(true, Cache::flush(), 'the flush');
    expect(null, Cache::get('made'), 'a value, once all is flushed');
}

function hold_a_lock(): void
{
    Cache::put('night', 'quiet', 600);
    expect([true, false], [Cache::lock('lock:night', 600)->get(), Cache::lock('lock:night', 600)->get()], 'held at the end');
}
