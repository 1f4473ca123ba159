<?php

[$host, $port] = explode(':', getenv('REDLOCK_ADDRESS'));

return [
    'default' => null,
    'connections' => [],
    'redis' => [
        'client' => getenv('REDIS_CLIENT'),
        'options' => ['prefix' => 'shop:'],
        // Longer than a worker waits for a job.
        'default' => ['host' => $host, 'port' => (int) $port, 'database' => 0, 'read_write_timeout' => 60],
    ],
];
