//! Sets up TLS as the options say: reads certificates and keys, and makes the acceptor and the connector.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::config::Config;

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A required option is missing.
    #[error("{asked} is set, but {option} is not; set it to the file with {what}")]
    Missing {
        /// The option that requires the missing one.
        asked: &'static str,
        /// The missing option.
        option: &'static str,
        /// A description of the content of the file that the option must name.
        what: &'static str,
    },
    /// A file cannot be read, or does not have what it must have.
    #[error("{option} {}: {error}; it must be a file in PEM format that this user may read", path.display())]
    File {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        error: pem::Error,
    },
    /// The file of `tls-ca-cert-file` has no usable certificate.
    #[error("tls-ca-cert-file {}: it has no usable certificate; give that of an authority", .0.display())]
    NoAuthority(PathBuf),
    /// The certificate and the key do not fit together or cannot be used, or TLS refuses the versions.
    #[error("tls-cert-file and tls-key-file cannot be used: {0}; give a certificate and its own key")]
    Certificate(rustls::Error),
    /// A TLS version is unknown.
    #[error("tls-protocols: '{0}' is not known here; give TLSv1.2, TLSv1.3 or both")]
    Protocol(String),
}

/// Accepts TLS clients.
#[derive(Debug, Clone)]
pub struct Acceptor(pub(super) Arc<ServerConfig>);

/// Connects to a master by TLS.
#[derive(Debug, Clone)]
pub struct Connector(pub(super) Arc<ClientConfig>);

/// Returns the acceptor of TLS clients, if there is a `tls-port`.
///
/// # Errors
/// If a required option is missing, `tls-protocols` has an unknown version, or a file, the certificate or the
/// key cannot be used.
pub fn acceptor(config: &Config) -> Result<Option<Acceptor>, TlsError> {
    if config.int("tls-port") == 0 {
        return Ok(None);
    }
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(config.text("tls-protocols"))?)
        .map_err(TlsError::Certificate)?;
    let builder = match config.text("tls-auth-clients") {
        "no" => builder.with_no_client_auth(),
        "optional" => builder.with_client_cert_verifier(verifier(config, &provider, true)?),
        _ => builder.with_client_cert_verifier(verifier(config, &provider, false)?),
    };
    let (chain, key) = own(config, "tls-port")?;
    let config = builder.with_single_cert(chain, key).map_err(TlsError::Certificate)?;
    Ok(Some(Acceptor(Arc::new(config))))
}

/// Returns the TLS connector to a master, if `tls-replication` is `yes`. If `tls-cert-file` is set, the
/// connector can show the master that certificate.
///
/// # Errors
/// If a required option is missing, `tls-protocols` has an unknown version, or a file, the certificate or the
/// key cannot be used.
pub fn connector(config: &Config) -> Result<Option<Connector>, TlsError> {
    let asked = "tls-replication";
    if !config.is(asked) {
        return Ok(None);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&versions(config.text("tls-protocols"))?)
        .map_err(TlsError::Certificate)?
        .with_root_certificates(authorities(config, asked, "the certificate of the master's authority")?);
    let config = match config.text("tls-cert-file") {
        "" => builder.with_no_client_auth(),
        _ => {
            let (chain, key) = own(config, asked)?;
            builder.with_client_auth_cert(chain, key).map_err(TlsError::Certificate)?
        }
    };
    Ok(Some(Connector(Arc::new(config))))
}

/// Reads the certificate of this server and its key.
fn own(
    config: &Config,
    asked: &'static str,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(config, asked, "tls-cert-file", "the certificate of this server")?;
    let path = named(config, asked, "tls-key-file", "the key of that certificate")?;
    let key = PrivateKeyDer::from_pem_file(&path);
    Ok((chain, key.map_err(|error| TlsError::File { option: "tls-key-file", path, error })?))
}

/// Reads the certificate authorities that may sign the certificates of peers.
fn authorities(config: &Config, asked: &'static str, what: &'static str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(certificates(config, asked, "tls-ca-cert-file", what)?);
    if good > 0 { Ok(roots) } else { Err(TlsError::NoAuthority(config.text("tls-ca-cert-file").into())) }
}

fn versions(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let version = |name: &str| match name.to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(&TLS12),
        "tlsv1.3" => Ok(&TLS13),
        _ => Err(TlsError::Protocol(name.to_owned())),
    };
    if text.is_empty() { Ok(vec![&TLS12, &TLS13]) } else { text.split_whitespace().map(version).collect() }
}

/// Makes the verifier of clients' certificates.
fn verifier(
    config: &Config,
    provider: &Arc<rustls::crypto::CryptoProvider>,
    may_be_absent: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let what = "the certificates of the clients' authorities, or set `tls-auth-clients no` to accept clients \
        without a certificate";
    let roots = authorities(config, "tls-port", what)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = if may_be_absent { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|_| TlsError::NoAuthority(config.text("tls-ca-cert-file").into()))
}

fn named(
    config: &Config,
    asked: &'static str,
    option: &'static str,
    what: &'static str,
) -> Result<PathBuf, TlsError> {
    match config.text(option) {
        "" => Err(TlsError::Missing { asked, option, what }),
        path => Ok(path.into()),
    }
}

fn certificates(
    config: &Config,
    asked: &'static str,
    option: &'static str,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let path = named(config, asked, option, what)?;
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
        assert!(acceptor(&config).unwrap().is_none() && connector(&config).unwrap().is_none());
        config.set("tls-port", "1").unwrap();
        assert!(acceptor(&config).unwrap_err().to_string().contains("tls-ca-cert-file is not"));
        config.set("tls-auth-clients", "no").unwrap();
        assert!(acceptor(&config).unwrap_err().to_string().contains("tls-cert-file is not"));
        config.set("tls-cert-file", "/absent").unwrap();
        let error = acceptor(&config).unwrap_err().to_string();
        assert!(error.starts_with("tls-cert-file /absent: "), "{error}");
        config.set("tls-replication", "yes").unwrap();
        let error = connector(&config).unwrap_err().to_string();
        assert!(error.starts_with("tls-replication is set, but tls-ca-cert-file is not; "), "{error}");
    }
}
