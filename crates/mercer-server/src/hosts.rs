//! Which hosts and origins a request may name. A page of another site must not reach a server through the browser of someone who
//! can: neither by its own name (`Origin`), nor by a name of its own that it has pointed to this address (DNS rebinding).

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

use crate::access::Access;
use crate::failure::{Failure, Kind};

/// The names by which a server may be asked.
#[derive(Debug, Default)]
pub struct Hosts {
    names: Vec<String>,
    /// Whether only this machine reaches the server: every request must then name a host that is known.
    is_local: bool,
}

impl Hosts {
    /// The names that were configured, beside addresses and `localhost`.
    pub fn new(names: &[String], listen: SocketAddr) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { names, is_local: listen.ip().is_loopback() }
    }

    /// Whether a request for this address with these headers is allowed.
    ///
    /// # Errors
    /// If its origin is another site, or its host is not known where it must be: for the page, from a browser (which is what states
    /// an origin), and wherever the server listens on loopback only.
    pub fn admit(&self, access: Access, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
        if access == Access::Open {
            return Ok(());
        }
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        // HTTP/2 has the host in the address.
        let host = uri.authority().map(Authority::as_str).or_else(|| text(header::HOST));
        let host = host.unwrap_or("");
        let forbidden = |what: String| Err(Failure::new(Kind::Forbidden, what));
        let has_origin = headers.contains_key(header::ORIGIN);
        if has_origin {
            let origin = text(header::ORIGIN).unwrap_or("");
            let site = origin.split_once("://").map_or("", |(_, site)| site);
            if site.is_empty() || !site.eq_ignore_ascii_case(host) {
                return forbidden(format!(
                    "the origin '{}' is another site than this server",
                    origin.escape_default()
                ));
            }
        }
        let must_be_known = access == Access::Page || has_origin || self.is_local;
        // What sends no host is no browser.
        let is_absent = host.is_empty() && access != Access::Page;
        if must_be_known && !is_absent && !self.knows(host) {
            let name = name_of(host).escape_default();
            return forbidden(format!("the host '{name}' is not known here; `--host` adds one"));
        }
        Ok(())
    }

    /// No site can point an address, or `localhost`, elsewhere.
    fn knows(&self, host: &str) -> bool {
        let name = name_of(host).to_ascii_lowercase();
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&name);
        bare.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.names.contains(&name)
    }
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(hosts: &Hosts, access: Access, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if !host.is_empty() {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        hosts.admit(access, &Uri::from_static("/"), &headers).is_ok()
    }

    #[test]
    fn a_local_server_is_asked_by_known_names_only() {
        let local = Hosts::new(&["Models.Example".to_owned()], "127.0.0.1:8000".parse().unwrap());
        for access in [Access::Page, Access::Query, Access::Change] {
            for host in
                ["localhost:8000", "LOCALHOST", "127.0.0.1:8000", "[::1]:8000", "models.example"]
            {
                assert!(admits(&local, access, host, None), "{host}");
            }
            for host in ["evil.example", "evil.example:8000", "localhost.evil.example", "x"] {
                assert!(!admits(&local, access, host, None), "{host}");
            }
        }
        assert!(admits(&local, Access::Open, "evil.example", None));
        assert!(admits(&local, Access::Query, "", None));
        assert!(!admits(&local, Access::Page, "", None));
    }

    #[test]
    fn elsewhere_programs_may_use_any_name_and_browsers_may_not() {
        let open = Hosts::new(&[], "0.0.0.0:8000".parse().unwrap());
        assert!(admits(&open, Access::Query, "models.svc.cluster.local", None));
        assert!(!admits(&open, Access::Page, "models.svc.cluster.local", None));
        // A name that points here now: host and origin agree.
        let origin = Some("http://evil.example:8000");
        assert!(!admits(&open, Access::Query, "evil.example:8000", origin));
    }

    #[test]
    fn origins_of_other_sites_are_refused() {
        let local = Hosts::new(&[], "127.0.0.1:8000".parse().unwrap());
        let host = "127.0.0.1:8000";
        for origin in ["http://127.0.0.1:8000", "https://127.0.0.1:8000"] {
            assert!(admits(&local, Access::Query, host, Some(origin)), "{origin}");
        }
        for origin in ["http://evil.example", "http://127.0.0.1:9000", "null", "://", ""] {
            assert!(!admits(&local, Access::Query, host, Some(origin)), "{origin}");
        }
    }
}
