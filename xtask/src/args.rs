//! The words after a verb.

use anyhow::{Context, Result, bail};

/// The words of a command line that no one has taken yet.
pub struct Args(Vec<String>);

impl Args {
    pub fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self(words.into_iter().collect())
    }

    pub fn asks_for_help(&self) -> bool {
        self.0.iter().any(|word| word == "--help" || word == "-h")
    }

    /// Takes the option `name`, which has no value; true if it was there.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != name);
        self.0.len() < before
    }

    /// Takes every `name VALUE` and `name=VALUE`.
    pub fn values(&mut self, name: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut rest = Vec::new();
        let mut words = std::mem::take(&mut self.0).into_iter();
        while let Some(word) = words.next() {
            if word == name {
                found.push(words.next().with_context(|| format!("{name} needs a value"))?);
            } else if let Some(value) = word.strip_prefix(name).and_then(|w| w.strip_prefix('=')) {
                found.push(value.to_owned());
            } else {
                rest.push(word);
            }
        }
        self.0 = rest;
        Ok(found)
    }

    /// Takes `name VALUE`, which may be given once.
    pub fn value(&mut self, name: &str) -> Result<Option<String>> {
        let mut found = self.values(name)?;
        if found.len() > 1 {
            bail!("{name} is given {} times", found.len());
        }
        Ok(found.pop())
    }

    /// The words left when every option has been taken.
    pub fn names(self) -> Result<Vec<String>> {
        match self.0.iter().find(|word| word.starts_with('-')) {
            Some(option) => bail!("no option '{option}' here"),
            None => Ok(self.0),
        }
    }

    /// Fails if any word is left.
    pub fn finish(self) -> Result<()> {
        match self.names()?.first() {
            Some(word) => bail!("nothing is done with '{word}' here"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_taken_wherever_they_stand() {
        let mut args = args("predict --only fmt --json --only=doc digits");
        assert!(args.flag("--json"));
        assert_eq!(args.values("--only").unwrap(), ["fmt", "doc"]);
        assert_eq!(args.names().unwrap(), ["predict", "digits"]);
    }

    #[test]
    fn what_nobody_takes_is_an_error() {
        assert!(args("--colour").finish().is_err());
        assert!(args("digits").finish().is_err());
        assert!(args("--only").values("--only").is_err());
        assert!(args("--write a --write b").value("--write").is_err());
    }
}
