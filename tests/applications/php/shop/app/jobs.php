<?php
/** The jobs of the shop. */

declare(strict_types=1);

namespace Shop;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldBeUnique;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Queue\Middleware\WithoutOverlapping;
use Illuminate\Support\Facades\Redis;

abstract class Job implements ShouldQueue
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;
}

final class CountVisit extends Job
{
    public function handle(): void
    {
        Redis::incr('visits');
    }
}

final class SendMail extends Job
{
    public function __construct(public readonly string $customer)
    {
    }

    public function handle(): void
    {
        Redis::rpush('mails', $this->customer);
    }
}

final class SucceedAtLast extends Job
{
    public int $tries = 5;

    public function handle(): void
    {
        $tries = Redis::incr('tries');
        $tries >= 3 or throw new \RuntimeException("try $tries fails");
    }
}

final class Hopeless extends Job
{
    public int $tries = 1;

    public function handle(): void
    {
        throw new \RuntimeException('no such customer');
    }

    public function failed(): void
    {
        Redis::incr('hopeless');
    }
}

/** While one is queued, no other is queued for the same customer. */
final class SendInvoice extends Job implements ShouldBeUnique
{
    public int $uniqueFor = 600;

    public function __construct(public readonly string $customer)
    {
    }

    public function uniqueId(): string
    {
        return $this->customer;
    }

    public function handle(): void
    {
        Redis::rpush('invoices', $this->customer);
    }
}

/** Two running at the same time would see each other. */
final class CountStock extends Job
{
    public int $tries = 0;

    public function middleware(): array
    {
        return [(new WithoutOverlapping('stock'))->releaseAfter(0)->expireAfter(60)];
    }

    public function handle(): void
    {
        Redis::incr('stock:counting') === 1 or Redis::incr('stock:overlaps');
        usleep(20_000);
        Redis::decr('stock:counting');
        Redis::incr('stock:counted');
    }
}
