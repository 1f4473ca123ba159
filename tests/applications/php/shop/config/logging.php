<?php

return [
    'default' => 'errors',
    'channels' => ['errors' => ['driver' => 'monolog', 'handler' => Monolog\Handler\StreamHandler::class, 'with' => ['stream' => 'php://stderr']]],
];
