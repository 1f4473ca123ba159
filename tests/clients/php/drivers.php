<?php
/** phpredis and predis, for locks that an application builds from `SET NX PX` and scripts. */

declare(strict_types=1);

require_once 'Predis/Autoloader.php';
Predis\Autoloader::register();

interface Driver
{
    public function set(string $key, string $token, string $unit, int $ttl): bool;

    public function eval(string $script, string $key, string|int ...$arguments): mixed;
}

/** phpredis answers false both for nil and for an error, so the error must be queried. */
final class PhpRedis implements Driver
{
    private readonly Redis $redis;

    public function __construct()
    {
        $this->redis = phpredis();
    }

    public function set(string $key, string $token, string $unit, int $ttl): bool
    {
        return $this->checked($this->redis->set($key, $token, ['NX', $unit => $ttl]));
    }

    public function eval(string $script, string $key, string|int ...$arguments): mixed
    {
        return $this->checked($this->redis->eval($script, [$key, ...$arguments], 1));
    }

    private function checked(mixed $reply): mixed
    {
        $error = $this->redis->getLastError();
        $error === null or throw new RedisException($error);
        return $reply;
    }
}

final class Predis implements Driver
{
    private readonly Predis\Client $redis;

    public function __construct()
    {
        $this->redis = predis();
    }

    public function set(string $key, string $token, string $unit, int $ttl): bool
    {
        return $this->redis->set($key, $token, $unit, $ttl, 'NX') !== null;
    }

    public function eval(string $script, string $key, string|int ...$arguments): mixed
    {
        return $this->redis->eval($script, 1, $key, ...$arguments);
    }
}

function phpredis(Redis $redis = new Redis()): Redis
{
    $redis->connect(...address());
    return $redis;
}

function predis(): Predis\Client
{
    [$host, $port] = address();
    return new Predis\Client(['host' => $host, 'port' => $port]);
}
