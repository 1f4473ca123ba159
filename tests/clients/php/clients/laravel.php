<?php
/** Laravel 8: the locks of its cache, and the semaphore of its Redis component. */

declare(strict_types=1);

use Illuminate\Cache\RedisStore;
use Illuminate\Contracts\Cache\Lock as CacheLock;
use Illuminate\Contracts\Redis\LimiterTimeoutException;
use Illuminate\Redis\Limiters\ConcurrencyLimiterBuilder;
use Illuminate\Redis\RedisManager;

require_once 'Illuminate/Cache/autoload.php';

final class LaravelLock extends Lock
{
    public CacheLock $lock;
    private readonly string $owner;

    public function __construct(private readonly RedisStore $store, private readonly string $name)
    {
        $this->owner = bin2hex(random_bytes(8));
    }

    public function acquire(int $ttl_ms): bool
    {
        $this->lock = $this->store->lock($this->name, seconds($ttl_ms), $this->owner);
        return $this->lock->get();
    }

    public function wait(): void
    {
        $this->store->lock($this->name, 60, $this->owner)->block(PATIENCE_S);
    }

    public function release(): bool
    {
        return $this->lock->release();
    }
}

function laravel_connections(string $driver): RedisManager
{
    [$host, $port] = address();
    return new RedisManager(null, $driver, ['default' => ['host' => $host, 'port' => $port]]);
}

/** A lock of zero seconds never expires. */
function lasting(Checks $checks): void
{
    $name = $checks->newName();
    $lock = $checks->client->lock($name);
    expect($lock->acquire(0), 'a free lock is refused');
    expect($checks->pttl($name) === -1, 'a lock without an end has a TTL');
    expect($checks->client->lock($name)->isRefused(), 'a second holder is let in');
    expect($lock->release(), 'the holder may not release');
}

/** Forces the release of a lock, whoever holds it. */
function force(Checks $checks): void
{
    $name = $checks->newName();
    $holder = $checks->client->lock($name);
    expect($holder->acquire(LONG_MS), 'a free lock is refused');
    $stranger = $checks->client->lock($name);
    expect($stranger->isRefused(), 'a second holder is let in');
    $stranger->lock->forceRelease();
    expect($stranger->acquire(LONG_MS), 'a lock is not free after all');
    expect(!$holder->release(), 'the first holder has released what it had lost');
}

/** Two may enter. Here one callback holds a permit while it calls the next. */
function semaphore(RedisManager $redis, string $name): void
{
    $enter = fn (callable $inside) => (new ConcurrencyLimiterBuilder($redis->connection(), $name))
        ->limit(2)->releaseAfter(60)->block(0)->then($inside, fn (LimiterTimeoutException $full) => 'full');
    $third = fn () => $enter(fn () => 'entered');
    expect($enter(fn () => $enter($third)) === 'full', 'a third is let in');
    expect($enter($third) === 'entered', 'those who left took their permits with them');
}

function laravel(string $driver): Client
{
    return new Client(
        "Laravel on $driver",
        packaged('php-illuminate-cache'),
        fn (string $name) => new LaravelLock(new RedisStore(laravel_connections($driver), ''), $name),
        more: [
            'lasting' => lasting(...),
            'force' => force(...),
            'semaphore' => fn (Checks $checks) => semaphore(laravel_connections($driver), $checks->newName()),
        ],
    );
}

return [
    'laravel-phpredis' => laravel('phpredis'),
    'laravel-predis' => laravel('predis'),
];
