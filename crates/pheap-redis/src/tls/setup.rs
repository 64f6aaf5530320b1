//! What the options say of certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::config::Config;

/// Why nobody can connect by TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// An option is missing.
    #[error("tls-port is set, but {option} is not: {what}")]
    Missing {
        /// The option.
        option: &'static str,
        /// What it must name.
        what: &'static str,
    },
    /// A file cannot be read.
    #[error("{option} {}: {error}; it must be a file in PEM format that this user may read", path.display())]
    File {
        /// The option.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: pem::Error,
    },
    /// A file has none of what it should.
    #[error("tls-ca-cert-file {}: there is no certificate in it that can be used", .0.display())]
    NoAuthority(PathBuf),
    /// What is in the files does not fit.
    #[error("tls-cert-file and tls-key-file cannot be used: {0}")]
    Certificate(rustls::Error),
    /// There is no such version.
    #[error("tls-protocols: '{0}' is not known here; give TLSv1.2, TLSv1.3 or both")]
    Protocol(String),
}

/// What connections by TLS have in common, as the options say.
///
/// # Errors
/// If an option is missing, or a file is not what it should be.
pub fn setup(config: &Config) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(config.text("tls-protocols"))?)
        .map_err(TlsError::Certificate)?;
    let builder = match config.text("tls-auth-clients") {
        "no" => builder.with_no_client_auth(),
        "optional" => builder.with_client_cert_verifier(verifier(config, &provider, true)?),
        _ => builder.with_client_cert_verifier(verifier(config, &provider, false)?),
    };
    let chain = certificates(config, "tls-cert-file", "the certificate of this server")?;
    let key_file = named(config, "tls-key-file", "the key of its certificate")?;
    let key = PrivateKeyDer::from_pem_file(&key_file).map_err(|error| TlsError::File {
        option: "tls-key-file",
        path: key_file,
        error,
    })?;
    builder.with_single_cert(chain, key).map(Arc::new).map_err(TlsError::Certificate)
}

fn versions(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let version = |name: &str| match name.to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(&TLS12),
        "tlsv1.3" => Ok(&TLS13),
        _ => Err(TlsError::Protocol(name.to_owned())),
    };
    if text.is_empty() { Ok(vec![&TLS12, &TLS13]) } else { text.split_whitespace().map(version).collect() }
}

/// Who says whether a client's certificate is good.
fn verifier(
    config: &Config,
    provider: &Arc<rustls::crypto::CryptoProvider>,
    may_be_absent: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let what = "the certificates by which clients are known; or say `tls-auth-clients no`, and whoever connects may speak";
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(config, "tls-ca-cert-file", what)?);
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = if may_be_absent { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|_| TlsError::NoAuthority(config.text("tls-ca-cert-file").into()))
}

fn named(config: &Config, option: &'static str, what: &'static str) -> Result<PathBuf, TlsError> {
    match config.text(option) {
        "" => Err(TlsError::Missing { option, what }),
        path => Ok(path.into()),
    }
}

fn certificates(
    config: &Config,
    option: &'static str,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let path = named(config, option, what)?;
    let read = |path: &Path| {
        let found = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
        if found.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(found) }
    };
    read(&path).map_err(|error| TlsError::File { option, path, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_tls() {
        assert_eq!(versions("").unwrap().len(), 2);
        assert_eq!(versions("TLSv1.3").unwrap(), [&TLS13]);
        assert_eq!(versions("tlsv1.2  TLSv1.3").unwrap(), [&TLS12, &TLS13]);
        assert!(versions("TLSv1.1").unwrap_err().to_string().contains("'TLSv1.1' is not known"));
    }

    #[test]
    fn what_is_missing() {
        let mut config = Config::default();
        assert!(setup(&config).unwrap_err().to_string().contains("tls-ca-cert-file is not"));
        config.set("tls-auth-clients", "no").unwrap();
        assert!(setup(&config).unwrap_err().to_string().contains("tls-cert-file is not"));
        config.set("tls-cert-file", "/absent").unwrap();
        let error = setup(&config).unwrap_err().to_string();
        assert!(error.starts_with("tls-cert-file /absent: "), "{error}");
    }
}
