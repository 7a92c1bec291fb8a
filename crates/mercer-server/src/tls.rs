//! TLS for all listeners: the server's certificate and key, and with a certificate authority for clients, mutual TLS.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use crate::options::{OptionsError, ServeOptions};

/// What makes TLS of a connection; none if the options name no certificate.
///
/// # Errors
/// If a file cannot be read, or a certificate and its key do not fit.
pub fn acceptor(options: &ServeOptions) -> Result<Option<TlsAcceptor>, OptionsError> {
    let (certificate, key) = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if options.tls_client_ca.is_none() => return Ok(None),
        _ => {
            let what = "TLS needs both a certificate (tls_cert) and its key (tls_key)";
            return Err(OptionsError(what.to_owned()));
        }
    };
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate, &error))?;
    let builder = match &options.tls_client_ca {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            for one in certificates(authority)? {
                roots.add(one).map_err(|error| wrong(authority, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|error| wrong(authority, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config =
        builder.with_single_cert(chain, secret).map_err(|error| wrong(certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OptionsError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| wrong(path, &error))?;
    if found.is_empty() {
        return Err(OptionsError(format!("{}: there is no certificate in it", path.display())));
    }
    Ok(found)
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> OptionsError {
    OptionsError(format!("{}: {error}", path.display()))
}
