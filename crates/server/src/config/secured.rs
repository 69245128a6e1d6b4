//! TLS of the listener, TLS and logins towards the cluster, and how the two fit together.

use std::collections::BTreeMap;

use streamside_client::{Login, Options, OptionsError, Pem, TlsOptions};

use super::address::Protocol;

/// What stands before the settings of connections towards the cluster.
const UPSTREAM: &str = "streamside.upstream.";

/// TLS of the Kafka listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Our own chain: `ssl.keystore.location` or `ssl.keystore.certificate.chain`.
    pub certificate: Pem,
    /// Its key: in the same file, or `ssl.keystore.key`.
    pub key: Pem,
    /// Who may vouch for clients: `ssl.truststore.*`. There when clients are asked for a certificate.
    pub trust: Option<Pem>,
    /// `ssl.client.auth`.
    pub client_auth: ClientAuth,
    /// `ssl.enabled.protocols` has TLSv1.2.
    pub version_1_2: bool,
    /// `ssl.enabled.protocols` has TLSv1.3.
    pub version_1_3: bool,
    /// `ssl.cipher.suites`; empty: all.
    pub cipher_suites: Vec<String>,
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    None,
    /// They may; one that is shown must be good.
    Requested,
    /// They must.
    Required,
}

/// How connections towards the cluster are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSecurity {
    /// `streamside.upstream.security.protocol`.
    pub protocol: Protocol,
    /// Encryption of every connection, clients' and our own.
    pub tls: Option<TlsOptions>,
    /// Our own login.
    pub login: Option<Login>,
}

impl UpstreamSecurity {
    /// Whether a connection of our own can ask anything: not where the cluster wants a login and we have none.
    pub fn can_ask(&self) -> bool {
        !self.protocol.with_login() || self.login.is_some()
    }

    /// For connections of our own.
    pub fn options(&self) -> Options {
        Options { tls: self.tls.clone(), login: self.login.clone(), ..Options::default() }
    }
}

/// A key and what is wrong with it.
pub(super) type Wrong = (String, String);

fn of(error: OptionsError) -> Wrong {
    (error.key, error.reason)
}

/// `ssl.*`, for a listener with TLS.
pub(super) fn listener(values: &BTreeMap<String, String>) -> Result<TlsSettings, Wrong> {
    let get = |key: &str| values.get(key).map(|v| v.trim()).unwrap_or_default();
    let wrong = |key: &str, problem: &str| Err((key.to_owned(), problem.to_owned()));
    for key in ["ssl.keystore.password", "ssl.truststore.password"] {
        if !get(key).is_empty() {
            return wrong(key, "only JKS and PKCS12 stores have a password, and they are not read; leave it out");
        }
    }
    // As the client's settings of the same names, which have no meaning but for a client.
    let mut stores: BTreeMap<String, String> =
        values.iter().filter(|(k, _)| k.starts_with("ssl.")).map(|(k, v)| (k.clone(), v.clone())).collect();
    stores.insert("security.protocol".to_owned(), "SSL".to_owned());
    let stores = Options::from_settings(&stores).map_err(of)?.tls.unwrap_or_default();
    let (Some(certificate), Some(key)) = (stores.certificate, stores.key) else {
        return wrong(
            "ssl.keystore.location",
            "a listener with TLS needs a certificate and its key; name a PEM file that holds both, with ssl.keystore.type=PEM",
        );
    };
    let client_auth = match get("ssl.client.auth") {
        "required" => ClientAuth::Required,
        "requested" => ClientAuth::Requested,
        _ => ClientAuth::None,
    };
    if client_auth != ClientAuth::None && stores.trust.is_none() {
        return wrong(
            "ssl.client.auth",
            "asks clients for certificates, and nobody may vouch for them; name the authority in ssl.truststore.location (ssl.truststore.type=PEM)",
        );
    }
    let list = |key: &str| get(key).split(',').map(str::trim).filter(|v| !v.is_empty()).collect::<Vec<_>>();
    let versions = list("ssl.enabled.protocols");
    if versions.is_empty() || versions.iter().any(|v| !["TLSv1.2", "TLSv1.3"].contains(v)) {
        return wrong("ssl.enabled.protocols", "must be a list of TLSv1.3, TLSv1.2; older versions are not safe");
    }
    Ok(TlsSettings {
        certificate,
        key,
        trust: stores.trust.filter(|_| client_auth != ClientAuth::None),
        client_auth,
        version_1_2: versions.contains(&"TLSv1.2"),
        version_1_3: versions.contains(&"TLSv1.3"),
        cipher_suites: list("ssl.cipher.suites").into_iter().map(str::to_owned).collect(),
    })
}

/// `streamside.upstream.{security.protocol,ssl.*,sasl.*}`. `given`: keys that someone has set.
pub(super) fn upstream(values: &BTreeMap<String, String>, given: &[&str]) -> Result<UpstreamSecurity, Wrong> {
    let key = format!("{UPSTREAM}security.protocol");
    let named = values.get(&key).map(String::as_str).unwrap_or_default();
    let protocol = Protocol::of_name(named).unwrap_or(Protocol::Plaintext);
    for (part, used, protocols) in [
        ("ssl.", protocol.encrypted(), "SSL or SASL_SSL"),
        ("sasl.", protocol.with_login(), "SASL_SSL or SASL_PLAINTEXT"),
    ] {
        let prefix = format!("{UPSTREAM}{part}");
        if let Some(idle) = given.iter().find(|k| k.starts_with(&prefix)).filter(|_| !used) {
            return Err(((*idle).to_owned(), format!("has no meaning without {key}={protocols}")));
        }
    }
    let login_key = format!("{UPSTREAM}sasl.mechanism");
    let with_login = ["sasl.mechanism", "sasl.jaas.config"]
        .iter()
        .any(|k| values.get(&format!("{UPSTREAM}{k}")).is_some_and(|v| !v.trim().is_empty()));
    if with_login && values.get(&login_key).is_none_or(|v| v.trim().is_empty()) {
        return Err((
            login_key,
            "missing beside the credentials; write PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512".to_owned(),
        ));
    }
    let mut settings: BTreeMap<String, String> =
        values.iter().filter(|(k, _)| k.starts_with(UPSTREAM)).map(|(k, v)| (k.clone(), v.clone())).collect();
    if !with_login && protocol.with_login() {
        // The clients' own logins pass; we have none.
        let without = if protocol.encrypted() { Protocol::Ssl } else { Protocol::Plaintext };
        settings.insert(key, without.name().to_owned());
    }
    let options = Options::from_settings_under(UPSTREAM, &settings).map_err(of)?;
    Ok(UpstreamSecurity { protocol, tls: options.tls, login: options.login })
}

/// How listener and cluster fit together. `standalone`: there is no cluster. `accept`: `streamside.upstream.shared.identity`.
pub(super) fn fit(
    listener: Protocol,
    tls: Option<&TlsSettings>,
    upstream: &UpstreamSecurity,
    standalone: bool,
    accept: bool,
) -> Result<(), Wrong> {
    if standalone {
        if listener.with_login() {
            let instead = if listener.encrypted() { "SSL, with ssl.client.auth=required" } else { "PLAINTEXT" };
            return Err((
                "listeners".to_owned(),
                format!(
                    "{} needs streamside.upstream: clients log in at the cluster behind us, and standing alone there is no login; use {instead}",
                    listener.name()
                ),
            ));
        }
        return Ok(());
    }
    if listener.with_login() != upstream.protocol.with_login() {
        let fitting = match (listener.encrypted(), upstream.protocol.with_login()) {
            (true, true) => Protocol::SaslSsl,
            (false, true) => Protocol::SaslPlaintext,
            (true, false) => Protocol::Ssl,
            (false, false) => Protocol::Plaintext,
        };
        return Err((
            "listeners".to_owned(),
            format!(
                "is {} while streamside.upstream.security.protocol is {}; clients log in through us at the cluster, so both have SASL or neither: write {}://",
                listener.name(),
                upstream.protocol.name(),
                fitting.name()
            ),
        ));
    }
    let certificate = upstream.tls.as_ref().is_some_and(|tls| tls.certificate.is_some());
    let known_clients = tls.is_some_and(|tls| tls.client_auth == ClientAuth::Required);
    // With SASL the cluster takes the client's login for who it is, not our certificate.
    if certificate && !upstream.protocol.with_login() && !known_clients && !accept {
        return Err((
            "streamside.upstream.shared.identity".to_owned(),
            "with a certificate of ours towards the cluster whoever reaches our listener has its rights; ask clients for certificates with an SSL listener and ssl.client.auth=required, or write accept".to_owned(),
        ));
    }
    Ok(())
}

/// Things that are no mistake, but probably not meant.
pub(super) fn advice(listener: Protocol, loopback: bool, upstream: &UpstreamSecurity) -> Option<String> {
    (!listener.encrypted() && upstream.protocol.encrypted() && !loopback).then(|| {
        let what = if listener.with_login() { "passwords and all else" } else { "all" };
        format!(
            "the cluster is reached with TLS, but clients reach us without and from other machines: {what} that they send can be read on the way; give the listener TLS as well ({}://)",
            if listener.with_login() { "SASL_SSL" } else { "SSL" }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn security(entries: &[(&str, &str)]) -> Result<UpstreamSecurity, Wrong> {
        let entries: Vec<_> = entries.iter().map(|(k, v)| (format!("{UPSTREAM}{k}"), *v)).collect();
        let entries: Vec<_> = entries.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        let given: Vec<_> = entries.iter().map(|(k, _)| *k).collect();
        upstream(&map(&entries), &given)
    }

    const PEM: [(&str, &str); 3] = [
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.location", "/etc/me.pem"),
        ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
    ];

    #[test]
    fn a_listener_with_tls_has_certificate_key_and_who_vouches_for_clients() {
        let tls = listener(&map(&PEM)).unwrap();
        assert_eq!(tls.certificate, Pem::File("/etc/me.pem".into()));
        assert_eq!((tls.key, tls.trust, tls.client_auth), (tls.certificate, None, ClientAuth::None));
        let mutual =
            [("ssl.client.auth", "required"), ("ssl.truststore.type", "PEM"), ("ssl.truststore.location", "ca.pem")];
        let tls = listener(&map(&[&PEM[..], &mutual[..]].concat())).unwrap();
        assert_eq!((tls.trust, tls.client_auth), (Some(Pem::File("ca.pem".into())), ClientAuth::Required));
        let tls = listener(&map(&[&PEM[..2], &[("ssl.enabled.protocols", "TLSv1.3")]].concat())).unwrap();
        assert!(tls.version_1_3 && !tls.version_1_2);
    }

    #[test]
    fn what_a_listener_cannot_use_is_told() {
        for (more, key, part) in [
            (&[("ssl.keystore.location", "")][..], "ssl.keystore.location", "needs a certificate and its key"),
            (
                &[("ssl.keystore.type", "JKS")],
                "ssl.keystore.type",
                "keytool -importkeystore -srckeystore '/etc/me.pem'",
            ),
            (&[("ssl.keystore.type", "PKCS12")], "ssl.keystore.type", "openssl pkcs12 -in '/etc/me.pem'"),
            (&[("ssl.keystore.password", "hush")], "ssl.keystore.password", "leave it out"),
            (&[("ssl.key.password", "hush")], "ssl.key.password", "openssl pkcs8"),
            (&[("ssl.client.auth", "requested")], "ssl.client.auth", "ssl.truststore.location"),
            (&[("ssl.enabled.protocols", "TLSv1.1")], "ssl.enabled.protocols", "TLSv1.3"),
        ] {
            let (at, problem) = listener(&map(&[&PEM[..], more].concat())).unwrap_err();
            assert_eq!(at, key);
            assert!(problem.contains(part) && !problem.contains("hush"), "{problem}");
        }
    }

    const SCRAM: &str =
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" password=\"hush\";";

    #[test]
    fn a_cluster_with_logins_can_be_asked_only_with_one_of_ours() {
        let plain = security(&[]).unwrap();
        assert!(plain.can_ask() && plain.options().tls.is_none());
        let passing = security(&[("security.protocol", "SASL_SSL")]).unwrap();
        assert!(!passing.can_ask() && passing.tls.is_some() && passing.login.is_none());
        let own = [("security.protocol", "SASL_SSL"), ("sasl.mechanism", "SCRAM-SHA-512"), ("sasl.jaas.config", SCRAM)];
        let own = security(&own).unwrap();
        assert!(own.can_ask() && own.options().login.is_some_and(|l| l.username == "u"));
    }

    #[test]
    fn what_is_given_for_the_cluster_is_used_or_refused() {
        for (given, key, part) in [
            (&[("ssl.truststore.location", "x.pem")][..], "ssl.truststore.location", "=SSL or SASL_SSL"),
            (
                &[("security.protocol", "SSL"), ("sasl.mechanism", "PLAIN")],
                "sasl.mechanism",
                "=SASL_SSL or SASL_PLAINTEXT",
            ),
            (&[("security.protocol", "SASL_SSL"), ("sasl.jaas.config", SCRAM)], "sasl.mechanism", "missing"),
            (&[("security.protocol", "SASL_SSL"), ("sasl.mechanism", "GSSAPI")], "sasl.mechanism", "not spoken"),
            (
                &[("security.protocol", "SSL"), ("ssl.truststore.location", "x.jks")],
                "ssl.truststore.type",
                "then set streamside.upstream.ssl.truststore.type=PEM",
            ),
        ] {
            let (at, problem) = security(given).unwrap_err();
            assert_eq!(at, format!("{UPSTREAM}{key}"));
            assert!(problem.contains(part) && !problem.contains("hush"), "{problem}");
        }
    }

    #[test]
    fn listener_and_cluster_fit_together_or_the_start_is_refused() {
        let none = security(&[]).unwrap();
        assert!(fit(Protocol::Ssl, None, &none, true, false).is_ok());
        let (_, problem) = fit(Protocol::SaslSsl, None, &none, true, false).unwrap_err();
        assert!(problem.contains("use SSL, with ssl.client.auth=required"), "{problem}");

        let sasl = security(&[("security.protocol", "SASL_SSL")]).unwrap();
        assert!(fit(Protocol::SaslPlaintext, None, &sasl, false, false).is_ok());
        let (key, problem) = fit(Protocol::Ssl, None, &sasl, false, false).unwrap_err();
        assert!(key == "listeners" && problem.ends_with("write SASL_SSL://"), "{problem}");
        assert!(advice(Protocol::SaslPlaintext, false, &sasl).is_some_and(|a| a.contains("passwords")));
        assert_eq!(advice(Protocol::SaslPlaintext, true, &sasl), None);
        assert_eq!(advice(Protocol::SaslSsl, false, &sasl), None);

        let own = [("security.protocol", "SSL"), ("ssl.keystore.type", "PEM"), ("ssl.keystore.location", "/me.pem")];
        let own = security(&own).unwrap();
        let mut tls = listener(&map(&PEM)).unwrap();
        let (key, problem) = fit(Protocol::Ssl, Some(&tls), &own, false, false).unwrap_err();
        assert!(key == "streamside.upstream.shared.identity" && problem.contains("or write accept"), "{problem}");
        assert!(fit(Protocol::Plaintext, None, &own, false, true).is_ok());
        tls.client_auth = ClientAuth::Required;
        assert!(fit(Protocol::Ssl, Some(&tls), &own, false, false).is_ok());
    }
}
