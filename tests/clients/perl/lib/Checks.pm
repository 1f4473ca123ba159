# The common checks of a client's lock.
package Checks;
use v5.36;

use Clients qw(connection);
use POSIX ();
use Time::HiRes qw(sleep time);

use constant {
    PATIENCE_S => 20,
    LONG_MS    => 90_000,
    LONGER_MS  => 180_000,
    SHORT_MS   => 1_500,
};

sub new ($class, $client) {
    my $name = new_name();
    my $holder = $client->{lock}->($name);
    return bless { client => $client, name => $name, holder => $holder, redis => connection('Redis') }, $class;
}

# The lock that `acquire` takes is held until `release`, with the harness's turn in between.
sub run ($self) {
    $self->check(acquire => \&acquire);
    middle();
    $self->check($_->@*) for (
        [refuse   => \&refuse],
        [extend   => \&extend],
        [stranger => \&stranger],
        [release  => \&release],
        [expire   => \&expire],
        [wait     => \&wait_for_release],
    );
    $self->check(takeover => \&takeover) if $self->{client}{extends_blindly};
    say 'all locks held';
}

sub acquire ($self) {
    expect($self->{holder}->acquire(LONG_MS), 'a free lock is refused');
    expect($self->pttl($self->{name}) > 0, 'the lock has no TTL');
}

sub refuse ($self) {
    expect($self->refused($self->{name}), 'a second holder is let in');
}

sub extend ($self) {
    expect($self->{holder}->prolong(LONGER_MS), 'the holder may not extend');
    expect($self->pttl($self->{name}) > LONG_MS, 'the TTL has not grown');
}

# The stranger held the lock once, lost it, and does not know.
sub stranger ($self) {
    my $name = new_name();
    my ($stranger, $holder) = map { $self->{client}{lock}->($name) } 1 .. 2;
    expect($stranger->acquire(LONG_MS), 'a free lock is refused');
    $self->{redis}->del($name);
    expect($holder->acquire(LONG_MS), 'a lost lock is not free');
    unless ($self->{client}{extends_blindly}) {
        expect(!$stranger->prolong(LONGER_MS), 'a stranger may extend');
        expect($self->pttl($name) < LONGER_MS - 30_000, 'a stranger has extended');
    }
    expect(!$stranger->release, 'a stranger may release');
    expect($self->refused($name), 'a stranger has released');
    expect($holder->release, 'the holder may not release');
}

sub release ($self) {
    expect($self->{holder}->release, 'the holder may not release');
    my $next = $self->{client}{lock}->($self->{name});
    expect($next->acquire(LONG_MS), 'a released lock is refused');
    expect($next->release, 'the next holder may not release');
}

sub expire ($self) {
    my $name = new_name();
    my ($sleeper, $next) = map { $self->{client}{lock}->($name) } 1 .. 2;
    expect($sleeper->acquire(SHORT_MS), 'a free lock is refused');
    eventually(sub { $next->acquire(LONG_MS) }, PATIENCE_S, 'the lock does not run out');
    expect(!$sleeper->release, 'a lock that ran out was still there');
    expect($next->release, 'the next holder has lost the lock');
}

# All libraries for Perl wait by retrying. Here another process does.
sub wait_for_release ($self) {
    my $name   = new_name();
    my $holder = $self->{client}{lock}->($name);
    expect($holder->acquire(LONG_MS), 'a free lock is refused');
    my ($waiter, $output) = $self->waiter($name);
    expect((readline($output) // '') eq "refused\n", 'the waiter is let in');
    sleep 0.3;
    expect(waitpid($waiter, POSIX::WNOHANG) == 0, 'the waiter is let in before its time');
    expect($holder->release, 'the holder may not release');
    waitpid $waiter, 0;
    expect($? == 0, 'the waiter never gets the lock');
}

# An extension by somebody else takes the lock over, and an extension of a free lock takes it.
sub takeover ($self) {
    my $name = new_name();
    my ($holder, $other) = map { $self->{client}{lock}->($name) } 1 .. 2;
    expect($holder->prolong(LONG_MS), 'a free lock is refused');
    expect($other->prolong(LONGER_MS), 'an extension is refused');
    expect(!$holder->release, 'the first holder has released what it had lost');
    expect($other->release, 'the new holder may not release');
}

# Starts a process that reports when it has been refused, and succeeds when it gets the lock at
# last.
sub waiter ($self, $name) {
    pipe my $reader, my $writer or die "pipe: $!\n";
    my $process = fork // die "fork: $!\n";
    return $process, $reader if $process;
    eval {
        my $lock = $self->{client}{lock}->($name);
        syswrite $writer, "refused\n" unless $lock->acquire(LONG_MS);
        eventually(sub { $lock->acquire(LONG_MS) }, PATIENCE_S, 'too late');
    };
    POSIX::_exit($@ ? 1 : 0);
}

sub refused ($self, $name) {
    return !$self->{client}{lock}->($name)->acquire(LONG_MS);
}

# The remaining TTL according to Redis, independent of the library.
sub pttl ($self, $name) {
    return $self->{redis}->pttl($name);
}

# The first line of a library's error is enough.
sub check ($self, $name, $check) {
    eval { $check->($self); 1 } or die "$self->{client}{name}: $name: ", $@ =~ /(.*)/, "\n";
    say "$name\tpassed";
}

# Lets the harness break a server in the middle of the checks.
sub middle {
    my $file = $ENV{REDLOCK_MIDDLE} // return;
    open my $handle, '>', $file or die "$file: $!\n";
    close $handle;
    eventually(sub { -e "$file.done" }, 30, "nobody made $file.done");
}

sub eventually ($condition, $patience_s, $complaint) {
    my $limit = time + $patience_s;
    until ($condition->()) {
        expect(time < $limit, $complaint);
        sleep 0.01;
    }
}

sub expect ($condition, $complaint) {
    $condition or die "$complaint\n";
}

sub new_name {
    return 'lock ' . join '', map { int rand 10 } 1 .. 24;
}

1;
