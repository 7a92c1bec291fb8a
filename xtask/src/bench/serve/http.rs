//! Just enough of HTTP/1.1 to ask a server: one connection, whole requests out, whole responses in.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A response; its body stays in the connection's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// Where the body begins in the buffer.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Bytes of the JSON part, where tensors follow it.
    pub json_bytes: Option<usize>,
    /// Whether the server closes the connection.
    pub closes: bool,
}

/// Why there is no response.
#[derive(Debug)]
pub enum Broken {
    /// No connection: the server has not taken the request.
    Refused(io::Error),
    /// The connection broke after the request was sent, or the response is no HTTP.
    Lost(String),
}

/// A connection that is opened when it is needed, and again after it was closed.
pub struct Connection {
    address: String,
    stream: Option<TcpStream>,
    pub buffer: Vec<u8>,
    filled: usize,
}

/// A response must begin within this time.
const READ_LIMIT: Duration = Duration::from_secs(30);

impl Connection {
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), stream: None, buffer: vec![0; 16 << 10], filled: 0 }
    }

    /// Opens the connection if it is not open.
    pub fn open(&mut self) -> io::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(READ_LIMIT))?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// Sends a whole request and reads the whole response.
    pub fn ask(&mut self, request: &[u8]) -> Result<Reply, Broken> {
        self.open().map_err(Broken::Refused)?;
        let mut stream = self.stream.take().expect("it was just opened");
        self.filled = 0;
        let reply = self.exchange(&mut stream, request)?;
        if !reply.closes {
            self.stream = Some(stream);
        }
        Ok(reply)
    }

    fn exchange(&mut self, stream: &mut TcpStream, request: &[u8]) -> Result<Reply, Broken> {
        let lost = |error: io::Error| Broken::Lost(error.to_string());
        // A server that refuses early may close before it has read all: what it said is read all the same.
        let sent = stream.write_all(request);
        let start = loop {
            if let Some(end) = find(&self.buffer[..self.filled], b"\r\n\r\n") {
                break end + 4;
            }
            if self.more(stream).map_err(lost)? == 0 {
                let what = match sent {
                    Err(error) => error.to_string(),
                    Ok(()) => "the connection was closed without a response".to_owned(),
                };
                return Err(Broken::Lost(what));
            }
        };
        let head = Head::read(&self.buffer[..start])
            .ok_or_else(|| Broken::Lost("the response is no HTTP".to_owned()))?;
        let end = start + head.length;
        while self.filled < end {
            if self.more(stream).map_err(lost)? == 0 {
                return Err(Broken::Lost("the response broke off".to_owned()));
            }
        }
        let Head { status, json_bytes, closes, .. } = head;
        Ok(Reply { status, start, end, json_bytes, closes })
    }

    fn more(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let count = stream.read(&mut self.buffer[self.filled..])?;
        self.filled += count;
        Ok(count)
    }
}

struct Head {
    status: u16,
    length: usize,
    json_bytes: Option<usize>,
    closes: bool,
}

impl Head {
    fn read(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let mut found = Self { status, length: 0, json_bytes: None, closes: false };
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                found.length = value.parse().ok()?;
            } else if name.eq_ignore_ascii_case("inference-header-content-length") {
                found.json_bytes = value.parse().ok();
            } else if name.eq_ignore_ascii_case("connection") {
                found.closes = value.eq_ignore_ascii_case("close");
            }
        }
        Some(found)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// A whole request with a body.
pub fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A whole request without a body.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn whole_responses_are_read_and_closed_connections_opened_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let answers: [&[u8]; 3] = [
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nInference-Header-Content-Length: 2\r\n\
                  Connection: close\r\n\r\n{}abc",
                b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                b"",
            ];
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).unwrap() > 0);
                for half in answer.chunks(answer.len().div_ceil(2).max(1)) {
                    stream.write_all(half).unwrap();
                    stream.flush().unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let mut connection = Connection::new(&address);
        let reply = connection.ask(&post("/x", "", b"body")).unwrap();
        assert_eq!((reply.status, reply.json_bytes, reply.closes), (200, Some(2), true));
        assert_eq!(&connection.buffer[reply.start..reply.end], b"{}abc");
        assert_eq!(connection.ask(&get("/x")).unwrap().status, 429);
        assert!(matches!(connection.ask(&get("/x")), Err(Broken::Lost(_))));
        server.join().unwrap();
        assert!(matches!(connection.ask(&get("/x")), Err(Broken::Refused(_))));
    }
}
