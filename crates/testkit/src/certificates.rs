//! Certificates made on the spot: authorities, servers, clients, good for as long as asked.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Whoever vouches for others.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Identity {
    /// The certificate as PEM.
    pub certificate: String,
    /// The private key as PEM (PKCS#8).
    pub key: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// No randomness.
    pub fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "streamside test authority");
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Its own certificate as PEM: what others trust.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// For hosts and addresses, and of this common name.
    ///
    /// # Errors
    /// A name that can't be in a certificate.
    pub fn issue(&self, common_name: &str, hosts: &[&str]) -> Result<Identity, rcgen::Error> {
        self.issue_for_days(common_name, hosts, 3650)
    }

    /// The same, good from a year ago on until so many days from now; negative: expired.
    ///
    /// # Errors
    /// A name that can't be in a certificate.
    pub fn issue_for_days(&self, common_name: &str, hosts: &[&str], days: i32) -> Result<Identity, rcgen::Error> {
        let mut params = CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, common_name);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let days_away = |days: i32| Duration::from_secs(86_400 * u64::from(days.unsigned_abs()));
        let end = if days < 0 { now.saturating_sub(days_away(days)) } else { now + days_away(days) };
        params.not_before = rcgen::date_time_ymd(1970, 1, 1) + now.saturating_sub(days_away(365));
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Identity {
    /// What `ssl.keystore.location` names: key and certificate in one file, written into a folder.
    ///
    /// # Errors
    /// The system refused.
    pub fn write(&self, folder: &Path, name: &str) -> std::io::Result<PathBuf> {
        let path = folder.join(name);
        std::fs::write(&path, format!("{}{}", self.key, self.certificate))?;
        Ok(path)
    }
}
