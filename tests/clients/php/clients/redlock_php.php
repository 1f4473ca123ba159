<?php
/** ronnylt/redlock-php 1.0: the commands that it sends, through the driver it uses. */

declare(strict_types=1);

final class RedlockPhp extends Lock
{
    private string $token = '';

    public function __construct(private readonly Driver $driver, private readonly string $resource)
    {
    }

    /** A refused attempt is taken back, as Redlock requires. */
    public function acquire(int $ttl_ms): bool
    {
        $this->token = uniqid();
        return $this->driver->set($this->resource, $this->token, 'PX', $ttl_ms) || $this->release();
    }

    /** The script is byte for byte that of symfony/lock 3.4. */
    public function release(): bool
    {
        return $this->driver->eval(script('symfony-3-delete'), $this->resource, $this->token) === 1;
    }
}

return [
    'redlock-php' => new Client(
        'redlock-php (its scripts on phpredis)',
        '1.0.1',
        fn (string $name) => new RedlockPhp(new PhpRedis(), $name),
    ),
];
