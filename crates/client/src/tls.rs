//! Encrypted connections: whom we trust, who we are, and what a failed handshake means.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::options::{Pem, TlsOptions};

/// Largest PEM file that is read, in bytes.
const MAX_PEM_BYTES: u64 = 4 * 1024 * 1024;

/// Where the usual systems keep the certificates that they trust.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

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
            let chain = certificates(certificate, "ssl.keystore")?;
            builder
                .with_client_auth_cert(chain, private_key(key)?)
                .map_err(|e| format!("ssl.keystore: the certificate and key can't be used: {e}"))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// Says what a failed handshake means and what to change.
pub(crate) fn explain(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(_)) => {
            "the listener does not speak TLS; it is probably a PLAINTEXT one: use its TLS port, or security.protocol=PLAINTEXT \
             (SASL_PLAINTEXT with a login)"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => {
            "the server's certificate does not name this host; connect by a name that it lists, or leave \
             ssl.endpoint.identification.algorithm empty to accept any"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(e)) if is_untrusted(e) => {
            "the server's certificate is signed by nobody that we trust; give its authority in ssl.truststore.location (ssl.truststore.type=PEM)"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(e)) => format!("the server's certificate can't be accepted: {e}"),
        Some(rustls::Error::AlertReceived(alert)) => format!(
            "the server ended the TLS handshake with the alert {alert:?}; if it asks for a client certificate give one in ssl.keystore.location (ssl.keystore.type=PEM)"
        ),
        Some(other) => format!("the TLS handshake failed: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof || error.kind() == io::ErrorKind::ConnectionReset => {
            "the server closed the connection during the TLS handshake; the listener is probably a PLAINTEXT one, or refuses our certificate"
                .to_owned()
        }
        None => format!("the TLS handshake failed: {error}"),
    }
}

/// Signed by nobody we know, by someone else of the same name, or by itself without being among the trusted ones.
fn is_untrusted(error: &CertificateError) -> bool {
    matches!(error, CertificateError::UnknownIssuer | CertificateError::BadSignature)
        || matches!(error, CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity"))
}

fn read(pem: &Pem, key: &str) -> Result<Vec<u8>, String> {
    match pem {
        Pem::Text(text) => Ok(one_block_a_paragraph(text.expose()).into_bytes()),
        Pem::File(path) => {
            read_file(path).map_err(|e| format!("{key}.location: {} can't be read: {e}", path.display()))
        }
    }
}

/// Settings often hold PEM on one line; puts the line ends back in that the format asks for.
fn one_block_a_paragraph(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let Some((label, after)) = after.split_once("-----") else {
            break;
        };
        let Some((body, after)) = after.split_once("-----END ") else {
            break;
        };
        let Some((_, after)) = after.split_once("-----") else {
            break;
        };
        let body: String = body.split_whitespace().collect();
        out.push_str(&format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"));
        rest = after;
    }
    out
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_PEM_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_PEM_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 4 MiB"));
    }
    Ok(bytes)
}

fn certificates(pem: &Pem, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(pem, key)?;
    // JKS stores begin with these four bytes, PKCS12 ones are DER.
    if bytes.starts_with(&[0xfe, 0xed, 0xfe, 0xed]) || bytes.starts_with(&[0x30, 0x82]) {
        return Err(format!(
            "{key}.location: the file is a JKS or PKCS12 store although the type says PEM; convert it with keytool or openssl"
        ));
    }
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|e| format!("{key}: not valid PEM: {e}"))?;
    if found.is_empty() {
        return Err(format!("{key}: no `BEGIN CERTIFICATE` block was found"));
    }
    Ok(found)
}

fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(pem, "ssl.keystore")?;
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(
            "ssl.keystore: the private key is encrypted; write it in the clear with `openssl pkcs8 -in key.pem -out key-clear.pem`"
                .to_owned(),
        );
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| "ssl.keystore: no private key in PEM form was found".to_owned())
}

fn system_trust() -> Result<Vec<CertificateDer<'static>>, String> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = named.into_iter().chain(SYSTEM_BUNDLES.iter().map(PathBuf::from)).find(|path| path.is_file()).ok_or(
        "no system certificates were found; name the authority in ssl.truststore.location (ssl.truststore.type=PEM)",
    )?;
    certificates(&Pem::File(bundle), "ssl.truststore")
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
                let found = certificates(pem, "ssl.truststore")?;
                (found.clone(), found)
            }
            None => (system_trust()?, Vec::new()),
        };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(trusted);
        if added == 0 {
            return Err("ssl.truststore: none of its certificates can be used".to_owned());
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
