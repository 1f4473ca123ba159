<?php
/** The shop's handlers for a browser, and its schedule for every minute. */

declare(strict_types=1);

namespace Shop;

use Illuminate\Console\Scheduling\Schedule;
use Illuminate\Foundation\Console\Kernel as Console;
use Illuminate\Foundation\Http\Kernel as Http;
use Illuminate\Session\Middleware\StartSession;
use Illuminate\Support\Facades\Redis;

final class HttpKernel extends Http
{
    protected $middlewareGroups = ['web' => [StartSession::class]];
}

final class ConsoleKernel extends Console
{
    protected function schedule(Schedule $schedule): void
    {
        $schedule->call(fn () => Redis::incr('reports'))->name('report')->everyMinute()->onOneServer();
    }
}
