//! Certificates and keys in PEM form, from a file or from the setting itself.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::secret::Secret;

/// Largest PEM file that is read, in bytes.
const MAX_PEM_BYTES: u64 = 4 * 1024 * 1024;

/// Where PEM text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pem {
    /// A file.
    File(PathBuf),
    /// The text itself.
    Text(Secret),
}

impl Pem {
    /// The certificates in it in their order, each as DER; at least one. `setting` is the prefix of the settings that
    /// it came from, as `ssl.keystore`.
    ///
    /// # Errors
    /// A sentence for people that begins with the setting: what is wrong and what to do.
    pub fn certificates(&self, setting: &str) -> Result<Vec<Vec<u8>>, String> {
        let bytes = self.read(setting)?;
        let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
            .collect::<Result<_, _>>()
            .map_err(|e| format!("{setting}: not valid PEM: {e}"))?;
        if found.is_empty() {
            return Err(format!("{setting}: no `BEGIN CERTIFICATE` block was found"));
        }
        Ok(found.into_iter().map(|c| c.as_ref().to_vec()).collect())
    }

    /// The first private key in it as DER, in any of the three usual forms (PKCS#8, PKCS#1, SEC1).
    ///
    /// # Errors
    /// As [`Pem::certificates`]; an encrypted key with the command that decrypts it.
    pub fn private_key(&self, setting: &str) -> Result<Vec<u8>, String> {
        let bytes = self.read(setting)?;
        let text = String::from_utf8_lossy(&bytes);
        if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
            return Err(format!(
                "{setting}: the private key is encrypted; write it in the clear with `openssl pkcs8 -in key.pem -out key-clear.pem`"
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|_| format!("{setting}: no private key in PEM form was found"))?;
        Ok(key.secret_der().to_vec())
    }

    fn read(&self, setting: &str) -> Result<Vec<u8>, String> {
        let path = match self {
            Self::Text(text) => return Ok(one_block_a_paragraph(text.expose()).into_bytes()),
            Self::File(path) => path,
        };
        let bytes =
            read_file(path).map_err(|e| format!("{setting}.location: {} can't be read: {e}", path.display()))?;
        // JKS stores begin with these four bytes; PKCS12 ones are DER.
        let kind = match bytes.as_slice() {
            [0xfe, 0xed, 0xfe, 0xed, ..] => "JKS",
            [0x30, 0x80..=0x84, ..] => "PKCS12",
            _ => return Ok(bytes),
        };
        let told = conversion(setting, kind, &path.display().to_string());
        Err(format!("{setting}.location: the file is a {kind} store although the type says PEM; {told}"))
    }
}

/// What to type to turn a Java key store into PEM.
pub(crate) fn conversion(prefix: &str, kind: &str, path: &str) -> String {
    let quoted = format!("'{}'", path.replace('\'', "'\\''"));
    let trust = prefix.ends_with("truststore");
    let command = match (trust, kind.eq_ignore_ascii_case("PKCS12")) {
        (true, _) => format!("keytool -list -rfc -keystore {quoted} > trust.pem"),
        (false, true) => format!("openssl pkcs12 -in {quoted} -nodes -out key.pem"),
        (false, false) => format!(
            "keytool -importkeystore -srckeystore {quoted} -destkeystore key.p12 -deststoretype PKCS12 && \
             openssl pkcs12 -in key.p12 -nodes -out key.pem"
        ),
    };
    let file = if trust { "trust.pem" } else { "key.pem" };
    format!(
        "{kind} stores are not read; convert it with `{command}`, then set {prefix}.type=PEM and {prefix}.location={file}"
    )
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
