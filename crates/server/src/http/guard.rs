//! Who may ask: the request's Host and Origin must be ours, changes need a token, and beyond loopback reading does too.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

use super::problem::Problem;
use super::token::{Role, Tokens};

/// What a route is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Health and metrics: no token.
    Health,
    /// Everything else.
    Api,
}

/// The rules of one listener.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Names under which we are known besides `localhost` and addresses.
    pub names: Vec<String>,
    /// Whether only this machine can reach us.
    pub loopback: bool,
    /// The tokens.
    pub tokens: Tokens,
}

impl Guard {
    /// Checks one request. A page elsewhere that was made to point at us (DNS rebinding) carries its own name as Host.
    pub fn check(&self, purpose: Purpose, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        // Probes and scrapers come by any name; beyond loopback those routes are open anyway.
        if purpose == Purpose::Health && !self.loopback {
            return Ok(());
        }
        let host = host(uri, headers)?;
        match host {
            Some(host) if !self.is_ours(host) => {
                let detail = "The Host of this request is not a name of this server; use its address or localhost.";
                return Err(Problem::new(StatusCode::FORBIDDEN, detail));
            }
            None if purpose == Purpose::Api => {
                return Err(Problem::new(StatusCode::BAD_REQUEST, "The request has no Host header."));
            }
            _ => {}
        }
        for origin in headers.get_all(header::ORIGIN) {
            let authority = origin.to_str().ok().and_then(|o| o.split_once("://")).map(|(_, authority)| authority);
            if authority.is_none() || authority != host {
                let detail = "The Origin of this request is another site; requests from there are not served.";
                return Err(Problem::new(StatusCode::FORBIDDEN, detail));
            }
        }
        if purpose == Purpose::Health {
            return Ok(());
        }
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        match (reads, self.loopback) {
            (true, true) => Ok(()),
            (true, false) => self.token(headers, Role::Viewer),
            (false, _) => self.token(headers, Role::Operator),
        }
    }

    fn token(&self, headers: &HeaderMap, least: Role) -> Result<(), Problem> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token =
            given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, token)) = token else {
            let detail =
                "This needs a token: send the header `Authorization: Bearer TOKEN` with one from the token file.";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, detail));
        };
        match self.tokens.role(token.trim()) {
            None => Err(Problem::new(StatusCode::UNAUTHORIZED, "The token is not one of the token file's.")),
            Some(role) if role < least => {
                Err(Problem::new(StatusCode::FORBIDDEN, "A viewer's token can't change anything; an operator's can."))
            }
            Some(_) => Ok(()),
        }
    }

    fn is_ours(&self, authority: &str) -> bool {
        let Some(name) = host_part(authority) else { return false };
        // An address can't be rebound.
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|ours| ours.eq_ignore_ascii_case(name))
    }
}

/// The request's host with its port: that of an absolute request line, else of the one Host header.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Option<&'a str>, Problem> {
    if let Some(authority) = uri.authority() {
        return Ok(Some(authority.as_str()));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(first) = hosts.next() else { return Ok(None) };
    let wrong = || Problem::new(StatusCode::BAD_REQUEST, "The Host header is not a host and a port.");
    if hosts.next().is_some() {
        return Err(wrong());
    }
    first.to_str().map(Some).map_err(|_| wrong())
}

/// The host without its port and brackets.
fn host_part(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    port.is_none_or(|port| port.parse::<u16>().is_ok()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    fn status(guard: &Guard, purpose: Purpose, method: Method, pairs: &[(header::HeaderName, &str)]) -> u16 {
        let checked = guard.check(purpose, &method, &Uri::from_static("/x"), &headers(pairs));
        checked.map_or_else(|problem| problem.status.as_u16(), |()| 200)
    }

    fn guard(loopback: bool) -> Guard {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, "viewer aaaaaaaaaaaaaaaa\noperator bbbbbbbbbbbbbbbb\n").unwrap();
        Guard { names: vec!["Sidecar.example".to_owned()], loopback, tokens: Tokens::read(&path).unwrap() }
    }

    #[test]
    fn a_host_that_is_not_ours_is_refused() {
        let guard = guard(true);
        for (host, expected) in [
            ("127.0.0.1:13310", 200),
            ("localhost", 200),
            ("LOCALHOST:1", 200),
            ("[::1]:13310", 200),
            ("sidecar.example:80", 200),
            ("evil.example", 403),
            ("localhost.evil.example", 403),
            ("127.0.0.1.evil:1", 403),
            ("localhost:x", 403),
            ("[::1]x", 403),
        ] {
            assert_eq!(status(&guard, Purpose::Api, Method::GET, &[(header::HOST, host)]), expected, "{host}");
            assert_eq!(status(&guard, Purpose::Health, Method::GET, &[(header::HOST, host)]), expected, "{host}");
        }
        assert_eq!(status(&guard, Purpose::Api, Method::GET, &[]), 400);
        assert_eq!(status(&guard, Purpose::Health, Method::GET, &[]), 200);
    }

    #[test]
    fn an_origin_must_be_the_host_that_was_asked() {
        let guard = guard(true);
        for (origin, expected) in
            [("http://localhost:1", 200), ("http://localhost:2", 403), ("http://evil", 403), ("null", 403)]
        {
            let pairs = [(header::HOST, "localhost:1"), (header::ORIGIN, origin)];
            assert_eq!(status(&guard, Purpose::Api, Method::GET, &pairs), expected, "{origin}");
        }
    }

    #[test]
    fn changes_need_an_operator_even_on_loopback() {
        for guard in [guard(true), guard(false)] {
            for (token, expected) in [
                (None, 401),
                (Some("Bearer nope"), 401),
                (Some("Basic bbbbbbbbbbbbbbbb"), 401),
                (Some("Bearer aaaaaaaaaaaaaaaa"), 403),
                (Some("bearer bbbbbbbbbbbbbbbb"), 200),
            ] {
                let mut pairs = vec![(header::HOST, "127.0.0.1")];
                pairs.extend(token.map(|token| (header::AUTHORIZATION, token)));
                assert_eq!(status(&guard, Purpose::Api, Method::POST, &pairs), expected, "{token:?}");
            }
        }
    }

    #[test]
    fn beyond_loopback_reading_needs_a_token_and_health_does_not() {
        let guard = guard(false);
        let host = (header::HOST, "127.0.0.1");
        assert_eq!(status(&guard, Purpose::Api, Method::GET, std::slice::from_ref(&host)), 401);
        let token = (header::AUTHORIZATION, "Bearer aaaaaaaaaaaaaaaa");
        assert_eq!(status(&guard, Purpose::Api, Method::GET, &[host, token]), 200);
        assert_eq!(status(&guard, Purpose::Health, Method::GET, &[(header::HOST, "pod.example")]), 200);
    }
}
