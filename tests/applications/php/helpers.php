<?php
/** Helpers for the checks. */

declare(strict_types=1);

const PATIENCE_S = 60;
const LINES_OF_A_LOG = 40;

/** Runs one check. If it fails, the program ends with a sentence that names it. */
function check(string $name, callable $action): void
{
    try {
        $action();
    } catch (Throwable $error) {
        throw new RuntimeException("the check $name failed: {$error->getMessage()}", 0, $error);
    }
    echo "$name\tpassed\n";
}

function expect(mixed $expected, mixed $actual, string $what): void
{
    $expected === $actual or throw new RuntimeException("$what should be " . json_encode($expected) . ', not ' . json_encode($actual));
}

function eventually(string $what, callable $condition): void
{
    $limit = hrtime(true) + PATIENCE_S * 1e9;
    while (!$condition()) {
        hrtime(true) < $limit or throw new RuntimeException("gave up waiting until $what");
        usleep(50_000);
    }
}

/** Runs a worker during the action, and ends it as an operator would. Its log is shown if a check fails. */
function background(array $command, callable $action): void
{
    $worker = new Process($command);
    try {
        $action($worker);
    } catch (Throwable $error) {
        fwrite(STDERR, implode("\n", array_slice(explode("\n", $worker->log()), -LINES_OF_A_LOG)));
        throw $error;
    } finally {
        $worker->end();
    }
}

final class Process
{
    private mixed $process;
    private mixed $log;

    public function __construct(array $command)
    {
        $this->log = tmpfile();
        $streams = [['file', '/dev/null', 'r'], $this->log, $this->log];
        $this->process = proc_open($command, $streams, $_, __DIR__ . '/shop');
    }

    public function log(): string
    {
        return file_get_contents(stream_get_meta_data($this->log)['uri']);
    }

    public function runs(): bool
    {
        return proc_get_status($this->process)['running'];
    }

    public function end(): void
    {
        proc_terminate($this->process);
        eventually('a worker ends when it is asked to', fn () => !$this->runs());
    }
}
