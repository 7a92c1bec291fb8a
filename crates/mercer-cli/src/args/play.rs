//! Arguments of `mercer play`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::headings::{DATA, NETWORK};

#[derive(Debug, Args)]
pub(crate) struct Play {
    /// A table of up to 20,000 rows with a column of classes; without one the page begins with an example
    pub(crate) data: Option<PathBuf>,
    /// The column of classes: a name, a number starting at 1, `last` or `guess`
    #[arg(long, default_value = "guess", value_name = "COLUMN", help_heading = DATA)]
    pub(crate) label: String,
    /// Where the page is served, an address of this computer; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", help_heading = NETWORK)]
    pub(crate) listen: SocketAddr,
    /// Do not open a browser
    #[arg(long, help_heading = NETWORK)]
    pub(crate) no_browser: bool,
}
