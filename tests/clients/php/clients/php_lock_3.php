<?php
/** php-lock/lock 3.1: the commands that it sends, through the driver it uses. */

declare(strict_types=1);

final class PhpLock3 extends Lock
{
    /** Its default, an infinite TTL, is a thousand years on the wire. */
    public const FOREVER_MS = 31_557_600_000_000;

    private readonly string $token;

    public function __construct(private readonly Driver $driver, private readonly string $name)
    {
        $this->token = bin2hex(random_bytes(32));
    }

    public function acquire(int $ttl_ms): bool
    {
        return $this->driver->set("php-malkusch-lock:$this->name", $this->token, 'px', min($ttl_ms + 1, self::FOREVER_MS));
    }

    public function release(): bool
    {
        return $this->driver->eval(script('php-lock-3-release'), "php-malkusch-lock:$this->name", $this->token) === 1;
    }

    public static function forever(Checks $checks): void
    {
        $name = $checks->newName();
        $lock = $checks->client->lock($name);
        expect($lock->acquire(PHP_INT_MAX - 1), 'a thousand years are refused');
        expect($checks->pttl($name) > self::FOREVER_MS / 2, 'a thousand years are over');
        expect($checks->client->lock($name)->isRefused(), 'a second holder is let in');
        expect($lock->release(), 'the holder may not release');
    }
}

return [
    'php-lock-3' => new Client(
        'php-lock (its scripts on phpredis)',
        '3.1.1',
        fn (string $name) => new PhpLock3(new PhpRedis(), $name),
        prefix: 'php-malkusch-lock:',
        more: ['forever' => PhpLock3::forever(...)],
    ),
];
