# The lock of the Redis documentation: `SET NX PX`, and a script to release it.
package Client::Plain;
use v5.36;

use Script qw(script);

sub new ($class, $redis, $key) {
    return bless { redis => $redis, key => $key, token => join '', map { int rand 10 } 1 .. 24 }, $class;
}

sub acquire ($self, $ttl_ms) {
    return defined $self->{redis}->set($self->{key}, $self->{token}, 'NX', 'PX', $ttl_ms);
}

sub prolong ($self, $ttl_ms) {
    return $self->{redis}->eval(script('plain-extend'), 1, $self->{key}, $self->{token}, $ttl_ms) == 1;
}

sub release ($self) {
    return $self->{redis}->eval(script('plain-release'), 1, $self->{key}, $self->{token}) == 1;
}

1;
