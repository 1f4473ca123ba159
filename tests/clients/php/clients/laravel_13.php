<?php
/** Laravel 13: the lock of Laravel 8, which can now be refreshed. These are its commands, through a driver it uses. */

declare(strict_types=1);

use Illuminate\Cache\LuaScripts;

require_once 'Illuminate/Cache/autoload.php';

final class Laravel13 extends Lock implements Extendable
{
    private readonly string $owner;

    public function __construct(private readonly Driver $driver, private readonly string $name)
    {
        $this->owner = bin2hex(random_bytes(8));
    }

    public function acquire(int $ttl_ms): bool
    {
        return $this->driver->set($this->name, $this->owner, 'EX', seconds($ttl_ms));
    }

    public function extend(int $ttl_ms): bool
    {
        return $this->driver->eval(script('laravel-13-refresh'), $this->name, $this->owner, seconds($ttl_ms)) === 1;
    }

    /** The script has not changed. */
    public function release(): bool
    {
        return $this->driver->eval(LuaScripts::releaseLock(), $this->name, $this->owner) === 1;
    }

    /** A refresh for zero seconds removes the expiry. */
    public static function persist(Checks $checks): void
    {
        $name = $checks->newName();
        $lock = $checks->client->lock($name);
        expect($lock->acquire(LONG_MS) && $lock->extend(0), 'the holder may not refresh');
        expect($checks->pttl($name) === -1, 'the lock still runs out');
        expect($lock->extend(LONG_MS) && $checks->pttl($name) > 0, 'the lock no longer runs out');
        expect($lock->release(), 'the holder may not release');
    }
}

return [
    'laravel-13' => new Client(
        'Laravel 13 (its scripts on phpredis)',
        '13',
        fn (string $name) => new Laravel13(new PhpRedis(), $name),
        more: ['persist' => Laravel13::persist(...)],
    ),
];
