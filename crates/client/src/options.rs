//! How to connect: read from the file that Kafka's own tools take as `--command-config`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pem::{Pem, conversion};
use crate::properties;
use crate::secret::Secret;

/// Everything that decides how a connection is made.
///
/// ```
/// use streamside_client::Options;
///
/// let options = Options::from_properties(
///     "security.protocol=SASL_SSL\n\
///      sasl.mechanism=SCRAM-SHA-256\n\
///      sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"ann\" password=\"secret\";\n",
/// )?;
/// assert!(options.tls.is_some());
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), streamside_client::OptionsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The name we give ourselves in every request (`client.id`).
    pub client_id: String,
    /// Encryption; none speaks plain text.
    pub tls: Option<TlsOptions>,
    /// Login; none sends no credentials.
    pub login: Option<Login>,
    /// Longest time for a TCP connection to stand (`socket.connection.setup.timeout.ms`).
    pub connect_timeout: Duration,
    /// Longest wait for one answer (`request.timeout.ms`).
    pub request_timeout: Duration,
    /// Longest time for one call with all its retries (`default.api.timeout.ms`).
    pub call_timeout: Duration,
    /// First pause before a retry (`retry.backoff.ms`).
    pub retry_backoff: Duration,
    /// Longest pause before a retry (`retry.backoff.max.ms`).
    pub retry_backoff_max: Duration,
    /// Longest answer that is read, in bytes; a longer one ends the connection.
    pub max_answer_bytes: usize,
}

impl Default for Options {
    /// Plain text without login, with the times of Kafka's admin client.
    fn default() -> Self {
        Self {
            client_id: "streamside".to_owned(),
            tls: None,
            login: None,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            max_answer_bytes: 100 * 1024 * 1024,
        }
    }
}

/// Who we trust and who we are on an encrypted connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// Certificates that may vouch for the server; none takes the system's.
    pub trust: Option<Pem>,
    /// Our own certificate chain, for servers that ask for one.
    pub certificate: Option<Pem>,
    /// The private key of our certificate; may be the same file.
    pub key: Option<Pem>,
    /// The certificate must name the host that we connect to (`ssl.endpoint.identification.algorithm`).
    pub check_host_name: bool,
    /// What stands before the settings' names where they came from, for sentences that name them; empty for the files
    /// of Kafka's tools.
    pub prefix: String,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { trust: None, certificate: None, key: None, check_host_name: true, prefix: String::new() }
    }
}

/// Credentials for SASL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// How they are shown to the server.
    pub mechanism: Mechanism,
    /// The user's name.
    pub username: String,
    /// The user's password.
    pub password: Secret,
}

/// A SASL mechanism that we speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Name and password as they are (RFC 4616).
    Plain,
    /// Proof of the password with SHA-256 (RFC 7677).
    ScramSha256,
    /// Proof of the password with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// The name on the wire and in `sasl.mechanism`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// A setting that can't be used: which one, and what to write instead. Never shows a secret's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct OptionsError {
    /// The setting.
    pub key: String,
    /// Why it can't be used and what to do.
    pub reason: String,
}

impl OptionsError {
    /// A stable word for metrics and logs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        "options"
    }
}

impl Options {
    /// Reads the text of a `--command-config` file. Settings without a meaning here are passed over.
    ///
    /// # Errors
    /// A setting with a value that can't be used; JKS and PKCS12 stores, with the command that converts them.
    pub fn from_properties(text: &str) -> Result<Self, OptionsError> {
        Self::from_settings(&properties::parse(text))
    }

    /// The same from settings that were already read.
    ///
    /// # Errors
    /// As [`Options::from_properties`].
    pub fn from_settings(settings: &BTreeMap<String, String>) -> Result<Self, OptionsError> {
        Self::from_settings_under("", settings)
    }

    /// The same from those settings whose names begin with `prefix`; errors name them in full.
    ///
    /// # Errors
    /// As [`Options::from_properties`].
    pub fn from_settings_under(prefix: &str, settings: &BTreeMap<String, String>) -> Result<Self, OptionsError> {
        let set = Settings { all: settings, prefix };
        let defaults = Self::default();
        let (encrypted, with_login) = match set.get("security.protocol").unwrap_or("PLAINTEXT") {
            p if p.eq_ignore_ascii_case("PLAINTEXT") => (false, false),
            p if p.eq_ignore_ascii_case("SSL") => (true, false),
            p if p.eq_ignore_ascii_case("SASL_PLAINTEXT") => (false, true),
            p if p.eq_ignore_ascii_case("SASL_SSL") => (true, true),
            other => {
                return Err(set.wrong(
                    "security.protocol",
                    format!("`{other}` is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
                ));
            }
        };
        Ok(Self {
            client_id: set.get("client.id").map_or(defaults.client_id, str::to_owned),
            tls: encrypted.then(|| tls(&set)).transpose()?,
            login: with_login.then(|| login(&set)).transpose()?,
            connect_timeout: set.millis("socket.connection.setup.timeout.ms", defaults.connect_timeout)?,
            request_timeout: set.millis("request.timeout.ms", defaults.request_timeout)?,
            call_timeout: set.millis("default.api.timeout.ms", defaults.call_timeout)?,
            retry_backoff: set.millis("retry.backoff.ms", defaults.retry_backoff)?,
            retry_backoff_max: set.millis("retry.backoff.max.ms", defaults.retry_backoff_max)?,
            max_answer_bytes: defaults.max_answer_bytes,
        })
    }
}

struct Settings<'a> {
    all: &'a BTreeMap<String, String>,
    prefix: &'a str,
}

impl<'a> Settings<'a> {
    fn full(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// A setting that is there, if only empty.
    fn given(&self, key: &str) -> Option<&'a str> {
        self.all.get(&self.full(key)).map(|value| value.trim())
    }

    /// A setting that is there and not empty.
    fn get(&self, key: &str) -> Option<&'a str> {
        self.given(key).filter(|value| !value.is_empty())
    }

    fn wrong(&self, key: &str, reason: impl Into<String>) -> OptionsError {
        OptionsError { key: self.full(key), reason: reason.into() }
    }

    fn millis(&self, key: &str, default: Duration) -> Result<Duration, OptionsError> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => match value.parse::<i32>() {
                Ok(millis) if millis > 0 => Ok(Duration::from_millis(millis.unsigned_abs().into())),
                _ => Err(self.wrong(key, format!("`{value}` is no number of milliseconds from 1 to 2147483647"))),
            },
        }
    }
}

fn tls(set: &Settings<'_>) -> Result<TlsOptions, OptionsError> {
    let trust = store(set, "ssl.truststore", set.get("ssl.truststore.certificates"))?;
    let own = store(set, "ssl.keystore", set.get("ssl.keystore.certificate.chain"))?;
    if set.get("ssl.key.password").is_some() {
        return Err(set.wrong(
            "ssl.key.password",
            "encrypted private keys are not read; write the key in the clear with \
             `openssl pkcs8 -in key.pem -out key-clear.pem` into a file that only you can read",
        ));
    }
    // A keystore file in PEM form holds the key and the chain.
    let key = match set.get("ssl.keystore.key") {
        Some(text) => Some(Pem::Text(Secret::new(text))),
        None => own.clone(),
    };
    if key.is_some() && own.is_none() {
        return Err(set.wrong(
            "ssl.keystore.key",
            format!("a key needs its certificate in {}", set.full("ssl.keystore.certificate.chain")),
        ));
    }
    let check_host_name = match set.given("ssl.endpoint.identification.algorithm") {
        None => true,
        Some("") => false,
        Some(v) if v.eq_ignore_ascii_case("https") => true,
        Some(other) => {
            return Err(set.wrong(
                "ssl.endpoint.identification.algorithm",
                format!("`{other}` is not known; write https, or leave it empty to accept any host name"),
            ));
        }
    };
    Ok(TlsOptions { trust, certificate: own, key, check_host_name, prefix: set.prefix.to_owned() })
}

fn store(set: &Settings<'_>, prefix: &str, inline: Option<&str>) -> Result<Option<Pem>, OptionsError> {
    let (type_key, location_key) = (format!("{prefix}.type"), format!("{prefix}.location"));
    let location = set.get(&location_key);
    let kind = set.get(&type_key).unwrap_or("JKS");
    if kind.eq_ignore_ascii_case("PEM") {
        if let (Some(_), Some(_)) = (inline, location) {
            return Err(set.wrong(&location_key, "give either a file or the text itself, not both"));
        }
        return Ok(location
            .map(|path| Pem::File(path.into()))
            .or_else(|| inline.map(|text| Pem::Text(Secret::new(text)))));
    }
    if inline.is_some() {
        return Err(set.wrong(&type_key, "PEM text was given, so this must be PEM"));
    }
    match location {
        None => Ok(None),
        Some(path) if is_pem_file(path) => {
            Err(set.wrong(&type_key, format!("{path} is in PEM form; set {}=PEM", set.full(&type_key))))
        }
        Some(path) => Err(set.wrong(&type_key, conversion(&set.full(prefix), kind, path))),
    }
}

fn is_pem_file(path: &str) -> bool {
    use std::io::Read as _;
    let mut first = [0; 11];
    std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok() && &first == b"-----BEGIN ")
}

fn login(set: &Settings<'_>) -> Result<Login, OptionsError> {
    let mechanism = match set.get("sasl.mechanism").unwrap_or("GSSAPI") {
        "PLAIN" => Mechanism::Plain,
        "SCRAM-SHA-256" => Mechanism::ScramSha256,
        "SCRAM-SHA-512" => Mechanism::ScramSha512,
        other => {
            return Err(set.wrong(
                "sasl.mechanism",
                format!("`{other}` is not spoken here; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
            ));
        }
    };
    let key = "sasl.jaas.config";
    let text = set.get(key).ok_or_else(|| {
        set.wrong(
            key,
            "missing; write `org.apache.kafka.common.security.plain.PlainLoginModule required username=\"…\" password=\"…\";`",
        )
    })?;
    let parsed = properties::parse_login(text).map_err(|reason| set.wrong(key, reason))?;
    let wanted = match mechanism {
        Mechanism::Plain => "PlainLoginModule",
        Mechanism::ScramSha256 | Mechanism::ScramSha512 => "ScramLoginModule",
    };
    if parsed.module.rsplit('.').next() != Some(wanted) {
        return Err(set.wrong(key, format!("the mechanism {} needs the login module {wanted}", mechanism.name())));
    }
    let option = |name: &str| {
        let value = parsed.options.get(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| set.wrong(key, format!("the option {name}=\"…\" is missing")))
    };
    Ok(Login { mechanism, username: option("username")?.clone(), password: Secret::new(option("password")?.clone()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAM: &str = "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\n\
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username=\"ann\" password=\"s3cret\";\n\
        ssl.truststore.type=PEM\nssl.truststore.location=/etc/trust.pem\nrequest.timeout.ms=1500\n";

    #[test]
    fn a_stock_file_gives_login_trust_and_times() {
        let options = Options::from_properties(SCRAM).expect("good settings");
        let login = options.login.clone().expect("a login");
        assert_eq!((login.mechanism, login.username.as_str()), (Mechanism::ScramSha512, "ann"));
        assert_eq!(login.password.expose(), "s3cret");
        let tls = options.tls.clone().expect("encrypted");
        assert_eq!(tls.trust, Some(Pem::File("/etc/trust.pem".into())));
        assert!(tls.check_host_name && tls.key.is_none());
        assert_eq!(options.request_timeout, Duration::from_millis(1500));
        assert_eq!(options.call_timeout, Duration::from_secs(60));
        assert!(!format!("{options:?}").contains("s3cret"));
    }

    #[test]
    fn a_keystore_in_pem_form_holds_key_and_chain() {
        let options = Options::from_properties(
            "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=me.pem\nssl.endpoint.identification.algorithm=\n",
        )
        .expect("good settings");
        let tls = options.tls.expect("encrypted");
        assert_eq!(tls.certificate, Some(Pem::File("me.pem".into())));
        assert_eq!(tls.key, tls.certificate);
        assert!(!tls.check_host_name);
        assert!(options.login.is_none());
    }

    #[test]
    fn settings_under_a_prefix_are_named_in_full() {
        let under = |settings: &[(&str, &str)]| {
            let all = settings.iter().map(|(k, v)| (format!("up.{k}"), (*v).to_owned())).collect();
            Options::from_settings_under("up.", &all)
        };
        let options =
            under(&[("security.protocol", "SSL"), ("ssl.endpoint.identification.algorithm", "")]).expect("good");
        let tls = options.tls.expect("encrypted");
        assert_eq!((tls.check_host_name, tls.prefix.as_str()), (false, "up."));
        let error = under(&[("security.protocol", "SSL"), ("ssl.truststore.location", "t.jks")]).expect_err("JKS");
        assert_eq!(error.key, "up.ssl.truststore.type");
        assert!(
            error.reason.contains("then set up.ssl.truststore.type=PEM and up.ssl.truststore.location="),
            "{error}"
        );
    }

    #[test]
    fn a_pem_file_whose_type_was_not_given_is_told_so() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        std::io::Write::write_all(&mut file, b"-----BEGIN CERTIFICATE-----\n").expect("written");
        let text = format!("security.protocol=SSL\nssl.truststore.location={}", file.path().display());
        let error = Options::from_properties(&text).expect_err("JKS is Kafka's default");
        assert!(error.to_string().ends_with("is in PEM form; set ssl.truststore.type=PEM"), "{error}");
    }

    #[test]
    fn what_cannot_be_used_is_told_with_what_to_do() {
        let plain = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=";
        for (text, key, part) in [
            ("security.protocol=TLS".to_owned(), "security.protocol", "none of PLAINTEXT, SSL"),
            (
                "security.protocol=SSL\nssl.truststore.location=a b.jks".to_owned(),
                "ssl.truststore.type",
                "`keytool -list -rfc -keystore 'a b.jks' > trust.pem`",
            ),
            (
                "security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=k.p12".to_owned(),
                "ssl.keystore.type",
                "`openssl pkcs12 -in 'k.p12' -nodes -out key.pem`",
            ),
            (
                "security.protocol=SSL\nssl.keystore.location=k.jks".to_owned(),
                "ssl.keystore.type",
                "keytool -importkeystore -srckeystore 'k.jks'",
            ),
            ("security.protocol=SSL\nssl.key.password=x".to_owned(), "ssl.key.password", "openssl pkcs8"),
            ("security.protocol=SASL_SSL".to_owned(), "sasl.mechanism", "GSSAPI"),
            (
                format!("{plain}com.x.ScramLoginModule required username=u password=hush;"),
                "sasl.jaas.config",
                "PlainLoginModule",
            ),
            (format!("{plain}com.x.PlainLoginModule required username=u;"), "sasl.jaas.config", "password"),
            (format!("{plain}com.x.PlainLoginModule required password=hush"), "sasl.jaas.config", "must end with `;`"),
            ("request.timeout.ms=-1".to_owned(), "request.timeout.ms", "-1"),
        ] {
            let error = Options::from_properties(&text).expect_err(&text);
            assert_eq!(error.key, key, "{text}");
            assert!(error.to_string().contains(part), "{error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}
