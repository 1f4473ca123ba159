<?php
/** symfony/lock 3.4 to 5.1: a string, and scripts that save, extend and delete it. */

declare(strict_types=1);

final class Symfony3 extends Lock implements Extendable
{
    private readonly string $token;

    public function __construct(private readonly Driver $driver, private readonly string $resource)
    {
        $this->token = base64_encode(random_bytes(32));
    }

    public function acquire(int $ttl_ms): bool
    {
        return (bool) $this->send('save', $ttl_ms);
    }

    public function extend(int $ttl_ms): bool
    {
        return (bool) $this->send('put-off', $ttl_ms);
    }

    public function release(): bool
    {
        return (bool) $this->send('delete');
    }

    private function send(string $script, int ...$ttl_ms): mixed
    {
        return $this->driver->eval(script("symfony-3-$script"), $this->resource, $this->token, ...$ttl_ms);
    }
}

return [
    'symfony-3' => new Client(
        'symfony/lock 3.4 to 5.1 (its scripts on phpredis)',
        '5.1',
        fn (string $name) => new Symfony3(new PhpRedis(), $name),
        more: ['reentrant' => fn (Checks $checks) => reentrant($checks)],
    ),
];
