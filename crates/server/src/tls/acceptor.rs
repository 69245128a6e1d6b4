//! TLS of the Kafka listener.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion,
};
use streamside_client::tls::Duplex;
use streamside_wire::frame::{self, Intruder};
use tokio::net::TcpStream;

use super::expiry;
use super::validity;
use crate::config::{ClientAuth, Settings, TlsSettings};
use crate::metrics::Metrics;
use crate::shell::connection::intruder_text;

/// First bytes of a connection that are looked at before TLS reads them.
const FIRST_BYTES: usize = 8;
/// The record type that a TLS connection begins with.
const HANDSHAKE: u8 = 0x16;

/// Certificates, keys or ciphers that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    /// A word for metrics and policy.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        "tls"
    }
}

/// Why a connection was not made encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoHands {
    /// It ended before its first byte, as those of port checks do.
    Gone,
    /// A sentence for the log: what was wrong, and where the cure is known what to change.
    Failed(String),
}

/// Makes accepted connections encrypted. Shared by all listeners; what it shows and trusts may change while it runs.
#[derive(Debug)]
pub struct Acceptor {
    config: RwLock<Arc<ServerConfig>>,
    metrics: Arc<Metrics>,
}

impl Acceptor {
    /// As configured; `None`: the listener has no TLS.
    ///
    /// # Errors
    /// As [`Acceptor::new`].
    pub fn of(settings: &Settings, metrics: &Arc<Metrics>) -> Result<Option<Arc<Self>>, TlsError> {
        settings.tls.as_ref().map(|tls| Self::new(tls, Arc::clone(metrics)).map(Arc::new)).transpose()
    }

    /// Reads certificate, key and trust.
    ///
    /// # Errors
    /// What can't be used, and what to do.
    pub fn new(settings: &TlsSettings, metrics: Arc<Metrics>) -> Result<Self, TlsError> {
        let (config, end) = server_config(settings).map_err(TlsError)?;
        expiry::note(&metrics, "listener", end);
        Ok(Self { config: RwLock::new(config), metrics })
    }

    /// Reads them again: connections that are made from now on get them.
    ///
    /// # Errors
    /// As [`Acceptor::new`]; nothing changes then.
    pub fn reload(&self, settings: &TlsSettings) -> Result<(), TlsError> {
        let (config, end) = server_config(settings).map_err(TlsError)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        expiry::note(&self.metrics, "listener", end);
        Ok(())
    }

    /// Shakes hands with a client within `patience`, its first byte included.
    ///
    /// # Errors
    /// [`NoHands`].
    pub async fn accept(&self, tcp: TcpStream, patience: Duration) -> Result<impl Duplex + use<>, NoHands> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        let handshake = async move {
            let mut first = [0; FIRST_BYTES];
            let seen = tcp.peek(&mut first).await.map_err(|_| NoHands::Gone)?;
            match first.get(..seen).unwrap_or_default() {
                [] => return Err(NoHands::Gone),
                [HANDSHAKE, ..] => {}
                other => return Err(NoHands::Failed(no_tls(other))),
            }
            tokio_rustls::TlsAcceptor::from(config).accept(tcp).await.map_err(|e| NoHands::Failed(explain(&e)))
        };
        tokio::time::timeout(patience, handshake)
            .await
            .unwrap_or_else(|_| Err(NoHands::Failed(format!("no TLS handshake within {} ms", patience.as_millis()))))
    }
}

fn no_tls(first: &[u8]) -> String {
    match frame::diagnose(first) {
        None | Some(Intruder::TlsAlert) => {
            "this looks like plaintext on a listener with TLS; set the client's security.protocol to SSL (SASL_SSL with a login)"
                .to_owned()
        }
        Some(other) => intruder_text(other),
    }
}

/// Says what a failed handshake means and what to change.
fn explain(error: &io::Error) -> String {
    match error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::NoCertificatesPresented) => {
            "the client shows no certificate and ssl.client.auth is required; give it one in its ssl.keystore.*".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "the client's certificate is signed by nobody in ssl.truststore.*".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
            "the client's certificate has expired".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(e)) => format!("the client's certificate can't be accepted: {e}"),
        Some(rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        )) => {
            "the client does not trust our certificate, or we are not the host that it is for; its ssl.truststore.* must hold the authority, and the certificate in ssl.keystore.* must name the advertised host"
                .to_owned()
        }
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateExpired)) => {
            "to the client our certificate has expired".to_owned()
        }
        Some(other) => format!("the TLS handshake failed: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof || error.kind() == io::ErrorKind::ConnectionReset => {
            "the client closed the connection during the TLS handshake; it may not trust our certificate".to_owned()
        }
        None => format!("the TLS handshake failed: {error}"),
    }
}

/// The settings, and when the first of our certificates ends.
fn server_config(settings: &TlsSettings) -> Result<(Arc<ServerConfig>, i64), String> {
    let provider = Arc::new(provider(&settings.cipher_suites)?);
    let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
    if settings.version_1_3 {
        versions.push(&rustls::version::TLS13);
    }
    if settings.version_1_2 {
        versions.push(&rustls::version::TLS12);
    }
    let chain = settings.certificate.certificates("ssl.keystore")?;
    let end = check_dates(&chain)?;
    let key = PrivateKeyDer::try_from(settings.key.private_key("ssl.keystore")?)
        .map_err(|_| "ssl.keystore: the private key is of an unknown kind".to_owned())?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|e| format!("ssl.cipher.suites and ssl.enabled.protocols leave nothing to speak: {e}"))?;
    let builder = match (&settings.trust, settings.client_auth) {
        (Some(trust), ClientAuth::Requested | ClientAuth::Required) => {
            let trusted = trust.certificates("ssl.truststore")?;
            builder.with_client_cert_verifier(Verifier::new(trusted, settings.client_auth, provider)?)
        }
        _ => builder.with_no_client_auth(),
    };
    let chain = chain.into_iter().map(CertificateDer::from).collect();
    let config = builder.with_single_cert(chain, key).map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => {
            "ssl.keystore: the private key does not belong to the first certificate; our own certificate comes first, those that vouch for it behind it"
                .to_owned()
        }
        other => format!("ssl.keystore: the certificate and key can't be used: {other}"),
    })?;
    Ok((Arc::new(config), end))
}

/// Whoever meets an expired certificate refuses it, so it is no good start.
fn check_dates(chain: &[Vec<u8>]) -> Result<i64, String> {
    let own = chain.first().and_then(|own| validity::of(own)).ok_or("ssl.keystore: its certificate can't be read")?;
    let now = expiry::now();
    if own.not_after <= now {
        return Err(format!(
            "ssl.keystore: the certificate expired {} days ago, and no client would take it; put a new one in its place",
            (now - own.not_after) / 86_400
        ));
    }
    if own.not_before > now {
        tracing::warn!("the certificate in ssl.keystore is not good yet; is the clock right?");
    }
    Ok(expiry::end_of(chain).unwrap_or(own.not_after))
}

/// IANA's name of a suite.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

fn provider(wanted: &[String]) -> Result<CryptoProvider, String> {
    let mut provider = ring::default_provider();
    if wanted.is_empty() {
        return Ok(provider);
    }
    let known: Vec<String> = provider.cipher_suites.iter().map(suite_name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        return Err(format!("ssl.cipher.suites: {unknown} is not known here; there are {}", known.join(", ")));
    }
    provider.cipher_suites.retain(|suite| wanted.contains(&suite_name(suite)));
    Ok(provider)
}

/// Judges a client's certificate as Kafka's brokers do: by the trusted authorities, or by exact match with a trusted
/// certificate (what `openssl req -x509` makes signs itself).
#[derive(Debug)]
struct Verifier {
    by_authority: Arc<dyn ClientCertVerifier>,
    exact: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(trusted: Vec<Vec<u8>>, auth: ClientAuth, provider: Arc<CryptoProvider>) -> Result<Arc<Self>, String> {
        let exact: Vec<CertificateDer<'static>> = trusted.into_iter().map(CertificateDer::from).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(exact.iter().cloned());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = if auth == ClientAuth::Requested { builder.allow_unauthenticated() } else { builder };
        let by_authority =
            builder.build().map_err(|e| format!("ssl.truststore: none of its certificates can be used: {e}"))?;
        Ok(Arc::new(Self { by_authority, exact }))
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.by_authority.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if self.exact.iter().any(|known| known.as_ref() == end_entity.as_ref()) {
            return Ok(ClientCertVerified::assertion());
        }
        self.by_authority.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}
