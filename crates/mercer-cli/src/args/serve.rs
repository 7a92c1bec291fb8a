//! Arguments of `mercer serve`. Each option can stand in the TOML file as well; the command line wins.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mercer_server::{LogFormat, MetricsNames, Overload, ServeOptions, VersionPolicy};

use super::headings::{LIMITS, MODELS, NETWORK, OUTPUT, PLAN};
use super::{Common, PlanFlags};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Model files, or folders with `name.mercer` or `name/VERSION/model.mercer`
    pub(crate) models: Vec<PathBuf>,
    /// A TOML file with options; the command line wins
    #[arg(long, value_name = "FILE", help_heading = MODELS)]
    pub(crate) config: Option<PathBuf>,
    /// Load the models and check the options, then end
    #[arg(long, help_heading = MODELS, hide_short_help = true)]
    pub(crate) check: bool,
    /// Where HTTP is served [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS", help_heading = NETWORK)]
    pub(crate) listen: Option<SocketAddr>,
    /// Where gRPC is served [default: nowhere]
    #[arg(long, value_name = "ADDRESS", help_heading = NETWORK)]
    pub(crate) grpc: Option<SocketAddr>,
    /// Which versions of a model are served: latest, all, or numbers such as 1,3 [default: latest]
    #[arg(long, value_name = "POLICY", help_heading = MODELS, hide_short_help = true)]
    pub(crate) versions: Option<VersionPolicy>,
    /// Expected milliseconds of work that may wait; requests beyond are refused with 429 [default: 100]
    #[arg(long, value_name = "MS", help_heading = LIMITS)]
    pub(crate) queue_ms: Option<f64>,
    /// What to do when more waits [default: shed]
    #[arg(long, value_name = "WHAT", help_heading = LIMITS, hide_short_help = true)]
    pub(crate) overload: Option<OverloadName>,
    /// Evaluate this share of calibrated answers again exactly, in the background; a model whose calibration is found to be
    /// wrong answers by its proved plan from then on
    #[arg(long, value_name = "SHARE", help_heading = PLAN)]
    pub(crate) audit: Option<f64>,
    /// Look at the files of the models every so many seconds [default: only on SIGHUP]
    #[arg(long, value_name = "SECONDS", help_heading = MODELS)]
    pub(crate) watch: Option<f64>,
    /// Log every request on standard error [default: off]
    #[arg(long, value_name = "FORMAT", help_heading = OUTPUT)]
    pub(crate) log: Option<LogName>,
    /// Names of the metrics; `triton` adds those of Triton [default: mercer]
    #[arg(long, value_name = "NAMES", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) metrics_names: Option<MetricsName>,
    /// Give supports of a model to whoever asks for them: they are training data
    #[arg(long, help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) show_supports: bool,
    /// Do not serve the page at `/`
    #[arg(long, help_heading = NETWORK, hide_short_help = true)]
    pub(crate) no_page: bool,
    /// A name by which browsers may ask the server, beside addresses and `localhost`; may be given several times
    #[arg(long, value_name = "NAME", help_heading = NETWORK, hide_short_help = true)]
    pub(crate) host: Vec<String>,
    /// A file with the token that every request must carry (`Authorization: Bearer TOKEN`)
    #[arg(long, value_name = "FILE", help_heading = NETWORK)]
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the token for loading and unloading models; without one that is not served
    #[arg(long, value_name = "FILE", help_heading = NETWORK, hide_short_help = true)]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// The server's certificate (PEM); HTTP and gRPC then speak TLS
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = NETWORK)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = NETWORK)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificate authorities (PEM); clients must show a certificate of one of them
    #[arg(long, value_name = "FILE", help_heading = NETWORK, hide_short_help = true)]
    pub(crate) tls_client_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plan: PlanFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogName {
    /// One JSON object per line
    Json,
    /// One line of text
    Text,
    /// Nothing
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetricsName {
    /// mercer_...
    Mercer,
    /// Also nv_inference_...
    Triton,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverloadName {
    /// Refuse requests
    Shed,
    /// Give requests smaller budgets first
    Degrade,
}

impl Serve {
    /// The options of the file with those of the command line over them.
    pub(crate) fn options(&self, common: &Common) -> anyhow::Result<ServeOptions> {
        let mut options = match &self.config {
            Some(path) => ServeOptions::from_file(path)?,
            None => ServeOptions::default(),
        };
        if !self.models.is_empty() {
            options.models.clone_from(&self.models);
        }
        options.listen = self.listen.unwrap_or(options.listen);
        options.grpc = self.grpc.or(options.grpc);
        options.tls_cert = self.tls_cert.clone().or(options.tls_cert);
        options.tls_key = self.tls_key.clone().or(options.tls_key);
        options.tls_client_ca = self.tls_client_ca.clone().or(options.tls_client_ca);
        options.queue_ms = self.queue_ms.unwrap_or(options.queue_ms);
        options.audit = self.audit.unwrap_or(options.audit);
        options.watch_seconds = self.watch.unwrap_or(options.watch_seconds);
        options.token_file = self.token_file.clone().or(options.token_file);
        options.admin_token_file = self.admin_token_file.clone().or(options.admin_token_file);
        options.trust_plan |= self.plan.trust_plan;
        options.threads = common.threads.map(usize::from).or(options.threads);
        options.seed = common.seed.unwrap_or(options.seed);
        options.show_supports |= self.show_supports;
        options.page &= !self.no_page;
        options.hosts.extend(self.host.iter().cloned());
        options.versions = self.versions.clone().unwrap_or(options.versions);
        if let Some(log) = self.log {
            options.log = match log {
                LogName::Json => LogFormat::Json,
                LogName::Text => LogFormat::Text,
                LogName::Off => LogFormat::Off,
            };
        }
        if let Some(names) = self.metrics_names {
            options.metrics_names = match names {
                MetricsName::Mercer => MetricsNames::Mercer,
                MetricsName::Triton => MetricsNames::Triton,
            };
        }
        if let Some(overload) = self.overload {
            options.overload = match overload {
                OverloadName::Shed => Overload::Shed,
                OverloadName::Degrade => Overload::Degrade,
            };
        }
        Ok(options)
    }
}
