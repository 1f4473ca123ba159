<?php
/** The application, as in Laravel's skeleton. */

declare(strict_types=1);

require_once 'Illuminate/autoload.php';
require_once __DIR__ . '/../app/jobs.php';
require_once __DIR__ . '/../app/kernels.php';

$shop = new Illuminate\Foundation\Application(dirname(__DIR__));
$shop->singleton(Illuminate\Contracts\Http\Kernel::class, Shop\HttpKernel::class);
$shop->singleton(Illuminate\Contracts\Console\Kernel::class, Shop\ConsoleKernel::class);
$shop->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $shop;
