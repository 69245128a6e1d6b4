//! Login on an open connection: SaslHandshake names the mechanism, SaslAuthenticate carries its messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use bytes::Bytes;
use ring::rand::{SecureRandom as _, SystemRandom};
use streamside_wire::error_code::ErrorCode;
use streamside_wire::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use streamside_wire::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::connection::Connection;
use crate::error::{Error, shown};
use crate::options::{Login, Mechanism};
use crate::scram::{ClientFirst, Hash};

/// Bytes of randomness in a nonce of ours.
const NONCE_BYTES: usize = 24;

pub(crate) async fn login(connection: &Connection, login: &Login) -> Result<(), Error> {
    let refused = |reason: String| Error::Auth { address: connection.address().to_owned(), reason };
    let mechanism = login.mechanism.name();
    // Version 0 would send the mechanism's messages without a request around them.
    let version = connection.version::<SaslHandshakeRequest>()?;
    if version < 1 {
        return Err(refused("its login is older than Kafka 1.0 and not spoken here".to_owned()));
    }
    let request = SaslHandshakeRequest { mechanism: mechanism.to_owned(), ..Default::default() };
    let answer: SaslHandshakeResponse = connection.call(&request, version).await?;
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE => {}
        ErrorCode::UNSUPPORTED_SASL_MECHANISM => {
            let offered: Vec<String> = answer.mechanisms.iter().take(20).map(|m| shown(m)).collect();
            return Err(refused(format!(
                "it does not take the login mechanism {mechanism}; set sasl.mechanism to one of: {}",
                offered.join(", ")
            )));
        }
        ErrorCode::ILLEGAL_SASL_STATE => {
            return Err(refused(
                "this listener takes no login; set security.protocol=PLAINTEXT (SSL when encrypted)".to_owned(),
            ));
        }
        other => {
            return Err(refused(format!("it refused the login mechanism {mechanism}: {}", other.name())));
        }
    }

    match login.mechanism {
        Mechanism::Plain => {
            let message = format!("\0{}\0{}", login.username, login.password.expose());
            exchange(connection, message.into_bytes()).await?;
        }
        Mechanism::ScramSha256 => scram(connection, login, Hash::Sha256).await?,
        Mechanism::ScramSha512 => scram(connection, login, Hash::Sha512).await?,
    }
    Ok(())
}

async fn scram(connection: &Connection, login: &Login, hash: Hash) -> Result<(), Error> {
    let refused = |reason: String| Error::Auth { address: connection.address().to_owned(), reason };
    let mut random = [0; NONCE_BYTES];
    SystemRandom::new()
        .fill(&mut random)
        .map_err(|_| refused("the system gave no randomness for the login".to_owned()))?;
    let first = ClientFirst::new(hash, &login.username, &login.password, BASE64.encode(random));
    let challenge = exchange(connection, first.message().into_bytes()).await?;
    let last = first.answer(&challenge).map_err(refused)?;
    let proof = exchange(connection, last.message().as_bytes().to_vec()).await?;
    last.verify(&proof).map_err(refused)
}

async fn exchange(connection: &Connection, message: Vec<u8>) -> Result<Bytes, Error> {
    let request = SaslAuthenticateRequest { auth_bytes: message.into(), ..Default::default() };
    let version = connection.version::<SaslAuthenticateRequest>()?;
    let answer: SaslAuthenticateResponse = connection.call(&request, version).await?;
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE => Ok(answer.auth_bytes),
        code => Err(Error::Auth {
            address: connection.address().to_owned(),
            reason: match answer.error_message.filter(|text| !text.is_empty()) {
                Some(text) => format!("the login was refused: {}", shown(&text)),
                None => format!("the login was refused ({})", code.name()),
            },
        }),
    }
}
