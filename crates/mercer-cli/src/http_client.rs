//! A small client of HTTP/1.1 for `predict --server`: one connection, requests one after another, with TLS where the address
//! asks for it. What is sent is decided by the caller.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Bytes of a head, and of a body, at most.
const HEAD: u64 = 64 << 10;
const BODY: u64 = 1 << 30;
/// How long a server may say nothing.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A connection to a server, opened when it is needed.
pub(crate) struct HttpClient {
    host: String,
    /// Host and port.
    address: String,
    /// What comes before every path.
    base: String,
    headers: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    connection: Option<BufReader<Box<dyn Stream>>>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header, whose name is in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl HttpClient {
    /// A client of this address; the token is sent with every request.
    pub(crate) fn new(
        url: &str,
        token: Option<&str>,
        authority: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let wrong = || format!("'{url}' is no address of a server; http://127.0.0.1:8000 is one");
        let (scheme, rest) = url.split_once("://").with_context(wrong)?;
        let (place, base) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let usual = match scheme {
            "http" => 80,
            "https" => 443,
            _ => anyhow::bail!(wrong()),
        };
        // An address of version 6 stands in brackets, and has colons of its own.
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { place.to_owned() } else { format!("{place}:{usual}") };
        let name = address.rsplit_once(':').map_or(place, |(name, _)| name);
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        anyhow::ensure!(!name.is_empty() && is_plain(rest), wrong());
        let tls = if scheme == "https" { Some(trusted(name, authority)?) } else { None };
        let headers =
            token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        anyhow::ensure!(
            token.is_none_or(is_plain),
            "the token holds characters that a header cannot"
        );
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { host: place.to_owned(), address, base, headers, tls, connection: None })
    }

    /// Sends a request and reads the response.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> anyhow::Result<Reply> {
        let was_open = self.connection.is_some();
        let reply = match self.exchange(method, path, headers, body) {
            // The server may have closed a connection that was idle; a query changes nothing there.
            Err(_) if was_open => self.exchange(method, path, headers, body),
            reply => reply,
        };
        reply.with_context(|| format!("the server at {}", self.address))
    }

    fn exchange(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> io::Result<Reply> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => BufReader::new(self.connect()?),
        };
        let (host, base, own, length) = (&self.host, &self.base, &self.headers, body.len());
        let head = format!(
            "{method} {base}{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{own}{headers}\r\n"
        );
        let stream = connection.get_mut();
        stream.write_all(head.as_bytes())?;
        // A server that refuses early may not read the rest: its answer says why.
        let sent = stream.write_all(body).and_then(|()| stream.flush());
        let reply = read_reply(&mut connection).map_err(|error| sent.err().unwrap_or(error))?;
        let is_kept =
            reply.header("connection").is_none_or(|value| !value.eq_ignore_ascii_case("close"));
        if is_kept {
            self.connection = Some(connection);
        }
        Ok(reply)
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LONGEST_WAIT))?;
        stream.set_write_timeout(Some(LONGEST_WAIT))?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((config, name)) => {
                let session = ClientConnection::new(Arc::clone(config), name.clone());
                Ok(Box::new(StreamOwned::new(session.map_err(io::Error::other)?, stream)))
            }
        }
    }
}

/// Whom to believe, and the name that the certificate must have.
fn trusted(
    name: &str,
    authority: Option<&Path>,
) -> anyhow::Result<(Arc<ClientConfig>, ServerName<'static>)> {
    let path = authority
        .context("https needs --server-ca, the authorities of the server's certificate")?;
    let named = || path.display().to_string();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).with_context(named)? {
        roots.add(certificate.with_context(named)?).with_context(named)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = name.trim_start_matches('[').trim_end_matches(']');
    Ok((Arc::new(config), ServerName::try_from(name.to_owned())?))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("its answer is not HTTP: {what}"))
}

fn line(source: &mut impl BufRead, left: &mut u64) -> io::Result<String> {
    let mut text = Vec::new();
    let read = source.by_ref().take(*left).read_until(b'\n', &mut text)?;
    *left -= read as u64;
    if text.pop() != Some(b'\n') {
        let what = "it ended within a line";
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("its answer broke off: {what}"),
        ));
    }
    if text.last() == Some(&b'\r') {
        text.pop();
    }
    String::from_utf8(text).map_err(|_| wrong("a line is not text"))
}

fn read_reply(source: &mut impl BufRead) -> io::Result<Reply> {
    let mut left = HEAD;
    let first = line(source, &mut left)?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    let status: u16 = status.ok_or_else(|| wrong("there is no status"))?;
    let mut headers = Vec::new();
    loop {
        let text = line(source, &mut left)?;
        if text.is_empty() {
            break;
        }
        let (name, value) = text.split_once(':').ok_or_else(|| wrong("a header has no colon"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut reply = Reply { status, headers, body: Vec::new() };
    if status == 100 {
        return read_reply(source);
    }
    let is_chunked = reply
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let length = reply.header("content-length").map(str::parse::<u64>);
    match length {
        _ if is_chunked => read_chunks(source, &mut reply.body)?,
        Some(Ok(length)) if length <= BODY => {
            source.take(length).read_to_end(&mut reply.body)?;
            if reply.body.len() as u64 != length {
                return Err(wrong("its body is shorter than it says"));
            }
        }
        Some(_) => return Err(wrong("the length of its body")),
        None => {
            source.take(BODY).read_to_end(&mut reply.body)?;
        }
    }
    Ok(reply)
}

fn read_chunks(source: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut left = HEAD;
        let size = line(source, &mut left)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| wrong("the size of a chunk"))?;
        if body.len() as u64 + size > BODY {
            return Err(wrong("its body is too long"));
        }
        let before = body.len();
        source.by_ref().take(size).read_to_end(body)?;
        let end = line(source, &mut left)?;
        if (body.len() - before) as u64 != size || !end.is_empty() {
            return Err(wrong("a chunk does not end where it should"));
        }
        if size == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_read_with_a_length_in_chunks_or_to_their_end() {
        let read = |text: &str| read_reply(&mut BufReader::new(text.as_bytes()));
        let reply = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok more").unwrap();
        assert_eq!(
            (reply.status, &reply.body[..], reply.header("x-a")),
            (200, &b"ok"[..], Some("b"))
        );
        let chunks = "HTTP/1.1 429 Slow\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        assert_eq!(read(chunks).unwrap().body, b"abcde");
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nrest").unwrap().body, b"rest");
        for broken in [
            "",
            "HTTP/1.1 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        ] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn addresses_are_checked() {
        let address = |url: &str| HttpClient::new(url, None, None).map(|client| client.address);
        assert_eq!(address("http://localhost:8000/base/").unwrap(), "localhost:8000");
        assert_eq!(address("http://[::1]").unwrap(), "[::1]:80");
        for wrong in ["localhost:8000", "ftp://a", "http://", "http://a b", "https://a"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert!(HttpClient::new("http://a", Some("x\r\ny"), None).is_err());
    }
}
