<?php
/** Locks of PHP's clients, exactly as applications take them, against the server at REDLOCK_ADDRESS. */

declare(strict_types=1);

// Debian's libraries are older than its PHP, which reports deprecations in them.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
ini_set('display_errors', 'stderr');

require __DIR__ . '/client.php';
require __DIR__ . '/checks.php';

const HOLD_MS = 120_000;

function main(string $action, string ...$arguments): void
{
    match ($action) {
        'list' => show(clients()),
        'check' => (new Checks(...$arguments))->run(),
        'hold' => hold(...$arguments),
        'try' => take(...$arguments),
        'wait' => wait_for(...$arguments),
    };
}

/** @param array<string, Client> $clients */
function show(array $clients): void
{
    foreach ($clients as $id => $client) {
        say($id, $client->name, $client->version, $client->keys);
    }
}

function hold(string $id, string ...$keys): void
{
    foreach (names($id, $keys) as $key => $name) {
        $locks[] = $lock = client($id)->lock($name);
        expect($lock->acquire(HOLD_MS), "$key is not free");
        say('held', $key);
    }
    leave_without_cleaning_up();
}

function take(string $id, string ...$keys): void
{
    foreach (names($id, $keys) as $key => $name) {
        $locks[] = $lock = client($id)->lock($name);
        say($lock->isRefused() ? 'refused' : 'taken', $key);
    }
    leave_without_cleaning_up();
}

/** Entry point of the process that `Waiter` starts. */
function wait_for(string $id, string $name): void
{
    $lock = client($id)->lock($name);
    say('waiting');
    $lock->wait();
    say('got it');
    leave_without_cleaning_up();
}

/** Returns the keys that the library can use, with the name that an application gives for each. */
function names(string $id, array $keys): array
{
    $prefix = client($id)->prefix;
    $usable = array_filter($keys, fn (string $key) => str_starts_with($key, $prefix));
    return array_combine($usable, array_map(fn (string $key) => substr($key, strlen($prefix)), $usable));
}

/** Replaces the process by another program, so that libraries cannot release their locks when PHP ends. */
function leave_without_cleaning_up(string $program = '/bin/true'): never
{
    pcntl_exec($program);
    exit(1);
}

function say(string ...$fields): void
{
    fwrite(STDOUT, implode("\t", $fields) . "\n");
}

function expect(bool $condition, string $complaint): void
{
    $condition or throw new RuntimeException($complaint);
}

set_exception_handler(function (Throwable $error): never {
    fwrite(STDERR, causes($error) . "\n");
    leave_without_cleaning_up('/bin/false');
});
main(...array_slice($argv, 1));
