# Locks of Perl's clients, exactly as applications take them, against the server at REDLOCK_ADDRESS.
use v5.36;

use Checks;
use Clients qw(client clients);

use constant HOLD_MS => 120_000;

my %actions = (
    list  => sub { say join "\t", @{$_}{qw(id name version keys)} for clients() },
    check => sub ($id) { Checks->new(client($id))->run },
    hold  => \&hold,
    try   => \&try,
);

sub hold ($id, @keys) {
    for my $key (@keys) {
        client($id)->{lock}->($key)->acquire(HOLD_MS) or die "$key is not free\n";
        say "held\t$key";
    }
}

sub try ($id, @keys) {
    for my $key (@keys) {
        say client($id)->{lock}->($key)->acquire(HOLD_MS) ? 'taken' : 'refused', "\t$key";
    }
}

$| = 1;
my ($action, @arguments) = @ARGV;
$actions{$action // ''} or die "no such action\n";
$actions{$action}->(@arguments);
