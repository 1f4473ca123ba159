<?php
/** Runs the checks of one application from `applications.tsv`. Called by `run`, in a copy of this directory. */

declare(strict_types=1);

try {
    require __DIR__ . '/helpers.php';
    require __DIR__ . '/laravel.php';
    run();
} catch (Throwable $error) {
    fwrite(STDERR, "$error\n{$argv[1]}: " . preg_replace('/\s+/', ' ', $error->getMessage()) . "\n");
    exit(1);
}
