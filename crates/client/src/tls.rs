//! Encrypted connections: whom we trust, who we are, and what a failed handshake means.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::options::{OptionsError, TlsOptions};
use crate::pem::Pem;

/// Where the usual systems keep the certificates that they trust.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Both directions of an encrypted connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Duplex for T {}

/// Makes connections encrypted that others opened; cheap to clone.
///
/// ```no_run
/// # async fn example(tcp: tokio::net::TcpStream) -> Result<(), Box<dyn std::error::Error>> {
/// use streamside_client::{TlsConnector, TlsOptions};
///
/// let connector = TlsConnector::new(&TlsOptions::default())?;
/// let encrypted = connector.connect("broker.example.org", tcp, std::time::Duration::from_secs(10)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TlsConnector {
    config: Arc<ClientConfig>,
    prefix: Arc<str>,
}

impl TlsConnector {
    /// Reads trust, certificate and key.
    ///
    /// # Errors
    /// What can't be used, and what to do.
    pub fn new(options: &TlsOptions) -> Result<Self, OptionsError> {
        let config = client_config(options).map_err(|reason| OptionsError { key: "ssl".to_owned(), reason })?;
        Ok(Self { config, prefix: options.prefix.as_str().into() })
    }

    /// Shakes hands within `patience`. `host` is the name or address that the certificate must be for.
    ///
    /// # Errors
    /// A sentence for people: what failed and what to change.
    pub async fn connect(&self, host: &str, tcp: TcpStream, patience: Duration) -> Result<impl Duplex + use<>, String> {
        shake_hands(&self.config, &self.prefix, host, tcp, patience).await
    }
}

/// A TLS handshake from the client's side within `patience`; the error is a sentence for people.
pub(crate) async fn shake_hands(
    config: &Arc<ClientConfig>,
    prefix: &str,
    host: &str,
    tcp: TcpStream,
    patience: Duration,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("`{host}` is no host name that a certificate can be for"))?;
    let handshake = tokio_rustls::TlsConnector::from(Arc::clone(config)).connect(name, tcp);
    match timeout(patience, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(explain(&error, prefix)),
        Err(_) => Err(format!(
            "no answer to the TLS handshake within {} ms; the listener may be a PLAINTEXT one",
            patience.as_millis()
        )),
    }
}

/// Makes the settings of an encrypted connection; the error is a sentence for people.
pub(crate) fn client_config(options: &TlsOptions) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Verifier::new(options, Arc::clone(&provider))?);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&options.certificate, &options.key) {
        (Some(certificate), Some(key)) => {
            let setting = format!("{}ssl.keystore", options.prefix);
            let chain = certificates(certificate, &setting)?;
            let key = PrivateKeyDer::try_from(key.private_key(&setting)?)
                .map_err(|_| format!("{setting}: the private key is of an unknown kind"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| format!("{setting}: the certificate and key can't be used: {e}"))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// Says what a failed handshake means and what to change.
pub(crate) fn explain(error: &io::Error, prefix: &str) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(_)) => {
            format!(
                "the listener does not speak TLS; it is probably a PLAINTEXT one: use its TLS port, or \
                 {prefix}security.protocol=PLAINTEXT (SASL_PLAINTEXT with a login)"
            )
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => {
            format!(
                "the server's certificate does not name this host; connect by a name that it lists, or leave \
                 {prefix}ssl.endpoint.identification.algorithm empty to accept any"
            )
        }
        Some(rustls::Error::InvalidCertificate(e)) if is_untrusted(e) => {
            format!(
                "the server's certificate is signed by nobody that we trust; give its authority in \
                 {prefix}ssl.truststore.location ({prefix}ssl.truststore.type=PEM)"
            )
        }
        Some(rustls::Error::InvalidCertificate(e)) => format!("the server's certificate can't be accepted: {e}"),
        Some(rustls::Error::AlertReceived(alert)) => format!(
            "the server ended the TLS handshake with the alert {alert:?}; if it asks for a client certificate give one in \
             {prefix}ssl.keystore.location ({prefix}ssl.keystore.type=PEM)"
        ),
        Some(other) => format!("the TLS handshake failed: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof || error.kind() == io::ErrorKind::ConnectionReset => {
            format!(
                "the server closed the connection during the TLS handshake; the listener is probably a PLAINTEXT one (then \
                 {prefix}security.protocol=PLAINTEXT, or SASL_PLAINTEXT with a login), or refuses our certificate"
            )
        }
        None => format!("the TLS handshake failed: {error}"),
    }
}

/// Signed by nobody we know, by someone else of the same name, or by itself without being among the trusted ones.
fn is_untrusted(error: &CertificateError) -> bool {
    matches!(error, CertificateError::UnknownIssuer | CertificateError::BadSignature)
        || matches!(error, CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity"))
}

fn certificates(pem: &Pem, setting: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    Ok(pem.certificates(setting)?.into_iter().map(CertificateDer::from).collect())
}

fn system_trust(prefix: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let mut candidates = named.into_iter().chain(SYSTEM_BUNDLES.iter().map(PathBuf::from));
    let bundle = candidates.find(|path| path.is_file()).ok_or_else(|| {
        format!(
            "no system certificates were found; name the authority in {prefix}ssl.truststore.location ({prefix}ssl.truststore.type=PEM)"
        )
    })?;
    certificates(&Pem::File(bundle), &format!("{prefix}ssl.truststore"))
}

/// Judges a server's certificate as Kafka's clients do: by the trusted authorities, by exact match with a trusted
/// certificate (what `openssl req -x509` makes is an authority and its own server at once), and by host name unless off.
#[derive(Debug)]
struct Verifier {
    roots: RootCertStore,
    exact: Vec<CertificateDer<'static>>,
    check_host_name: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(options: &TlsOptions, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let (trusted, exact) = match &options.trust {
            Some(pem) => {
                let found = certificates(pem, &format!("{}ssl.truststore", options.prefix))?;
                (found.clone(), found)
            }
            None => (system_trust(&options.prefix)?, Vec::new()),
        };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(trusted);
        if added == 0 {
            return Err(format!("{}ssl.truststore: none of its certificates can be used", options.prefix));
        }
        Ok(Self { roots, exact, check_host_name: options.check_host_name, provider })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        if !self.exact.iter().any(|known| known.as_ref() == end_entity.as_ref()) {
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        }
        if self.check_host_name {
            verify_server_name(&parsed, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
