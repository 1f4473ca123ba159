package Script;
use v5.36;

use Exporter qw(import);
use File::Basename qw(dirname);

our @EXPORT_OK = qw(script);

sub script ($name) {
    open my $file, '<:raw', dirname(__FILE__) . "/../scripts/$name.lua" or die "$name: $!\n";
    local $/;
    return scalar <$file>;
}

1;
