//! Encryption and login, against a scripted broker with certificates made on the spot.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod fake;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fake::{Fake, Reply, Request, usual};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use ring::{digest, hmac, pbkdf2};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig};
use streamside_client::{Cluster, Error, Login, Mechanism, Options, Pem, Secret, TlsOptions};
use streamside_wire::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use streamside_wire::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use tokio_rustls::TlsAcceptor;

fn quick(tls: Option<TlsOptions>) -> Options {
    Options { tls, request_timeout: Duration::from_secs(2), call_timeout: Duration::from_secs(3), ..Options::default() }
}

fn trusting(pem: &str) -> TlsOptions {
    TlsOptions { trust: Some(Pem::Text(Secret::new(pem))), ..TlsOptions::default() }
}

struct Party {
    pem: String,
    key_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// A certificate that signs itself; `authority` marks it as one, as `openssl req -x509` does.
fn self_signed(name: &str, authority: bool) -> Party {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    if authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let key = KeyPair::generate().expect("a key");
    let cert = params.self_signed(&key).expect("a certificate");
    party(cert.pem(), cert.der().clone(), &key)
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

fn signed_by(issuer: &CertifiedIssuer<'static, KeyPair>, name: &str) -> Party {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let cert = params.signed_by(&key, issuer).expect("a certificate");
    party(cert.pem(), cert.der().clone(), &key)
}

fn party(pem: String, der: CertificateDer<'static>, key: &KeyPair) -> Party {
    Party {
        pem,
        key_pem: key.serialize_pem(),
        chain: vec![der],
        key: PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
    }
}

fn acceptor(server: &Party, clients: Option<&CertificateDer<'static>>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(trusted) => {
            let mut roots = RootCertStore::empty();
            roots.add(trusted.clone()).expect("a root");
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
    };
    let config = builder.with_single_cert(server.chain.clone(), server.key.clone_key()).expect("a server");
    TlsAcceptor::from(Arc::new(config))
}

async fn broker(server: &Party, clients: Option<&CertificateDer<'static>>) -> Fake {
    Fake::start_tls(Some(acceptor(server, clients)), |r, port| usual(r, port).unwrap_or(Reply::Silence)).await
}

async fn outcome(fake: &Fake, host: &str, tls: TlsOptions) -> Result<usize, Error> {
    let cluster = Cluster::connect(&format!("{host}:{}", fake.port), quick(Some(tls))).await?;
    // With TLS 1.3 a refused client certificate shows at the first read.
    let connection = cluster.any().await?;
    let request = streamside_wire::messages::metadata::MetadataRequest::default();
    let answer: streamside_wire::messages::metadata::MetadataResponse = connection.call(&request, 13).await?;
    Ok(answer.brokers.len())
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_when_it_is_given() {
    for authority in [false, true] {
        let server = self_signed("localhost", authority);
        let fake = broker(&server, None).await;
        assert_eq!(outcome(&fake, "localhost", trusting(&server.pem)).await, Ok(1), "authority: {authority}");
    }
}

#[tokio::test]
async fn pem_on_one_line_is_read() {
    let server = self_signed("localhost", false);
    let fake = broker(&server, None).await;
    assert_eq!(outcome(&fake, "localhost", trusting(&server.pem.replace('\n', " "))).await, Ok(1));
}

#[tokio::test]
async fn a_stranger_is_not_trusted() {
    for authority in [false, true] {
        let fake = broker(&self_signed("localhost", authority), None).await;
        let other = self_signed("localhost", false);
        let error = outcome(&fake, "localhost", trusting(&other.pem)).await.expect_err("not trusted");
        assert_eq!(error.kind(), "tls");
        assert!(error.to_string().contains("ssl.truststore.location"), "{error}");
    }
}

#[tokio::test]
async fn the_host_name_is_checked_unless_switched_off() {
    let issuer = authority();
    let server = signed_by(&issuer, "broker.example");
    let fake = broker(&server, None).await;
    let trust = trusting(&issuer.pem());
    let error = outcome(&fake, "localhost", trust.clone()).await.expect_err("another name");
    assert!(error.to_string().contains("does not name this host"), "{error}");
    assert!(error.to_string().contains("ssl.endpoint.identification.algorithm"), "{error}");
    let unchecked = TlsOptions { check_host_name: false, ..trust };
    assert_eq!(outcome(&fake, "localhost", unchecked).await, Ok(1));
    // Only the name is let pass, not the signature.
    let stranger = TlsOptions { check_host_name: false, ..trusting(&self_signed("broker.example", false).pem) };
    assert_eq!(outcome(&fake, "localhost", stranger).await.map_err(|e| e.kind()), Err("tls"));
}

#[tokio::test]
async fn a_client_certificate_is_shown_when_there_is_one() {
    let issuer = authority();
    let fake = broker(&signed_by(&issuer, "localhost"), Some(issuer.der())).await;
    let without = trusting(&issuer.pem());
    let error = outcome(&fake, "localhost", without.clone()).await.expect_err("a certificate is wanted");
    assert_eq!(error.kind(), "tls", "{error}");
    assert!(error.to_string().contains("ssl.keystore.location"), "{error}");

    let me = signed_by(&issuer, "me");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("me.pem");
    std::fs::write(&file, format!("{}{}", me.key_pem, me.pem)).expect("a file");
    let with = TlsOptions { certificate: Some(Pem::File(file.clone())), key: Some(Pem::File(file)), ..without };
    assert_eq!(outcome(&fake, "localhost", with).await, Ok(1));
}

#[tokio::test]
async fn plain_text_and_tls_that_meet_are_named() {
    let server = self_signed("localhost", false);
    let tls = broker(&server, None).await;
    let error = Cluster::connect(&tls.address(), quick(None)).await.expect_err("plain text to TLS");
    assert!(error.to_string().contains("security.protocol=SSL"), "{error}");

    let plain = Fake::start(|r, port| usual(r, port).unwrap_or(Reply::Silence)).await;
    let error = outcome(&plain, "localhost", trusting(&server.pem)).await.expect_err("TLS to plain text");
    assert_eq!(error.kind(), "tls");
    assert!(error.to_string().contains("PLAINTEXT"), "{error}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_told_before_connecting() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    for (path, told) in [
        (folder.path().join("absent.pem"), "can't be read"),
        (file("empty.pem", b"nothing"), "no `BEGIN CERTIFICATE` block"),
        (file("store.jks", &[0xfe, 0xed, 0xfe, 0xed, 0]), "`keytool -list -rfc -keystore"),
        (file("broken.pem", b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"), "not valid PEM"),
    ] {
        let tls = TlsOptions { trust: Some(Pem::File(path)), ..TlsOptions::default() };
        let error = Cluster::connect("127.0.0.1:1", quick(Some(tls))).await.expect_err("no trust");
        assert_eq!(error.kind(), "settings");
        assert!(error.to_string().contains(told), "{error}");
    }
}

/// The server's half of the logins: user `ann`, password `s3cret`.
fn with_login(lies: bool) -> impl Fn(&Request, u16) -> Reply + Send + Sync + 'static {
    let logged_in = AtomicBool::new(false);
    let mechanism = std::sync::Mutex::new(String::new());
    let exchange = std::sync::Mutex::new((String::new(), String::new()));
    move |r, port| match r.api_key {
        17 => {
            let asked: SaslHandshakeRequest = r.decode();
            let known = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
            let refused = !known.contains(&asked.mechanism.as_str());
            *mechanism.lock().expect("lock") = asked.mechanism;
            r.answer(&SaslHandshakeResponse {
                error_code: if refused { 33 } else { 0 },
                mechanisms: known.map(str::to_owned).to_vec(),
                ..Default::default()
            })
        }
        36 => {
            let asked: SaslAuthenticateRequest = r.decode();
            let message = String::from_utf8(asked.auth_bytes.to_vec()).expect("text");
            let mechanism = mechanism.lock().expect("lock").clone();
            let mut exchange = exchange.lock().expect("lock");
            let answer = match mechanism.as_str() {
                "PLAIN" => (message == "\0ann\0s3cret").then(String::new),
                _ if exchange.0.is_empty() => {
                    let bare = message.strip_prefix("n,,").expect("no channel binding").to_owned();
                    let nonce = bare.strip_prefix("n=ann,r=").expect("user and nonce");
                    let first = format!("r={nonce}SERVER,s={},i=4096", BASE64.encode("salt"));
                    *exchange = (bare, first.clone());
                    Some(first)
                }
                name => scram_final(name, &exchange.0, &exchange.1, &message, lies),
            };
            logged_in.store(answer.is_some(), Ordering::Relaxed);
            r.answer(&match answer {
                Some(text) => SaslAuthenticateResponse {
                    auth_bytes: text.into_bytes().into(),
                    error_message: None,
                    ..Default::default()
                },
                None => SaslAuthenticateResponse {
                    error_code: 58,
                    error_message: Some("Authentication failed: Invalid username or password".to_owned()),
                    ..Default::default()
                },
            })
        }
        3 if !logged_in.load(Ordering::Relaxed) => Reply::Last(Vec::new()),
        _ => usual(r, port).unwrap_or(Reply::Silence),
    }
}

/// Checks the client's proof and makes the server's.
fn scram_final(mechanism: &str, bare: &str, first: &str, message: &str, lies: bool) -> Option<String> {
    let (kdf, mac, hash) = match mechanism {
        "SCRAM-SHA-256" => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256),
        _ => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512, &digest::SHA512),
    };
    let mut salted = vec![0; hash.output_len()];
    pbkdf2::derive(kdf, NonZeroU32::new(4096)?, b"salt", b"s3cret", &mut salted);
    let salted = hmac::Key::new(mac, &salted);
    let stored = digest::digest(hash, hmac::sign(&salted, b"Client Key").as_ref());
    let (without_proof, proof) = message.split_once(",p=")?;
    let auth = format!("{bare},{first},{without_proof}");
    let signature = hmac::sign(&hmac::Key::new(mac, stored.as_ref()), auth.as_bytes());
    let proof = BASE64.decode(proof).ok()?;
    let key: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(p, s)| p ^ s).collect();
    if digest::digest(hash, &key).as_ref() != stored.as_ref() {
        return None;
    }
    let server_key = hmac::sign(&salted, b"Server Key");
    let said = if lies { "something else" } else { auth.as_str() };
    let own = hmac::sign(&hmac::Key::new(mac, server_key.as_ref()), said.as_bytes());
    Some(format!("v={}", BASE64.encode(own)))
}

fn login(mechanism: Mechanism, password: &str) -> Options {
    Options {
        login: Some(Login { mechanism, username: "ann".to_owned(), password: Secret::new(password) }),
        ..quick(None)
    }
}

#[tokio::test]
async fn every_mechanism_logs_in() {
    for mechanism in [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512] {
        let fake = Fake::start(with_login(false)).await;
        let cluster = Cluster::connect(&fake.address(), login(mechanism, "s3cret")).await.expect("a login");
        assert_eq!(cluster.brokers().await.map(|b| b.len()), Ok(1), "{mechanism:?}");
    }
}

#[tokio::test]
async fn a_login_goes_through_tls_too() {
    let server = self_signed("localhost", false);
    let fake = Fake::start_tls(Some(acceptor(&server, None)), with_login(false)).await;
    let options = Options { tls: Some(trusting(&server.pem)), ..login(Mechanism::ScramSha512, "s3cret") };
    Cluster::connect(&format!("localhost:{}", fake.port), options).await.expect("a login");
    assert_eq!(fake.seen(), [(18, 5), (17, 1), (36, 2), (36, 2)]);
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    for mechanism in [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512] {
        let fake = Fake::start(with_login(false)).await;
        let error = Cluster::connect(&fake.address(), login(mechanism, "hush")).await.expect_err("refused");
        assert_eq!(error.kind(), "auth");
        let told = format!("{error} {error:?}");
        assert!(told.contains("Invalid username or password") && !told.contains("hush"), "{told}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_prove_itself_is_refused() {
    let fake = Fake::start(with_login(true)).await;
    let error = Cluster::connect(&fake.address(), login(Mechanism::ScramSha256, "s3cret")).await.expect_err("a lie");
    assert_eq!(error.kind(), "auth");
    assert!(error.to_string().contains("does not know the password"), "{error}");
}

#[tokio::test]
async fn a_mechanism_or_login_that_the_listener_lacks_is_told() {
    for (code, told) in [(33, "set sasl.mechanism to one of: OAUTHBEARER"), (34, "set security.protocol=PLAINTEXT")] {
        let fake = Fake::start(move |r, port| match r.api_key {
            17 => r.answer(&SaslHandshakeResponse {
                error_code: code,
                mechanisms: vec!["OAUTHBEARER".to_owned()],
                ..Default::default()
            }),
            _ => usual(r, port).unwrap_or(Reply::Silence),
        })
        .await;
        let error = Cluster::connect(&fake.address(), login(Mechanism::Plain, "x")).await.expect_err("refused");
        assert_eq!(error.kind(), "auth");
        assert!(error.to_string().contains(told), "{error}");
    }
}
