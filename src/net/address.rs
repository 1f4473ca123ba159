//! Addresses of clients and operators, as the proxy compares them.

use std::net::{IpAddr, Ipv6Addr};

/// Whether `address` is one of this host's loopback addresses. A dual-stack socket shows those of IPv4 as
/// `::ffff:127.0.0.1`.
pub(crate) fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Returns the addresses that a single host may own: an IPv4 address, or the /64 around an IPv6 address (RFC 4291,
/// 2.5.1). Counts by client address use this.
pub(crate) fn home(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_loopback_address_of_ipv4_within_ipv6_is_local() {
        for near in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(is_local(ip(near)), "{near}");
        }
        for far in ["10.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2001:db8::1"] {
            assert!(!is_local(ip(far)), "{far}");
        }
    }

    #[test]
    fn a_host_is_one_however_many_addresses_it_takes() {
        assert_eq!(home(ip("2001:db8::1")), home(ip("2001:db8::ffff:1")));
        assert_ne!(home(ip("2001:db8::1")), home(ip("2001:db8:0:1::1")));
        assert_eq!(home(ip("::ffff:10.0.0.1")), home(ip("10.0.0.1")));
        assert_ne!(home(ip("10.0.0.2")), home(ip("10.0.0.1")));
    }
}
