<?php
/** The common checks of a client's lock. */

declare(strict_types=1);

const PATIENCE_S = 20;
const LONG_MS = 90_000;
const LONGER_MS = 180_000;
const SHORT_MS = 2_000;

final class Checks
{
    public readonly Client $client;
    private readonly Redis $redis;
    private readonly string $name;
    private readonly Lock $holder;

    public function __construct(private readonly string $id)
    {
        $this->client = client($id);
        $this->redis = phpredis();
        $this->name = $this->newName();
        $this->holder = $this->client->lock($this->name);
    }

    /** The lock that `acquire` takes is held until `release`, with the harness's turn in between. */
    public function run(): void
    {
        $this->check('acquire', $this->acquire(...));
        $this->middle();
        $this->check('refuse', $this->refuse(...));
        $this->check('extend', $this->holder instanceof Extendable ? $this->extend(...) : null);
        $this->check('stranger', $this->stranger(...));
        $this->check('release', $this->release(...));
        $this->check('expire', $this->expire(...));
        $this->check('wait', $this->wait(...));
        foreach ($this->client->more as $name => $check) {
            $this->check($name, $check);
        }
        say('all locks held');
    }

    private function acquire(): void
    {
        expect($this->holder->acquire(LONG_MS), 'a free lock is refused');
        expect($this->pttl($this->name) > 0, 'the lock has no TTL');
    }

    private function refuse(): void
    {
        expect($this->client->lock($this->name)->isRefused(), 'a second holder is let in');
    }

    private function extend(): void
    {
        expect($this->holder->extend(LONGER_MS), 'the holder may not extend');
        expect($this->pttl($this->name) > LONG_MS, 'the TTL has not grown');
    }

    /** The stranger held the lock once, lost it, and does not know. */
    private function stranger(): void
    {
        $name = $this->newName();
        $stranger = $this->client->lock($name);
        expect($stranger->acquire(LONG_MS), 'a free lock is refused');
        $this->redis->del($this->client->prefix . $name);
        $holder = $this->client->lock($name);
        expect($holder->acquire(LONG_MS), 'a lost lock is not free');
        if ($stranger instanceof Extendable) {
            expect(!$stranger->extend(LONGER_MS), 'a stranger may extend');
            expect($this->pttl($name) < LONGER_MS - 30_000, 'a stranger has extended');
        }
        expect(!$stranger->release(), 'a stranger may release');
        expect($this->client->lock($name)->isRefused(), 'a stranger has released');
        expect($holder->release(), 'the holder may not release');
    }

    private function release(): void
    {
        expect($this->holder->release(), 'the holder may not release');
        $next = $this->client->lock($this->name);
        expect($next->acquire(LONG_MS), 'a released lock is refused');
        expect($next->release(), 'the next holder may not release');
    }

    private function expire(): void
    {
        $name = $this->newName();
        $sleeper = $this->client->lock($name);
        expect($sleeper->acquire(SHORT_MS), 'a free lock is refused');
        (new Waiter($this->id, $name))->gets('the lock does not run out');
        expect(!$sleeper->release(), 'a lock that ran out was still there');
        expect($this->client->lock($name)->isRefused(), 'the next holder has lost the lock');
    }

    private function wait(): void
    {
        $name = $this->newName();
        $holder = $this->client->lock($name);
        expect($holder->acquire(LONG_MS), 'a free lock is refused');
        $waiter = new Waiter($this->id, $name);
        usleep(300_000);
        expect(!$waiter->hasSpoken(), 'the waiter is let in');
        expect($holder->release(), 'the holder may not release');
        $waiter->gets('the waiter never gets the lock');
    }

    /** Lets the harness break a server in the middle of the checks. */
    private function middle(): void
    {
        $file = getenv('REDLOCK_MIDDLE');
        if ($file === false) {
            return;
        }
        touch($file);
        for ($limit = microtime(true) + 30; !file_exists("$file.done"); usleep(10_000)) {
            expect(microtime(true) < $limit, "nobody made $file.done");
        }
    }

    private function check(string $name, ?Closure $check): void
    {
        try {
            $check === null or $check($this);
        } catch (Throwable $error) {
            throw new RuntimeException("{$this->client->name}: $name: " . causes($error), 0, $error);
        }
        say($name, $check === null ? 'none' : 'passed');
    }

    public function newName(): string
    {
        return 'lock ' . bin2hex(random_bytes(8));
    }

    /** Returns the remaining TTL according to Redis, independent of the library. */
    public function pttl(string $name): int
    {
        return $this->redis->pttl($this->client->prefix . $name);
    }
}

/** Returns the causes of an error: libraries wrap Redis's message in their own. */
function causes(Throwable $error): string
{
    $cause = $error->getPrevious();
    return $error->getMessage() . ($cause === null ? '' : ' ' . causes($cause));
}

/** A process that waits for a lock. */
final class Waiter
{
    /** @var resource */
    private $process;
    /** @var resource */
    private $output;

    public function __construct(string $id, string $name)
    {
        $command = [PHP_BINARY, __DIR__ . '/locks.php', 'wait', $id, $name];
        $this->process = proc_open($command, [1 => ['pipe', 'w']], $pipes);
        $this->output = $pipes[1];
        expect($this->hasSpoken(PATIENCE_S) && fgets($this->output) === "waiting\n", 'the waiter does not start');
    }

    public function gets(string $complaint): void
    {
        expect($this->hasSpoken(PATIENCE_S) && fgets($this->output) === "got it\n", $complaint);
    }

    public function hasSpoken(int $seconds = 0): bool
    {
        $read = [$this->output];
        $none = null;
        return stream_select($read, $none, $none, $seconds) > 0;
    }

    public function __destruct()
    {
        proc_terminate($this->process, SIGKILL);
    }
}
