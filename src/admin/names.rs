//! The names by which operators may address this port, and protection against pages of other sites.
//!
//! A browser sends any request that a page asks for. A stranger's page may use a name that leads to this host (DNS
//! rebinding), and could then read all answers. The browser puts that name into `Host`, and the page's origin into
//! `Origin` and `Sec-Fetch-Site`.

use std::net::IpAddr;

use hyper::Request;
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;

use crate::config::Settings;
use crate::net::admin_socket::path_of;

/// The name that every host has for itself.
const LOCALHOST: &str = "localhost";

/// Origin of a page, as a browser sees it (<https://www.w3.org/TR/fetch-metadata/>).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Names of this port, in lower case. A name that begins with a dot stands for all names that end with it.
#[derive(Debug)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// Returns the host in `admin`, and the names in `admin-host`.
    pub(crate) fn of(settings: &Settings) -> Self {
        let ports = settings.admin.iter().filter(|admin| path_of(admin).is_none());
        let own = ports.filter_map(|admin| admin.rsplit_once(':'));
        let names = own.map(|(host, _)| host).chain(settings.admin_host.iter().map(String::as_str));
        Self(names.map(str::to_ascii_lowercase).collect())
    }

    /// Whether `request` addresses this port by an IP address, or by one of these names. A browser always sends a name.
    pub(crate) fn know<B>(&self, request: &Request<B>) -> bool {
        let hosts = request.headers().get_all(HOST).iter();
        let hosts = hosts.map(|host| Authority::try_from(host.as_bytes()).ok());
        let mut all = hosts.chain(request.uri().authority().cloned().map(Some));
        all.all(|host| host.is_some_and(|host| self.has(host.host())))
    }

    fn has(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_named = |name: &String| match name.starts_with('.') {
            true => host.ends_with(name),
            false => host == *name,
        };
        literal.unwrap_or(&host).parse::<IpAddr>().is_ok()
            || host == LOCALHOST
            || self.0.iter().any(is_named)
    }
}

/// Whether a page of another site made a browser send this request.
pub(super) fn is_from_another_site(headers: &HeaderMap) -> bool {
    let word = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let own = |origin: &str| {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some() && host == word(HOST)
    };
    word(SEC_FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"))
        || word(ORIGIN).is_some_and(|origin| !own(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&str, &str)]) -> Request<()> {
        let builder = Request::builder().uri("/metrics");
        let add = |builder: hyper::http::request::Builder, (name, value): &(&str, &str)| {
            builder.header(*name, *value)
        };
        fields.iter().fold(builder, add).body(()).expect("a request")
    }

    #[test]
    fn a_name_of_a_stranger_is_none_of_ours() {
        let names = Names(vec!["proxy.example".to_owned(), ".proxies.svc".to_owned()]);
        let knows = |host: &str| names.know(&request(&[("host", host)]));
        for known in [
            "127.0.0.1",
            "10.1.2.3:9379",
            "[::1]:9379",
            "localhost:1",
            "LOCALHOST",
            "localhost.",
            "Proxy.Example:80",
            "one.proxies.svc",
        ] {
            assert!(knows(known), "{known}");
        }
        for unknown in [
            "evil.example",
            "evil.example:9379",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "xproxy.example",
            "proxies.svc",
            "xproxies.svc",
            "",
            "a b",
            "127.0.0.1@evil.example",
        ] {
            assert!(!knows(unknown), "{unknown}");
        }
    }

    #[test]
    fn every_name_that_is_said_has_to_be_known() {
        let names = Names(Vec::new());
        assert!(names.know(&request(&[])), "HTTP/1.0, as HAProxy probes");
        assert!(!names.know(&request(&[("host", "127.0.0.1"), ("host", "evil.example")])));
        let absolute = Request::builder().uri("http://evil.example/").header("host", "127.0.0.1");
        assert!(!names.know(&absolute.body(()).expect("a request")));
    }

    #[test]
    fn only_a_page_of_this_port_is_no_stranger() {
        let host = ("host", "127.0.0.1:9379");
        let strange = |fields: &[_]| is_from_another_site(request(fields).headers());
        assert!(!strange(&[host]), "curl");
        assert!(!strange(&[host, ("origin", "http://127.0.0.1:9379")]));
        assert!(!strange(&[host, ("sec-fetch-site", "same-origin")]));
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "http://127.0.0.1:80"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(strange(&[host, (name, value)]), "{name}: {value}");
        }
    }
}
