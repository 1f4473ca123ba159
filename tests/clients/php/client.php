<?php
/** A client as the checks see it, and the list of clients. */

declare(strict_types=1);

final class Client
{
    /**
     * @param string $keys the Redis type of its keys
     * @param Closure(string): Lock $holder makes a holder of the lock with that name
     * @param string $prefix the prefix that the library puts before the name
     * @param array<string, Closure(Checks): void> $more checks that only this client has
     */
    public function __construct(
        public readonly string $name,
        public readonly string $version,
        private readonly Closure $holder,
        public readonly string $keys = 'string',
        public readonly string $prefix = '',
        public readonly array $more = [],
    ) {
    }

    /** Returns a holder with its own connection and token. */
    public function lock(string $name): Lock
    {
        return ($this->holder)($name);
    }
}

/** A potential lock holder. */
abstract class Lock
{
    abstract public function acquire(int $ttl_ms): bool;

    /** Returns whether anything was released. */
    abstract public function release(): bool;

    public function isRefused(): bool
    {
        return !$this->acquire(60_000);
    }

    /** Waits for the lock as the library does. Most can only retry. */
    public function wait(): void
    {
        while (!$this->acquire(60_000)) {
            usleep(50_000);
        }
    }
}

interface Extendable
{
    /** Returns whether the lock now has that much time left. */
    public function extend(int $ttl_ms): bool;
}

function client(string $id): Client
{
    return clients()[$id] ?? throw new RuntimeException("no such client: $id");
}

/** @return array<string, Client> */
function clients(): array
{
    static $clients;
    return $clients ??= array_merge(...array_map(fn (string $file) => require $file, glob(__DIR__ . '/clients/*.php')));
}

/** @return array{string, int} */
function address(): array
{
    [$host, $port] = explode(':', getenv('REDLOCK_ADDRESS') ?: throw new RuntimeException('REDLOCK_ADDRESS is not set'));
    return [$host, (int) $port];
}

/** Returns the version of the library in a Debian package, without Debian's additions. */
function packaged(string $package): string
{
    return preg_replace('/^\d+:|[+-].*$/', '', exec("dpkg-query --show --showformat '\${Version}' $package"));
}

function script(string $name): string
{
    return file_get_contents(__DIR__ . "/scripts/$name.lua");
}

/** Converts milliseconds, for libraries that count in whole seconds. */
function seconds(int $ms): int
{
    return (int) ceil($ms / 1000);
}

require __DIR__ . '/drivers.php';
