# Redis::DistLock 0.07: the commands that it sends. It asks for the version of Redis, and requires
# both scripts to be loaded under the SHA1s that it has computed: it never sends them again.
package Client::DistLock;
use v5.36;

use Digest::SHA qw(sha1_hex);
use MIME::Base64 qw(encode_base64);
use Script qw(script);

use constant {
    RELEASE => script('distlock-release'),
    EXTEND  => script('distlock-extend'),
};

sub new ($class, $redis, $resource) {
    my $version = $redis->info->{redis_version} // '';
    $version =~ /\A(\d+)\.(\d+)\.(\d+)\z/a && ($1 > 2 || $2 > 6 || $3 >= 12) or die "this is no Redis: version '$version'\n";
    for my $script (RELEASE, EXTEND) {
        $redis->script_load($script) eq sha1_hex($script) or die "loaded under another SHA1\n";
    }
    my $value = encode_base64(join('', map { chr int rand 256 } 1 .. 24), '');
    return bless { redis => $redis, resource => $resource, value => $value }, $class;
}

sub acquire ($self, $ttl_ms) {
    return defined $self->{redis}->set($self->{resource}, $self->{value}, 'NX', 'PX', $ttl_ms);
}

sub prolong ($self, $ttl_ms) {
    return ($self->send(EXTEND, $ttl_ms) // '') eq 'OK';
}

sub release ($self) {
    return $self->send(RELEASE) == 1;
}

sub send ($self, $script, @arguments) {
    return $self->{redis}->evalsha(sha1_hex($script), 1, @{$self}{qw(resource value)}, @arguments);
}

1;
