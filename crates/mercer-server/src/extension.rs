//! What a program adds to a server from outside: files of the page, and calls of its own. `mercer play` adds training in this
//! way, so that the server itself links no trainer.

use std::fmt::Debug;

use crate::repository::Repository;

/// An addition to a server.
pub trait Extension: Debug + Send + Sync {
    /// Its name: it stands among the extensions at `/v2`, and first in its addresses.
    fn name(&self) -> &'static str;

    /// Files of the page beside the page's own: name and text. The page shows the view of `train.js` where the name is `train`.
    fn files(&self) -> &'static [(&'static str, &'static str)];

    /// Names of its calls; each is `POST /NAME/CALL`.
    fn calls(&self) -> &'static [&'static str];

    /// Puts the first models in place, before the server is ready.
    ///
    /// # Errors
    /// If there can be none; with one sentence.
    fn start(&self, models: &Repository) -> Result<(), String>;

    /// Answers a call, apart from the threads that take requests.
    ///
    /// # Errors
    /// If the request is wrong; with one sentence for the caller.
    fn answer(&self, call: &Call<'_>, models: &Repository) -> Result<Reply, String>;
}

/// A call of an extension.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Which one.
    pub name: &'a str,
    /// Names and values of the query of the address.
    pub parameters: &'a [(String, String)],
    /// The body, inflated.
    pub body: &'a [u8],
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What the bytes are.
    pub content_type: &'static str,
    /// The bytes.
    pub body: Vec<u8>,
}

impl Reply {
    /// A JSON value.
    pub fn json(value: &serde_json::Value) -> Self {
        Self { content_type: "application/json", body: value.to_string().into_bytes() }
    }
}
