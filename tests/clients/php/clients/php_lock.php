<?php
/** php-lock/lock 2.2: a mutex around a callback. */

declare(strict_types=1);

use malkusch\lock\exception\ExecutionOutsideLockException;
use malkusch\lock\exception\LockReleaseException;
use malkusch\lock\exception\TimeoutException;
use malkusch\lock\mutex\PHPRedisMutex;
use malkusch\lock\mutex\PredisMutex;

require_once 'Malkusch/Lock/autoload.php';

/** The callback runs in a fiber and is suspended at once, so the lock stays held until the fiber is resumed. */
final class PhpLock extends Lock
{
    private Fiber $section;

    /** @param Closure(string, int): PHPRedisMutex|PredisMutex $mutex */
    public function __construct(private readonly Closure $mutex, private readonly string $name)
    {
    }

    /** One number is the patience and, plus one second, the TTL. */
    public function acquire(int $ttl_ms): bool
    {
        $mutex = ($this->mutex)($this->name, seconds($ttl_ms) - 1);
        $this->section = new Fiber(fn () => $mutex->synchronized(fn () => Fiber::suspend()));
        try {
            $this->section->start();
            return true;
        } catch (TimeoutException) {
            return false;
        }
    }

    public function isRefused(): bool
    {
        return !$this->acquire(SHORT_MS);
    }

    public function wait(): void
    {
        expect($this->acquire(60_000), 'not within a minute');
    }

    public function release(): bool
    {
        try {
            $this->section->resume();
            return true;
        } catch (LockReleaseException | ExecutionOutsideLockException) {
            return false;
        }
    }
}

/** @param Closure(string, int): PHPRedisMutex|PredisMutex $mutex */
function php_lock(string $driver, Closure $mutex): Client
{
    $version = packaged('php-malkusch-lock');
    return new Client("php-lock on $driver", $version, fn (string $name) => new PhpLock($mutex, $name), prefix: 'lock_');
}

return [
    'php-lock-phpredis' => php_lock('phpredis', fn (...$arguments) => new PHPRedisMutex([phpredis()], ...$arguments)),
    'php-lock-predis' => php_lock('predis', fn (...$arguments) => new PredisMutex([predis()], ...$arguments)),
];
