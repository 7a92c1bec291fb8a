//! Servers as processes: started, looked at, stopped.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::http::{Broken, Connection, get};
use super::models::ServePaths;

/// A server that ends with this value.
pub struct Server {
    child: Child,
    pub address: String,
    /// From its start until it said that it listens.
    pub started: Duration,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    /// `mercer serve` with these models and further arguments.
    pub fn mercer(paths: &ServePaths, models: &[&Path], arguments: &[&str]) -> Result<Self> {
        let mut command = paths.mercer("serve");
        command.args(models).args(["--listen", "127.0.0.1:0", "--json"]).args(arguments);
        let start = Instant::now();
        let mut child = command.stderr(Stdio::piped()).spawn().context("mercer does not start")?;
        let said = BufReader::new(child.stderr.take().context("its standard error is missing")?);
        let address = |line: &str| {
            let event: Value = serde_json::from_str(line).ok()?;
            let is_ready = event["event"] == "listening";
            event["address"].as_str().filter(|_| is_ready).map(str::to_owned)
        };
        Self::listening(child, said, start, address)
    }

    /// The server of `crates/mercer-server/examples/empty_handler.rs`, with bodies of so many bytes.
    pub fn empty(paths: &ServePaths, bytes: usize) -> Result<Self> {
        let program = format!("release/examples/empty_handler{}", std::env::consts::EXE_SUFFIX);
        let mut command = paths.workspace.command(paths.workspace.target.join(program));
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        command.arg(bytes.to_string()).arg(threads.clamp(1, 4).to_string());
        let start = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().context("it does not start")?;
        let said = BufReader::new(child.stdout.take().context("its output is missing")?);
        Self::listening(child, said, start, |line| Some(line.trim().to_owned()))
    }

    /// Waits for the line with the address; what comes after it is read and dropped.
    fn listening(
        child: Child,
        mut said: BufReader<impl Read + Send + 'static>,
        start: Instant,
        address: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut line = String::new();
        let mut server = Self { child, address: String::new(), started: Duration::ZERO };
        while said.read_line(&mut line)? > 0 {
            if let Some(address) = address(&line) {
                server.started = start.elapsed();
                server.address = address;
                std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
                return Ok(server);
            }
            line.clear();
        }
        bail!("the server ended before it listened")
    }

    /// A server of another program that answers `path` at a known port with 200 when it is ready.
    pub fn other(command: &mut Command, port: u16, path: &str, log: &Path) -> Result<Self> {
        let file = fs::File::create(log)?;
        let child = command.stdout(file.try_clone()?).stderr(file).spawn();
        let address = format!("127.0.0.1:{port}");
        let child = child.context("it does not start")?;
        let mut server = Self { child, address, started: Duration::ZERO };
        let start = Instant::now();
        while start.elapsed().as_secs() < 60 {
            let mut connection = Connection::new(&server.address);
            if connection.ask(&get(path)).is_ok_and(|reply| reply.status == 200) {
                server.started = start.elapsed();
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("it ended: {status}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        bail!("it is not ready after a minute")
    }

    /// The JSON at an address.
    pub fn json(&self, path: &str) -> Result<Value> {
        let mut connection = Connection::new(&self.address);
        match connection.ask(&get(path)) {
            Ok(reply) => serde_json::from_slice(&connection.buffer[reply.start..reply.end])
                .with_context(|| format!("{path} is no JSON")),
            Err(Broken::Refused(error)) => bail!("{path}: {error}"),
            Err(Broken::Lost(what)) => bail!("{path}: {what}"),
        }
    }

    /// Bytes of a response to this request.
    pub fn body_bytes(&self, request: &[u8]) -> Result<usize> {
        let mut connection = Connection::new(&self.address);
        match connection.ask(request) {
            Ok(reply) if reply.status == 200 => Ok(reply.end - reply.start),
            Ok(reply) => {
                let said = &connection.buffer[reply.start..reply.end];
                bail!("status {}: {}", reply.status, String::from_utf8_lossy(said))
            }
            Err(Broken::Refused(error)) => bail!("no connection: {error}"),
            Err(Broken::Lost(what)) => bail!("no response: {what}"),
        }
    }

    /// Memory in use, in MB.
    pub fn memory_mb(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.context("there is no VmRSS")? / 1e3)
    }

    /// Files that are open.
    pub fn handles(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }

    pub fn terminate(&self) -> Result<()> {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        if !status.success() {
            bail!("kill: {status}");
        }
        Ok(())
    }

    pub fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }
}
