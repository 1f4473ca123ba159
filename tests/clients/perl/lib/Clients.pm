# The list of clients. Each has an id, a display name, a version, the Redis type of its keys, and a
# sub that makes a holder of a key's lock: an object with `acquire(ttl_ms)`, `prolong(ttl_ms)` and
# `release`, which return whether they succeeded.
package Clients;
use v5.36;

use Exporter qw(import);
use Client::DistLock;
use Client::Plain;
use Redis;
use Redis::Fast;

our @EXPORT_OK = qw(client clients connection);

sub clients {
    return (
        plain('redis-pm',   'Redis'),
        plain('redis-fast', 'Redis::Fast'),
        distlock('distlock',      'Redis'),
        distlock('distlock-fast', 'Redis::Fast'),
    );
}

sub client ($id) {
    my ($client) = grep { $_->{id} eq $id } clients();
    return $client // die "no such client: $id\n";
}

sub connection ($class) {
    return $class->new(server => $ENV{REDLOCK_ADDRESS}, encoding => undef);
}

sub plain ($id, $class) {
    return {
        id      => $id,
        name    => $class,
        version => $class->VERSION,
        keys    => 'string',
        lock    => sub ($key) { Client::Plain->new(connection($class), $key) },
    };
}

sub distlock ($id, $class) {
    return {
        id      => $id,
        name    => "Redis::DistLock (its scripts on $class)",
        version => '0.07',
        keys    => 'string',
        lock    => sub ($key) { Client::DistLock->new(connection($class), $key) },
        # An extension does not check the lock's owner, and takes a free lock.
        extends_blindly => 1,
    };
}

1;
