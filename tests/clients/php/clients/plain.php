<?php
/** The lock of the Redis documentation: `SET NX PX`, and a script to release it. */

declare(strict_types=1);

final class PlainLock extends Lock implements Extendable
{
    private readonly string $token;

    public function __construct(private readonly Driver $driver, private readonly string $key)
    {
        $this->token = bin2hex(random_bytes(16));
    }

    public function acquire(int $ttl_ms): bool
    {
        return $this->driver->set($this->key, $this->token, 'PX', $ttl_ms);
    }

    public function extend(int $ttl_ms): bool
    {
        return $this->driver->eval(script('plain-extend'), $this->key, $this->token, $ttl_ms) === 1;
    }

    public function release(): bool
    {
        return $this->driver->eval(script('plain-release'), $this->key, $this->token) === 1;
    }
}

return [
    'phpredis' => new Client('phpredis', phpversion('redis'), fn (string $name) => new PlainLock(new PhpRedis(), $name)),
    'predis' => new Client('predis', Predis\Client::VERSION, fn (string $name) => new PlainLock(new Predis(), $name)),
];
