<?php
/** symfony/lock since 5.2: a sorted set of holders, each with the time at which its lock expires. */

declare(strict_types=1);

use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockInterface;
use Symfony\Component\Lock\Store\RedisStore;

require_once 'Symfony/Component/Lock/autoload.php';

final class SymfonyLock extends Lock implements Extendable
{
    private readonly Key $key;
    private ?LockInterface $lock = null;

    public function __construct(private readonly object $redis, string $name)
    {
        $this->key = new Key($name);
    }

    public function acquire(int $ttl_ms): bool
    {
        return $this->lock($ttl_ms)->acquire();
    }

    public function acquireRead(int $ttl_ms): bool
    {
        return $this->lock($ttl_ms)->acquireRead();
    }

    public function wait(): void
    {
        $this->lock(60_000)->acquire(blocking: true);
    }

    public function extend(int $ttl_ms): bool
    {
        try {
            $this->lock->refresh($ttl_ms / 1000);
            return true;
        } catch (LockConflictedException) {
            return false;
        }
    }

    /** Symfony does not report whether it released anything. */
    public function release(): bool
    {
        $held = $this->lock->isAcquired();
        $this->lock->release();
        return $held;
    }

    private function lock(int $ttl_ms): LockInterface
    {
        $store = new RedisStore($this->redis, $ttl_ms / 1000);
        return $this->lock = new Symfony\Component\Lock\Lock($this->key, $store, $ttl_ms / 1000, autoRelease: false);
    }
}

/** Sends scripts as symfony/lock 7.2 does, which are those of 5.4: by SHA1, loading any that Redis does not know. */
final class LoadsScripts extends Redis
{
    public function eval($script, $arguments = [], $keys = 0): mixed
    {
        $reply = $this->evalSha(sha1($script), $arguments, $keys);
        if ($this->getLastError() === 'NOSCRIPT No matching script. Please use EVAL.') {
            $this->clearLastError();
            $this->script('LOAD', $script);
            $reply = $this->evalSha(sha1($script), $arguments, $keys);
        }
        return $reply;
    }
}

function reentrant(Checks $checks): void
{
    $name = $checks->newName();
    $lock = $checks->client->lock($name);
    expect($lock->acquire(LONG_MS) && $lock->acquire(LONG_MS), 'the holder is refused');
    expect($checks->client->lock($name)->isRefused(), 'a second holder is let in');
    expect($lock->release(), 'the holder may not release');
    expect(!$checks->client->lock($name)->isRefused(), 'one release is not enough');
}

function readers(Checks $checks): void
{
    $name = $checks->newName();
    [$one, $two, $writer] = array_map($checks->client->lock(...), [$name, $name, $name]);
    expect($one->acquireRead(LONG_MS) && $two->acquireRead(LONG_MS), 'two readers do not share');
    expect($writer->isRefused(), 'a writer is let in beside two readers');
    expect(!$one->acquire(LONG_MS), 'a reader turns into a writer beside another');
    expect($two->release(), 'a reader may not release');
    expect($one->acquire(LONG_MS), 'the last reader cannot turn into a writer');
    expect(!$two->acquireRead(LONG_MS), 'a reader is let in beside a writer');
    expect($one->acquireRead(LONG_MS), 'a writer cannot turn into a reader');
    expect($two->acquireRead(LONG_MS), 'two readers do not share after all');
    expect($one->release() && $two->release(), 'a reader may not release');
    expect($writer->acquire(LONG_MS), 'a writer is refused though all readers have left');
}

/** @param Closure(): object $connect */
function symfony(string $name, string $version, Closure $connect): Client
{
    $more = ['reentrant' => reentrant(...), 'readers' => readers(...)];
    return new Client($name, $version, fn (string $name) => new SymfonyLock($connect(), $name), keys: 'zset', more: $more);
}

return [
    'symfony-phpredis' => symfony('symfony/lock on phpredis', packaged('php-symfony-lock'), phpredis(...)),
    'symfony-predis' => symfony('symfony/lock on predis', packaged('php-symfony-lock'), predis(...)),
    'symfony-7' => symfony('symfony/lock (5.4 as 7.2 sends it)', '7.2', fn () => phpredis(new LoadsScripts())),
];
