//! `retry`: one POST to our own HTTP.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::args::RetryArgs;
use super::{Exit, complain, say};
use crate::config::{self, HostPort};
use crate::http::token::{Role, Tokens};

const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer that is read, bytes.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;

/// Asks the server to forget a group's refusal and back-off.
pub fn retry(args: &RetryArgs) -> Exit {
    let address = match address(&args.url) {
        Ok(address) => address,
        Err(problem) => {
            complain(&format!("--url {}: {problem}", args.url));
            return Exit::Wrong;
        }
    };
    let token = match token(args, &address) {
        Ok(token) => token,
        Err(problem) => {
            complain(&problem);
            return Exit::Wrong;
        }
    };
    let request = format!(
        "POST /api/v1/clusters/-/groups/{}/retry HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n",
        percent_encoded(&args.group)
    );
    let answer = match ask(&address, &request) {
        Ok(answer) => answer,
        Err(error) => {
            complain(&format!("{} can't be reached: {error}; is Streamside running there?", args.url));
            return Exit::Unreachable;
        }
    };
    let Some((status, body)) = parse(&answer) else {
        complain(&format!("{} did not answer in HTTP", args.url));
        return Exit::Unreachable;
    };
    let detail = serde_json::from_str::<serde_json::Value>(body).ok();
    let detail = detail.as_ref().and_then(|json| json.get("detail")?.as_str()).unwrap_or("no reason was given");
    match status {
        200 => {
            say(&crate::logging::escaped(detail));
            Exit::Good
        }
        401 | 403 => {
            complain(detail);
            Exit::Wrong
        }
        _ => {
            complain(&format!("refused ({status}): {detail}"));
            Exit::No
        }
    }
}

fn address(url: &str) -> Result<HostPort, String> {
    let rest = url.strip_prefix("http://").ok_or("must begin with http://; TLS is not in this build")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() {
        return Err("must end after the port".to_owned());
    }
    let has_port = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest).contains(':');
    let address = HostPort::parse(&if has_port { authority.to_owned() } else { format!("{authority}:80") })?;
    if address.host.is_empty() { Err("no host".to_owned()) } else { Ok(address) }
}

fn token(args: &RetryArgs, address: &HostPort) -> Result<String, String> {
    let path = match &args.token_file {
        Some(path) => path.clone(),
        None if address.is_loopback() => {
            config::load(&args.config.sources()).map_err(|error| error.to_string())?.settings.http.token_file
        }
        None => return Err("--token-file is needed for an address that is not loopback".to_owned()),
    };
    let help = "; name it with --token-file, or the server's configuration with --config";
    let tokens = Tokens::read(&path).map_err(|error| format!("{error}{help}"))?;
    let token = tokens.any(Role::Operator).map(str::to_owned);
    token.ok_or_else(|| format!("the token file {} holds no operator's token{help}", path.display()))
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b'.') && text.len() > 2 {
            out.push(char::from(byte));
        } else {
            // Dots too when they are all there is: `..` would be a step up.
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn ask(address: &HostPort, request: &str) -> io::Result<String> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, PATIENCE) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.write_all(request.as_bytes())?;
                let mut answer = Vec::new();
                stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
                return Ok(String::from_utf8_lossy(&answer).into_owned());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn parse(answer: &str) -> Option<(u16, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
    Some((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_of_our_own_http() {
        assert_eq!(address("http://127.0.0.1:13310").unwrap().to_string(), "127.0.0.1:13310");
        assert_eq!(address("http://[::1]:1/").unwrap().to_string(), "[::1]:1");
        assert_eq!(address("http://host").unwrap().port, 80);
        for wrong in ["https://a:1", "a:1", "http://", "http://a:1/api", "http://a:x"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn group_ids_are_encoded_whole() {
        assert_eq!(percent_encoded("a/b ü%"), "a%2Fb%20%C3%BC%25");
        assert_eq!(percent_encoded(".."), "%2E%2E");
        assert_eq!(percent_encoded("word-count.v2"), "word-count.v2");
    }

    #[test]
    fn answers_have_a_status_and_a_body() {
        assert_eq!(parse("HTTP/1.1 404 Not Found\r\na: b\r\n\r\n{}"), Some((404, "{}")));
        assert_eq!(parse("garbage"), None);
    }
}
