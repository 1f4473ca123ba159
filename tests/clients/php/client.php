<?php
/** What a check knows of a client, and the list of them. */

declare(strict_types=1);

final class Client
{
    /**
     * @param string $keys the Redis type of its keys
     * @param Closure(string): Lock $holder makes a holder of the lock of that name
     * @param string $prefix what the library puts before the name
     * @param array<string, Closure(Checks): void> $more checks of what only this client has
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

    /** A holder with a connection and a token of its own. */
    public function lock(string $name): Lock
    {
        return ($this->holder)($name);
    }
}

/** One who may hold a lock. */
abstract class Lock
{
    abstract public function acquire(int $ttl_ms): bool;

    /** Whether anything was released. */
    abstract public function release(): bool;

    public function isRefused(): bool
    {
        return !$this->acquire(60_000);
    }

    /** Waits for the lock, the way the library does. Most have no other way than to ask again and again. */
    public function wait(): void
    {
        while (!$this->acquire(60_000)) {
            usleep(50_000);
        }
    }
}

interface Extendable
{
    /** Whether the lock now has so much time left. */
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

/** The version of the library in a Debian package, without what Debian adds to it. */
function packaged(string $package): string
{
    return preg_replace('/^\d+:|[+-].*$/', '', exec("dpkg-query --show --showformat '\${Version}' $package"));
}

function script(string $name): string
{
    return file_get_contents(__DIR__ . "/scripts/$name.lua");
}

/** From milliseconds, for libraries that count in whole seconds. */
function seconds(int $ms): int
{
    return (int) ceil($ms / 1000);
}

require __DIR__ . '/drivers.php';
