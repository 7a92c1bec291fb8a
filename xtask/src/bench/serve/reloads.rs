//! Models exchanged under load: how one is exchanged, and which model may have answered when.

use std::fs;

use anyhow::{Context, Result, bail};

use super::http::{Broken, Connection, post};
use super::load::Reloads;

/// Puts the next file in the place of the served one.
pub fn place(reloads: &Reloads, number: usize) -> Result<()> {
    let file = &reloads.files[number % reloads.files.len()];
    let beside = reloads.target.with_extension("next");
    fs::copy(file, &beside).with_context(|| format!("cannot copy {}", file.display()))?;
    fs::rename(&beside, &reloads.target).context("cannot exchange the file of the model")
}

/// Asks the server to load the file.
pub fn load(reloads: &Reloads, address: &str, number: usize) -> Result<()> {
    let token = format!("Authorization: Bearer {}\r\n", reloads.token);
    let mut connection = Connection::new(address);
    match connection.ask(&post(&reloads.path, &token, b"")) {
        Ok(reply) if reply.status == 200 => Ok(()),
        Ok(reply) => {
            let said = &connection.buffer[reply.start..reply.end];
            bail!("reload {number}: status {}, {}", reply.status, String::from_utf8_lossy(said))
        }
        Err(Broken::Refused(error)) => bail!("reload {number}: {error}"),
        Err(Broken::Lost(what)) => bail!("reload {number}: {what}"),
    }
}

/// When each exchange began and ended, in nanoseconds since the start, and the model it brought. The first model was there
/// before.
#[derive(Debug, Default)]
pub struct History(Vec<(u64, u64, u8)>);

impl History {
    pub fn push(&mut self, begin: u64, end: u64, model: u8) {
        self.0.push((begin, end, model));
    }

    /// Whether the model may have been loaded at some moment of that time: from when its load was asked for until the load of
    /// the next one had ended.
    pub fn allows(&self, model: u8, sent: u64, received: u64) -> bool {
        let after = self.0.partition_point(|(begin, ..)| *begin <= received);
        let end_of = |place: usize| self.0.get(place).map_or(u64::MAX, |(_, end, _)| *end);
        for place in (0..after).rev() {
            if end_of(place + 1) < sent {
                return false;
            }
            if self.0[place].2 == model {
                return true;
            }
        }
        model == 0 && end_of(0) >= sent
    }

    /// Milliseconds of an exchange, in the mean.
    pub fn mean_ms(&self) -> f64 {
        let all: u64 = self.0.iter().map(|(begin, end, _)| end - begin).sum();
        all as f64 / 1e6 / self.0.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_answers_only_while_it_may_be_loaded() {
        let mut history = History::default();
        history.push(100, 110, 1);
        history.push(200, 210, 0);
        assert!(history.allows(0, 10, 20), "the first one, before any exchange");
        assert!(!history.allows(1, 10, 20), "not yet asked for");
        assert!(history.allows(1, 90, 101), "its load had begun");
        assert!(history.allows(0, 105, 130), "the load had not ended when this was sent");
        assert!(!history.allows(0, 111, 130), "gone");
        assert!(history.allows(1, 205, 300) && history.allows(0, 205, 300));
        assert!(!history.allows(1, 211, 300) && history.allows(0, 211, 300));
    }
}
